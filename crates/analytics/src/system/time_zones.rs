//! `pg_timezone_names` and `pg_timezone_abbrevs`.

use super::Made;
use crate::context::Context;
use base::interval::Interval;
use base::zone::Zone;
use base::{DataType, Datum};

/// µs of a second.
const SECOND_US: i64 = 1_000_000;

fn span(east_s: i32) -> Datum {
    Datum::Interval(Interval { months: 0, days: 0, us: i64::from(east_s) * SECOND_US })
}

/// Every zone, as its clocks are now.
pub(super) fn names(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("name", DataType::Text),
        ("abbrev", DataType::Text),
        ("utc_offset", DataType::Interval),
        ("is_dst", DataType::Boolean),
    ]);
    let now_us = context.analytics.node.generators.clock_us();
    for (name, zone) in Zone::all() {
        made.rows.push(vec![
            Datum::text(name),
            Datum::text(abbreviation(zone, now_us)),
            span(zone.offset_s(now_us)),
            Datum::Bool(zone.is_summer_time(now_us)),
        ]);
    }
    made
}

/// What people call a zone's time; where they have no word for it, the offset: `+0545`, `-03`.
fn abbreviation(zone: Zone, now_us: i64) -> String {
    let word = zone.abbreviation(now_us);
    if !word.is_empty() {
        return word;
    }
    let east_s = zone.offset_s(now_us);
    let (sign, minutes) = (if east_s < 0 { '-' } else { '+' }, east_s.unsigned_abs() / 60);
    match (minutes / 60, minutes % 60) {
        (hours, 0) => format!("{sign}{hours:02}"),
        (hours, minutes) => format!("{sign}{hours:02}{minutes:02}"),
    }
}

/// Abbreviations that texts of moments may have.
pub(super) fn abbreviations() -> Made {
    let mut made = Made::new(&[
        ("abbrev", DataType::Text),
        ("utc_offset", DataType::Interval),
        ("is_dst", DataType::Boolean),
    ]);
    for (name, east_s) in Zone::abbreviations() {
        let is_summer = Datum::Bool(SUMMER.contains(&name));
        made.rows.push(vec![Datum::text(name.to_uppercase()), span(east_s), is_summer]);
    }
    made
}

/// Those that mean clocks that were put forward.
const SUMMER: [&str; 15] = [
    "acdt", "adt", "aedt", "akdt", "bst", "cdt", "cest", "edt", "eest", "idt", "mdt", "ndt", "nzdt", "pdt",
    "west",
];
