//! RAISE.

use super::Parser;
use crate::lex::Token;
use crate::program::{Level, Op, Raise, RaiseOption};
use base::error::SqlResult;

const WHAT: &str = "RAISE";

const OPTIONS: [(&str, RaiseOption); 9] = [
    ("errcode", RaiseOption::Errcode),
    ("message", RaiseOption::Message),
    ("detail", RaiseOption::Detail),
    ("hint", RaiseOption::Hint),
    ("column", RaiseOption::Column),
    ("constraint", RaiseOption::Constraint),
    ("datatype", RaiseOption::DataType),
    ("table", RaiseOption::Table),
    ("schema", RaiseOption::Schema),
];

impl Parser<'_> {
    pub(super) fn raise(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        if self.take_sign(";") {
            self.emit(Op::Reraise, line, WHAT);
            return Ok(());
        }
        let mut raise =
            Raise { level: self.level(), format: None, arguments: 0, condition: None, options: Vec::new() };
        match self.peek().map(|lexeme| lexeme.token.clone()) {
            Some(Token::Text(format)) => {
                self.skip(1);
                raise.arguments = self.arguments(&format, line)?;
                raise.format = Some(format);
            }
            Some(Token::Word(word)) if word == "using" => {}
            Some(Token::Word(name) | Token::Quoted(name)) => {
                self.skip(1);
                let state = self.states_of(&name)?[0];
                let message = if name == "sqlstate" { state.as_str().to_string() } else { name };
                raise.condition = Some((state, message));
            }
            _ => return Err(self.unexpected()),
        }
        if self.take_word("using") {
            self.options(&mut raise, line)?;
        }
        self.expect_sign(";")?;
        self.emit(Op::Raise(Box::new(raise)), line, WHAT);
        Ok(())
    }

    fn level(&mut self) -> Level {
        let level = match self.word() {
            Some("debug") => Level::Notice("DEBUG"),
            Some("log") => Level::Notice("LOG"),
            Some("info") => Level::Notice("INFO"),
            Some("notice") => Level::Notice("NOTICE"),
            Some("warning") => Level::Notice("WARNING"),
            Some("exception") => Level::Exception,
            _ => return Level::Exception,
        };
        self.skip(1);
        level
    }

    /// Values for the format's signs; how many. Errors: 42601 if there are more or fewer.
    fn arguments(&mut self, format: &str, line: u32) -> SqlResult<usize> {
        let mut count = 0;
        while self.take_sign(",") {
            self.evaluate(&[",", ";", "using"], line, WHAT)?;
            count += 1;
        }
        let wanted = format.replace("%%", "").matches('%').count();
        match count {
            more if more > wanted => Err(self.wrong("too many parameters specified for RAISE")),
            fewer if fewer < wanted => Err(self.wrong("too few parameters specified for RAISE")),
            count => Ok(count),
        }
    }

    fn options(&mut self, raise: &mut Raise, line: u32) -> SqlResult<()> {
        loop {
            let name = self.take_name()?;
            let Some((_, option)) = OPTIONS.iter().find(|(word, _)| *word == name) else {
                self.back();
                return Err(self.wrong("unrecognized RAISE statement option"));
            };
            if raise.options.contains(option) {
                return Err(self.wrong(format!("RAISE option already specified: {}", name.to_uppercase())));
            }
            if !self.take_sign("=") && !self.take_sign(":=") {
                return Err(self.unexpected());
            }
            self.evaluate(&[",", ";"], line, WHAT)?;
            raise.options.push(*option);
            if !self.take_sign(",") {
                return Ok(());
            }
        }
    }
}
