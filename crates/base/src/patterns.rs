//! Patterns as PostgreSQL reads them ("advanced regular expressions"), in the syntax of the library.
//!
//! Of several alternatives the library takes the first that matches, PostgreSQL the longest. Look-around and back references
//! are refused.

mod errors;

pub use errors::refused;

use crate::error::{SqlError, SqlResult, SqlState};
use regex_automata::meta::Regex;

/// How a pattern is read, as flags say: `'gi'`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// All matches rather than the first.
    pub is_global: bool,
    pub ignores_case: bool,
    /// White space and comments in a pattern mean nothing.
    is_expanded: bool,
    /// Every character is itself.
    is_literal: bool,
    /// Neither `.` nor `[^…]` matches the end of a line.
    stops_at_lines: bool,
    /// `^` and `$` match at lines too.
    has_lines: bool,
}

impl Flags {
    /// Errors: 22023 for a letter that is no flag, 0A000 for basic expressions.
    pub fn read(text: &str) -> SqlResult<Flags> {
        let mut flags = Flags::default();
        text.chars().try_for_each(|letter| flags.add(letter))?;
        Ok(flags)
    }

    /// As XQuery has them, whose `.` stops at lines unless it is told not to.
    pub fn of_xquery(letters: &str) -> Flags {
        let has = |letter| letters.contains(letter);
        Flags {
            ignores_case: has('i'),
            is_literal: has('q'),
            stops_at_lines: !has('q') && !has('s'),
            has_lines: !has('q') && has('m'),
            ..Flags::default()
        }
    }

    fn add(&mut self, letter: char) -> SqlResult<()> {
        match letter {
            'g' => self.is_global = true,
            'i' => self.ignores_case = true,
            'c' => self.ignores_case = false,
            'n' | 'm' => (self.stops_at_lines, self.has_lines) = (true, true),
            'p' => (self.stops_at_lines, self.has_lines) = (true, false),
            'w' => (self.stops_at_lines, self.has_lines) = (false, true),
            's' => (self.stops_at_lines, self.has_lines) = (false, false),
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'q' => self.is_literal = true,
            'e' => {}
            'b' => return Err(SqlError::unsupported("basic regular expressions")),
            other => {
                let told = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, told));
            }
        }
        Ok(())
    }
}

fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState(*b"2201B"), format!("invalid regular expression: {what}"))
}

/// A pattern in the library's syntax. Errors: 2201B, 0A000.
pub fn translated(pattern: &str, flags: Flags) -> SqlResult<String> {
    let mut flags = flags;
    let mut rest = pattern;
    if let Some(literal) = rest.strip_prefix("***=") {
        (rest, flags.is_literal) = (literal, true);
    } else {
        rest = rest.strip_prefix("***:").unwrap_or(rest);
        rest = options(rest, &mut flags)?;
    }
    let mut made = String::with_capacity(rest.len() + 4);
    match flags.is_literal {
        true => rest.chars().for_each(|c| literal(&mut made, c)),
        false => Translation { rest: rest.chars().peekable(), made: &mut made, flags }.run()?,
    }
    let is_dotted = made.contains('.') && !flags.is_literal && !flags.stops_at_lines;
    let letters = [
        (is_dotted, 's'),
        (flags.ignores_case, 'i'),
        (flags.has_lines, 'm'),
        (flags.is_expanded && !flags.is_literal, 'x'),
    ];
    let letters: String = letters.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
    Ok(if letters.is_empty() { made } else { format!("(?{letters}){made}") })
}

/// A pattern made ready. Errors: 2201B, 0A000.
pub fn compiled(pattern: &str, flags: Flags) -> SqlResult<Regex> {
    Regex::new(&translated(pattern, flags)?).map_err(|error| {
        let said = error.syntax_error().map_or("CompiledTooBig".to_string(), |e| e.to_string());
        refused(&said).unwrap_or_else(|| SqlError::new(SqlState(*b"2201B"), said))
    })
}

/// What stands behind options at the beginning of a pattern: `(?i)`.
fn options<'p>(pattern: &'p str, flags: &mut Flags) -> SqlResult<&'p str> {
    let Some((letters, rest)) = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')')) else {
        return Ok(pattern);
    };
    if letters.is_empty() || !letters.chars().all(|c| c.is_ascii_lowercase()) {
        return Ok(pattern);
    }
    for letter in letters.chars() {
        flags.add(letter).map_err(|_| invalid("invalid embedded option"))?;
    }
    Ok(rest)
}

