//! Dates that are spelled otherwise than `2026-11-21`: `Feb 10 17:32:01 1997 PST`, `January 8, 1999`, `1/8/1999`, `19990108`,
//! `1999.008`, `J2451187`. Of numbers alone the month comes first, as PostgreSQL reads them with DateStyle `MDY`.

use super::calendar::{civil, day_number};

/// What has been read of a moment.
#[derive(Default)]
struct Spelled {
    year: Option<i64>,
    month: Option<u32>,
    day: Option<u32>,
    /// The month was written as a word.
    is_named: bool,
    /// The year was written with two digits.
    is_short: bool,
    time: Option<String>,
    zone: Option<String>,
    is_bc: bool,
}

/// The same moment as `1997-02-10 17:32:01 PST BC`; `None` if it is not spelled in one of these ways.
pub(super) fn as_iso(text: &str) -> Option<String> {
    let mut spelled = Spelled::default();
    for word in text.split(|c: char| c.is_ascii_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        spelled.read(word)?;
    }
    spelled.shown()
}

impl Spelled {
    /// Takes a word; `None` if it fits nowhere.
    fn read(&mut self, word: &str) -> Option<()> {
        let first = word.chars().next()?;
        let lower = word.to_ascii_lowercase();
        match () {
            () if is_weekday(&lower) => Some(()),
            () if lower == "bc" => put(&mut self.is_bc, true),
            () if lower == "ad" => Some(()),
            () if lower == "am" || lower == "pm" => {
                let time = self.time.as_mut()?;
                *time = in_half(time, &lower)?;
                Some(())
            }
            () if first.is_ascii_digit() && word.contains(':') => self.clock(word),
            () if matches!(first, '+' | '-') && self.time.is_some() => fill(&mut self.zone, word.to_string()),
            () if first == 'J' || first == 'j' => match word[1..].parse() {
                Ok(julian) => self.julian(julian),
                Err(_) => self.named(word, &lower),
            },
            () if first.is_ascii_digit() => self.numbers(word),
            () => self.named(word, &lower),
        }
    }

    /// A month, a date that begins with one, a time behind a T, or a zone.
    fn named(&mut self, word: &str, lower: &str) -> Option<()> {
        if let Some(month) = month_of(lower) {
            return self.month(month);
        }
        if let Some((name, rest)) = lower.split_once(['-', '/', '.'])
            && let Some(month) = month_of(name)
        {
            self.month(month)?;
            return rest.split(['-', '/', '.']).try_for_each(|part| self.number(part));
        }
        match lower.strip_prefix('t') {
            Some(time) if self.day.is_some() && time.starts_with(|c: char| c.is_ascii_digit()) => {
                self.clock(time)
            }
            _ if self.day.is_some() || self.month.is_some() => fill(&mut self.zone, word.to_string()),
            _ => None,
        }
    }

    /// A month's name. What was taken for the month is the day then: 08 Jan 1999.
    fn month(&mut self, month: u32) -> Option<()> {
        if self.is_named || (self.month.is_some() && self.day.is_some()) {
            return None;
        }
        self.is_named = true;
        self.day = self.month.replace(month).or(self.day);
        Some(())
    }

