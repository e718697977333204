//! Functions of moments in a time zone: the session's, or one that the call names.
//!
//! The zone is a constant of what a call becomes. In UTC the planner's own functions and kernels do.

use super::super::sets::SERIES_LIST;
use super::super::zones::{AT_UTC, AT_ZONE, TRUNCATED_AT_ZONE};
use super::date_parts::date_part;
use super::evaluated::{Computation, call};
use super::inference::kind_of;
use super::kinds::{Family, Kind};
use super::typing::{self, Settled, moment, no_function};
use base::DataType;
use base::expr::{BinaryOperator, Expr as Scalar, Function, ZoneFunction};
use base::zone::Zone;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, lit};

const MOMENT: Kind = Kind::Known(DataType::TimestampTz);
const LOCAL: Kind = Kind::Known(DataType::Timestamp);
const TEXT: Kind = Kind::Known(DataType::Text);
const CLOCK: Kind = Kind::Known(DataType::TimeTz);

fn column(n: usize) -> Scalar {
    Scalar::Column(n)
}

fn in_zone(function: ZoneFunction, zone: Scalar, arguments: impl IntoIterator<Item = Scalar>) -> Scalar {
    Scalar::Call(Function::Zone(function), std::iter::once(zone).chain(arguments).collect())
}

/// A call of a function of JSON with its moments as they are shown in a zone; `None` if it has none. Errors: 0A000 for those
/// inside rows.
fn moments_in_json(call_of: &ScalarFunction, kinds: &[Kind], zone: Zone, schema: &dyn ExprSchema) -> Settled {
    for (argument, _) in call_of.args.iter().zip(kinds).filter(|(_, kind)| **kind == Kind::Foreign) {
        if let Ok(field) = super::super::fields::field(argument, schema) {
            super::super::composites::refuse_zoned(field.data_type())?;
        }
    }
    if !kinds.contains(&MOMENT) {
        return Ok(None);
    }
    let show = in_zone(ZoneFunction::ShowJson, Scalar::zone(zone), [column(0)]);
    let shown = |(e, kind): (&Expr, &Kind)| match *kind {
        MOMENT => call(Computation::Scalar(show.clone()), vec![(e.clone(), MOMENT)], TEXT),
        _ => e.clone(),
    };
    let shown = call_of.args.iter().zip(kinds).map(shown).collect();
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(call_of.func.clone(), shown))))
}