/// A character that means itself.
fn literal(made: &mut String, c: char) {
    match c {
        c if c.is_whitespace() || c.is_control() => made.push_str(&format!("\\x{{{:x}}}", u32::from(c))),
        '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' | '#' | '&'
        | '-' | '~' => made.extend(['\\', c]),
        c => made.push(c),
    }
}

/// Most repetitions that a bound can ask for.
const REPEATED_MAX: u64 = 255;

/// How often what stands before can be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    Not,
    Greedily,
    Lazily,
}

struct Translation<'p, 'm> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    made: &'m mut String,
    flags: Flags,
}

impl Translation<'_, '_> {
    fn run(&mut self) -> SqlResult<()> {
        let mut before = Repeated::Not;
        while let Some(c) = self.rest.next() {
            let is_bound = c == '{' && self.rest.peek().is_some_and(char::is_ascii_digit);
            before = match (before, c) {
                (Repeated::Greedily, '?') => Repeated::Lazily,
                (Repeated::Not, '*' | '+' | '?') => Repeated::Greedily,
                (Repeated::Not, '{') if is_bound => Repeated::Greedily,
                (_, '*' | '+' | '?') => return Err(invalid("quantifier operand invalid")),
                (_, '{') if is_bound => return Err(invalid("quantifier operand invalid")),
                _ => Repeated::Not,
            };
            match c {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '{' if !is_bound => self.made.push_str("\\{"),
                '{' => {
                    let mut counts = String::new();
                    while let Some(c) = self.rest.next_if(|c| *c != '}') {
                        counts.push(c);
                    }
                    let is_too_often =
                        |n: &str| !n.is_empty() && n.parse().is_ok_and(|n: u64| n > REPEATED_MAX);
                    if counts.split(',').any(is_too_often) {
                        return Err(invalid("invalid repetition count(s)"));
                    }
                    self.made.extend(["{", &counts]);
                    self.made.extend(self.rest.next());
                }
                '}' => self.made.push_str("\\}"),
                '(' if self.rest.peek() == Some(&'?') => self.group()?,
                c => self.made.push(c),
            }
        }
        Ok(())
    }

    /// What begins with `(?`.
    fn group(&mut self) -> SqlResult<()> {
        self.rest.next();
        match self.rest.next() {
            Some(':') => self.made.push_str("(?:"),
            Some('#') => while self.rest.next().is_some_and(|c| c != ')') {},
            Some('=' | '!' | '<') => {
                return Err(SqlError::unsupported("look-around in regular expressions"));
            }
            _ => return Err(invalid("quantifier operand invalid")),
        }
        Ok(())
    }

    /// What stands behind a backslash.
    fn escape(&mut self, in_class: bool) -> SqlResult<()> {
        let wrong = || invalid("invalid escape \\ sequence");
        let c = self.rest.next().ok_or_else(wrong)?;
        let code = |made: &mut String, code: u32| match char::from_u32(code) {
            Some(c) => {
                literal(made, c);
                Ok(())
            }
            None => Err(wrong()),
        };
        match c {
            'm' if !in_class => self.made.push_str("\\b{start}"),
            'M' if !in_class => self.made.push_str("\\b{end}"),
            'y' if !in_class => self.made.push_str("\\b"),
            'Y' if !in_class => self.made.push_str("\\B"),
            'A' if !in_class => self.made.push_str("\\A"),
            'Z' if !in_class => self.made.push_str("\\z"),
            'd' | 'w' | 's' | 'D' | 'W' | 'S' | 'f' | 'n' | 'r' | 't' | 'v' => self.made.extend(['\\', c]),
            'a' => self.made.push_str("\\x07"),
            'b' => self.made.push_str("\\x08"),
            'B' => self.made.push_str("\\\\"),
            'e' => self.made.push_str("\\x1b"),
            'c' => {
                let c = self.rest.next().ok_or_else(wrong)?;
                code(self.made, u32::from(c) & 0x1f)?;
            }
            'u' | 'U' | 'x' => {
                let (least, most) = match c {
                    'u' => (4, 4),
                    'U' => (8, 8),
                    _ => (1, 8),
                };
                let number = self.digits(16, least, most).ok_or_else(wrong)?;
                code(self.made, number)?;
            }
            '0' => {
                let number = self.digits(8, 0, 2).ok_or_else(wrong)?;
                code(self.made, number)?;
            }
            '1'..='9' => return Err(SqlError::unsupported("a back reference in a regular expression")),
            c if c.is_alphanumeric() => return Err(wrong()),
            c => literal(self.made, c),
        }
        Ok(())
    }

