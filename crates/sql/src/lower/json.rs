//! Operators and functions of JSON over rows.

use super::expr::{ExprLowering, Typed};
use super::{Lowered, Refusal};
use crate::json::{self, Wanted};
use base::expr::{Expr, Function, ZoneFunction};
use base::{DataType, SqlError, SqlState};
use sqlparser::ast;

impl ExprLowering<'_> {
    /// An operator of JSON; `None` if it is none.
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
        );
        // Chains of these two are long, and mostly of other types: only where a side shows JSON at once.
        if !is_only_json
            && !(matches!(op, B::StringConcat | B::Minus) && (self.is_json(left) || self.is_json(right)))
        {
            return Ok(None);
        }
        let (left, right) = (self.lower(left)?, self.lower(right)?);
        let Some(found) = json::operator(op, left.known_type(), right.known_type()) else {
            return Err(Refusal::TooRich);
        };
        let (left, right) = (self.resolve(left, found.left)?, self.resolve(right, found.right)?);
        let call = Expr::Call(Function::Json(found.function), vec![left.expr, right.expr]);
        Ok(Some(Typed::known(call, found.returns)))
    }

    /// Whether an expression is JSON by what it is made of.
    fn is_json(&mut self, e: &ast::Expr) -> bool {
        let is_json = |t: DataType| matches!(t, DataType::Json | DataType::Jsonb);
        match e {
            ast::Expr::Nested(inner) => self.is_json(inner),
            ast::Expr::Identifier(name) => {
                self.scope.find(std::slice::from_ref(name)).is_ok_and(|(_, t)| is_json(t))
            }
            ast::Expr::CompoundIdentifier(path) => self.scope.find(path).is_ok_and(|(_, t)| is_json(t)),
            ast::Expr::Cast { data_type, .. } => crate::names::data_type(data_type).is_ok_and(is_json),
            ast::Expr::BinaryOp { left, op, right } => match op {
                ast::BinaryOperator::Arrow | ast::BinaryOperator::HashArrow => true,
                ast::BinaryOperator::StringConcat
                | ast::BinaryOperator::Minus
                | ast::BinaryOperator::HashMinus => self.is_json(left) || self.is_json(right),
                _ => false,
            },
            ast::Expr::Function(function) => {
                let name = crate::names::parts(&function.name).ok().and_then(|mut parts| parts.pop());
                name.and_then(|name| json::call(&name)).is_some_and(|call| is_json(call.returns))
            }
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(name) => super::expr::placeholder(name)
                    .ok()
                    .and_then(|n| self.parameters.get(n))
                    .is_some_and(is_json),
                _ => false,
            },
            _ => false,
        }
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
