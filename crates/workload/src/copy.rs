//! Rows as `COPY … FROM STDIN` wants them: PostgreSQL's text format.

use base::Datum;
use base::datum::US_PER_DAY;
use std::fmt::Write;

/// Appends one row and its line end.
pub fn write_row(out: &mut String, row: &[Datum]) {
    for (i, value) in row.iter().enumerate() {
        if i > 0 {
            out.push('\t');
        }
        write_value(out, value);
    }
    out.push('\n');
}

/// Collects rows into pieces of about `piece_bytes` each.
pub fn pieces(rows: impl Iterator<Item = Vec<Datum>>, piece_bytes: usize) -> impl Iterator<Item = Piece> {
    let mut rows = rows.peekable();
    std::iter::from_fn(move || {
        rows.peek()?;
        let mut piece = Piece { text: String::with_capacity(piece_bytes + 1024), rows: 0 };
        while piece.text.len() < piece_bytes
            && let Some(row) = rows.next()
        {
            write_row(&mut piece.text, &row);
            piece.rows += 1;
        }
        Some(piece)
    })
}

/// A few rows in COPY's text format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub text: String,
    pub rows: u64,
}

fn write_value(out: &mut String, value: &Datum) {
    match value {
        Datum::Null => out.push_str("\\N"),
        Datum::Bool(b) => out.push(if *b { 't' } else { 'f' }),
        Datum::Int(i) => write!(out, "{i}").expect("strings grow"),
        Datum::Float(f) => write!(out, "{f}").expect("strings grow"),
        Datum::Decimal(d) => write!(out, "{d}").expect("strings grow"),
        Datum::Text(s) => {
            for c in s.chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    '\t' => out.push_str("\\t"),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    c => out.push(c),
                }
            }
        }
        Datum::Date(days) => write_date(out, i64::from(*days)),
        Datum::Timestamp(us) => {
            write_date(out, us.div_euclid(US_PER_DAY));
            let us = us.rem_euclid(US_PER_DAY);
            let seconds = us / 1_000_000;
            let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            write!(out, " {hour:02}:{minute:02}:{second:02}.{:06}", us % 1_000_000).expect("strings grow");
        }
        Datum::Uuid(bytes) => {
            for (i, byte) in bytes.iter().enumerate() {
                let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
                write!(out, "{dash}{byte:02x}").expect("strings grow");
            }
        }
        Datum::Bytes(bytes) => {
            out.push_str("\\\\x");
            bytes.iter().for_each(|byte| write!(out, "{byte:02x}").expect("strings grow"));
        }
    }
}

/// Writes the day `days` after 2000-01-01 as year-month-day; years 1 to 9999.
fn write_date(out: &mut String, days: i64) {
    // Years that begin in March make the leap day the last one; 400 of them have 146,097 days.
    let since_era = days + 730_425; // from 0000-03-01
    let (era, day) = (since_era.div_euclid(146_097), since_era.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    write!(out, "{year:04}-{month:02}-{day:02}").expect("strings grow");
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::decimal::Decimal;

    #[test]
    fn every_kind_has_its_text() {
        let mut out = String::new();
        write_row(
            &mut out,
            &[
                Datum::Null,
                Datum::Bool(true),
                Datum::Int(-3),
                Datum::Decimal(Decimal::new(-5, 2)),
                Datum::text("a\tb\\c\n"),
                Datum::Timestamp(0),
                Datum::Timestamp(-1),
                Datum::Bytes([0xAB][..].into()),
            ],
        );
        assert_eq!(
            out,
            "\\N\tt\t-3\t-0.05\ta\\tb\\\\c\\n\t2000-01-01 00:00:00.000000\t1999-12-31 23:59:59.999999\t\\\\xab\n"
        );
    }

    #[test]
    fn dates_cross_leap_days_and_centuries() {
        let dates = [(-1, "1999-12-31"), (59, "2000-02-29"), (60, "2000-03-01"), (366, "2001-01-01")];
        let later =
            [(36_583, "2100-02-28"), (36_584, "2100-03-01"), (9_821, "2026-11-21"), (-10_957, "1970-01-01")];
        for (days, text) in dates.into_iter().chain(later) {
            let mut out = String::new();
            write_date(&mut out, days);
            assert_eq!(out, text, "day {days}");
        }
    }

    #[test]
    fn pieces_hold_every_row_once() {
        let rows = (0..100).map(|i| vec![Datum::Int(i)]);
        let all: Vec<Piece> = pieces(rows, 20).collect();
        assert!(all.len() > 5 && all.iter().all(|piece| piece.rows > 0));
        let text: String = all.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(text.lines().count(), 100);
        assert_eq!(all.iter().map(|piece| piece.rows).sum::<u64>(), 100);
    }
}
