//! Functions that a node can evaluate, and those that the gateway evaluates for it.

use super::bind::{self, Volatile};
use super::expr::{ExprLowering, Typed};
use super::{Lowered, Refusal};
use crate::names;
use crate::response::NUMERIC;
use base::DataType;
use base::expr::{BinaryOperator, Expr, Function};
use datafusion::sql::sqlparser::ast;

impl ExprLowering<'_> {
    pub(super) fn function(&mut self, function: &ast::Function) -> Lowered<Typed> {
        if function.over.is_some() || function.filter.is_some() || !function.within_group.is_empty() {
            return Err(Refusal::TooRich);
        }
        let words = names::parts(&function.name)?;
        let name = match words.as_slice() {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" => name.as_str(),
            _ => return Err(Refusal::TooRich),
        };
        if let Some(aggregate) = self.aggregate(name, function)? {
            return Ok(aggregate);
        }
        let mut arguments: Vec<&ast::Expr> = Vec::new();
        match &function.args {
            ast::FunctionArguments::None => {}
            ast::FunctionArguments::List(list)
                if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
            {
                for argument in &list.args {
                    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else {
                        return Err(Refusal::TooRich);
                    };
                    arguments.push(e);
                }
            }
            _ => return Err(Refusal::TooRich),
        }
        if let Some(text) = self.text_function(name, &arguments)? {
            return Ok(text);
        }
        Ok(match (name, arguments.as_slice()) {
            ("now" | "transaction_timestamp" | "statement_timestamp" | "clock_timestamp", [])
            | ("current_timestamp", []) => Typed::known(bind::volatile(Volatile::Now), DataType::TimestampTz),
            ("localtimestamp", []) => Typed::known(bind::volatile(Volatile::Now), DataType::Timestamp),
            ("current_date", []) => Typed::known(bind::volatile(Volatile::CurrentDate), DataType::Date),
            ("random", []) => Typed::known(bind::volatile(Volatile::Random), DataType::Double),
            ("gen_random_uuid", []) => Typed::known(bind::volatile(Volatile::RandomUuid), DataType::Uuid),
            ("nextval", [sequence]) => self.next_value(sequence)?,
            ("lower", [a]) => Typed::known(Expr::Call(Function::Lower, vec![self.text(a)?]), DataType::Text),
            ("upper", [a]) => Typed::known(Expr::Call(Function::Upper, vec![self.text(a)?]), DataType::Text),
            ("length" | "char_length" | "character_length", [a]) => {
                Typed::known(Expr::Call(Function::Length, vec![self.text(a)?]), DataType::Integer)
            }
            ("btrim" | "trim", [a]) => {
                Typed::known(Expr::Call(Function::Trim, vec![self.text(a)?]), DataType::Text)
            }
            ("substr" | "substring", [a, from]) => {
                let arguments = vec![self.text(a)?, self.integer(from)?];
                Typed::known(Expr::Call(Function::Substring, arguments), DataType::Text)
            }
            ("substr" | "substring", [a, from, count]) => {
                let arguments = vec![self.text(a)?, self.integer(from)?, self.integer(count)?];
                Typed::known(Expr::Call(Function::Substring, arguments), DataType::Text)
            }
            ("abs", [a]) => {
                let value = self.number(a)?;
                let data_type = value.data_type();
                Typed::known(Expr::Call(Function::Abs, vec![value.expr]), data_type)
            }
            ("mod", [a, b]) => {
                let (a, b) = (self.lower(a)?, self.lower(b)?);
                self.arithmetic(BinaryOperator::Remainder, a, b)?
            }
            ("round", [a]) => self.rounding(Function::Round, a)?,
            ("round", [a, scale]) => {
                let value = self.number(a)?;
                let DataType::Numeric { .. } = value.data_type() else { return Err(Refusal::TooRich) };
                let scale = self.integer(scale)?;
                Typed::known(Expr::Call(Function::Round, vec![value.expr, scale]), NUMERIC)
            }
            ("floor", [a]) => self.rounding(Function::Floor, a)?,
            ("ceil" | "ceiling", [a]) => self.rounding(Function::Ceil, a)?,
            ("coalesce", [_, ..]) => self.alike(Function::Coalesce, &arguments, "COALESCE")?,
            ("greatest", [_, ..]) => self.alike(Function::Greatest, &arguments, "GREATEST")?,
            ("least", [_, ..]) => self.alike(Function::Least, &arguments, "LEAST")?,
            ("nullif", [_, _]) => self.alike(Function::NullIf, &arguments, "NULLIF")?,
            ("concat", [_, ..]) => {
                let mut texts = Vec::new();
                for argument in &arguments {
                    let typed = self.lower(argument)?;
                    texts.push(self.resolve(typed, DataType::Text)?.expr);
                }
                Typed::known(Expr::Call(Function::Concat, texts), DataType::Text)
            }
            _ => return Err(Refusal::TooRich),
        })
    }

    fn alike(&mut self, function: Function, arguments: &[&ast::Expr], what: &str) -> Lowered<Typed> {
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.lower(argument)?);
        }
        let (values, data_type) = self.unify(values, what)?;
        Ok(Typed::known(Expr::Call(function, values), data_type))
    }

    /// `nextval('name')`, with or without a cast to regclass.
    fn next_value(&mut self, argument: &ast::Expr) -> Lowered<Typed> {
        let mut inner = argument;
        while let ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) = inner {
            inner = expr;
        }
        let ast::Expr::Value(value) = inner else { return Err(Refusal::TooRich) };
        let ast::Value::SingleQuotedString(text) = &value.value else { return Err(Refusal::TooRich) };
        let found = crate::catalog::find_sequence(self.catalog, self.search_path, text)?;
        Ok(Typed::known(bind::next_value(found.id), DataType::BigInt))
    }
}
