//! What is made of several values: CASE, arrays; and intervals as they are written.

use super::typing::*;
use super::*;

impl ExprLowering<'_> {
    /// `ARRAY[…]`
    pub(super) fn array(&mut self, elements: &[ast::Expr]) -> Lowered<Typed> {
        if elements.is_empty() {
            return Err(Refusal::TooRich);
        }
        let elements = elements.iter().map(|e| self.lower(e)).collect::<Lowered<Vec<_>>>()?;
        let (elements, data_type) = self.unify(elements, "ARRAY")?;
        let of = Element::of(data_type).ok_or(Refusal::TooRich)?;
        let constants = elements.iter().map(|element| match element {
            Expr::Constant(value) => Some(value.clone()),
            _ => None,
        });
        let array = match constants.collect::<Option<Vec<_>>>() {
            Some(constants) => Expr::Constant(Datum::Array(constants.into())),
            None => Expr::Call(Function::Json(JsonFunction::ArrayOf), elements),
        };
        Ok(Typed::known(array, DataType::Array(of)))
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Lowered<Typed> {
        let operand = operand.map(|e| self.lower(e)).transpose()?;
        let mut tests = Vec::new();
        let mut values = Vec::new();
        for branch in conditions {
            tests.push(match &operand {
                None => self.condition(&branch.condition, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.lower(&branch.condition)?;
                    self.compare(BinaryOperator::Equal, operand.clone(), value)?.expr
                }
            });
            values.push(self.lower(&branch.result)?);
        }
        if let Some(otherwise) = otherwise {
            values.push(self.lower(otherwise)?);
        }
        let (mut values, data_type) = self.unify(values, "CASE")?;
        let otherwise = (values.len() > tests.len()).then(|| Box::new(values.pop().expect("one more")));
        Ok(Typed::known(Expr::Case(tests.into_iter().zip(values).collect(), otherwise), data_type))
    }

    /// Brings values to one type.
    pub(in crate::lower) fn unify(
        &mut self,
        values: Vec<Typed>,
        what: &str,
    ) -> Lowered<(Vec<Expr>, DataType)> {
        let mut common: Option<DataType> = None;
        for value in &values {
            let Kind::Known(data_type) = value.kind else { continue };
            common = Some(match common {
                None => data_type,
                Some(before) if before == data_type => before,
                Some(before) if family(before) != family(data_type) => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!(
                            "{what} types {} and {} cannot be matched",
                            bare_name(before),
                            bare_name(data_type)
                        ),
                    )
                    .into());
                }
                Some(before) => match family(before) {
                    Family::Number => wider(before, data_type),
                    Family::Text => DataType::Text,
                    Family::Address => DataType::Inet,
                    _ => return Err(Refusal::TooRich),
                },
            });
        }
        let data_type = common.unwrap_or(DataType::Text);
        let mut exprs = Vec::with_capacity(values.len());
        for value in values {
            let value = self.resolve(value, data_type)?;
            // Numbers of another kind are made ones of this: what is computed with them depends on it.
            let value = match family(data_type) {
                Family::Number => convert(value, data_type)?,
                _ => value,
            };
            exprs.push(value.expr);
        }
        Ok((exprs, data_type))
    }
}

/// What is cast to bytes, a `char(n)` with the blanks that its values are kept without.
pub(super) fn padded(typed: Typed, to: DataType) -> Typed {
    match (typed.data_type(), to) {
        (DataType::Char { length }, DataType::Bytea) => {
            let length = Expr::Constant(Datum::Int(length.into()));
            let pad = Function::Text(base::text_functions::TextFunction::PadRight);
            Typed::known(Expr::Call(pad, vec![typed.expr, length]), DataType::Text)
        }
        _ => typed,
    }
}

/// `interval '1 day'`, `interval '1' day`.
pub(super) fn span(interval: &ast::Interval) -> Lowered<Typed> {
    let ast::Interval { value, leading_field, leading_precision: None, last_field: None, .. } = interval
    else {
        return Err(Refusal::TooRich);
    };
    let ast::Expr::Value(value) = value.as_ref() else { return Err(Refusal::TooRich) };
    let ast::Value::SingleQuotedString(text) = &value.value else { return Err(Refusal::TooRich) };
    let text = match leading_field {
        None => text.clone(),
        // The unit counts only for a number alone.
        Some(unit) if text.trim().parse::<f64>().is_ok() => format!("{text} {unit}").to_lowercase(),
        Some(_) => return Err(Refusal::TooRich),
    };
    let value = base::text::parse(&text, DataType::Interval)?;
    Ok(Typed::known(Expr::Constant(value), DataType::Interval))
}
