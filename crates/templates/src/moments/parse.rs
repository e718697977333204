//! From a text to a template of moments.

use super::{Field, Item, Placed, Template};
use crate::Case::{self, Lower, Title, Upper};

/// Fields whose letters may be capitals or small ones.
const EITHER: [(&str, &str, Field); 39] = [
    ("FF1", "ff1", Field::Fraction(1)),
    ("FF2", "ff2", Field::Fraction(2)),
    ("FF3", "ff3", Field::Fraction(3)),
    ("FF4", "ff4", Field::Fraction(4)),
    ("FF5", "ff5", Field::Fraction(5)),
    ("FF6", "ff6", Field::Fraction(6)),
    ("FX", "fx", Field::Exact),
    ("HH24", "hh24", Field::Hour24),
    ("HH12", "hh12", Field::Hour12),
    ("HH", "hh", Field::Hour12),
    ("MI", "mi", Field::Minute),
    ("MM", "mm", Field::Month),
    ("MS", "ms", Field::Millisecond),
    ("US", "us", Field::Microsecond),
    ("SSSSS", "sssss", Field::SecondOfDay),
    ("SSSS", "ssss", Field::SecondOfDay),
    ("SS", "ss", Field::Second),
    ("CC", "cc", Field::Century),
    ("Y,YYY", "y,yyy", Field::GroupedYear),
    ("YYYY", "yyyy", Field::Year(4)),
    ("YYY", "yyy", Field::Year(3)),
    ("YY", "yy", Field::Year(2)),
    ("Y", "y", Field::Year(1)),
    ("IYYY", "iyyy", Field::IsoYear(4)),
    ("IYY", "iyy", Field::IsoYear(3)),
    ("IDDD", "iddd", Field::DayOfIsoYear),
    ("IY", "iy", Field::IsoYear(2)),
    ("ID", "id", Field::IsoDayOfWeek),
    ("IW", "iw", Field::IsoWeek),
    ("I", "i", Field::IsoYear(1)),
    ("DDD", "ddd", Field::DayOfYear),
    ("DD", "dd", Field::Day),
    ("D", "d", Field::DayOfWeek),
    ("WW", "ww", Field::Week),
    ("W", "w", Field::WeekOfMonth),
    ("Q", "q", Field::Quarter),
    ("J", "j", Field::JulianDay),
    ("TZH", "tzh", Field::ZoneHours),
    ("TZM", "tzm", Field::ZoneMinutes),
];

const fn half(is_dotted: bool, case: Case) -> Field {
    Field::HalfOfDay { is_dotted, case }
}
const fn era(is_dotted: bool, case: Case) -> Field {
    Field::Era { is_dotted, case }
}

/// Fields that are written as their letters are.
const SPELLED: [(&str, Field); 36] = [
    ("A.M.", half(true, Upper)),
    ("P.M.", half(true, Upper)),
    ("a.m.", half(true, Lower)),
    ("p.m.", half(true, Lower)),
    ("AM", half(false, Upper)),
    ("PM", half(false, Upper)),
    ("am", half(false, Lower)),
    ("pm", half(false, Lower)),
    ("A.D.", era(true, Upper)),
    ("B.C.", era(true, Upper)),
    ("a.d.", era(true, Lower)),
    ("b.c.", era(true, Lower)),
    ("AD", era(false, Upper)),
    ("BC", era(false, Upper)),
    ("ad", era(false, Lower)),
    ("bc", era(false, Lower)),
    ("MONTH", Field::MonthName(Upper)),
    ("Month", Field::MonthName(Title)),
    ("month", Field::MonthName(Lower)),
    ("MON", Field::MonthShort(Upper)),
    ("Mon", Field::MonthShort(Title)),
    ("mon", Field::MonthShort(Lower)),
    ("DAY", Field::DayName(Upper)),
    ("Day", Field::DayName(Title)),
    ("day", Field::DayName(Lower)),
    ("DY", Field::DayShort(Upper)),
    ("Dy", Field::DayShort(Title)),
    ("dy", Field::DayShort(Lower)),
    ("RM", Field::RomanMonth(Upper)),
    ("rm", Field::RomanMonth(Lower)),
    ("TZ", Field::ZoneName(Upper)),
    ("Tz", Field::ZoneName(Upper)),
    ("tz", Field::ZoneName(Lower)),
    ("OF", Field::ZoneOffset),
    ("of", Field::ZoneOffset),
    ("Of", Field::ZoneOffset),
];

/// The longest field that a text begins with.
fn next_field(text: &str) -> Option<(&'static str, Field)> {
    let either = EITHER.iter().flat_map(|(upper, lower, field)| [(*upper, *field), (*lower, *field)]);
    let fitting = either.chain(SPELLED).filter(|(spelled, _)| text.starts_with(spelled));
    fitting.max_by_key(|(spelled, _)| spelled.len())
}

/// A quoted text up to its closing quote, and what is behind that. A backslash quotes what follows it.
pub fn quoted(text: &str) -> (String, &str) {
    let mut inside = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (inside, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, next)) => inside.push(next),
                None => inside.push('\\'),
            },
            c => inside.push(c),
        }
    }
    (inside, "")
}

impl Template {
    pub fn parse(text: &str) -> Template {
        let mut items = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (mut is_filled, mut is_translated) = (false, false);
            for (prefix, is_fill) in [("FM", true), ("fm", true), ("TM", false), ("tm", false)] {
                if let Some(behind) = rest.strip_prefix(prefix) {
                    (is_filled, is_translated, rest) = (is_fill, !is_fill, behind);
                    break;
                }
            }
            let Some(c) = rest.chars().next() else { break };
            if let Some((spelled, field)) = next_field(rest) {
                rest = &rest[spelled.len()..];
                let mut ordinal = None;
                for (suffix, case) in [("TH", Some(Upper)), ("th", Some(Lower)), ("SP", None), ("sp", None)] {
                    if let Some(behind) = rest.strip_prefix(suffix) {
                        (ordinal, rest) = (case, behind);
                        break;
                    }
                }
                items.push(Item::Field(Placed { field, spelled, is_filled, is_translated, ordinal }));
            } else if c == '"' {
                let (inside, behind) = quoted(&rest[1..]);
                items.extend(inside.chars().map(Item::Text));
                rest = behind;
            } else {
                let escaped = rest.strip_prefix('\\').filter(|behind| behind.starts_with('"'));
                let c = if escaped.is_some() { '"' } else { c };
                rest = &escaped.unwrap_or(rest)[c.len_utf8()..];
                items.push(match c {
                    c if c.is_ascii_graphic() && !c.is_ascii_alphanumeric() => Item::Separator(c),
                    c if c.is_ascii_whitespace() => Item::Space(c),
                    c => Item::Text(c),
                });
            }
        }
        Template { items }
    }
}
