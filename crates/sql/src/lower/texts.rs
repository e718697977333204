//! Functions of texts in what is assigned, so that the statement is ordered as it is and meets no conflict.
//!
//! Only there: in a query they are computed over columns, where values may be longer than a row takes.

use super::expr::{ExprLowering, Typed};
use super::{Lowered, Refusal};
use base::DataType;
use base::expr::{Expr, Function};
use base::text_functions::TextFunction as F;
use sqlparser::ast;

/// Kinds of arguments.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
}
use Kind::{Integer, Text};

impl ExprLowering<'_> {
    /// A function of texts; `None` if it is none, or not one for this place.
    pub(super) fn text_function(&mut self, name: &str, arguments: &[&ast::Expr]) -> Lowered<Option<Typed>> {
        if !self.is_assignment {
            return Ok(None);
        }
        let (function, kinds): (F, &[Kind]) = match (name, arguments.len()) {
            ("repeat", 2) => (F::Repeat, &[Text, Integer]),
            ("replace", 3) => (F::Replace, &[Text, Text, Text]),
            ("left", 2) => (F::Left, &[Text, Integer]),
            ("right", 2) => (F::Right, &[Text, Integer]),
            ("reverse", 1) => (F::Reverse, &[Text]),
            ("md5", 1) => (F::Md5, &[Text]),
            ("lpad", 2 | 3) => (F::PadLeft, &[Text, Integer, Text]),
            ("rpad", 2 | 3) => (F::PadRight, &[Text, Integer, Text]),
            ("ltrim", 1 | 2) => (F::TrimLeft, &[Text, Text]),
            ("rtrim", 1 | 2) => (F::TrimRight, &[Text, Text]),
            ("btrim", 2) => (F::TrimBoth, &[Text, Text]),
            ("strpos", 2) => (F::Position, &[Text, Text]),
            ("split_part", 3) => (F::SplitPart, &[Text, Text, Integer]),
            ("initcap", 1) => (F::InitCap, &[Text]),
            ("translate", 3) => (F::Translate, &[Text, Text, Text]),
            ("ascii", 1) => (F::Ascii, &[Text]),
            ("chr", 1) => (F::Chr, &[Integer]),
            ("starts_with", 2) => (F::StartsWith, &[Text, Text]),
            _ => return Ok(None),
        };
        let mut lowered = Vec::with_capacity(arguments.len());
        for (argument, kind) in arguments.iter().zip(kinds) {
            lowered.push(match kind {
                Text => self.text(argument)?,
                Integer => self.integer(argument)?,
            });
        }
        let data_type = match function {
            F::Position | F::Ascii => DataType::Integer,
            F::StartsWith => DataType::Boolean,
            _ => DataType::Text,
        };
        Ok(Some(Typed::known(Expr::Call(Function::Text(function), lowered), data_type)))
    }

    /// `TRIM([LEADING | TRAILING | BOTH] characters FROM text)`.
    pub(super) fn trim(
        &mut self,
        text: &ast::Expr,
        side: Option<ast::TrimWhereField>,
        characters: Option<&ast::Expr>,
    ) -> Lowered<Typed> {
        if !self.is_assignment {
            return Err(Refusal::TooRich);
        }
        let function = match side {
            Some(ast::TrimWhereField::Leading) => F::TrimLeft,
            Some(ast::TrimWhereField::Trailing) => F::TrimRight,
            Some(ast::TrimWhereField::Both) | None => F::TrimBoth,
        };
        let mut arguments = vec![self.text(text)?];
        if let Some(characters) = characters {
            arguments.push(self.text(characters)?);
        }
        Ok(Typed::known(Expr::Call(Function::Text(function), arguments), DataType::Text))
    }

    /// `POSITION(part IN text)`.
    pub(super) fn position(&mut self, part: &ast::Expr, text: &ast::Expr) -> Lowered<Typed> {
        let lowered = self.text_function("strpos", &[text, part])?;
        lowered.ok_or(Refusal::TooRich)
    }
}
