//! Blocks: declarations, statements, handlers.

use super::{Around, Parser};
use crate::conditions::{Condition, states, written};
use crate::lex::Token;
use crate::program::{Declared, Handler, Op, Target, find};
use base::SqlError;
use base::error::{SqlResult, SqlState};

const INITIALIZATION: &str = "statement block";

impl Parser<'_> {
    /// `<<label>>` if there is one.
    pub(super) fn label(&mut self) -> SqlResult<Option<String>> {
        if !self.take_sign("<<") {
            return Ok(None);
        }
        let label = self.take_name()?;
        self.expect_sign(">>")?;
        Ok(Some(label))
    }

    /// `[DECLARE …] BEGIN … [EXCEPTION …] END [label]`, without what follows.
    pub(super) fn block(&mut self, label: Option<String>) -> SqlResult<()> {
        self.deeper(|parser| {
            parser.open_scope(label.clone());
            parser.around.push(Around::Block { label: label.clone(), exits: Vec::new() });
            while parser.take_word("declare") {
                parser.declarations()?;
            }
            parser.expect_word("begin")?;
            parser.protected()?;
            parser.expect_word("end")?;
            parser.end_label(label.as_deref())?;
            parser.close_scope();
            let Some(Around::Block { exits, .. }) = parser.around.pop() else {
                unreachable!("what was opened inside is closed");
            };
            parser.land(exits);
            Ok(())
        })
    }

    /// A label behind END. Errors: 42601 if it is another one's.
    pub(super) fn end_label(&mut self, label: Option<&str>) -> SqlResult<()> {
        let given = match self.peek().map(|lexeme| &lexeme.token) {
            Some(Token::Word(name) | Token::Quoted(name)) => name.clone(),
            _ => return Ok(()),
        };
        match label {
            Some(label) if label == given => {
                self.skip(1);
                Ok(())
            }
            Some(label) => {
                Err(self.wrong(format!("end label \"{given}\" differs from block's label \"{label}\"")))
            }
            None => Err(self.wrong(format!("end label \"{given}\" specified for unlabeled block"))),
        }
    }

    /// Statements and the handlers of their errors.
    fn protected(&mut self) -> SqlResult<()> {
        let line = self.line();
        let number = self.new_handlers();
        let protect = self.emit(Op::Nothing, line, INITIALIZATION);
        self.around.push(Around::Protected(number));
        self.statements(&["end", "exception"])?;
        self.around.pop();
        if !self.take_word("exception") {
            return Ok(());
        }
        self.replace(protect, Op::Protect(number));
        self.emit(Op::Unprotect(number), line, INITIALIZATION);
        let mut ends = vec![self.emit(Op::Jump(0), line, INITIALIZATION)];
        while self.take_word("when") {
            let handler = self.handler()?;
            ends.push(self.emit(Op::Jump(0), line, INITIALIZATION));
            self.add_handler(number, handler);
        }
        if self.program.handlers[number].is_empty() {
            return Err(self.unexpected());
        }
        self.land(ends);
        Ok(())
    }

    /// `condition [OR condition …] THEN statements`.
    fn handler(&mut self) -> SqlResult<Handler> {
        let mut conditions = self.conditions()?;
        while self.take_word("or") {
            conditions.extend(self.conditions()?);
        }
        self.expect_word("then")?;
        let line = self.line();
        self.open_scope(None);
        let sqlstate = self.variable("sqlstate", Declared::Text, line);
        let sqlerrm = self.variable("sqlerrm", Declared::Text, line);
        let code = self.here();
        self.around.push(Around::Handler);
        self.statements(&["when", "end"])?;
        self.around.pop();
        self.close_scope();
        self.emit(Op::EndHandler, line, INITIALIZATION);
        Ok(Handler { conditions, code, sqlstate, sqlerrm })
    }

    fn conditions(&mut self) -> SqlResult<Vec<Condition>> {
        let name = self.take_name()?;
        if name == "others" {
            return Ok(vec![Condition::Others]);
        }
        Ok(self.states_of(&name)?.into_iter().map(Condition::State).collect())
    }

    /// The states of a condition, or the one behind the word SQLSTATE. Errors: 42704, 42601.
    pub(super) fn states_of(&mut self, name: &str) -> SqlResult<Vec<SqlState>> {
        if name == "sqlstate" {
            let text = self.take_text()?;
            let state = written(&text).ok_or_else(|| self.wrong("invalid SQLSTATE code"))?;
            return Ok(vec![state]);
        }
        let states: Vec<SqlState> = states(name).collect();
        if states.is_empty() {
            let message = format!("unrecognized exception condition \"{name}\"");
            return Err(self.located(SqlError::new(SqlState::UNDEFINED_OBJECT, message)));
        }
        Ok(states)
    }

    fn declarations(&mut self) -> SqlResult<()> {
        while !self.is_word("begin") && !self.is_word("declare") {
            self.declaration()?;
        }
        Ok(())
    }

    fn declaration(&mut self) -> SqlResult<()> {
        let line = self.line();
        let name = self.take_name()?;
        if self.program.scopes[self.scope].names.contains_key(&name) {
            self.back();
            return Err(self.wrong(format!("duplicate declaration at or near \"{name}\"")));
        }
        if self.take_word("alias") {
            return self.alias(name);
        }
        if self.is_word("cursor") || self.is_word("scroll") || self.is_word("no") {
            return self.cursor_declaration(&name, line);
        }
        let is_constant = self.take_word("constant");
        let declared = self.declared_type(&[";", ":=", "=", "default", "not", "collate"])?;
        if self.take_word("collate") {
            return Err(self.unsupported("COLLATE"));
        }
        let not_null = self.take_word("not");
        if not_null {
            self.expect_word("null")?;
        }
        let has_default = self.take_sign(":=") || self.take_sign("=") || self.take_word("default");
        if !has_default && not_null {
            return Err(self.wrong(format!(
                "variable \"{name}\" must have a default value, since it's declared NOT NULL"
            )));
        }
        // The variable is not yet known to its own default.
        match has_default {
            true => self.evaluate(&[";"], line, INITIALIZATION)?,
            false if !self.is_sign(";") => return Err(self.unexpected()),
            false => {}
        }
        self.expect_sign(";")?;
        let variable = self.variable(&name, declared, line);
        let op = match has_default {
            true => Op::Assign(Target { variable, field: None }),
            false => Op::Clear(variable),
        };
        self.emit(op, line, INITIALIZATION);
        self.declare_so(variable, is_constant, not_null);
        Ok(())
    }

    fn alias(&mut self, name: String) -> SqlResult<()> {
        self.expect_word("for")?;
        let of = match self.peek().map(|lexeme| (lexeme.token.clone(), lexeme.start..lexeme.end)) {
            Some((Token::Parameter, range)) => self.text[range].to_string(),
            Some((Token::Word(of) | Token::Quoted(of), _)) => of,
            _ => return Err(self.unexpected()),
        };
        let (variable, _) = find(&self.program.scopes, self.scope, std::slice::from_ref(&of))
            .ok_or_else(|| self.wrong(format!("variable \"{of}\" does not exist")))?;
        self.skip(1);
        self.expect_sign(";")?;
        self.name_also(name, variable);
        Ok(())
    }

    /// A type as DECLARE has it, up to one of these.
    pub(super) fn declared_type(&mut self, ends: &[&str]) -> SqlResult<Declared> {
        if matches!(self.peek().map(|lexeme| &lexeme.token), Some(Token::Word(_) | Token::Quoted(_))) {
            let start = self.at;
            let name = self.take_dotted()?;
            if self.take_sign("%") {
                return self.referred_type(name);
            }
            self.go_to(start);
        }
        if self.is_word("record") {
            self.skip(1);
            return Ok(Declared::Record);
        }
        let range = self.skip_until(ends)?;
        if range.is_empty() {
            return Err(self.wrong("missing data type declaration"));
        }
        Ok(Declared::Type(self.text_of(range).to_string()))
    }

    /// `%TYPE` or `%ROWTYPE` behind a name.
    fn referred_type(&mut self, name: Vec<String>) -> SqlResult<Declared> {
        if self.take_word("rowtype") {
            return Ok(Declared::RowOf(name));
        }
        self.expect_word("type")?;
        Ok(match find(&self.program.scopes, self.scope, &name) {
            Some((variable, taken)) if taken == name.len() => Declared::OfVariable(variable),
            Some((variable, taken)) if taken + 1 == name.len() => {
                Declared::OfField(variable, name[taken].clone())
            }
            _ if name.len() > 1 => Declared::OfColumn(name),
            _ => return Err(self.wrong(format!("variable \"{}\" does not exist", name.join(".")))),
        })
    }
}
