//! Names of time zones, as settings, texts of moments and `AT TIME ZONE` have them.

use super::Zone;
use crate::error::{SqlError, SqlResult, SqlState};
use chrono_tz::{TZ_VARIANTS, Tz};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const HOUR_S: i32 = 3_600;

/// Most seconds that a clock is ahead or behind: a week, as PostgreSQL has it.
const OFFSET_S_MAX: i32 = 168 * HOUR_S;

/// What people call the time of some zones at some times of the year, in quarters of an hour east of Greenwich.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("acdt", 42),
    ("acst", 38),
    ("adt", -12),
    ("aedt", 44),
    ("aest", 40),
    ("akdt", -32),
    ("akst", -36),
    ("ast", -16),
    ("awst", 32),
    ("bst", 4),
    ("cdt", -20),
    ("cest", 8),
    ("cet", 4),
    ("cst", -24),
    ("edt", -16),
    ("eest", 12),
    ("eet", 8),
    ("est", -20),
    ("gmt", 0),
    ("hkt", 32),
    ("hst", -40),
    ("idt", 12),
    ("ist", 8),
    ("jst", 36),
    ("kst", 36),
    ("mdt", -24),
    ("msk", 12),
    ("mst", -28),
    ("ndt", -10),
    ("nst", -14),
    ("nzdt", 52),
    ("nzst", 48),
    ("pdt", -28),
    ("pkt", 20),
    ("pst", -32),
    ("sgt", 32),
    ("ut", 0),
    ("utc", 0),
    ("west", 4),
    ("wet", 0),
    ("z", 0),
    ("zulu", 0),
];

/// Zones of the database by their names in small letters.
fn known() -> &'static BTreeMap<String, Tz> {
    static KNOWN: OnceLock<BTreeMap<String, Tz>> = OnceLock::new();
    KNOWN.get_or_init(|| TZ_VARIANTS.iter().map(|tz| (tz.name().to_ascii_lowercase(), *tz)).collect())
}

/// `+01`, `-03:30`, `+00:53:28`.
pub(super) fn offset(east_s: i32) -> String {
    let sign = if east_s < 0 { '-' } else { '+' };
    let s = east_s.unsigned_abs();
    match (s / 3_600, s / 60 % 60, s % 60) {
        (h, 0, 0) => format!("{sign}{h:02}"),
        (h, m, 0) => format!("{sign}{h:02}:{m:02}"),
        (h, m, s) => format!("{sign}{h:02}:{m:02}:{s:02}"),
    }
}

/// The seconds of `7`, `+5:30` or `-03:30:20`, with whether they have a sign. `None` for what is no offset.
fn seconds(text: &str) -> Option<(i32, bool)> {
    let unsigned = text.strip_prefix(['+', '-']);
    let mut total = 0;
    let mut fields = unsigned.unwrap_or(text).split(':');
    for unit in [HOUR_S, 60, 1] {
        let Some(field) = fields.next() else { break };
        let is_number = (1..=3).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit());
        total += is_number.then(|| field.parse::<i32>().ok()).flatten()? * unit;
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    (fields.next().is_none() && total <= OFFSET_S_MAX).then_some((total * sign, unsigned.is_some()))
}

impl Zone {
    /// A zone of the database, in letters of any size, or one of POSIX without changes of clocks: `UTC+3`, `<+03>-03`,
    /// whose sign says how far UTC is ahead.
    pub fn named(name: &str) -> Option<Zone> {
        if let Some(tz) = known().get(&name.to_ascii_lowercase()) {
            return Some(if *tz == Tz::UTC { Zone::Utc } else { Zone::Named(*tz) });
        }
        let rest = match name.strip_prefix('<') {
            Some(quoted) => quoted.split_once('>')?.1,
            None => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
        };
        seconds(rest).map(|(behind_s, _)| Zone::Fixed(-behind_s))
    }

    /// What a session's setting is set to: the zone of a name, or one that is so many hours east of Greenwich.
    pub fn of_setting(text: &str) -> Option<Zone> {
        let text = text.trim();
        if let Ok(hours) = text.parse::<f64>() {
            let east_s = (hours * f64::from(HOUR_S)).round_ties_even();
            return (east_s.abs() <= f64::from(OFFSET_S_MAX)).then_some(Zone::Fixed(east_s as i32));
        }
        Zone::named(text)
    }

    /// What stands behind `AT TIME ZONE`: an abbreviation, or a name. Errors: 22023.
    pub fn at(text: &str) -> SqlResult<Zone> {
        let found = Zone::abbreviated(text).or_else(|| Zone::named(text));
        found.ok_or_else(|| not_recognized(text))
    }

    /// The zone of an abbreviation.
    pub fn abbreviated(text: &str) -> Option<Zone> {
        let text = text.to_ascii_lowercase();
        let place = ABBREVIATIONS.binary_search_by_key(&text.as_str(), |(name, _)| name).ok()?;
        Some(match ABBREVIATIONS[place].1 {
            0 => Zone::Utc,
            quarters => Zone::Fixed(quarters * HOUR_S / 4),
        })
    }

    /// The zone of a word in the text of a moment; `None` if it is none. Errors: 22023 for a name that looks like one.
    pub(crate) fn in_text(word: &str) -> SqlResult<Option<Zone>> {
        match Zone::abbreviated(word).or_else(|| Zone::named(word)) {
            None if word.contains('/') => Err(not_recognized(&word.to_ascii_lowercase())),
            found => Ok(found),
        }
    }

    /// Abbreviations in small letters, with how many seconds their clocks are ahead of UTC.
    pub fn abbreviations() -> impl Iterator<Item = (&'static str, i32)> {
        ABBREVIATIONS.iter().map(|(name, quarters)| (*name, quarters * HOUR_S / 4))
    }

    /// Every zone of the database, in order of names.
    pub fn all() -> impl Iterator<Item = (&'static str, Zone)> {
        TZ_VARIANTS.iter().map(|tz| (tz.name(), Zone::Named(*tz)))
    }
}

pub(crate) fn not_recognized(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_offsets_are_read_as_postgresql_reads_them() {
        let set = |text| Zone::of_setting(text).map(|zone| zone.to_string());
        for (text, wanted) in [
            ("europe/berlin", "Europe/Berlin"),
            ("+02", "<+02>-02"),
            ("-7", "<-07>+07"),
            ("5.5", "<+05:30>-05:30"),
            ("UTC+3", "<-03>+03"),
            ("<+03>-03", "<+03>-03"),
            ("utc", "UTC"),
            ("EST5EDT", "EST5EDT"),
            ("cet", "CET"),
        ] {
            assert_eq!(set(text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["PST", "CEST", "Nowhere/X", "", "+200", "1:2:3:4"] {
            assert_eq!(set(text), None, "{text}");
        }
        // POSIX counts towards the west.
        assert_eq!(Zone::at("+02").unwrap(), Zone::Fixed(-7_200));
        assert_eq!(Zone::at("-02:30").unwrap(), Zone::Fixed(9_000));
        assert_eq!(Zone::at("CET").unwrap(), Zone::Fixed(3_600));
        assert_eq!(Zone::at("nope").unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
        assert!(ABBREVIATIONS.is_sorted_by_key(|(name, _)| name));
    }
}
