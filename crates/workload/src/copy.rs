//! Rows as `COPY … FROM STDIN` wants them: PostgreSQL's text format.

use base::Datum;
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

fn write_value(out: &mut String, value: &Datum) {
    match value {
        Datum::Null => out.push_str("\\N"),
        // The common kinds without a string in between.
        Datum::Int(i) => write!(out, "{i}").expect("strings grow"),
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
        Datum::Bytes(_) => {
            out.push('\\');
            out.push_str(&base::text::display(value));
        }
        other => out.push_str(&base::text::display(other)),
    }
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
            "\\N\tt\t-3\t-0.05\ta\\tb\\\\c\\n\t2000-01-01 00:00:00\t1999-12-31 23:59:59.999999\t\\\\xab\n"
        );
    }
}
