//! Cursors: their declarations, OPEN, FETCH, MOVE, CLOSE and loops over them.

use super::Parser;
use crate::lex::Token;
use crate::program::{Counted, CursorQuery, Declared, Movement, Op, Simple, Statement, Target, find};
use base::SqlError;
use base::error::{SqlResult, SqlState};

/// A cursor that is declared with its query.
#[derive(Clone)]
pub(super) struct Bound {
    query: usize,
    /// Variables that its query knows.
    arguments: Vec<usize>,
    scroll: Option<bool>,
}

/// The type of cursor variables.
const REFCURSOR: &str = "refcursor";

impl Parser<'_> {
    /// `[[NO] SCROLL] CURSOR [(argument type, …)] FOR query;` behind the name. The variable begins as its own name.
    pub(super) fn cursor_declaration(&mut self, name: &str, line: u32) -> SqlResult<()> {
        const WHAT: &str = "statement block";
        let scroll = self.scroll()?;
        self.expect_word("cursor")?;
        self.open_scope(None);
        let mut arguments = Vec::new();
        if self.take_sign("(") {
            loop {
                let argument = self.take_name()?;
                let declared = self.declared_type(&[",", ")"])?;
                arguments.push(self.variable(&argument, declared, line));
                if !self.take_sign(",") {
                    break;
                }
            }
            self.expect_sign(")")?;
        }
        if !self.take_word("for") {
            self.expect_word("is")?;
        }
        let query = self.cursor_query()?;
        self.close_scope();
        let quoted = format!("'{}'", name.replace('\'', "''"));
        let named = self.add_statement(Statement {
            text: quoted,
            is_expression: true,
            line,
            simple: Some(Simple::Text(name.into())),
            scope: self.scope,
        });
        let variable = self.variable(name, Declared::Type(REFCURSOR.into()), line);
        self.emit(Op::Evaluate(named), line, WHAT);
        self.emit(Op::Assign(Target { variable, field: None }), line, WHAT);
        self.cursors.insert(variable, Bound { query, arguments, scroll });
        Ok(())
    }

    /// `[NO] SCROLL`.
    fn scroll(&mut self) -> SqlResult<Option<bool>> {
        if self.take_word("no") {
            self.expect_word("scroll")?;
            return Ok(Some(false));
        }
        Ok(self.take_word("scroll").then_some(true))
    }

    /// A query up to the end of the statement, which is taken.
    fn cursor_query(&mut self) -> SqlResult<usize> {
        let range = self.skip_until(&[";"])?;
        if range.is_empty() {
            return Err(self.unexpected());
        }
        self.skip(1);
        Ok(self.statement(range, false))
    }

    /// The variable of a cursor. Errors: 42601 if it is none, 42804 if it is of another type.
    fn cursor_variable(&mut self) -> SqlResult<usize> {
        let Target { variable, field } = self.one_target()?;
        if field.is_none() && self.may_be_cursor(variable) {
            return Ok(variable);
        }
        let name = &self.program.variables[variable].name;
        let message = format!("variable \"{name}\" must be of type cursor or refcursor");
        Err(self.located(SqlError::new(SqlState::DATATYPE_MISMATCH, message)))
    }

    /// Of types that are not known here the value is what counts.
    fn may_be_cursor(&self, variable: usize) -> bool {
        match &self.program.variables[variable].declared {
            Declared::Type(_) => self.is_cursor(variable),
            Declared::Argument(_) | Declared::OfColumn(_) | Declared::OfVariable(_) => true,
            _ => false,
        }
    }

    fn is_cursor(&self, variable: usize) -> bool {
        let Declared::Type(written) = &self.program.variables[variable].declared else { return false };
        let written = written.to_ascii_lowercase();
        written.strip_prefix("pg_catalog.").unwrap_or(&written) == REFCURSOR
    }

    /// The cursor variable that comes next in FOR … IN, if one does.
    pub(super) fn cursor_ahead(&self) -> Option<usize> {
        let name = match self.peek().map(|lexeme| &lexeme.token) {
            Some(Token::Word(name) | Token::Quoted(name)) => name,
            _ => return None,
        };
        let (variable, _) = find(&self.program.scopes, self.scope, std::slice::from_ref(name))?;
        self.is_cursor(variable).then_some(variable)
    }

    /// `OPEN c`, `OPEN c (arguments)`, `OPEN c FOR query`, `OPEN c FOR EXECUTE text USING …`.
    pub(super) fn open_cursor(&mut self, line: u32) -> SqlResult<()> {
        const WHAT: &str = "OPEN";
        self.skip(1);
        let variable = self.cursor_variable()?;
        if self.cursors.contains_key(&variable) {
            self.open_bound(variable, line, WHAT)?;
            return self.expect_sign(";");
        }
        let scroll = self.scroll()?;
        self.expect_word("for")?;
        let query = match self.take_word("execute") {
            true => {
                self.evaluate(&["using", ";"], line, WHAT)?;
                let using = self.using(&[";", ","], line, WHAT)?;
                self.expect_sign(";")?;
                CursorQuery::Text { using }
            }
            false => CursorQuery::Statement(self.cursor_query()?),
        };
        self.emit(Op::OpenCursor { variable, query, scroll }, line, WHAT);
        Ok(())
    }

    /// The arguments of a cursor that has its query, and its opening.
    fn open_bound(&mut self, variable: usize, line: u32, what: &'static str) -> SqlResult<()> {
        let Bound { query, arguments, scroll } = self.cursors[&variable].clone();
        let name = self.program.variables[variable].name.clone();
        let is_called = self.take_sign("(");
        match (is_called, arguments.is_empty()) {
            (true, true) => return Err(self.wrong(format!("cursor \"{name}\" has no arguments"))),
            (false, false) => return Err(self.wrong(format!("cursor \"{name}\" has arguments"))),
            (false, true) => {}
            (true, false) => {
                let mut missing = arguments.clone();
                loop {
                    let given = arguments.len() - missing.len();
                    let argument = self.cursor_argument(&name, &arguments, given)?;
                    let Some(at) = missing.iter().position(|of| *of == argument) else {
                        let of = &self.program.variables[argument].name;
                        let message = format!(
                            "value for parameter \"{of}\" of cursor \"{name}\" specified more than once"
                        );
                        return Err(self.wrong(message));
                    };
                    missing.remove(at);
                    self.evaluate(&[",", ")"], line, what)?;
                    self.emit(Op::Assign(Target { variable: argument, field: None }), line, what);
                    if !self.take_sign(",") {
                        break;
                    }
                }
                if !missing.is_empty() {
                    return Err(self.wrong(format!("not enough arguments for cursor \"{name}\"")));
                }
                self.expect_sign(")")?;
            }
        }
        let query = CursorQuery::Statement(query);
        self.emit(Op::OpenCursor { variable, query, scroll }, line, what);
        Ok(())
    }

    /// The argument that a value is for: by its name, or the one that comes after those that are given.
    fn cursor_argument(&mut self, cursor: &str, arguments: &[usize], given: usize) -> SqlResult<usize> {
        let is_named = self.is_sign_at(1, ":=") || self.is_sign_at(1, "=>");
        if !is_named {
            let too_many = || self.wrong(format!("too many arguments for cursor \"{cursor}\""));
            return arguments.get(given).copied().ok_or_else(too_many);
        }
        let name = self.take_name()?;
        let is_it = |argument: &&usize| self.program.variables[**argument].name == name;
        let unknown = || self.wrong(format!("cursor \"{cursor}\" has no argument named \"{name}\""));
        let argument = arguments.iter().find(is_it).copied().ok_or_else(unknown)?;
        self.skip(1);
        Ok(argument)
    }

    /// `FOR r IN c [(arguments)] LOOP` from the cursor on.
    pub(super) fn cursor_loop(
        &mut self,
        label: Option<String>,
        names: &[Vec<String>],
        cursor: usize,
        line: u32,
    ) -> SqlResult<()> {
        const WHAT: &str = "FOR over cursor";
        let [name] = names else {
            return Err(self.wrong("cursor FOR loop must have only one target variable"));
        };
        let [name] = name.as_slice() else { return Err(self.unexpected()) };
        if !self.cursors.contains_key(&cursor) {
            return Err(self.wrong("cursor FOR loop must use a bound cursor variable"));
        }
        self.skip(1);
        self.open_bound(cursor, line, WHAT)?;
        self.expect_word("loop")?;
        self.emit(Op::BeginCursor(cursor), line, WHAT);
        self.open_scope(label.clone());
        let variable = self.variable(name, Declared::Record, line);
        let begin = self.emit(Op::Jump(0), line, WHAT);
        let end = self.emit(Op::EndLoop, line, WHAT);
        let over = self.emit(Op::Jump(0), line, WHAT);
        self.land([begin]);
        let targets = vec![Target { variable, field: None }];
        let next = self.emit(Op::NextOfCursor { targets, end }, line, WHAT);
        self.looped(label, next, true, line, WHAT)?;
        self.land([over]);
        self.close_scope();
        Ok(())
    }

    /// `FETCH [direction FROM] c INTO a, b` and `MOVE [direction FROM] c`.
    pub(super) fn fetch(&mut self, line: u32) -> SqlResult<()> {
        let (is_move, what) = if self.is_word("move") { (true, "MOVE") } else { (false, "FETCH") };
        self.skip(1);
        let (movement, counted, is_one) = self.direction(line, what)?;
        if !is_one && !is_move {
            let message = "FETCH statement cannot return multiple rows";
            return Err(self.located(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
        }
        let cursor = self.cursor_variable()?;
        let into = match is_move {
            true => None,
            false => {
                self.expect_word("into")?;
                Some(self.targets()?)
            }
        };
        self.expect_sign(";")?;
        self.emit(Op::Fetch { cursor, movement, counted, into }, line, what);
        Ok(())
    }

    /// Where to go, with FROM or IN behind it, and whether that is one row at most.
    fn direction(&mut self, line: u32, what: &'static str) -> SqlResult<(Movement, Option<Counted>, bool)> {
        const ALL: i64 = i64::MAX;
        let word = self.word().unwrap_or_default().to_string();
        let is_variable = find(&self.program.scopes, self.scope, std::slice::from_ref(&word)).is_some();
        let (movement, counted, is_one) = match word.as_str() {
            "from" | "in" => (Movement::Rows(1), None, true),
            // It is the cursor.
            _ if is_variable => return Ok((Movement::Rows(1), None, true)),
            "next" | "prior" | "first" | "last" | "all" | "absolute" | "relative" | "forward"
            | "backward" => {
                self.skip(1);
                let is_bare = self.is_word("from") || self.is_word("in");
                match word.as_str() {
                    "next" => (Movement::Rows(1), None, true),
                    "prior" => (Movement::Rows(-1), None, true),
                    "first" => (Movement::Absolute(1), None, true),
                    "last" => (Movement::Absolute(-1), None, true),
                    "all" => (Movement::Rows(ALL), None, false),
                    "absolute" => (Movement::Absolute(0), Some(Counted::AsItIs), true),
                    "relative" => (Movement::Relative(0), Some(Counted::AsItIs), true),
                    "forward" if is_bare => (Movement::Rows(1), None, true),
                    "backward" if is_bare => (Movement::Rows(-1), None, true),
                    "forward" if self.take_word("all") => (Movement::Rows(ALL), None, false),
                    "backward" if self.take_word("all") => (Movement::Rows(-ALL), None, false),
                    "forward" => (Movement::Rows(0), Some(Counted::AsItIs), false),
                    _ => (Movement::Rows(0), Some(Counted::Backwards), false),
                }
            }
            // A quoted name is the cursor, too.
            _ if matches!(self.peek().map(|l| &l.token), Some(Token::Quoted(_))) => {
                return Ok((Movement::Rows(1), None, true));
            }
            _ => (Movement::Rows(0), Some(Counted::AsItIs), false),
        };
        if counted.is_some() {
            self.evaluate(&["from", "in"], line, what)?;
        }
        if !self.take_word("from") {
            self.expect_word("in")?;
        }
        Ok((movement, counted, is_one))
    }

    pub(super) fn close_cursor(&mut self, line: u32) -> SqlResult<()> {
        self.skip(1);
        let variable = self.cursor_variable()?;
        self.expect_sign(";")?;
        self.emit(Op::CloseCursor(variable), line, "CLOSE");
        Ok(())
    }
}
