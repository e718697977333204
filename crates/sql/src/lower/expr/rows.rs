//! Values of composite types: rows that are cast to one or assigned as one, attributes, and tests for NULL.

use super::*;
use base::array_functions::ArrayFunction;
use base::composite::CompositeType;

/// The elements of a row as it is written: `(1, 'x')`, `ROW(1, 'x')`.
pub fn elements(e: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match e {
        ast::Expr::Nested(inner) => elements(inner),
        ast::Expr::Tuple(elements) => Some(elements.iter().collect()),
        ast::Expr::Function(call)
            if call.over.is_none() && call.name.to_string().eq_ignore_ascii_case("row") =>
        {
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            let elements = list.args.iter().map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
                _ => None,
            });
            elements.collect()
        }
        _ => None,
    }
}

/// That a row cannot be a value of a type. Errors: 42846, in PostgreSQL's words.
pub fn check_row(count: usize, of: CompositeType) -> SqlResult<()> {
    let wanted = of.attributes().len();
    if count == wanted {
        return Ok(());
    }
    let detail = if count < wanted { "Input has too few columns." } else { "Input has too many columns." };
    Err(base::convert::cannot_cast("record", &of.name()).detail(detail))
}

/// Type and number (from 0) of an attribute. Errors: 42703.
pub fn find_attribute(of: CompositeType, name: &str) -> SqlResult<(usize, DataType)> {
    of.attribute(name).ok_or_else(|| {
        let told = format!("column \"{name}\" not found in data type {}", of.name());
        SqlError::new(SqlState::UNDEFINED_COLUMN, told)
    })
}

/// The n-th attribute (from 0) of a row.
pub fn attribute(row: Expr, at: usize) -> Expr {
    let number = Expr::Constant(Datum::Int(at as i64 + 1));
    Expr::Call(Function::Array(ArrayFunction::Element), vec![row, number])
}

/// A row of values that are of its attributes' types.
pub fn of_values(values: Vec<Expr>) -> Expr {
    let constants = values.iter().map(|value| match value {
        Expr::Constant(value) => Some(value.clone()),
        _ => None,
    });
    match constants.collect::<Option<Vec<_>>>() {
        Some(constants) => Expr::Constant(Datum::Array(constants.into())),
        None => Expr::Call(Function::Json(JsonFunction::ArrayOf), values),
    }
}

/// Whether all attributes of a row are NULL, or, if `is_null` is false, none is. The value NULL is a row of NULLs.
pub fn is_null(row: &Expr, of: CompositeType, is_null: bool) -> Expr {
    let test = |e: Expr| {
        let test = Expr::IsNull(Box::new(e));
        if is_null { test } else { Expr::Unary(UnaryOperator::Not, Box::new(test)) }
    };
    let tests = (0..of.attributes().len()).map(|at| test(attribute(row.clone(), at)));
    let all = tests.reduce(|all, one| Expr::binary(BinaryOperator::And, all, one));
    all.unwrap_or_else(|| test(row.clone()))
}

impl ExprLowering<'_> {
    /// A row as a value of a type. Errors: 42846.
    pub(super) fn row(
        &mut self,
        elements: &[&ast::Expr],
        of: CompositeType,
        is_cast: bool,
    ) -> Lowered<Typed> {
        let least = if is_cast { Castable::Explicit } else { Castable::Assignment };
        check_row(elements.len(), of)?;
        let mut values = Vec::with_capacity(elements.len());
        for (at, (e, attribute)) in elements.iter().zip(of.attributes()).enumerate() {
            let to = attribute.data_type;
            let value = match (self::elements(e), to) {
                (Some(inside), DataType::Composite(of)) => self.row(&inside, of, is_cast)?,
                (Some(_), _) => return Err(Refusal::TooRich),
                (None, _) => {
                    let typed = self.lower(e)?;
                    if let Kind::Known(from) = typed.kind
                        && castable(from, to) < least
                    {
                        let (from, to) = (bare_name(from), bare_name(to));
                        let detail = format!("Cannot cast type {from} to {to} in column {}.", at + 1);
                        return Err(base::convert::cannot_cast("record", &of.name()).detail(detail).into());
                    }
                    // What is too long is refused where it is assigned; a cast would cut it.
                    let to = match to {
                        DataType::Varchar { .. } | DataType::Char { .. } if !is_cast => DataType::Text,
                        to => to,
                    };
                    self.cast_typed(typed, to)?
                }
            };
            values.push(value.expr);
        }
        Ok(Typed::known(of_values(values), DataType::Composite(of)))
    }

    /// `meridian_attribute(row, 'name')`, which the parser makes of `(row).name`. Errors: 42703; 42809 for what is no row.
    pub(in crate::lower) fn attribute(&mut self, function: &ast::Function) -> Lowered<Typed> {
        let (row, name) = crate::parse::attribute_of(function).ok_or(Refusal::TooRich)?;
        let row = self.lower(row)?;
        let Some(DataType::Composite(of)) = row.known_type() else { return Err(Refusal::TooRich) };
        let (at, data_type) = find_attribute(of, name)?;
        Ok(Typed::known(attribute(row.expr, at), data_type))
    }

    /// `e IS NULL`, `e IS NOT NULL`.
    pub(super) fn null_test(&mut self, e: &ast::Expr, is_wanted: bool) -> Lowered<Typed> {
        let typed = self.lower(e)?;
        let typed = self.resolve(typed, DataType::Text)?;
        if let DataType::Composite(of) = typed.data_type() {
            return Ok(boolean(is_null(&typed.expr, of, is_wanted)));
        }
        let test = boolean(Expr::IsNull(Box::new(typed.expr)));
        Ok(if is_wanted { test } else { not(test) })
    }

    /// An explicit cast of a value. Errors: 42846; those of the cast, for constants.
    pub(super) fn cast_typed(&mut self, typed: Typed, to: DataType) -> Lowered<Typed> {
        let typed = match typed.kind {
            Kind::Literal => {
                let Expr::Constant(value) = typed.expr else { unreachable!("a literal is a constant") };
                let value = crate::zones::cast(value, DataType::Text, to)?;
                return Ok(Typed::known(Expr::Constant(value), to));
            }
            // A parameter takes the type that it is cast to; limits are applied to it like to any other value.
            Kind::Parameter(_) => self.resolve(typed, to)?,
            Kind::Known(_) => typed,
        };
        Ok(convert(padded(typed, to), to)?)
    }
}