    fn digits(&mut self, radix: u32, least: usize, most: usize) -> Option<u32> {
        let mut digits = String::new();
        while digits.len() < most
            && let Some(digit) = self.rest.next_if(|c| c.is_digit(radix))
        {
            digits.push(digit);
        }
        match digits.len() {
            count if count < least => None,
            0 => Some(0),
            _ => u32::from_str_radix(&digits, radix).ok(),
        }
    }

    /// What stands in brackets.
    fn class(&mut self) -> SqlResult<()> {
        let unclosed = || invalid("brackets [] not balanced");
        let mut ahead = self.rest.clone();
        let head: String = ahead.by_ref().take(6).collect();
        for (word, edge) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
            if head == word {
                self.made.push_str(edge);
                self.rest = ahead;
                return Ok(());
            }
        }
        self.made.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.made.push('^');
            if self.flags.stops_at_lines {
                self.made.push_str("\\n");
            }
        }
        let mut is_first = true;
        loop {
            let c = self.rest.next().ok_or_else(unclosed)?;
            match c {
                ']' if !is_first => break,
                '[' if matches!(self.rest.peek(), Some(':' | '.' | '=')) => self.named_in_class()?,
                '\\' => self.escape(true)?,
                // One between two others is a range.
                '-' if self.rest.peek() != Some(&'-') && !self.made.ends_with('-') => self.made.push('-'),
                c => literal(self.made, c),
            }
            is_first = false;
        }
        self.made.push(']');
        Ok(())
    }

    /// `[:alpha:]`, `[.x.]`, `[=x=]` inside brackets.
    fn named_in_class(&mut self) -> SqlResult<()> {
        let kind = self.rest.next().unwrap_or_default();
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some(c) if c == kind && self.rest.next_if_eq(&']').is_some() => break,
                Some(c) => name.push(c),
                None => return Err(invalid("brackets [] not balanced")),
            }
        }
        let mut characters = name.chars();
        match (kind, characters.next(), characters.next()) {
            (':', ..) => self.made.push_str(&format!("[:{name}:]")),
            (_, Some(c), None) => literal(self.made, c),
            _ => return Err(invalid("invalid collating element")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pattern: &str, flags: &str) -> String {
        translated(pattern, Flags::read(flags).unwrap()).unwrap()
    }

    #[test]
    fn a_pattern_means_what_it_means_in_postgresql() {
        for (pattern, flags, wanted) in [
            ("^ab+c$", "", "^ab+c$"),
            ("a.c", "", "(?s)a.c"),
            ("a.c", "n", "(?m)a.c"),
            ("a.c", "p", "a.c"),
            ("[^a]", "n", "(?m)[^\\na]"),
            ("\\mword\\M", "", "\\b{start}word\\b{end}"),
            ("[[:<:]]word[[:>:]]", "", "\\b{start}word\\b{end}"),
            ("a\\yb\\Z", "", "a\\bb\\z"),
            ("a\\bb", "", "a\\x08b"),
            ("\\<\\>é", "", "<>é"),
            ("a{2,3}b{x}", "", "a{2,3}b\\{x\\}"),
            ("[]a[&&b--c~]", "", "[\\]a\\[\\&\\&b\\-\\-c\\~]"),
            ("[[:alpha:]0-9_]", "", "[[:alpha:]0-9_]"),
            ("[[.-.][=x=]]", "", "[\\-x]"),
            ("a.b*", "q", "a\\.b\\*"),
            ("***=a.b", "", "a\\.b"),
            ("(?i)ab", "", "(?i)ab"),
            ("(?#note)a(?:b)", "", "a(?:b)"),
            ("\\u0041\\x42\\0", "", "AB\\x{0}"),
            ("a b", "x", "(?x)a b"),
            ("a*?b{2}?c??", "", "a*?b{2}?c??"),
        ] {
            assert_eq!(made(pattern, flags), wanted, "{pattern} {flags}");
            regex_automata::meta::Regex::new(wanted).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for (pattern, state) in [
            ("(a)\\1", SqlState::FEATURE_NOT_SUPPORTED),
            ("a(?=b)", SqlState::FEATURE_NOT_SUPPORTED),
            ("\\q", SqlState(*b"2201B")),
            ("a**", SqlState(*b"2201B")),
            ("a{2}{3}", SqlState(*b"2201B")),
            ("a\\", SqlState(*b"2201B")),
            ("[a", SqlState(*b"2201B")),
            ("[[.ab.]]", SqlState(*b"2201B")),
        ] {
            assert_eq!(translated(pattern, Flags::default()).unwrap_err().state, state, "{pattern}");
        }
        assert_eq!(Flags::read("z").unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
    }
}