/// A call that depends on a zone; `None` for others. Errors: 22023 for a zone that there is not, 42883.
pub(super) fn function(call_of: &ScalarFunction, schema: &dyn ExprSchema) -> Settled {
    let (name, arguments) = (call_of.name(), call_of.args.as_slice());
    let kinds: Vec<Kind> = arguments.iter().map(|e| kind_of(e, schema)).collect();
    let kinds = kinds.as_slice();
    let zone = sql::zones::current();
    let renewed = |arguments| ScalarFunction::new_udf(call_of.func.clone(), arguments);
    let again = |arguments| Ok(Some(Expr::ScalarFunction(renewed(arguments))));
    let is_time = |k: Kind| matches!(k.family(), Family::Date | Family::Moment);
    match (name, arguments) {
        (AT_ZONE, [zone, at]) => at_time_zone((zone, kinds[0]), (at, kinds[1])),
        (TRUNCATED_AT_ZONE, [unit, at, zone]) => {
            let (at, kind) = match kinds[1] {
                Kind::Unknown => (typing::literal(at, MOMENT)?, MOMENT),
                kind if is_time(kind) => (at.clone(), kind),
                _ => return Err(no_function("date_trunc", kinds)),
            };
            let at = &at;
            let (zone, find) = found((zone, kinds[2]), 2)?;
            truncated(find, (unit, kinds[0]), (at, kind), Some((zone, TEXT)))
        }
        ("date_part", [unit, at]) if kinds[1] == MOMENT => match unit_of(unit).as_deref() {
            Some("timezone" | "timezone_hour" | "timezone_minute") => {
                Ok(Some(offset_part(zone, &unit_of(unit).unwrap_or_default(), at)))
            }
            Some("epoch") | None => date_part(unit, at, MOMENT),
            Some(_) if zone.is_utc() => date_part(unit, at, MOMENT),
            Some(_) => {
                let local = typing::converted(at.clone(), DataType::TimestampTz, DataType::Timestamp);
                match date_part(unit, &local, LOCAL)? {
                    Some(part) => Ok(Some(part)),
                    None => again(vec![unit.clone(), local]),
                }
            }
        },
        ("date_part", [unit, at]) => date_part(unit, at, kinds[1]),
        (AT_UTC, [at]) => match kinds[0].family() {
            Family::Moment | Family::Foreign => Ok(None),
            Family::Unknown => again(vec![typing::literal(at, MOMENT)?]),
            Family::Date => again(vec![typing::converted(at.clone(), DataType::Date, DataType::TimestampTz)]),
            _ => clock_at_utc(at, kinds[0]),
        },
        ("age", [a, b]) if kinds.contains(&Kind::Unknown) => {
            let call = ScalarFunction::new_udf(call_of.func.clone(), typed_ends([a, b], kinds)?);
            Ok(function(&call, schema)?.or(Some(Expr::ScalarFunction(call))))
        }
        _ if zone.is_utc() => Ok(None),
        ("date_trunc", [unit, at]) if kinds[1] == MOMENT || kinds[1].family() == Family::Date => {
            truncated(Scalar::zone(zone), (unit, kinds[0]), (at, kinds[1]), None)
        }
        // JSON shows moments in the session's zone.
        (name, _) if sql::json::call(name).is_some() => moments_in_json(call_of, kinds, zone, schema),
        ("to_char", [at, template]) if kinds[0] == MOMENT || kinds[0].family() == Family::Date => {
            again(vec![at.clone(), template.clone(), lit(zone.to_string())])
        }
        ("to_timestamp", [text, template]) => {
            again(vec![text.clone(), template.clone(), lit(zone.to_string())])
        }
        ("age", [a, b]) if kinds[0] == MOMENT || kinds[1] == MOMENT => {
            let local = |e: &Expr, kind| match kind {
                MOMENT => typing::converted(e.clone(), DataType::TimestampTz, DataType::Timestamp),
                _ => e.clone(),
            };
            again(vec![local(a, kinds[0]), local(b, kinds[1])])
        }
        (SERIES_LIST, [from, to, step])
            if kinds[..2].iter().any(|k| *k == MOMENT || k.family() == Family::Date) =>
        {
            let bounds = [moment(from, kinds[0]), moment(to, kinds[1])];
            again(bounds.into_iter().chain([step.clone(), lit(zone.to_string())]).collect())
        }
        _ => Ok(None),
    }
}

/// Arguments of `age`, of which a literal beside a moment is one of its kind, and else one of a time zone. Errors: 42883;
/// those of literals.
fn typed_ends(ends: [&Expr; 2], kinds: &[Kind]) -> base::error::SqlResult<Vec<Expr>> {
    let beside = kinds.iter().find(|k| **k != Kind::Unknown);
    let own = match beside.map(|k| (k.family(), *k)) {
        None => MOMENT,
        Some((Family::Date, _)) => LOCAL,
        Some((Family::Moment, kind)) => kind,
        Some(_) => return Err(no_function("age", kinds)),
    };
    let typed = |(e, kind): (&Expr, &Kind)| match kind {
        Kind::Unknown => typing::literal(e, own),
        _ => Ok(e.clone()),
    };
    ends.into_iter().zip(kinds).map(typed).collect()
}

/// The unit of `extract`, in small letters, if it is a constant.
fn unit_of(unit: &Expr) -> Option<String> {
    match unit {
        Expr::Literal(ScalarValue::Utf8(Some(name)), _) => Some(name.to_lowercase()),
        _ => None,
    }
}

/// An argument that names a zone, and the zone's name made of it as the n-th column. Errors: 22023, 42883.
fn found((zone, kind): (&Expr, Kind), n: usize) -> base::error::SqlResult<(Expr, Scalar)> {
    let find = |function, of| Scalar::Call(Function::Zone(function), vec![of]);
    match (zone, kind.family()) {
        (Expr::Literal(ScalarValue::Utf8(Some(name)), _), _) => {
            Ok((zone.clone(), Scalar::zone(Zone::at(name)?)))
        }
        (_, Family::Text) => Ok((zone.clone(), find(ZoneFunction::Find, column(n)))),
        (_, Family::Unknown) => Ok((typing::literal(zone, TEXT)?, find(ZoneFunction::Find, column(n)))),
        (_, Family::Span) => Ok((zone.clone(), find(ZoneFunction::OfInterval, column(n)))),
        _ => Err(no_function("timezone", &[kind, MOMENT])),
    }
}

