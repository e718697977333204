//! Templates: how PostgreSQL writes and reads moments, intervals and numbers by a pattern (`to_char`, `to_date`,
//! `to_timestamp`, `to_number`).
//!
//! IN: a template such as `YYYY-MM-DD HH24:MI` or `FM999,990.00`, and a value or a text. OUT: the text or the value, as
//! PostgreSQL 15 has them in the C locale and in UTC. KEEPS: any template is a template and any value can be written with
//! it; what cannot be is refused with PostgreSQL's SQLSTATE. A text takes at most a constant times the template's length.
//!
//! [`moments`]: a [`moments::Template`] is a list of fields, which [`moments::Template::write`] fills in and
//! [`moments::Template::read`] takes apart. [`numbers`]: a [`numbers::Template`] counts its digits when it is parsed, and a
//! number is laid out over them.

pub mod moments;
pub mod numbers;

/// Letters of what is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    Upper,
    Lower,
    /// The first letter is a capital.
    Title,
}

impl Case {
    /// A name, given in title case.
    fn apply(self, name: &str) -> String {
        match self {
            Case::Upper => name.to_uppercase(),
            Case::Lower => name.to_lowercase(),
            Case::Title => name.to_string(),
        }
    }
}

/// `st`, `nd`, `rd` or `th` for a number's digits.
pub(crate) fn ordinal(digits: &str, case: Case) -> &'static str {
    let mut last = digits.bytes().rev();
    let (ones, tens) = (last.next(), last.next());
    let endings = match (tens, ones) {
        (Some(b'1'), _) => ["TH", "th"],
        (_, Some(b'1')) => ["ST", "st"],
        (_, Some(b'2')) => ["ND", "nd"],
        (_, Some(b'3')) => ["RD", "rd"],
        _ => ["TH", "th"],
    };
    endings[usize::from(case == Case::Lower)]
}

const ROMAN: [(u32, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// A number in Roman numerals.
pub(crate) fn roman(mut number: u32) -> String {
    let mut out = String::new();
    for (value, letters) in ROMAN {
        while number >= value {
            out.push_str(letters);
            number -= value;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_have_names() {
        let ordinals: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 111, 122]
            .iter()
            .map(|n| format!("{n}{}", ordinal(&n.to_string(), Case::Lower)))
            .collect();
        assert_eq!(ordinals.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 111th 122nd");
        assert_eq!((roman(1994).as_str(), roman(3888).as_str()), ("MCMXCIV", "MMMDCCCLXXXVIII"));
    }
}
