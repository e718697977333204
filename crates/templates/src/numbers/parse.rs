//! From a text to a template of numbers.

use super::{Anchor, DIGITS_MAX, Item, Template};
use crate::Case;
use base::error::SqlResult;
use base::{SqlError, SqlState};

/// What a template says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Nine,
    Zero,
    Point,
    Group,
    Blank,
    Currency,
    Exponent,
    Fill,
    Minus,
    Plus,
    Brackets,
    Roman(Case),
    Anchor,
    Sign,
    Ordinal(Case),
    Shift,
}

/// How it is spelled; either in capitals or in small letters.
const WORDS: [(&str, Word); 18] = [
    ("EEEE", Word::Exponent),
    ("FM", Word::Fill),
    ("MI", Word::Minus),
    ("PL", Word::Plus),
    ("PR", Word::Brackets),
    ("SG", Word::Sign),
    ("RN", Word::Roman(Case::Upper)),
    ("TH", Word::Ordinal(Case::Upper)),
    ("9", Word::Nine),
    ("0", Word::Zero),
    (".", Word::Point),
    ("D", Word::Point),
    (",", Word::Group),
    ("G", Word::Group),
    ("L", Word::Currency),
    ("S", Word::Anchor),
    ("V", Word::Shift),
    ("B", Word::Blank),
];

fn next_word(text: &str) -> Option<(usize, Word)> {
    WORDS.iter().find_map(|(spelled, word)| {
        let begin = text.get(..spelled.len())?;
        if begin == *spelled {
            return Some((spelled.len(), *word));
        }
        (begin == spelled.to_lowercase()).then(|| {
            let word = match word {
                Word::Roman(_) => Word::Roman(Case::Lower),
                Word::Ordinal(_) => Word::Ordinal(Case::Lower),
                other => *other,
            };
            (spelled.len(), word)
        })
    })
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl Template {
    /// Errors: 42601 for words that contradict each other.
    pub fn parse(text: &str) -> SqlResult<Template> {
        let mut template = Template::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some((length, word)) = next_word(rest) {
                template.take(word)?;
                rest = &rest[length..];
            } else if c == '"' {
                let (quoted, behind) = crate::moments::quoted(&rest[1..]);
                template.items.push(Item::Text(quoted));
                rest = behind;
            } else {
                let skipped = usize::from(rest.starts_with("\\\""));
                let character = rest[skipped..].chars().next().unwrap_or(c);
                template.items.push(Item::Text(character.to_string()));
                rest = &rest[skipped + character.len_utf8()..];
            }
        }
        // Behind the whole digits it is behind all.
        if template.anchor == Some(Anchor::Before) && template.anchored_at == template.whole {
            template.anchor = Some(Anchor::After);
        }
        if template.digits_so_far() > DIGITS_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a template of a number has at most {DIGITS_MAX} digits"),
            ));
        }
        Ok(template)
    }

    fn has_any(&self, items: &[Item]) -> bool {
        self.items.iter().any(|item| items.contains(item))
    }

    fn digits_so_far(&self) -> usize {
        self.whole + self.fraction
    }

    fn take(&mut self, word: Word) -> SqlResult<()> {
        const SIGNS: [Item; 3] = [Item::Plus, Item::Minus, Item::Sign];
        if self.has_exponent && word != Word::Exponent {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        match word {
            Word::Nine | Word::Zero => return self.digit(word == Word::Zero),
            Word::Point => {
                if self.has_point {
                    return Err(wrong("multiple decimal points"));
                }
                if self.is_shifted {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
                self.items.push(Item::Point);
            }
            Word::Group => self.items.push(Item::Group),
            Word::Blank => {}
            Word::Currency => self.items.push(Item::Currency),
            Word::Fill => self.is_filled = true,
            Word::Brackets => {
                if self.anchor.is_some() || self.has_any(&SIGNS) {
                    return Err(wrong("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.has_brackets = true;
            }
            Word::Minus | Word::Plus | Word::Sign => {
                let (item, name) = match word {
                    Word::Minus => (Item::Minus, "MI"),
                    Word::Plus => (Item::Plus, "PL"),
                    _ => (Item::Sign, "SG"),
                };
                if self.anchor.is_some() {
                    return Err(wrong(&format!("cannot use \"S\" and \"{name}\" together")));
                }
                self.items.push(item);
            }
            Word::Anchor => {
                if self.anchor.is_some() {
                    return Err(wrong("cannot use \"S\" twice"));
                }
                if self.has_any(&SIGNS) || self.has_brackets {
                    return Err(wrong("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                self.anchor = Some(if self.has_point { Anchor::After } else { Anchor::Before });
                self.anchored_at = self.whole - self.shift;
            }
            Word::Roman(case) => self.items.push(Item::Roman(case)),
            Word::Ordinal(case) => self.items.push(Item::Ordinal(case)),
            Word::Shift => {
                if self.has_point {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.is_shifted = true;
            }
            Word::Exponent => self.exponent(&SIGNS)?,
        }
        Ok(())
    }

    fn exponent(&mut self, signs: &[Item]) -> SqlResult<()> {
        if self.has_exponent {
            return Err(wrong("cannot use \"EEEE\" twice"));
        }
        let has_others = self.is_filled
            || self.anchor.is_some()
            || self.has_brackets
            || self.is_shifted
            || self.has_any(&[Item::Roman(Case::Upper), Item::Roman(Case::Lower)])
            || self.has_any(signs);
        if has_others {
            return Err(wrong("\"EEEE\" is incompatible with other formats")
                .detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
        }
        self.has_exponent = true;
        Ok(())
    }

    fn digit(&mut self, is_zero: bool) -> SqlResult<()> {
        if self.has_brackets {
            return Err(wrong(&format!("\"{}\" must be ahead of \"PR\"", if is_zero { '0' } else { '9' })));
        }
        if is_zero {
            if !self.has_point && self.first_zero.is_none() {
                self.first_zero = Some(self.whole - self.shift);
            }
            self.last_zero = Some(self.digits_so_far() - self.shift);
        }
        if self.has_point {
            self.fraction += 1;
        } else {
            self.whole += 1;
            self.shift += usize::from(self.is_shifted && !is_zero);
        }
        self.items.push(Item::Digit { is_zero });
        Ok(())
    }
}
