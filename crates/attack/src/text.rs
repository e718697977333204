//! Bytes that are written compactly: a statement of 100,000 terms is one line of a corpus file.
//!
//! A [`Text`] is a list of pieces, each plain or repeated. In a file a backslash escapes: `\n`, `\t`, `\r`, `\\`,
//! `\x00` … `\xff`, and `\{5000 1 + \}` stands for `1 + ` five thousand times. In `\{#5000 c#,\}` each `#` is
//! replaced by the number of the repetition, from 0.
//! KEEPS: `Text::parse(&text.to_string()) == text`, and no line break in what is written.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Plain(Vec<u8>),
    Repeat {
        times: u32,
        unit: Vec<u8>,
        /// `#` in the unit is the number of the repetition.
        numbered: bool,
    },
}

/// What is sent, before repetitions are written out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub pieces: Vec<Piece>,
}

impl From<&str> for Text {
    fn from(plain: &str) -> Text {
        Text::default().then(plain)
    }
}
impl From<String> for Text {
    fn from(plain: String) -> Text {
        Text::default().then(plain)
    }
}
impl From<Vec<u8>> for Text {
    fn from(plain: Vec<u8>) -> Text {
        Text::default().then(plain)
    }
}

impl Text {
    pub fn then(mut self, plain: impl Into<Vec<u8>>) -> Text {
        let plain = plain.into();
        match self.pieces.last_mut() {
            _ if plain.is_empty() => {}
            Some(Piece::Plain(before)) => before.extend(plain),
            _ => self.pieces.push(Piece::Plain(plain)),
        }
        self
    }
    pub fn then_text(mut self, other: &Text) -> Text {
        for piece in &other.pieces {
            match piece {
                Piece::Plain(plain) => self = self.then(plain.clone()),
                repeat @ Piece::Repeat { .. } => self.pieces.push(repeat.clone()),
            }
        }
        self
    }
    pub fn repeat(mut self, times: u32, unit: impl Into<Vec<u8>>) -> Text {
        self.pieces.push(Piece::Repeat { times, unit: unit.into(), numbered: false });
        self
    }
    /// Each `#` in the unit becomes the number of the repetition.
    pub fn numbered(mut self, times: u32, unit: impl Into<Vec<u8>>) -> Text {
        self.pieces.push(Piece::Repeat { times, unit: unit.into(), numbered: true });
        self
    }

    /// All bytes, repetitions written out.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(plain) => out.extend_from_slice(plain),
                Piece::Repeat { times, unit, numbered: false } => {
                    out.extend_from_slice(&unit.repeat(*times as usize));
                }
                Piece::Repeat { times, unit, numbered: true } => {
                    for n in 0..*times {
                        let number = n.to_string();
                        unit.iter().for_each(|&b| match b {
                            b'#' => out.extend_from_slice(number.as_bytes()),
                            b => out.push(b),
                        });
                    }
                }
            }
        }
        out
    }

    /// The largest number of repetitions, 0 without any.
    pub fn times_max(&self) -> u32 {
        self.pieces
            .iter()
            .map(|p| match p {
                Piece::Repeat { times, .. } => *times,
                Piece::Plain(_) => 0,
            })
            .max()
            .unwrap_or(0)
    }

    /// The same with every repetition scaled down from `from` to `to` times; one at least.
    pub fn scaled(&self, from: u32, to: u32) -> Text {
        let scale = |times: u32| (u64::from(times) * u64::from(to)).div_ceil(u64::from(from)).max(1) as u32;
        let pieces = self.pieces.iter().map(|p| match p {
            Piece::Repeat { times, unit, numbered } => {
                Piece::Repeat { times: scale(*times), unit: unit.clone(), numbered: *numbered }
            }
            plain @ Piece::Plain(_) => plain.clone(),
        });
        Text { pieces: pieces.collect() }
    }

    /// Reads what [`fmt::Display`] writes. Errors: what is wrong, and where.
    pub fn parse(written: &str) -> Result<Text, String> {
        let mut text = Text::default();
        let mut plain: Vec<u8> = Vec::new();
        // The repetition that is open, with what came before it.
        let mut open: Option<(u32, bool)> = None;
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c != '\\' {
                plain.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            let escaped = rest.chars().next().ok_or("a backslash at the end")?;
            rest = &rest[escaped.len_utf8()..];
            match escaped {
                '\\' => plain.push(b'\\'),
                'n' => plain.push(b'\n'),
                'r' => plain.push(b'\r'),
                't' => plain.push(b'\t'),
                'x' => {
                    let digits = rest.get(..2).ok_or("\\x needs two digits")?;
                    plain.push(u8::from_str_radix(digits, 16).map_err(|e| format!("\\x{digits}: {e}"))?);
                    rest = &rest[2..];
                }
                '{' if open.is_none() => {
                    text = text.then(std::mem::take(&mut plain));
                    let (head, unit) = rest.split_once(' ').ok_or("\\{ needs a number and a space")?;
                    let numbered = head.starts_with('#');
                    let times =
                        head.trim_start_matches('#').parse().map_err(|e| format!("\\{{{head}: {e}"))?;
                    open = Some((times, numbered));
                    rest = unit;
                }
                '}' => {
                    let (times, numbered) = open.take().ok_or("\\} without \\{")?;
                    let unit = std::mem::take(&mut plain);
                    text.pieces.push(Piece::Repeat { times, unit, numbered });
                }
                other => return Err(format!("\\{other} means nothing here")),
            }
        }
        if open.is_some() {
            return Err("\\{ without \\}".into());
        }
        Ok(text.then(plain))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Plain(plain) => write_escaped(f, plain)?,
                Piece::Repeat { times, unit, numbered } => {
                    write!(f, "\\{{{}{times} ", if *numbered { "#" } else { "" })?;
                    write_escaped(f, unit)?;
                    f.write_str("\\}")?;
                }
            }
        }
        Ok(())
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                // Control characters, and whatever an editor may hide or normalise.
                c if c.is_control() || (!c.is_ascii() && !c.is_alphanumeric()) => {
                    for b in c.encode_utf8(&mut [0; 4]).bytes() {
                        write!(f, "\\x{b:02x}")?;
                    }
                }
                c => write!(f, "{c}")?,
            }
        }
        for b in chunk.invalid() {
            write!(f, "\\x{b:02x}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        let text = Text::from(all).repeat(3, "(\n").then("é\u{202e} \\{").numbered(7, "c#,").then(" x");
        let written = text.to_string();
        assert!(!written.contains('\n'));
        assert_eq!(Text::parse(&written).unwrap(), text);
    }

    #[test]
    fn repetitions_are_written_out_numbered_and_scaled() {
        let text = Text::from("select ").repeat(4, "(").then("1").repeat(4, ")").numbered(2, ",#");
        assert_eq!(text.bytes(), b"select ((((1)))),0,1");
        assert_eq!(text.times_max(), 4);
        assert_eq!(text.scaled(4, 2).bytes(), b"select ((1)),0");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for wrong in ["\\", "\\q", "\\x0", "\\xzz", "\\{3", "\\{x y\\}", "\\{3 a", "a\\}"] {
            assert!(Text::parse(wrong).is_err(), "{wrong}");
        }
    }
}
