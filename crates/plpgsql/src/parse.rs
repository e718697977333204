//! Bodies to programs.
//!
//! KEEPS: blocks and statements inside each other are bounded in depth; each lexeme is looked at a bounded number of times.

mod blocks;
mod cursors;
mod loops;
mod raise;
mod statements;

use crate::lex::{Lexeme, Token, lexemes};
use crate::program::{
    Conflict, Declared, Handler, Instruction, Op, Program, Returns, Scope, Signature, Simple, Statement,
    Target, Variable, find,
};
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};
use cursors::Bound;
use std::collections::BTreeMap;

/// The variable that holds how many triggers are around; bodies call it as a function.
pub const TRIGGER_DEPTH: &str = "pg_trigger_depth()";

/// Levels of blocks, loops and conditions inside each other.
const NESTING_MAX: usize = 100;

/// What may be left early, outermost first.
enum Around {
    Block { label: Option<String>, exits: Vec<usize> },
    Loop { label: Option<String>, exits: Vec<usize>, next: usize, has_state: bool },
    Protected(usize),
    Handler,
}

struct Parser<'t> {
    text: &'t str,
    lexemes: Vec<Lexeme>,
    at: usize,
    program: Program,
    scope: usize,
    around: Vec<Around>,
    depth: usize,
    /// Cursors that are declared with their queries, by their variables.
    cursors: BTreeMap<usize, Bound>,
}

/// Compiles a body. Errors: 42601 with what was found and its line, 42804 for a RETURN that does not fit the function,
/// 42704 for conditions that there are not, 54001, 0A000.
pub fn parse(body: &str, signature: &Signature) -> SqlResult<Program> {
    let shown = &signature.shown;
    let named = |mut error: SqlError| {
        if let Some(line) = error.context.as_ref().and_then(|c| c.strip_suffix(" of the PL/pgSQL text")) {
            error.context = Some(format!("compilation of PL/pgSQL function \"{shown}\" near {line}"));
        }
        error
    };
    let lexemes = lexemes(body).map_err(named)?;
    let mut parser = Parser {
        text: body,
        lexemes,
        at: 0,
        program: empty(signature),
        scope: 0,
        around: Vec::new(),
        depth: 0,
        cursors: BTreeMap::new(),
    };
    parser.declare_arguments();
    parser.body().map_err(named)?;
    Ok(parser.program)
}

fn empty(signature: &Signature) -> Program {
    let label = Some(signature.name.clone()).filter(|name| !name.is_empty());
    Program {
        signature: signature.clone(),
        variables: Vec::new(),
        statements: Vec::new(),
        code: Vec::new(),
        scopes: vec![Scope { label, ..Scope::default() }],
        handlers: Vec::new(),
        found: 0,
        conflict: Conflict::Error,
    }
}

/// Variables that a trigger function has, as it names them.
const OF_TRIGGERS: [(&str, Declared); 11] = [
    ("new", Declared::Record),
    ("old", Declared::Record),
    ("tg_name", Declared::Text),
    ("tg_when", Declared::Text),
    ("tg_level", Declared::Text),
    ("tg_op", Declared::Text),
    ("tg_relname", Declared::Text),
    ("tg_table_name", Declared::Text),
    ("tg_table_schema", Declared::Text),
    ("tg_nargs", Declared::Integer),
    ("tg_relid", Declared::Integer),
];

