//! Text to words, texts, numbers and signs, each with its place.
//!
//! KEEPS: reading takes time linear in the length of the text.

use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::identifier::cut;

/// What stands at a place. What is not needed again is read from the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// Folded to small letters.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// The value of a string.
    Text(String),
    Number,
    /// `$1`.
    Parameter,
    Sign,
}

#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub token: Token,
    pub start: usize,
    pub end: usize,
    /// From 1.
    pub line: u32,
}

/// Signs of several characters that matter.
const SIGNS: [&str; 11] = [":=", "<<", ">>", "..", "=>", "<=", ">=", "<>", "!=", "::", "||"];

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

/// The lexemes of a text, without blanks and comments. Errors: 42601 for what is not closed.
pub(crate) fn lexemes(text: &str) -> SqlResult<Vec<Lexeme>> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut all = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let (start, line) = (lexer.at, lexer.line);
        let Some(token) = lexer.next()? else { return Ok(all) };
        all.push(Lexeme { token, start, end: lexer.at, line });
    }
}

fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_in_word(c: char) -> bool {
    begins_word(c) || c.is_ascii_digit() || c == '$'
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let taken = &self.text[self.at..self.at + bytes];
        self.line += taken.bytes().filter(|b| *b == b'\n').count() as u32;
        self.at += bytes;
        taken
    }

    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !holds(c)).unwrap_or(rest.len());
        self.take(length)
    }

    fn unterminated(&self, what: &str, line: u32) -> SqlError {
        SqlError::new(SqlState::SYNTAX_ERROR, format!("unterminated {what}"))
            .context(format!("line {line} of the PL/pgSQL text"))
    }

    fn skip_blanks(&mut self) -> SqlResult<()> {
        loop {
            self.take_while(|c| c.is_ascii_whitespace() || c == '\u{b}');
            if self.rest().starts_with("--") {
                self.take_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Comments contain comments.
    fn skip_comment(&mut self) -> SqlResult<()> {
        let line = self.line;
        let bytes = self.text.as_bytes();
        let (mut depth, mut at) = (0usize, self.at);
        loop {
            match bytes.get(at..at + 2) {
                Some(b"/*") => (depth, at) = (depth + 1, at + 2),
                Some(b"*/") => (depth, at) = (depth - 1, at + 2),
                Some(_) => at += 1,
                None => return Err(self.unterminated("/* comment", line)),
            }
            if depth == 0 {
                self.take(at - self.at);
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> SqlResult<Option<Token>> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let quoted =
            |prefix: &str| rest.len() > prefix.len() && rest[..prefix.len()].eq_ignore_ascii_case(prefix);
        let token = match first {
            '\'' => Token::Text(self.quoted('\'', "quoted string")?),
            '"' => Token::Quoted(cut(&self.quoted('"', "quoted identifier")?).to_string()),
            'e' | 'E' if quoted("e") && rest[1..].starts_with('\'') => {
                self.take(1);
                Token::Text(self.escaped()?)
            }
            '$' => self.dollar()?,
            c if begins_word(c) => Token::Word(cut(&self.take_while(is_in_word).to_lowercase()).to_string()),
            c if c.is_ascii_digit() => self.number(),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            c => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                self.take(sign.map_or(c.len_utf8(), |sign| sign.len()));
                Token::Sign
            }
        };
        Ok(Some(token))
    }

    /// What stands in quotes, which are doubled inside.
    fn quoted(&mut self, quote: char, what: &str) -> SqlResult<String> {
        let line = self.line;
        self.take(1);
        let mut value = String::new();
        loop {
            value.push_str(self.take_while(|c| c != quote));
            if self.rest().is_empty() {
                return Err(self.unterminated(what, line));
            }
            self.take(1);
            if !self.rest().starts_with(quote) {
                return Ok(value);
            }
            value.push(quote);
            self.take(1);
        }
    }

    /// The rest of `E'…'`.
    fn escaped(&mut self) -> SqlResult<String> {
        let line = self.line;
        self.take(1);
        let mut value = String::new();
        loop {
            value.push_str(self.take_while(|c| c != '\'' && c != '\\'));
            let rest = self.rest();
            if let Some(behind) = rest.strip_prefix('\\') {
                let Some(c) = behind.chars().next() else { break };
                self.take(1 + c.len_utf8());
                value.push(match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => self.code_point(4),
                    'U' => self.code_point(8),
                    'x' => self.code_point(2),
                    other => other,
                });
            } else if rest.starts_with("''") {
                value.push('\'');
                self.take(2);
            } else if rest.is_empty() {
                break;
            } else {
                self.take(1);
                return Ok(value);
            }
        }
        Err(self.unterminated("quoted string", line))
    }

    fn code_point(&mut self, digits_max: usize) -> char {
        let digits = self.rest().bytes().take(digits_max).take_while(u8::is_ascii_hexdigit).count();
        let code = u32::from_str_radix(self.take(digits), 16).ok();
        code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// `$1`, `$$…$$`, `$tag$…$tag$`, or a sign.
    fn dollar(&mut self) -> SqlResult<Token> {
        let rest = self.rest();
        let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            self.take(1 + digits);
            return Ok(Token::Parameter);
        }
        let is_in_tag = |c: char| is_in_word(c) && c != '$';
        let tag = rest[1..].find(|c| !is_in_tag(c)).filter(|end| rest[1 + end..].starts_with('$'));
        let Some(tag) = tag.map(|end| &rest[..end + 2]) else {
            self.take(1);
            return Ok(Token::Sign);
        };
        let line = self.line;
        let Some(length) = rest[tag.len()..].find(tag) else {
            return Err(self.unterminated("dollar-quoted string", line));
        };
        self.take(tag.len());
        let value = self.take(length).to_string();
        self.take(tag.len());
        Ok(Token::Text(value))
    }

    /// A number. The dots of `1..10` are none of its own.
    fn number(&mut self) -> Token {
        let is_digit = |c: char| c.is_ascii_digit();
        self.take_while(is_digit);
        if self.rest().starts_with('.') && !self.rest().starts_with("..") {
            self.take(1);
            self.take_while(is_digit);
        }
        let exponent = self.rest().strip_prefix(['e', 'E']);
        if let Some(digits) = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e))
            && digits.starts_with(is_digit)
        {
            self.take(self.rest().len() - digits.len());
            self.take_while(is_digit);
        }
        Token::Number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let shown = |l: &Lexeme| match &l.token {
            Token::Text(value) => format!("'{value}'"),
            Token::Word(word) => word.clone(),
            _ => text[l.start..l.end].to_string(),
        };
        lexemes(text).unwrap().iter().map(shown).collect()
    }

    #[test]
    fn ranges_are_no_fractions() {
        assert_eq!(shown("1..10"), ["1", "..", "10"]);
        assert_eq!(shown("1.5..x.y"), ["1.5", "..", "x", ".", "y"]);
        assert_eq!(shown("1e3 .5 2.e-1x"), ["1e3", ".5", "2.e-1", "x"]);
    }

    #[test]
    fn strings_are_read_in_all_forms() {
        assert_eq!(
            shown("'a''b' E'c\\n\\'\\u0041' $$d'$$ $x$e$$f$x$"),
            ["'a'b'", "'c\n'A'", "'d''", "'e$$f'"]
        );
        assert_eq!(
            shown("\"A\"\"b\" Ab$c $1 /* a /* b */ c */ <<l>> -- x\n:="),
            ["\"A\"\"b\"", "ab$c", "$1", "<<", "l", ">>", ":="]
        );
    }

    #[test]
    fn lines_are_counted_and_ends_are_missed() {
        assert_eq!(lexemes("a\n'b\nc'\n d").unwrap().iter().map(|l| l.line).collect::<Vec<_>>(), [1, 2, 4]);
        for open in ["'a", "\"a", "$$a", "/* a", "E'a\\", "$t$ $$ "] {
            let error = lexemes(open).unwrap_err();
            assert_eq!(error.state, SqlState::SYNTAX_ERROR, "{open}");
        }
    }
}
