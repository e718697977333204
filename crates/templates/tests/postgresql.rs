//! Answers that PostgreSQL 15 gave, in `postgresql.tsv`: kind, value, template, answer, parted by tabs. An answer is a
//! text in quotes, or an SQLSTATE. Values and templates were drawn at random.
//!
//! Known to differ and left out: weeks and days by ISO 8601 of intervals with negative months, a grouped year (`Y,YYY`) with
//! a negative half, and `TZM` before a field that its digits do not end at.

use base::decimal::Decimal;
use base::error::SqlResult;
use base::interval::Interval;
use base::zone::Zone;
use templates::moments::Template as Moments;
use templates::numbers::{Number, Template as Numbers};

fn answer(kind: &str, value: &str, template: &str) -> SqlResult<String> {
    let whole = || value.parse::<i64>().expect("a whole number");
    let numbers = || Numbers::parse(template);
    match kind {
        "timestamp" => Moments::parse(template).write_moment(whole(), None),
        "timestamptz" => Moments::parse(template).write_moment(whole(), Some(Zone::Utc)),
        "interval" => {
            let parts: Vec<i64> = value.split(' ').map(|n| n.parse().expect("a number")).collect();
            let span = Interval { months: parts[0] as i32, days: parts[1] as i32, us: parts[2] };
            Moments::parse(template).write_interval(span)
        }
        "numeric" => numbers()?.write(Number::Exact(Decimal::parse(value).expect("a number"))),
        "double" => {
            let value = value.parse().expect("a float");
            numbers()?.write(Number::Float { value, digits: f64::DIGITS as usize })
        }
        "to_timestamp" => Moments::parse(template).read(value)?.us(Zone::Utc).map(|us| us.to_string()),
        "to_date" => Moments::parse(template).read(value)?.day().map(|day| day.to_string()),
        "to_number" => numbers()?.read(value).map(|n| n.to_string()),
        other => panic!("{other} is no kind"),
    }
}

#[test]
fn answers_are_postgresqls() {
    let mut different = Vec::new();
    let lines = include_str!("postgresql.tsv").lines();
    for line in lines {
        let [kind, value, template, wanted] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}: four columns")
        };
        let is = match answer(kind, value, template) {
            Ok(text) => format!("\"{text}\""),
            Err(error) => error.state.to_string(),
        };
        // Of a number read, the value counts.
        let number = |text: &str| Decimal::parse(text.trim_matches('"'));
        let is_same_number = kind == "to_number" && number(&is).is_some() && number(&is) == number(wanted);
        if is != wanted && !is_same_number {
            different.push(format!("{kind} {value} {template}: {is}, not {wanted}"));
        }
    }
    assert!(different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
}
