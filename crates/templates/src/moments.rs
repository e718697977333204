//! Templates of moments, days and intervals: `YYYY-MM-DD HH24:MI:SS`, `FMDay, DDth Month`.

mod found;
mod parse;
mod read;
mod write;

pub use found::Found;
pub(crate) use parse::quoted;

use crate::Case;

/// A part of a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Hour12,
    Hour24,
    Minute,
    Second,
    /// So many digits of the second's fraction.
    Fraction(u8),
    Millisecond,
    Microsecond,
    SecondOfDay,
    /// `AM`, or `A.M.` with dots.
    HalfOfDay {
        is_dotted: bool,
        case: Case,
    },
    Era {
        is_dotted: bool,
        case: Case,
    },
    ZoneName(Case),
    ZoneHours,
    ZoneMinutes,
    ZoneOffset,
    Century,
    /// `Y,YYY`.
    GroupedYear,
    /// Its last digits.
    Year(u8),
    IsoYear(u8),
    Quarter,
    Month,
    MonthName(Case),
    MonthShort(Case),
    RomanMonth(Case),
    WeekOfMonth,
    Week,
    IsoWeek,
    DayOfYear,
    DayOfIsoYear,
    Day,
    /// From 1, Sunday.
    DayOfWeek,
    /// From 1, Monday.
    IsoDayOfWeek,
    DayName(Case),
    DayShort(Case),
    JulianDay,
    /// `FX`: from here on texts match the template character by character.
    Exact,
}

/// A field and what stands around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Placed {
    field: Field,
    spelled: &'static str,
    /// `FM`: no blanks, no zeros in front.
    is_filled: bool,
    /// `TM`: a name in the session's language. It has no blanks either.
    is_translated: bool,
    ordinal: Option<Case>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Field(Placed),
    /// What separates fields and is neither a letter nor a digit.
    Separator(char),
    Space(char),
    Text(char),
}

/// A parsed template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    items: Vec<Item>,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Letters of a short name.
const SHORT: usize = 3;

const US_PER_SECOND: i64 = 1_000_000;
const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;
/// The Julian day of 2000-01-01.
const JULIAN_2000: i64 = 2_451_545;

/// Day of the week of a day number, 0 for Sunday. 2000-01-01 was a Saturday.
fn weekday(day: i64) -> i64 {
    (day + 6).rem_euclid(7)
}

fn january_first(year: i64) -> i64 {
    base::text::day_number(year, 1, 1).map_or(0, i64::from)
}

/// The Monday with which an ISO year begins: that of the week with January 4th.
fn iso_year_begin(year: i64) -> i64 {
    let fourth = january_first(year) + 3;
    fourth - (weekday(fourth) + 6).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::text::day_number;
    use base::zone::Zone;

    const DAY: i64 = US_PER_DAY;

    fn moment(year: i64, month: u32, day: u32, us: i64) -> i64 {
        i64::from(day_number(year, month, day).expect("a day")) * DAY + us
    }

    #[test]
    fn moments_are_written() {
        let at = moment(2002, 4, 20, (17 * 3600 + 31 * 60 + 12) * US_PER_SECOND + 660_000);
        for (template, wanted) in [
            ("YYYY-MM-DD HH24:MI:SS.MS", "2002-04-20 17:31:12.660"),
            ("DAY Day day DY Dy dy", "SATURDAY  Saturday  saturday  SAT Sat sat"),
            ("FMDay, FMMonth DDth, YYYY", "Saturday, April 20th, 2002"),
            ("MONTH|Mon|RM|rm", "APRIL    |Apr|IV  |iv  "),
            ("HH:MI:SS PM a.m.", "05:31:12 PM p.m."),
            ("Y,YYY YYY YY Y CC Q WW IW W", "2,002 002 02 2 21 2 16 16 3"),
            ("IYYY IDDD ID DDD D J", "2002 111 6 110 7 2452385"),
            ("\"Today is:\" FF3 US SSSS", "Today is: 660 660000 63072"),
            ("TZ TZH:TZM OF AD b.c.", "UTC +00:00 +00 AD a.d."),
        ] {
            let template = Template::parse(template);
            assert_eq!(template.write_moment(at, Some(Zone::Utc)).unwrap(), wanted);
        }
    }

    #[test]
    fn moments_are_read() {
        for (text, template, wanted) in [
            (
                "2011-12-18 11:38 PM",
                "YYYY-MM-DD HH12:MI PM",
                moment(2011, 12, 18, (23 * 3600 + 38 * 60) * US_PER_SECOND),
            ),
            ("05 Dec 2000", "DD Mon YYYY", moment(2000, 12, 5, 0)),
            ("20001131", "YYYYMMDD", i64::MIN),
            ("  2000   JUN", "YYYY MON", moment(2000, 6, 1, 0)),
            ("2005527", "IYYYIWID", moment(2006, 1, 1, 0)),
            ("2005-52-7", "IYYY-IW-ID", moment(2006, 1, 1, 0)),
            ("1985 January 12", "YYYY FMMonth DD", moment(1985, 1, 12, 0)),
            ("12.345", "SS.MS", moment(0, 1, 1, 12_345_000)),
        ] {
            let read = Template::parse(template).read(text).and_then(|found| found.us(Zone::Utc));
            assert_eq!(read.unwrap_or(i64::MIN), wanted, "{text}");
        }
    }
}
