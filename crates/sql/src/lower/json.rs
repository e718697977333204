//! Operators and functions of JSON over rows.

use super::expr::{ExprLowering, Typed};
use super::{Lowered, Refusal};
use crate::json::{self, Wanted};
use base::expr::{Expr, Function, ZoneFunction};
use base::{DataType, SqlError, SqlState};
use sqlparser::ast;

impl ExprLowering<'_> {
    /// An operator that only JSON has; `None` for another one.
    pub(super) fn json_operator(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
    ) -> Lowered<Option<Typed>> {
        use ast::BinaryOperator as B;
        let is_only_json = matches!(
            op,
            B::Arrow
                | B::LongArrow
                | B::HashArrow
                | B::HashLongArrow
                | B::AtArrow
                | B::ArrowAt
                | B::Question
                | B::QuestionPipe
                | B::QuestionAnd
                | B::HashMinus
                | B::AtQuestion
                | B::AtAt
        );
        if !is_only_json {
            return Ok(None);
        }
        let (left, right) = (self.lower(left)?, self.lower(right)?);
        self.json_of(left, op, right).map(Some)
    }

    /// An operator of which a side may be JSON; or one of full-text search, which has some of them, too.
    pub(super) fn json_of(&mut self, left: Typed, op: &ast::BinaryOperator, right: Typed) -> Lowered<Typed> {
        let Some(found) = json::operator(op, left.known_type(), right.known_type()) else {
            return self.search_of(left, op, right);
        };
        let (left, right) = (self.resolve(left, found.left)?, self.resolve(right, found.right)?);
        let call = Expr::Call(Function::Json(found.function), vec![left.expr, right.expr]);
        Ok(Typed::known(call, found.returns))
    }

    /// A cast, which is a function if it is one to the type of paths.
    pub(super) fn cast_or_path(&mut self, e: &ast::Expr, to: &ast::DataType) -> Lowered<Typed> {
        if json::is_path(to)
            && let Some(path) = self.json_function(json::JSONPATH, &[e])?
        {
            return Ok(path);
        }
        self.cast(e, to)
    }

    /// A function of JSON; `None` if it is none. Errors: 42883 for arguments of other types.
    pub(super) fn json_function(&mut self, name: &str, arguments: &[&ast::Expr]) -> Lowered<Option<Typed>> {
        let is_of_rows = name == json::ROW_TO_JSON;
        let Some(call) = json::call(name).filter(|_| !arguments.is_empty() && !is_of_rows) else {
            return Ok(None);
        };
        call.refuse_odd(arguments.len())?;
        let mut lowered = Vec::with_capacity(arguments.len());
        for (n, argument) in arguments.iter().enumerate() {
            let typed = self.lower(argument)?;
            let wanted = call.wanted(n, arguments.len()).ok_or_else(|| no_function(name))?;
            let typed = match wanted {
                Wanted::Any => self.resolve(typed, DataType::Text)?,
                Wanted::Of(data_type) => self.resolve(typed, data_type)?,
            };
            let data_type = typed.data_type();
            let fits = match wanted {
                Wanted::Any => true,
                Wanted::Of(DataType::Text) => {
                    matches!(data_type, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
                }
                Wanted::Of(wanted) => wanted == data_type,
            };
            if !fits {
                return Err(no_function(name).into());
            }
            lowered.push(match (data_type, crate::zones::current()) {
                // JSON shows moments in the session's zone.
                (DataType::TimestampTz, zone) if !zone.is_utc() => {
                    let show = Function::Zone(ZoneFunction::ShowJson);
                    (Expr::Call(show, vec![Expr::zone(zone), typed.expr]), DataType::Text)
                }
                (DataType::Composite(_), zone) if !zone.is_utc() && data_type.has(DataType::TimestampTz) => {
                    return Err(Refusal::TooRich);
                }
                _ => (typed.expr, data_type),
            });
        }
        Ok(Some(Typed::known(call.over(lowered), call.returns)))
    }
}

fn no_function(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} of these arguments does not exist"))
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