impl Parser<'_> {
    fn declare_arguments(&mut self) {
        let arguments = self.program.signature.arguments.clone();
        for (n, argument) in arguments.iter().enumerate() {
            let name = argument.name.clone().unwrap_or_default();
            let variable = self.variable(&name, Declared::Argument(n), 0);
            self.program.scopes[0].names.insert(format!("${}", n + 1), variable);
        }
        self.program.found = self.variable("found", Declared::Boolean, 0);
        self.variable(TRIGGER_DEPTH, Declared::Integer, 0);
        if matches!(self.program.signature.returns, Returns::Trigger | Returns::Condition) {
            for (name, declared) in OF_TRIGGERS {
                self.variable(name, declared, 0);
            }
            let arguments = Declared::Type("text[]".into());
            self.variable("tg_argv", arguments, 0);
        }
    }

    fn body(&mut self) -> SqlResult<()> {
        self.directives()?;
        let label = self.label()?;
        self.block(label)?;
        self.take_sign(";");
        if self.peek().is_some() {
            return Err(self.unexpected());
        }
        let signature = &self.program.signature;
        let returns = signature.returns != Returns::Nothing && !signature.is_set && !signature.has_outputs();
        self.emit(if returns { Op::NoReturn } else { Op::Return }, 0, "");
        Ok(())
    }

    /// `#variable_conflict use_column`, before the first block.
    fn directives(&mut self) -> SqlResult<()> {
        while self.take_sign("#") {
            let (what, value) = (self.word().unwrap_or_default(), self.word_at(1).unwrap_or_default());
            self.program.conflict = match (what, value) {
                ("variable_conflict", "error") => Conflict::Error,
                ("variable_conflict", "use_variable") => Conflict::Variable,
                ("variable_conflict", "use_column") => Conflict::Column,
                _ => return Err(self.unexpected()),
            };
            self.at += 2;
        }
        Ok(())
    }

    // Lexemes.

    fn peek(&self) -> Option<&Lexeme> {
        self.lexemes.get(self.at)
    }
    /// The line of the next lexeme, or of the last one.
    fn line(&self) -> u32 {
        self.peek().or(self.lexemes.last()).map_or(1, |lexeme| lexeme.line)
    }
    fn word(&self) -> Option<&str> {
        self.word_at(0)
    }
    fn word_at(&self, ahead: usize) -> Option<&str> {
        match self.lexemes.get(self.at + ahead).map(|lexeme| &lexeme.token) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }
    fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }
    fn is_sign_at(&self, ahead: usize, sign: &str) -> bool {
        let lexeme = self.lexemes.get(self.at + ahead);
        lexeme.is_some_and(|l| l.token == Token::Sign && &self.text[l.start..l.end] == sign)
    }
    fn is_sign(&self, sign: &str) -> bool {
        self.is_sign_at(0, sign)
    }
    fn skip(&mut self, lexemes: usize) {
        self.at += lexemes;
    }
    fn back(&mut self) {
        self.at -= 1;
    }
    /// Goes to a lexeme; answers where it was.
    fn go_to(&mut self, at: usize) -> usize {
        std::mem::replace(&mut self.at, at)
    }
    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }
    fn take_sign(&mut self, sign: &str) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }
    fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }
    fn expect_sign(&mut self, sign: &str) -> SqlResult<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }
    /// A name, quoted or not.
    fn take_name(&mut self) -> SqlResult<String> {
        match self.peek().map(|lexeme| lexeme.token.clone()) {
            Some(Token::Word(name) | Token::Quoted(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }
    fn take_text(&mut self) -> SqlResult<String> {
        match self.peek().map(|lexeme| lexeme.token.clone()) {
            Some(Token::Text(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }
    /// `a.b.c`.
    fn take_dotted(&mut self) -> SqlResult<Vec<String>> {
        let mut parts = vec![self.take_name()?];
        while self.is_sign(".") {
            self.at += 1;
            parts.push(self.take_name()?);
        }
        Ok(parts)
    }

    fn unexpected(&self) -> SqlError {
        match self.peek() {
            Some(lexeme) => {
                let found = &self.text[lexeme.start..lexeme.end];
                self.wrong(format!("syntax error at or near \"{found}\""))
            }
            None => self.wrong("unexpected end of function definition"),
        }
    }
    /// A syntax error here.
    fn wrong(&self, message: impl Into<String>) -> SqlError {
        self.located(SqlError::new(SqlState::SYNTAX_ERROR, message))
    }
    fn located(&self, error: SqlError) -> SqlError {
        error.context(format!("line {} of the PL/pgSQL text", self.line()))
    }
    fn unsupported(&self, what: &str) -> SqlError {
        self.located(SqlError::unsupported(format!("{what} in PL/pgSQL")))
    }

    /// What is inside counts as a level deeper. Errors: 54001.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.depth == NESTING_MAX {
            let message = "statements are nested too deeply";
            let hint =
                format!("Blocks, loops and conditions may stand inside each other {NESTING_MAX} times.");
            return Err(self.located(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).hint(hint)));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    // What is made.

    fn emit(&mut self, op: Op, line: u32, what: &'static str) -> usize {
        self.program.code.push(Instruction { op, line, what });
        self.program.code.len() - 1
    }
    fn here(&self) -> usize {
        self.program.code.len()
    }
    /// Lets jumps go to where the code is now.
    fn land(&mut self, jumps: impl IntoIterator<Item = usize>) {
        let here = self.here();
        for jump in jumps {
            match &mut self.program.code[jump].op {
                Op::Jump(to) | Op::JumpUnless(to) | Op::Next { end: to, .. } => *to = here,
                _ => unreachable!("only jumps are left open"),
            }
        }
    }

    fn variable(&mut self, name: &str, declared: Declared, line: u32) -> usize {
        let number = self.program.variables.len();
        self.program.variables.push(Variable {
            name: name.into(),
            declared,
            is_constant: false,
            not_null: false,
            line,
        });
        if !name.is_empty() {
            self.program.scopes[self.scope].names.insert(name.into(), number);
        }
        number
    }
    /// Another name of a variable.
    fn name_also(&mut self, name: String, variable: usize) {
        self.program.scopes[self.scope].names.insert(name, variable);
    }
    /// Room for the handlers of a block; its number.
    fn new_handlers(&mut self) -> usize {
        self.program.handlers.push(Vec::new());
        self.program.handlers.len() - 1
    }
    fn add_handler(&mut self, block: usize, handler: Handler) {
        self.program.handlers[block].push(handler);
    }
    /// Puts another instruction in the place of one.
    fn replace(&mut self, at: usize, op: Op) {
        self.program.code[at].op = op;
    }
    fn declare_so(&mut self, variable: usize, is_constant: bool, not_null: bool) {
        let declared = &mut self.program.variables[variable];
        (declared.is_constant, declared.not_null) = (is_constant, not_null);
    }
    /// The condition of a simple CASE: a value that is held in a variable is one of a list.
    fn compare(&mut self, expression: usize, name: &str) {
        let statement = &mut self.program.statements[expression];
        statement.text = format!("{name} IN ({})", statement.text);
        statement.simple = None;
    }
    fn open_scope(&mut self, label: Option<String>) {
        let parent = Some(self.scope);
        self.scope = self.program.scopes.len();
        self.program.scopes.push(Scope { parent, label, ..Scope::default() });
    }
    fn close_scope(&mut self) {
        self.scope = self.program.scopes[self.scope].parent.expect("scopes are closed as they are opened");
    }

    /// The target that a name is. Errors: 42601 if it is no variable, 22005 if it is a constant.
    fn target(&self, name: &[String]) -> SqlResult<Target> {
        let unknown = || self.wrong(format!("\"{}\" is not a known variable", name.join(".")));
        let (variable, taken) = find(&self.program.scopes, self.scope, name).ok_or_else(unknown)?;
        let field = match &name[taken..] {
            [] => None,
            [field] => Some(field.clone()),
            _ => return Err(unknown()),
        };
        let declared = &self.program.variables[variable];
        if declared.is_constant {
            let message = format!("variable \"{}\" is declared CONSTANT", declared.name);
            return Err(self.located(SqlError::new(SqlState(*b"22005"), message)));
        }
        Ok(Target { variable, field })
    }

    // Texts of SQL.

    /// Reads up to one of these words or signs outside of parentheses and CASE, which is not taken; answers the lexemes.
    fn skip_until(&mut self, ends: &[&str]) -> SqlResult<std::ops::Range<usize>> {
        let start = self.at;
        let (mut open, mut cases) = (Vec::new(), 0usize);
        while let Some(lexeme) = self.lexemes.get(self.at) {
            let shown = match &lexeme.token {
                Token::Word(word) => word.as_str(),
                Token::Sign => &self.text[lexeme.start..lexeme.end],
                _ => "",
            };
            match shown {
                _ if open.is_empty() && cases == 0 && ends.contains(&shown) => return Ok(start..self.at),
                ";" if !open.is_empty() => return Err(self.wrong("mismatched parentheses at or near \";\"")),
                ";" => break,
                "(" | "[" => open.push(shown == "("),
                ")" | "]" if open.pop() != Some(shown == ")") => {
                    return Err(self.wrong(format!("mismatched parentheses at or near \"{shown}\"")));
                }
                "case" => cases += 1,
                "end" => cases = cases.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        if self.peek().is_none() {
            return Err(self.unexpected());
        }
        let missing = ends.first().map_or_else(String::new, |end| end.to_uppercase());
        Err(self.wrong(format!("missing \"{missing}\" at end of SQL expression")))
    }

    fn text_of(&self, range: std::ops::Range<usize>) -> &str {
        match (self.lexemes.get(range.start), range.end.checked_sub(1).and_then(|n| self.lexemes.get(n))) {
            (Some(first), Some(last)) if range.start < range.end => &self.text[first.start..last.end],
            _ => "",
        }
    }

    /// An expression up to one of these. Errors: 42601 if there is none.
    fn expression(&mut self, ends: &[&str]) -> SqlResult<usize> {
        let range = self.skip_until(ends)?;
        if range.is_empty() {
            let found = self.peek().map_or("", |lexeme| &self.text[lexeme.start..lexeme.end]);
            return Err(self.wrong(format!("missing expression at or near \"{found}\"")));
        }
        Ok(self.statement(range, true))
    }

    /// An expression that is evaluated.
    fn evaluate(&mut self, ends: &[&str], line: u32, what: &'static str) -> SqlResult<()> {
        let expression = self.expression(ends)?;
        self.emit(Op::Evaluate(expression), line, what);
        Ok(())
    }

    fn statement(&mut self, range: std::ops::Range<usize>, is_expression: bool) -> usize {
        let simple = if is_expression { self.simple(&self.lexemes[range.clone()]) } else { None };
        let line = self.lexemes.get(range.start).map_or(1, |lexeme| lexeme.line);
        let text = self.text_of(range).to_string();
        self.add_statement(Statement { text, is_expression, line, simple, scope: self.scope })
    }
    fn add_statement(&mut self, statement: Statement) -> usize {
        self.program.statements.push(statement);
        self.program.statements.len() - 1
    }

    fn simple(&self, lexemes: &[Lexeme]) -> Option<Simple> {
        let text = |lexeme: &Lexeme| self.text[lexeme.start..lexeme.end].to_string();
        let number = |lexeme: &Lexeme| text(lexeme).parse::<i64>().ok().map(Simple::Integer);
        match lexemes {
            [one] => match &one.token {
                Token::Word(word) => Some(match word.as_str() {
                    "true" => Simple::Boolean(true),
                    "false" => Simple::Boolean(false),
                    "null" => Simple::Null,
                    _ => Simple::Name(vec![word.clone()]),
                }),
                Token::Quoted(name) => Some(Simple::Name(vec![name.clone()])),
                Token::Text(value) => Some(Simple::Text(value.clone())),
                Token::Number => number(one),
                Token::Parameter => Some(Simple::Name(vec![text(one)])),
                Token::Sign => None,
            },
            [function, open, a, comma, b, close]
                if function.token == Token::Word("coalesce".into())
                    && [(open, "("), (comma, ","), (close, ")")]
                        .iter()
                        .all(|(sign, is)| text(sign) == *is) =>
            {
                let name = |lexeme: &Lexeme| match &lexeme.token {
                    Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
                    _ => None,
                };
                Some(Simple::FirstOf(vec![name(a)?, name(b)?]))
            }
            [first, rest @ ..] if rest.len() % 2 == 0 && rest.len() <= 4 => {
                let name = |lexeme: &Lexeme| match &lexeme.token {
                    Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
                    _ => None,
                };
                let mut parts = vec![name(first)?];
                for pair in rest.chunks(2) {
                    if text(&pair[0]) != "." {
                        return None;
                    }
                    parts.push(name(&pair[1])?);
                }
                Some(Simple::Name(parts))
            }
            _ => None,
        }
    }
}

impl Simple {
    /// A literal's value and type; `None` for a name.
    pub(crate) fn literal(&self) -> Option<(Datum, DataType)> {
        Some(match self {
            Simple::Name(_) | Simple::FirstOf(_) => return None,
            Simple::Integer(n) => {
                let data_type = if i32::try_from(*n).is_ok() { DataType::Integer } else { DataType::BigInt };
                (Datum::Int(*n), data_type)
            }
            Simple::Text(text) => (Datum::text(text), DataType::Text),
            Simple::Boolean(value) => (Datum::Bool(*value), DataType::Boolean),
            Simple::Null => (Datum::Null, DataType::Text),
        })
    }
}