/// `at AT TIME ZONE zone`: a moment as a clock there shows it, and back.
fn at_time_zone(zone: (&Expr, Kind), (at, kind): (&Expr, Kind)) -> Settled {
    let (zone_expr, find) = found(zone, 0)?;
    let zone_kind = if zone.1 == Kind::Unknown { TEXT } else { zone.1 };
    if let Some(clock) = zoned_clock(at, kind) {
        // The zone's offset is that of now.
        let now = datafusion::functions::datetime::now(&ConfigOptions::default());
        let now = Expr::ScalarFunction(ScalarFunction::new_udf(now, Vec::new()));
        let shown = in_zone(ZoneFunction::Clock, find, [column(1), column(2)]);
        let arguments = vec![(zone_expr, zone_kind), (clock, CLOCK), (now, MOMENT)];
        return Ok(Some(call(Computation::Scalar(shown), arguments, CLOCK)));
    }
    let (at, kind) = match kind.family() {
        Family::Unknown => (typing::literal(at, MOMENT)?, MOMENT),
        Family::Date => (moment(at, kind), MOMENT),
        Family::Moment => (at.clone(), kind),
        _ => return Err(no_function("timezone", &[zone.1, kind])),
    };
    let (function, returns) = match kind {
        MOMENT => (ZoneFunction::ToLocal, LOCAL),
        _ => (ZoneFunction::FromLocal, MOMENT),
    };
    let shown = in_zone(function, find, [column(1)]);
    Ok(Some(call(Computation::Scalar(shown), vec![(zone_expr, zone_kind), (at, kind)], returns)))
}

/// A time of day as one with an offset; `None` for what is no time of day.
fn zoned_clock(at: &Expr, kind: Kind) -> Option<Expr> {
    match kind.family() {
        Family::Clock => Some(typing::converted(at.clone(), DataType::Time, DataType::TimeTz)),
        Family::ZonedClock => Some(at.clone()),
        _ => None,
    }
}

/// A time of day as clocks of UTC show it. Errors: 42883 for anything else.
fn clock_at_utc(at: &Expr, kind: Kind) -> Settled {
    let clock = zoned_clock(at, kind).ok_or_else(|| no_function("timezone", &[Kind::Unknown, kind]))?;
    let moment = Scalar::Constant(base::Datum::Timestamp(0));
    let shown = in_zone(ZoneFunction::Clock, Scalar::zone(Zone::Utc), [column(0), moment]);
    Ok(Some(call(Computation::Scalar(shown), vec![(clock, CLOCK)], CLOCK)))
}

fn truncated(
    zone: Scalar,
    (unit, unit_kind): (&Expr, Kind),
    (at, kind): (&Expr, Kind),
    zone_argument: Option<(Expr, Kind)>,
) -> Settled {
    let unit = match unit_kind {
        Kind::Unknown => typing::literal(unit, TEXT)?,
        _ => unit.clone(),
    };
    let truncate = in_zone(ZoneFunction::Truncate, zone, [column(0), column(1)]);
    let mut arguments = vec![(unit, TEXT), (moment(at, kind), MOMENT)];
    arguments.extend(zone_argument);
    Ok(Some(call(Computation::Scalar(truncate), arguments, MOMENT)))
}

/// `extract(timezone from at)` and its hours and minutes.
fn offset_part(zone: Zone, unit: &str, at: &Expr) -> Expr {
    let number = |n: i64| Box::new(Scalar::Constant(base::Datum::Int(n)));
    let offset = in_zone(ZoneFunction::Offset, Scalar::zone(zone), [column(0)]);
    let divided = |by| Scalar::Binary(BinaryOperator::Divide, Box::new(offset.clone()), number(by));
    let part = match unit {
        "timezone_hour" => divided(3_600),
        "timezone_minute" => Scalar::Binary(BinaryOperator::Remainder, Box::new(divided(60)), number(60)),
        _ => offset,
    };
    call(Computation::Scalar(part), vec![(at.clone(), MOMENT)], Kind::Known(DataType::Integer))
}
