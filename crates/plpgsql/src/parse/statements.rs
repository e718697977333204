//! Statements beside loops and RAISE.

use super::Parser;
use crate::lex::Token;
use crate::program::{Declared, Into, Item, Op, Returns, Statement, Target};
use base::SqlError;
use base::error::{SqlResult, SqlState};

impl Parser<'_> {
    /// Statements up to one of these words, which is not taken.
    pub(super) fn statements(&mut self, ends: &[&str]) -> SqlResult<()> {
        loop {
            match self.word() {
                Some(word) if ends.contains(&word) && !self.is_assignment() => return Ok(()),
                _ if self.peek().is_none() => return Err(self.unexpected()),
                _ => self.one_statement()?,
            }
        }
    }

    fn one_statement(&mut self) -> SqlResult<()> {
        let line = self.line();
        if let Some(label) = self.label()? {
            return match self.word() {
                Some("loop" | "while" | "for" | "foreach") => self.any_loop(Some(label)),
                _ => self.inner_block(Some(label)),
            };
        }
        if self.is_assignment() {
            return self.assignment(line);
        }
        match self.word().unwrap_or_default() {
            "declare" | "begin" => self.inner_block(None),
            "if" => self.deeper(|parser| parser.if_statement(line)),
            "case" => self.deeper(|parser| parser.case_statement(line)),
            "loop" | "while" | "for" | "foreach" => self.any_loop(None),
            "exit" | "continue" => self.leave(line),
            "return" => self.return_statement(line),
            "raise" => self.raise(line),
            "assert" => self.assert(line),
            "perform" => self.perform(line),
            "execute" => self.execute(line),
            "get" => self.diagnose(line),
            "null" if self.is_sign_at(1, ";") => {
                self.skip(2);
                Ok(())
            }
            "commit" => self.end_transaction("COMMIT", line),
            "rollback" => self.end_transaction("ROLLBACK", line),
            "open" => self.open_cursor(line),
            "fetch" | "move" => self.fetch(line),
            "close" => self.close_cursor(line),
            _ => self.sql(line),
        }
    }

    fn inner_block(&mut self, label: Option<String>) -> SqlResult<()> {
        self.block(label)?;
        self.expect_sign(";")
    }

    /// `x :=`, `x.y =`, `x[`.
    fn is_assignment(&self) -> bool {
        let mut ahead = 0;
        loop {
            let name = match self.lexemes.get(self.at + ahead).map(|lexeme| &lexeme.token) {
                Some(Token::Word(name) | Token::Quoted(name)) => name,
                _ => return false,
            };
            ahead += 1;
            if self.is_sign_at(ahead, ":=") {
                return true;
            }
            let is_known = || {
                let first = match self.lexemes.get(self.at).map(|lexeme| &lexeme.token) {
                    Some(Token::Word(name) | Token::Quoted(name)) => name,
                    _ => name,
                };
                crate::program::is_name(&self.program.scopes, self.scope, first)
            };
            if self.is_sign_at(ahead, "=") || self.is_sign_at(ahead, "[") {
                return is_known();
            }
            if !self.is_sign_at(ahead, ".") {
                return false;
            }
            ahead += 1;
        }
    }

    fn assignment(&mut self, line: u32) -> SqlResult<()> {
        const WHAT: &str = "assignment";
        let name = self.take_dotted()?;
        let target = {
            self.back();
            let target = self.target(&name);
            self.skip(1);
            target?
        };
        let is_element = self.take_sign("[");
        if is_element {
            self.evaluate(&["]", ":"], line, WHAT)?;
            if !self.take_sign("]") || self.is_sign("[") {
                let what = "assigning a slice of an array, or an element of one of several dimensions,";
                return Err(self.unsupported(what).hint("Assign the whole array."));
            }
        }
        if !self.take_sign(":=") {
            self.expect_sign("=")?;
        }
        self.evaluate(&[";"], line, WHAT)?;
        self.skip(1);
        let op = if is_element { Op::AssignElement(target) } else { Op::Assign(target) };
        self.emit(op, line, WHAT);
        Ok(())
    }

    fn if_statement(&mut self, line: u32) -> SqlResult<()> {
        let mut ends = Vec::new();
        self.skip(1);
        loop {
            self.evaluate(&["then"], line, "IF")?;
            self.skip(1);
            let skip = self.emit(Op::JumpUnless(0), line, "IF");
            self.statements(&["elsif", "elseif", "else", "end"])?;
            ends.push(self.emit(Op::Jump(0), line, "IF"));
            self.land([skip]);
            if !self.take_word("elsif") && !self.take_word("elseif") {
                break;
            }
        }
        if self.take_word("else") {
            self.statements(&["end"])?;
        }
        self.end_of("if")?;
        self.land(ends);
        Ok(())
    }

    fn end_of(&mut self, word: &str) -> SqlResult<()> {
        self.expect_word("end")?;
        self.expect_word(word)?;
        self.expect_sign(";")
    }

    fn case_statement(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        let searched = match self.is_word("when") {
            true => None,
            false => {
                self.evaluate(&["when"], line, "CASE")?;
                let name = format!("__case_variable_{}__", self.program.variables.len());
                let variable = self.variable(&name, Declared::Any, line);
                self.emit(Op::Assign(Target { variable, field: None }), line, "CASE");
                Some(name)
            }
        };
        let mut ends = Vec::new();
        while self.take_word("when") {
            let condition = self.expression(&["then"])?;
            self.skip(1);
            if let Some(name) = &searched {
                self.compare(condition, name);
            }
            self.emit(Op::Evaluate(condition), line, "CASE");
            let skip = self.emit(Op::JumpUnless(0), line, "CASE");
            self.statements(&["when", "else", "end"])?;
            ends.push(self.emit(Op::Jump(0), line, "CASE"));
            self.land([skip]);
        }
        if ends.is_empty() {
            return Err(self.unexpected());
        }
        match self.take_word("else") {
            true => self.statements(&["end"])?,
            false => _ = self.emit(Op::NoCase, line, "CASE"),
        }
        self.end_of("case")?;
        self.land(ends);
        Ok(())
    }

    fn return_statement(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        if self.is_word("next") {
            return self.return_next(line);
        }
        if self.take_word("query") {
            return self.return_query(line);
        }
        let signature = &self.program.signature;
        let mismatch = |message: &str| self.located(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        let is_bare = self.is_sign(";");
        let refusal = match signature {
            _ if is_bare => None,
            s if s.is_set => Some(
                mismatch("RETURN cannot have a parameter in function returning set")
                    .hint("Use RETURN NEXT or RETURN QUERY."),
            ),
            s if s.is_procedure => Some(mismatch("RETURN cannot have a parameter in a procedure")),
            s if s.returns == Returns::Nothing => {
                Some(mismatch("RETURN cannot have a parameter in function returning void"))
            }
            s if s.has_outputs() => {
                Some(mismatch("RETURN cannot have a parameter in function with OUT parameters"))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let needs_value =
            signature.returns != Returns::Nothing && !signature.is_set && !signature.has_outputs();
        if !needs_value {
            self.skip(1);
            self.emit(Op::Return, line, "RETURN");
            return Ok(());
        }
        self.evaluate(&[";"], line, "RETURN")?;
        self.skip(1);
        self.emit(Op::ReturnValue, line, "RETURN");
        Ok(())
    }

    fn return_next(&mut self, line: u32) -> SqlResult<()> {
        const WHAT: &str = "RETURN NEXT";
        self.check_is_set(WHAT)?;
        self.skip(1);
        if self.program.signature.has_outputs() {
            if !self.take_sign(";") {
                let message = "RETURN NEXT cannot have a parameter in function with OUT parameters";
                return Err(self.located(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
            }
            self.emit(Op::ReturnOutputs, line, WHAT);
            return Ok(());
        }
        self.evaluate(&[";"], line, WHAT)?;
        self.skip(1);
        self.emit(Op::ReturnNext, line, WHAT);
        Ok(())
    }

    fn return_query(&mut self, line: u32) -> SqlResult<()> {
        const WHAT: &str = "RETURN QUERY";
        self.check_is_set(WHAT)?;
        if self.take_word("execute") {
            self.evaluate(&["using", ";"], line, WHAT)?;
            let using = self.using(&[";", ","], line, WHAT)?;
            self.expect_sign(";")?;
            self.emit(Op::ReturnQueryText { using }, line, WHAT);
            return Ok(());
        }
        let range = self.skip_until(&[";"])?;
        if range.is_empty() {
            return Err(self.unexpected());
        }
        self.skip(1);
        let query = self.statement(range, false);
        self.emit(Op::ReturnQuery(query), line, WHAT);
        Ok(())
    }

    fn check_is_set(&self, what: &str) -> SqlResult<()> {
        if self.program.signature.is_set {
            return Ok(());
        }
        let message = format!("cannot use {what} in a non-SETOF function");
        Err(self.located(SqlError::new(SqlState::DATATYPE_MISMATCH, message)))
    }

    fn assert(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        self.evaluate(&[";", ","], line, "ASSERT")?;
        let fails = self.emit(Op::JumpUnless(0), line, "ASSERT");
        let holds = self.emit(Op::Jump(0), line, "ASSERT");
        self.land([fails]);
        let has_message = self.take_sign(",");
        if has_message {
            self.evaluate(&[";"], line, "ASSERT")?;
        }
        self.expect_sign(";")?;
        self.emit(Op::FailAssertion { has_message }, line, "ASSERT");
        self.land([holds]);
        Ok(())
    }

    fn perform(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        let query = self.expression(&[";"])?;
        self.skip(1);
        self.emit(Op::Perform(query), line, "PERFORM");
        Ok(())
    }

    fn execute(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        self.evaluate(&["into", "using", ";"], line, "EXECUTE")?;
        let (mut into, mut using) = (None, 0);
        loop {
            if into.is_none() && self.take_word("into") {
                into = Some(self.into()?);
            } else if using == 0 && self.is_word("using") {
                using = self.using(&[";", ",", "into"], line, "EXECUTE")?;
            } else {
                self.expect_sign(";")?;
                break;
            }
        }
        self.emit(Op::ExecuteText { using, into }, line, "EXECUTE");
        Ok(())
    }

    /// `USING a, b`: how many values.
    pub(super) fn using(&mut self, ends: &[&str], line: u32, what: &'static str) -> SqlResult<usize> {
        let mut count = 0;
        if self.take_word("using") {
            loop {
                self.evaluate(ends, line, what)?;
                count += 1;
                if !self.take_sign(",") {
                    break;
                }
            }
        }
        Ok(count)
    }

    /// `[STRICT] a, b.c` behind INTO.
    fn into(&mut self) -> SqlResult<Into> {
        let strict = self.take_word("strict");
        Ok(Into { targets: self.targets()?, strict })
    }

    /// `a, b.c`.
    pub(super) fn targets(&mut self) -> SqlResult<Vec<Target>> {
        let mut targets = Vec::new();
        loop {
            targets.push(self.one_target()?);
            if !self.take_sign(",") {
                return Ok(targets);
            }
        }
    }

    /// A variable, or a field of one, which errors point at.
    pub(super) fn one_target(&mut self) -> SqlResult<Target> {
        let start = self.at;
        let name = self.take_dotted()?;
        let end = self.go_to(start);
        let target = self.target(&name)?;
        self.go_to(end);
        Ok(target)
    }

    /// A statement of SQL, whose INTO is ours.
    fn sql(&mut self, line: u32) -> SqlResult<()> {
        if !matches!(self.peek().map(|l| &l.token), Some(Token::Word(_))) && !self.is_sign("(") {
            return Err(self.unexpected());
        }
        let modifies = matches!(self.word(), Some("insert" | "update" | "delete" | "merge"));
        let mut into = None;
        let mut text = String::new();
        loop {
            let part = self.skip_until(&[";", "into"])?;
            let before = self.lexemes[..self.at].last().map(|lexeme| lexeme.token.clone());
            let is_ours = self.is_word("into")
                && !matches!(before, Some(Token::Word(word)) if word == "insert" || word == "merge");
            if !text.is_empty() && !part.is_empty() {
                text.push(' ');
            }
            text.push_str(self.text_of(part));
            if self.take_sign(";") {
                break;
            }
            let written = self.text_of(self.at..self.at + 1).to_string();
            self.skip(1);
            match is_ours {
                true if into.is_some() => {
                    self.back();
                    return Err(self.wrong("INTO specified more than once"));
                }
                true => into = Some(self.into()?),
                false => {
                    text.push(' ');
                    text.push_str(&written);
                }
            }
        }
        let statement = Statement { text, is_expression: false, line, simple: None, scope: self.scope };
        let statement = self.add_statement(statement);
        self.emit(Op::Execute { statement, into, modifies }, line, "SQL statement");
        Ok(())
    }

    fn end_transaction(&mut self, word: &'static str, line: u32) -> SqlResult<()> {
        self.skip_until(&[";"])?;
        self.skip(1);
        self.emit(Op::EndTransaction(word), line, word);
        Ok(())
    }

    fn diagnose(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        let stacked = self.take_word("stacked");
        if !stacked {
            self.take_word("current");
        }
        self.expect_word("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let name = self.take_dotted()?;
            let target = self.target(&name)?;
            if !self.take_sign("=") && !self.take_sign(":=") {
                return Err(self.unexpected());
            }
            let name = self.take_name()?;
            let item = match name.as_str() {
                "row_count" => Item::RowCount,
                "pg_context" => Item::Context,
                "returned_sqlstate" => Item::State,
                "message_text" => Item::Message,
                "pg_exception_detail" => Item::Detail,
                "pg_exception_hint" => Item::Hint,
                "pg_exception_context" => Item::ErrorContext,
                "column_name" => Item::Column,
                "constraint_name" => Item::Constraint,
                "table_name" => Item::Table,
                "schema_name" | "pg_datatype_name" => Item::Unknown,
                _ => {
                    self.back();
                    return Err(self.wrong("unrecognized GET DIAGNOSTICS item"));
                }
            };
            let is_of_now = matches!(item, Item::RowCount | Item::Context);
            if is_of_now == stacked {
                let (item, kind) = (name.to_uppercase(), if stacked { "STACKED" } else { "CURRENT" });
                return Err(
                    self.wrong(format!("diagnostics item {item} is not allowed in GET {kind} DIAGNOSTICS"))
                );
            }
            items.push((target, item));
            if !self.take_sign(",") {
                break;
            }
        }
        self.expect_sign(";")?;
        self.emit(Op::Diagnose { stacked, items }, line, "GET DIAGNOSTICS");
        Ok(())
    }
}