    /// `17:32`, `5:32pm`, `173201.5`, with a zone behind it.
    fn clock(&mut self, word: &str) -> Option<()> {
        let end = word.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(word.len());
        let (clock, rest) = word.split_at(end);
        let digits = clock.find(|c: char| !c.is_ascii_digit()).unwrap_or(clock.len());
        let clock = match (clock.contains(':'), digits) {
            (true, _) => clock.to_string(),
            (false, 6) => format!("{}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]),
            (false, 4) => format!("{}:{}", &clock[..2], &clock[2..]),
            _ => return None,
        };
        let half = rest.to_ascii_lowercase();
        match half.as_str() {
            "" => fill(&mut self.time, clock),
            "am" | "pm" => fill(&mut self.time, in_half(&clock, &half)?),
            _ => {
                fill(&mut self.time, clock)?;
                fill(&mut self.zone, rest.to_string())
            }
        }
    }

    /// A word that begins with a digit.
    fn numbers(&mut self, word: &str) -> Option<()> {
        // 19970210T173201
        if let Some((date, time)) = word.split_once(['T', 't'])
            && date.bytes().all(|b| b.is_ascii_digit())
        {
            self.together(date)?;
            return self.clock(time);
        }
        let parts: Vec<&str> = word.split(['-', '/', '.']).collect();
        let has_day = self.day.is_some() && self.month.is_some() && self.year.is_some();
        match parts.as_slice() {
            [digits] if digits.len() > 5 && !has_day && self.month.is_none() => self.together(digits),
            [digits] if has_day && self.time.is_none() => self.clock(digits),
            [digits, _] if has_day && self.time.is_none() && digits.len() == 6 => self.clock(word),
            [number] => self.number(number),
            [year, day] if word.contains('.') && year.len() == 4 && day.len() == 3 => {
                let first = day_number(year.parse().ok()?, 1, 1)?;
                let of_year = day.parse::<i32>().ok().filter(|day| (1..=366).contains(day))?;
                self.whole(first + of_year - 1)
            }
            [_, _, _] => parts.iter().try_for_each(|part| match month_of(&part.to_ascii_lowercase()) {
                Some(month) => self.month(month),
                None => self.number(part),
            }),
            _ => None,
        }
    }

    /// `19990108` or `990108`.
    fn together(&mut self, digits: &str) -> Option<()> {
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = match digits.len() {
            8 => digits.split_at(4),
            6 => digits.split_at(2),
            _ => return None,
        };
        self.is_short = year.len() == 2;
        fill(&mut self.year, year.parse().ok()?)?;
        fill(&mut self.month, rest[..2].parse().ok()?)?;
        fill(&mut self.day, rest[2..].parse().ok()?)
    }

    /// One number of a date: a year if it has more than two digits, else the first of month, day and year that is missing.
    fn number(&mut self, digits: &str) -> Option<()> {
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        let small = u32::try_from(number).ok()?;
        match () {
            () if digits.len() > 2 => fill(&mut self.year, number),
            () if self.month.is_none() => fill(&mut self.month, small),
            () if self.day.is_none() => fill(&mut self.day, small),
            () => {
                self.is_short = true;
                fill(&mut self.year, number)
            }
        }
    }

    fn julian(&mut self, number: f64) -> Option<()> {
        /// The Julian day that is 2000-01-01.
        const OF_2000: f64 = 2_451_545.0;
        let day = number.floor() - OF_2000;
        let us = ((number - number.floor()) * 86_400e6) as i64;
        if us > 0 {
            let (hours, minutes) = (us / 3_600_000_000, us / 60_000_000 % 60);
            fill(&mut self.time, format!("{hours:02}:{minutes:02}:{}", us as f64 % 60e6 / 1e6))?;
        }
        (day.abs() < 1e9).then_some(())?;
        self.whole(day as i32)
    }

    fn whole(&mut self, day: i32) -> Option<()> {
        let (year, month, day) = civil(day);
        self.is_bc = year <= 0;
        fill(&mut self.year, if year <= 0 { 1 - year } else { year })?;
        fill(&mut self.month, month)?;
        fill(&mut self.day, day)
    }

    fn shown(self) -> Option<String> {
        let (year, month, day) = (self.year?, self.month?, self.day?);
        let year = match self.is_short && !self.is_bc {
            true if year < 70 => year + 2000,
            true => year + 1900,
            false => year,
        };
        let mut shown = format!("{year:04}-{month:02}-{day:02}");
        for part in [self.time, self.zone].into_iter().flatten() {
            shown.push(' ');
            shown.push_str(&part);
        }
        shown.push_str(if self.is_bc { " BC" } else { "" });
        Some(shown)
    }
}

fn fill<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.is_none().then(|| *place = Some(value))
}

fn put(place: &mut bool, value: bool) -> Option<()> {
    *place = value;
    Some(())
}

/// A time of the morning or the afternoon as one of 24 hours.
fn in_half(clock: &str, half: &str) -> Option<String> {
    let (hour, rest) = clock.split_at_checked(clock.find(':')?)?;
    let hour = hour.parse::<u32>().ok().filter(|hour| (1..=12).contains(hour))?;
    Some(format!("{:02}{rest}", hour % 12 + if half == "pm" { 12 } else { 0 }))
}

fn month_of(lower: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let is =
        |month: &&str| lower == *month || lower == &month[..3] || (lower == "sept" && *month == "september");
    MONTHS.iter().position(is).map(|at| at as u32 + 1)
}

fn is_weekday(lower: &str) -> bool {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    const SHORT: [&str; 5] = ["tues", "weds", "wednes", "thur", "thurs"];
    DAYS.iter().any(|day| lower == *day || lower == &day[..3]) || SHORT.contains(&lower)
}

#[cfg(test)]
mod tests {
    use super::as_iso;

    #[test]
    fn dates_are_read_as_postgresql_reads_them() {
        for (text, wanted) in [
            ("January 8, 1999", "1999-01-08"),
            ("1/18/1999", "1999-01-18"),
            ("01/02/03", "2003-01-02"),
            ("990108", "1999-01-08"),
            ("1999.008", "1999-01-08"),
            ("J2451187", "1999-01-08"),
            ("08-Jan-99", "1999-01-08"),
            ("Jan-08-1999", "1999-01-08"),
            ("1999 08 Jan", "1999-01-08"),
            ("08 Jan 1999", "1999-01-08"),
            ("01 08 99", "1999-01-08"),
            ("January 8, 99 BC", "0099-01-08 BC"),
            ("Mon Feb 10 17:32:01.5 1997 PST", "1997-02-10 17:32:01.5 PST"),
            ("Feb 10 5:32PM 1997", "1997-02-10 17:32"),
            ("Feb 16 17:32:01 0097 BC", "0097-02-16 17:32:01 BC"),
            ("19970210 173201 -0800", "1997-02-10 17:32:01 -0800"),
            ("20011227T040506.789+08", "2001-12-27 04:05:06.789 +08"),
            ("Wed Jul 11 10:51:14 America/New_York 2001", "2001-07-11 10:51:14 America/New_York"),
            ("12/27/2001 04:05:06.789-08", "2001-12-27 04:05:06.789 -08"),
        ] {
            assert_eq!(as_iso(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "x", "Jan", "Jan 8", "1999", "Jan Feb 1 1999", "1 2 3 4 5", "2026-1-x", "J", "J1e99"]
        {
            assert_eq!(as_iso(text), None, "{text}");
        }
    }
}
