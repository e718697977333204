//! A text as the words that a document is made of: words, numbers, words with hyphens, addresses and paths. Tags,
//! entities and the names of protocols are none.

use std::ops::Range;

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lexeme<'a> {
    pub text: &'a str,
    /// A word of a language, which has a stem; not a number, an address, a path or a word with digits.
    pub is_word: bool,
}

/// All words of a text, in their order. A word with hyphens is followed by its parts, an address with a path by its host
/// and its path.
pub(super) fn lexemes(text: &str) -> Vec<Lexeme<'_>> {
    let mut scanner = Scanner { text, bytes: text.as_bytes(), at: 0, end: 0, found: Vec::new() };
    while let Some(c) = scanner.char_at(scanner.at) {
        if !scanner.step(c) {
            scanner.at += c.len_utf8();
        }
    }
    scanner.found
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Where the last word ended.
    end: usize,
    found: Vec<Lexeme<'a>>,
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic()
}

fn is_word_char(c: char) -> bool {
    is_letter(c) || c.is_ascii_digit()
}

fn is_label_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')
}

/// What a path of an address may have.
fn is_path_byte(b: u8) -> bool {
    b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

impl<'a> Scanner<'a> {
    fn char_at(&self, at: usize) -> Option<char> {
        self.text[at..].chars().next()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn is_byte(&self, at: usize, is: impl Fn(u8) -> bool) -> bool {
        self.byte(at).is_some_and(is)
    }

    /// Where a run of bytes ends that begins at some place.
    fn run(&self, from: usize, is: impl Fn(u8) -> bool) -> usize {
        let more = self.bytes[from..].iter().take_while(|b| is(**b)).count();
        from + more
    }

    /// Whether a word ends at some place, as far as the letters of other scripts are concerned.
    fn is_end(&self, at: usize) -> bool {
        self.char_at(at).is_none_or(|c| c.is_ascii() || !is_letter(c))
    }

    fn take(&mut self, range: Range<usize>, is_word: bool) {
        self.found.push(Lexeme { text: &self.text[range.clone()], is_word });
        self.end = self.end.max(range.end);
        self.at = self.end;
    }

    /// Takes what begins here; `false` if nothing does.
    fn step(&mut self, first: char) -> bool {
        let from = self.at;
        let skipped = match first {
            '<' => self.tag(from),
            '&' => self.entity(from),
            c if c.is_ascii_alphabetic() => self.protocol(from),
            _ => None,
        };
        if let Some(end) = skipped {
            self.at = end;
            return true;
        }
        if first.is_ascii_digit()
            && let Some(end) = self.exponent(self.run(from, |b| b.is_ascii_digit()))
        {
            self.take(from..end, false);
            return true;
        }
        if first.is_ascii_alphanumeric() && self.address(from) {
            return true;
        }
        let number = match first {
            '+' | '-' if self.is_byte(from + 1, |b| b.is_ascii_digit()) => Some(self.number(from + 1)),
            c if c.is_ascii_digit() => self.path(from).is_none().then(|| self.number(from)),
            _ => None,
        };
        if let Some((end, is_integer)) = number
            && (!is_integer || !first.is_ascii_digit() || !self.has_letter(from))
        {
            self.take(from..end, false);
            return true;
        }
        if let Some(end) = self.path(from) {
            self.take(from..end, false);
            return true;
        }
        is_word_char(first) && self.word(from)
    }

    /// The end of a tag, a comment or an instruction of a marked-up text.
    fn tag(&self, from: usize) -> Option<usize> {
        let rest = &self.text[from..];
        if rest.starts_with("<!--") {
            return rest.find("-->").map(|end| from + end + 3);
        }
        let (name, begins): (usize, fn(u8) -> bool) = match self.byte(from + 1)? {
            b'/' => (from + 2, |b| b.is_ascii_alphabetic()),
            b'?' => (from + 2, |b| matches!(b, b'x' | b'X')),
            b'!' => (from + 2, |b| matches!(b, b'D' | b'd')),
            _ => (from + 1, |b| b.is_ascii_alphabetic()),
        };
        if !self.is_byte(name, begins) {
            return None;
        }
        let name_end = self.run(name, |b| !b.is_ascii_whitespace() && b != b'>');
        let slash = self.bytes[name..name_end].iter().position(|b| *b == b'/');
        if slash.is_some_and(|slash| name + slash + 1 < name_end) {
            return None;
        }
        let mut quote = None;
        for (n, b) in self.bytes[name..].iter().enumerate() {
            match (quote, *b) {
                (Some(open), b) if b == open => quote = None,
                (Some(_), _) => {}
                (None, b'>') => return Some(name + n + 1),
                (None, b'"' | b'\'') => quote = Some(*b),
                (None, b) if b.is_ascii_alphanumeric() || b.is_ascii_whitespace() => {}
                (None, b) if b"=-_#/:.&?%~".contains(&b) => {}
                _ => return None,
            }
        }
        None
    }

    /// The end of a character that is written by its name or its number.
    fn entity(&self, from: usize) -> Option<usize> {
        let digits = |from, is: fn(u8) -> bool| Some(self.run(from, is)).filter(|end| *end > from);
        let end = match (self.byte(from + 1)?, self.byte(from + 2)) {
            (b'#', Some(b'x' | b'X')) => digits(from + 3, |b| b.is_ascii_hexdigit())?,
            (b'#', _) => digits(from + 2, |b| b.is_ascii_digit())?,
            (b, _) if b.is_ascii_alphabetic() || matches!(b, b'_' | b':') => {
                self.run(from + 2, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.' | b'-'))
            }
            _ => return None,
        };
        self.is_byte(end, |b| b == b';').then_some(end + 1)
    }

    fn protocol(&self, from: usize) -> Option<usize> {
        let end = self.run(from, |b| b.is_ascii_alphabetic());
        self.text[end..].starts_with("://").then_some(end + 3)
    }

    /// The end of a host: labels with points between them, the last one a word of two letters or more.
    fn host(&self, from: usize) -> Option<usize> {
        let (mut at, mut end) = (from, None);
        loop {
            let label = self.run(at, is_label_byte);
            let written = &self.text[at..label];
            if !written.starts_with(|c: char| c.is_ascii_alphanumeric())
                || written.ends_with('-')
                || written.contains("--")
            {
                // The letters of a last label count without what follows them.
                end = self.domain(from, at).or(end);
                break;
            }
            end = self.domain(from, at).or(end);
            if !self.is_byte(label, |b| b == b'.') || !self.is_byte(label + 1, |b| b.is_ascii_alphanumeric())
            {
                break;
            }
            at = label + 1;
        }
        end
    }

    /// The end of the letters that may end a host, behind its first label: at least two, and no digit behind them.
    fn domain(&self, from: usize, label: usize) -> Option<usize> {
        let end = self.run(label, |b| b.is_ascii_alphabetic());
        let fits = label > from && end > label + 1 && !self.is_byte(end, |b| b.is_ascii_digit());
        (fits && self.is_end(end)).then_some(end)
    }

    /// Takes an address of mail or of a host, with what follows it.
    fn address(&mut self, from: usize) -> bool {
        let local = self.run(from, |b| is_label_byte(b) || b == b'.');
        let written = &self.text[from..local];
        let is_local = !written.ends_with(['.', '-']) && !written.contains("..");
        let mail = (is_local && self.is_byte(local, |b| b == b'@')).then(|| self.host(local + 1)).flatten();
        if let Some(end) = mail {
            self.take(from..self.port(end), false);
            return true;
        }
        let Some(host) = self.host(from) else { return false };
        let end = self.port(host);
        let path = if self.is_byte(end, |b| b == b'/') { self.run(end, is_path_byte) } else { end };
        if path > end + 1 {
            self.take(from..path, false);
            self.take(from..end, false);
            self.take(end..path, false);
        } else {
            self.take(from..end, false);
        }
        true
    }

    /// The end of a host with the number of its port.
    fn port(&self, host: usize) -> usize {
        match self.is_byte(host, |b| b == b':') {
            true if self.is_byte(host + 1, |b| b.is_ascii_digit()) => {
                self.run(host + 1, |b| b.is_ascii_digit())
            }
            _ => host,
        }
    }

    /// The end of a path of files.
    fn path(&self, from: usize) -> Option<usize> {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let begins = |at: usize| self.is_byte(at, is_part);
        let is_up = |at: usize| self.bytes[at..].starts_with(b"../");
        let enters = |at: usize| {
            begins(at + if is_up(at) { 3 } else { 0 }) || self.is_byte(at, |b| b == b'.') && begins(at + 1)
        };
        let rest = &self.text[from..];
        let mut at = match self.byte(from)? {
            b'/' if enters(from + 1) => from,
            // Behind what separates words these are separators, too.
            b'~' | b'.' if from > self.end => return None,
            b'~' if begins(from + 1) => from + 1,
            b'~' if rest.starts_with("~/") && begins(from + 2) => from + 2,
            b'.' if rest.starts_with("./") && begins(from + 2) => from + 2,
            b'.' if rest.starts_with("../") && begins(from + 3) => from + 3,
            b if b.is_ascii_alphanumeric() => {
                let part = self.run(from, |b| b.is_ascii_alphanumeric());
                let is_number = self.bytes[from..part].iter().all(u8::is_ascii_digit);
                match self.byte(part)? {
                    b'/' if enters(part + 1) => part,
                    b'.' if !is_number && begins(part + 1) => part,
                    _ => return None,
                }
            }
            _ => return None,
        };
        while let Some(b) = self.byte(at) {
            let goes_on = match b {
                b'/' => enters(at + 1),
                b'.' => begins(at + 1) || is_up(at) || at > from && is_up(at - 1),
                b'-' => begins(at.saturating_sub(1)),
                b => is_part(b),
            };
            if !goes_on {
                break;
            }
            at += 1;
        }
        Some(at)
    }

    /// The end of a number, and whether it has nothing but digits.
    fn number(&self, from: usize) -> (usize, bool) {
        let is_digit = |b: u8| b.is_ascii_digit();
        let digits = |at: usize| self.run(at, is_digit);
        let point = |at: usize| self.is_byte(at, |b| b == b'.') && self.is_byte(at + 1, is_digit);
        let whole = digits(from);
        let (mut end, mut points) = (whole, 0);
        while point(end) {
            end = digits(end + 1);
            points += 1;
        }
        match self.exponent(end).filter(|_| points < 2) {
            Some(end) => (end, false),
            None => (end, points == 0),
        }
    }

    /// The end of an exponent that begins here.
    fn exponent(&self, from: usize) -> Option<usize> {
        let is_digit = |b: u8| b.is_ascii_digit();
        let sign = usize::from(self.is_byte(from + 1, |b| matches!(b, b'+' | b'-')));
        let digits = from + 1 + sign;
        let is_exponent = self.is_byte(from, |b| matches!(b, b'e' | b'E')) && self.is_byte(digits, is_digit);
        is_exponent.then(|| self.run(digits, is_digit))
    }

    /// Where a word's letters and digits end.
    fn word_end(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        from + rest.find(|c| !is_word_char(c)).unwrap_or(rest.len())
    }

    fn has_letter(&self, from: usize) -> bool {
        self.text[from..self.word_end(from)].chars().any(is_letter)
    }

    /// Takes a word, or words with hyphens between them and then each of them.
    fn word(&mut self, from: usize) -> bool {
        let first = from..self.word_end(from);
        let mut end = first.end;
        let mut parts = vec![first];
        while self.has_letter(from) && self.is_byte(end, |b| b == b'-') && self.has_letter(end + 1) {
            let part = end + 1..self.word_end(end + 1);
            end = part.end;
            parts.push(part);
        }
        let is_word = |text: &str| text.chars().all(is_letter);
        if parts.len() > 1 {
            let all = parts.iter().all(|part| is_word(&self.text[part.clone()]));
            self.take(from..end, all);
        }
        let is_hyphenated = parts.len() > 1;
        for part in parts {
            let is_word = is_word(&self.text[part.clone()]);
            self.take(part, is_word);
        }
        // What a hyphen behind it begins is no negative number.
        if is_hyphenated && self.is_byte(end, |b| b == b'-') {
            self.at = end + 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        lexemes(text).iter().map(|lexeme| lexeme.text).collect()
    }

    #[test]
    fn words_and_numbers() {
        assert_eq!(
            words("A fat-cat's 2 mice: -1.5e3, 12abc v1"),
            ["A", "fat-cat", "fat", "cat", "s", "2", "mice", "-1.5e3", "12abc", "v1"]
        );
        assert_eq!(
            words("foo-bar-1 foo-1 2010-01-02 1.2.3"),
            ["foo-bar", "foo", "bar", "1", "foo", "-1", "2010", "-01", "-02", "1.2.3"]
        );
        let kinds: Vec<bool> = lexemes("café x1 7").iter().map(|lexeme| lexeme.is_word).collect();
        assert_eq!(kinds, [true, false, false]);
    }

    #[test]
    fn addresses_and_paths() {
        assert_eq!(
            words("see http://www.a.com/x?y=1, or joe.b@x-y.org"),
            ["see", "www.a.com/x?y=1,", "www.a.com", "/x?y=1,", "or", "joe.b@x-y.org"]
        );
        assert_eq!(
            words("/usr/a.txt and/or e.g. end.Next a..b"),
            ["/usr/a.txt", "and/or", "e.g", "end.Next", "a", "b"]
        );
        assert_eq!(words("<b class=\"x\">bold</b> &amp; a<b"), ["bold", "a", "b"]);
    }
}
