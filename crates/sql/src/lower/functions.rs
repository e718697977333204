//! Functions that a node can evaluate, and those that the gateway evaluates for it.

use super::bind::{self, Volatile};
use super::expr::{ExprLowering, Typed, convert, in_bounds, today};
use super::{Lowered, Refusal};
use crate::names;
use crate::types::NUMERIC;
use base::element::Element;
use base::error::SqlState;
use base::expr::{BinaryOperator, Expr, Function, ZoneFunction};
use base::zone::Zone;
use base::{DataType, Datum, SqlError, TableId};
use sqlparser::ast;

/// What the session's clocks show by this name.
pub(super) fn shown_by(name: &str) -> Option<DataType> {
    Some(match name {
        "localtimestamp" => DataType::Timestamp,
        "localtime" => DataType::Time,
        "current_time" => DataType::TimeTz,
        "current_date" => DataType::Date,
        _ => return None,
    })
}

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
        if let Some(json) = self.json_function(name, &arguments)? {
            return Ok(json);
        }
        if let Some(search) = self.search_function(name, &arguments)? {
            return Ok(search);
        }
        if let Some(text) = self.text_function(name, &arguments)? {
            return Ok(text);
        }
        if let Some(array) = self.array_function(name, &arguments)? {
            return Ok(array);
        }
        let moment = |of| Typed::known(bind::volatile(of), DataType::TimestampTz);
        Ok(match (name, arguments.as_slice()) {
            ("now" | "transaction_timestamp" | "current_timestamp", []) => moment(Volatile::Now),
            ("statement_timestamp", []) => moment(Volatile::StatementTime),
            ("clock_timestamp", []) => moment(Volatile::ClockTime),
            (clocks, []) if let Some(shown) = shown_by(clocks) => today(shown)?,
            ("random", []) => Typed::known(bind::volatile(Volatile::Random), DataType::Double),
            ("gen_random_uuid" | "uuid_generate_v4", []) => {
                Typed::known(bind::volatile(Volatile::RandomUuid), DataType::Uuid)
            }
            ("nextval", [sequence]) => {
                Typed::known(bind::next_value(self.sequence(sequence)?), DataType::BigInt)
            }
            ("currval", [sequence]) => {
                Typed::known(bind::current_value(self.sequence(sequence)?), DataType::BigInt)
            }
            // Within a trigger it is a parameter of the program's statement.
            ("pg_trigger_depth", []) => Typed::known(Expr::Constant(Datum::Int(0)), DataType::Integer),
            ("lastval", []) => Typed::known(bind::last_value(), DataType::BigInt),
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
                Typed::known(in_bounds(Expr::Call(Function::Abs, vec![value.expr]), data_type), data_type)
            }
            ("mod", [a, b]) => {
                let (a, b) = (self.lower(a)?, self.lower(b)?);
                self.arithmetic(BinaryOperator::Remainder, a, b)?
            }
            ("round", [a]) => self.rounding(Function::Round, a)?,
            ("round", [a, digits]) => self.rounding_at(Function::Round, a, digits)?,
            ("trunc", [a]) => self.rounding(Function::Trunc, a)?,
            ("trunc", [a, digits]) => self.rounding_at(Function::Trunc, a, digits)?,
            ("sign", [a]) => self.rounding(Function::Sign, a)?,
            ("date_trunc", [unit, at]) => self.date_trunc(unit, at)?,
            ("timezone", [zone, at]) => self.at_time_zone(zone, at)?,
            ("floor", [a]) => self.rounding(Function::Floor, a)?,
            ("ceil" | "ceiling", [a]) => self.rounding(Function::Ceil, a)?,
            ("coalesce", [_, ..]) => self.alike(Function::Coalesce, &arguments, "COALESCE")?,
            ("greatest", [_, ..]) => self.alike(Function::Greatest, &arguments, "GREATEST")?,
            ("least", [_, ..]) => self.alike(Function::Least, &arguments, "LEAST")?,
            ("nullif", [a, b]) => self.null_if(a, b)?,
            (crate::parse::ATTRIBUTE, [_, _]) => self.attribute(function)?,
            (base::partitioning::hash::FUNCTION, keys) => self.in_hash_partition(keys)?,
            ("enum_first" | "enum_last", [_]) | ("enum_range", [_] | [_, _]) => {
                self.labels(name, &arguments)?
            }
            ("concat", [_, ..]) => {
                let mut texts = Vec::new();
                for argument in &arguments {
                    let typed = self.lower(argument)?;
                    let typed = self.resolve(typed, DataType::Text)?;
                    texts.push(match typed.data_type() {
                        // Their values do not tell what they look like.
                        DataType::Real | DataType::TimestampTz => convert(typed, DataType::Text)?.expr,
                        DataType::Char { .. } | DataType::Cidr => return Err(Refusal::TooRich),
                        _ => typed.expr,
                    });
                }
                Typed::known(Expr::Call(Function::Concat, texts), DataType::Text)
            }
            _ => return Err(Refusal::TooRich),
        })
    }

    /// Labels of the type that an argument is of, between two constants if there are two.
    fn labels(&mut self, name: &str, arguments: &[&ast::Expr]) -> Lowered<Typed> {
        let typed = arguments.iter().map(|e| self.lower(e)).collect::<Lowered<Vec<_>>>()?;
        let is_label = |t: &Typed| matches!(t.data_type(), DataType::Enum(_));
        let Some(DataType::Enum(of)) = typed.iter().find(|t| is_label(t)).map(Typed::data_type) else {
            return Err(Refusal::TooRich);
        };
        let mut bounds = [None, None];
        for (bound, typed) in bounds.iter_mut().zip(typed).filter(|_| arguments.len() == 2) {
            *bound = match self.resolve(typed, DataType::Enum(of))?.expr {
                Expr::Constant(Datum::Int(code)) => Some(code),
                Expr::Constant(Datum::Null) => None,
                _ => return Err(Refusal::TooRich),
            };
        }
        let value = Expr::Constant(crate::user_types::labels(name, of, bounds)?);
        Ok(match name {
            "enum_range" => {
                let of = Element::of(DataType::Enum(of)).ok_or(Refusal::TooRich)?;
                Typed::known(value, DataType::Array(of))
            }
            _ => Typed::known(value, DataType::Enum(of)),
        })
    }

    /// `round(numeric, digits)` and `trunc`; integers become numeric, floats have none.
    fn rounding_at(&mut self, function: Function, a: &ast::Expr, digits: &ast::Expr) -> Lowered<Typed> {
        let value = self.number(a)?;
        if matches!(value.data_type(), DataType::Real | DataType::Double) {
            let name = format!("{function:?}").to_lowercase();
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name}({}, integer) does not exist", value.data_type().name()),
            )
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
            .into());
        }
        let value = convert(value, NUMERIC)?;
        let digits = self.integer(digits)?;
        Ok(Typed::known(Expr::Call(function, vec![value.expr, digits]), NUMERIC))
    }

    fn alike(&mut self, function: Function, arguments: &[&ast::Expr], what: &str) -> Lowered<Typed> {
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.lower(argument)?);
        }
        let (values, data_type) = self.unify(values, what)?;
        Ok(Typed::known(Expr::Call(function, values), data_type))
    }

    /// Of two whole numbers or two floats it is of the first one's type, as the second one's does not count.
    fn null_if(&mut self, a: &ast::Expr, b: &ast::Expr) -> Lowered<Typed> {
        let (a, b) = (self.lower(a)?, self.lower(b)?);
        let (mut values, data_type) = self.unify(vec![a.clone(), b], "NULLIF")?;
        let is_whole = |t| matches!(t, DataType::SmallInt | DataType::Integer | DataType::BigInt);
        let is_float = |t| matches!(t, DataType::Real | DataType::Double);
        let are_alike = |own| is_whole(own) && is_whole(data_type) || is_float(own) && is_float(data_type);
        let own = a.known_type().filter(|own| are_alike(*own));
        if own.is_some() {
            values[0] = a.expr;
        }
        Ok(Typed::known(Expr::Call(Function::NullIf, values), own.unwrap_or(data_type)))
    }

    /// Of a moment by the session's clocks, and of an interval.
    fn date_trunc(&mut self, unit: &ast::Expr, at: &ast::Expr) -> Lowered<Typed> {
        let unit = self.text(unit)?;
        let at = self.lower(at)?;
        let data_type = at.data_type();
        let zone = crate::zones::current();
        let expr = match data_type {
            DataType::TimestampTz if !zone.is_utc() => {
                let truncate = Function::Zone(ZoneFunction::Truncate);
                Expr::Call(truncate, vec![Expr::zone(zone), unit, at.expr])
            }
            DataType::Timestamp | DataType::TimestampTz | DataType::Interval => {
                Expr::Call(Function::DateTrunc, vec![unit, at.expr])
            }
            _ => return Err(Refusal::TooRich),
        };
        Ok(Typed::known(expr, data_type))
    }

    /// `at AT TIME ZONE zone`: a moment as a clock there shows it, and back. Errors: 22023.
    pub(super) fn at_time_zone(&mut self, zone: &ast::Expr, at: &ast::Expr) -> Lowered<Typed> {
        let zone = match self.text(zone)? {
            Expr::Constant(Datum::Text(name)) => Expr::zone(Zone::at(&name)?),
            zone => Expr::Call(Function::Zone(ZoneFunction::Find), vec![zone]),
        };
        let at = self.lower(at)?;
        let at = self.resolve(at, DataType::TimestampTz)?;
        if matches!(at.data_type(), DataType::Time | DataType::TimeTz) {
            // The zone's offset is that of now.
            let arguments = vec![zone, convert(at, DataType::TimeTz)?.expr, bind::volatile(Volatile::Now)];
            return Ok(Typed::known(
                Expr::Call(Function::Zone(ZoneFunction::Clock), arguments),
                DataType::TimeTz,
            ));
        }
        let (at, function, returns) = match at.data_type() {
            DataType::TimestampTz => (at, ZoneFunction::ToLocal, DataType::Timestamp),
            DataType::Timestamp => (at, ZoneFunction::FromLocal, DataType::TimestampTz),
            DataType::Date => {
                (convert(at, DataType::TimestampTz)?, ZoneFunction::ToLocal, DataType::Timestamp)
            }
            _ => return Err(Refusal::TooRich),
        };
        Ok(Typed::known(Expr::Call(Function::Zone(function), vec![zone, at.expr]), returns))
    }

    /// The sequence of `nextval('name')` and `currval`, with or without a cast to regclass.
    fn sequence(&mut self, argument: &ast::Expr) -> Lowered<TableId> {
        let mut inner = argument;
        while let ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) = inner {
            inner = expr;
        }
        let ast::Expr::Value(value) = inner else { return Err(Refusal::TooRich) };
        let ast::Value::SingleQuotedString(text) = &value.value else { return Err(Refusal::TooRich) };
        let found = crate::catalog::find_sequence(self.catalog, self.search_path, text)?;
        Ok(found.id)
    }
}
