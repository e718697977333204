//! What a body is compiled to.

use crate::conditions::Condition;
use base::SqlState;
use std::collections::BTreeMap;

/// Where a FETCH or a MOVE takes a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// So many rows on, or back.
    Rows(i64),
    /// The n-th row, from the end if negative.
    Absolute(i64),
    /// The n-th row from here.
    Relative(i64),
}

impl Movement {
    /// The same by another count.
    pub(crate) fn by(self, count: i64) -> Movement {
        match self {
            Movement::Rows(_) => Movement::Rows(count),
            Movement::Absolute(_) => Movement::Absolute(count),
            Movement::Relative(_) => Movement::Relative(count),
        }
    }
}

/// What is known of a function before its body is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name that qualifies its arguments; empty for DO.
    pub name: String,
    /// As messages show it: `f(integer)`.
    pub shown: String,
    pub arguments: Vec<Argument>,
    pub returns: Returns,
    /// RETURNS SETOF and RETURNS TABLE.
    pub is_set: bool,
    pub is_procedure: bool,
}

/// An argument, or a column of RETURNS TABLE, which is one that only goes out.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    pub name: Option<String>,
    pub goes_in: bool,
    pub goes_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// `void`, procedures and DO.
    Nothing,
    /// A value or a row.
    Value,
    /// A row, or nothing; with variables about what fired the trigger.
    Trigger,
    /// Whether a trigger fires, with the same variables.
    Condition,
}

impl Signature {
    /// Of a DO.
    pub fn of_block() -> Signature {
        Signature {
            name: String::new(),
            shown: "inline_code_block".into(),
            arguments: Vec::new(),
            returns: Returns::Nothing,
            is_set: false,
            is_procedure: false,
        }
    }

    pub fn has_outputs(&self) -> bool {
        self.arguments.iter().any(|argument| argument.goes_out)
    }
}

/// A compiled body.
#[derive(Debug)]
pub struct Program {
    pub signature: Signature,
    /// Arguments first, each at its place.
    pub variables: Vec<Variable>,
    /// Texts of SQL that it contains.
    pub statements: Vec<Statement>,
    pub(crate) code: Vec<Instruction>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) handlers: Vec<Vec<Handler>>,
    /// The variable FOUND.
    pub(crate) found: usize,
    /// `#variable_conflict`.
    pub conflict: Conflict,
}

/// What a name means that both a variable and a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// An error: 42702.
    Error,
    Variable,
    Column,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    pub declared: Declared,
    pub is_constant: bool,
    pub not_null: bool,
    pub line: u32,
}

/// The type that a variable is declared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Declared {
    /// That of an argument, by its number.
    Argument(usize),
    /// A type as it is written, a record type among them: `numeric(10, 2)`, `t`.
    Type(String),
    /// `t.c%TYPE`.
    OfColumn(Vec<String>),
    /// `t%ROWTYPE`.
    RowOf(Vec<String>),
    /// That of another variable.
    OfVariable(usize),
    /// That of a field of a record variable, at the time when the program starts.
    OfField(usize, String),
    Record,
    Boolean,
    Integer,
    Text,
    /// That of what is assigned.
    Any,
}

/// A text of SQL.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Without INTO; of an expression without SELECT.
    pub text: String,
    /// It is an expression: `SELECT` belongs before it.
    pub is_expression: bool,
    pub line: u32,
    /// The expression is nothing but a name or a literal.
    pub(crate) simple: Option<Simple>,
    pub(crate) scope: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Simple {
    Name(Vec<String>),
    /// `COALESCE(a, b)` of names, for records.
    FirstOf(Vec<String>),
    Integer(i64),
    Text(String),
    Boolean(bool),
    Null,
}

impl Statement {
    /// The text of a query or statement.
    pub fn sql(&self) -> String {
        match self.is_expression {
            // In a list of columns `r.*` is all that there is of an item.
            true if self.compares_row() => format!("SELECT ({})", self.text),
            true => format!("SELECT {}", self.text),
            false => self.text.clone(),
        }
    }

    /// Whether an expression begins with `r.*` and goes on.
    fn compares_row(&self) -> bool {
        let Some((name, rest)) = self.text.split_once(".*") else { return false };
        let rest = rest.trim_start().to_ascii_lowercase();
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '"');
        is_name && ["is ", "is\n", "=", "<>", "!="].iter().any(|begin| rest.starts_with(begin))
    }
}

/// Names that are visible together.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub parent: Option<usize>,
    pub label: Option<String>,
    pub names: BTreeMap<String, usize>,
}

/// A variable, or a field of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub variable: usize,
    pub field: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Into {
    pub targets: Vec<Target>,
    pub strict: bool,
}

/// A part of EXCEPTION.
#[derive(Debug)]
pub(crate) struct Handler {
    pub conditions: Vec<Condition>,
    pub code: usize,
    pub sqlstate: usize,
    pub sqlerrm: usize,
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub op: Op,
    pub line: u32,
    /// As CONTEXT names it.
    pub what: &'static str,
}

/// One step of a program. Values go over a stack.
#[derive(Debug)]
pub(crate) enum Op {
    Nothing,
    /// Pushes an expression's value.
    Evaluate(usize),
    /// Pops a value.
    Assign(Target),
    /// Pops a value and the subscript before it: an element of an array.
    AssignElement(Target),
    /// A declared variable without a default begins as NULL.
    Clear(usize),
    Jump(usize),
    /// Pops a condition; jumps if it is false or NULL.
    JumpUnless(usize),
    Execute {
        statement: usize,
        into: Option<Into>,
        modifies: bool,
    },
    Perform(usize),
    /// Pops `using` values and the text.
    ExecuteText {
        using: usize,
        into: Option<Into>,
    },
    /// Begins a loop over a query's rows.
    QueryRows(usize),
    QueryText {
        using: usize,
    },
    /// Pops the step if there is one, the end and the beginning.
    BeginIntegers {
        has_step: bool,
        reverse: bool,
    },
    /// Pops an array.
    BeginElements,
    /// The loop's next value, or the end of it.
    Next {
        targets: Vec<Target>,
        end: usize,
    },
    EndLoop,
    /// A block with handlers begins and ends.
    Protect(usize),
    Unprotect(usize),
    /// A handler was left: its error is over.
    EndHandler,
    Raise(Box<Raise>),
    Reraise,
    /// Pops the message if there is one.
    FailAssertion {
        has_message: bool,
    },
    NoCase,
    Return,
    /// Pops the result.
    ReturnValue,
    /// Pops a row of the result.
    ReturnNext,
    /// The output arguments are a row of the result.
    ReturnOutputs,
    ReturnQuery(usize),
    ReturnQueryText {
        using: usize,
    },
    Diagnose {
        stacked: bool,
        items: Vec<(Target, Item)>,
    },
    /// Opens a cursor under the name that a variable has, or gives the variable the name that the cursor gets. Of a text
    /// there are `using` values and the text on the stack.
    OpenCursor {
        variable: usize,
        query: CursorQuery,
        scroll: Option<bool>,
    },
    /// FETCH, and MOVE without targets. Pops the count if the movement is `counted`.
    Fetch {
        cursor: usize,
        movement: Movement,
        counted: Option<Counted>,
        into: Option<Vec<Target>>,
    },
    CloseCursor(usize),
    /// Begins a loop over an open cursor, which ends with it.
    BeginCursor(usize),
    /// The next row of the loop's cursor, or the end of it.
    NextOfCursor {
        targets: Vec<Target>,
        end: usize,
    },
    /// COMMIT and ROLLBACK.
    EndTransaction(&'static str),
    /// The end of a function that returns something else.
    NoReturn,
}

/// What a cursor is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorQuery {
    Statement(usize),
    Text { using: usize },
}

/// How a count that is computed is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    AsItIs,
    /// Behind BACKWARD.
    Backwards,
}

#[derive(Debug)]
pub(crate) struct Raise {
    pub level: Level,
    pub format: Option<String>,
    /// Values for the format, on the stack before those of `options`.
    pub arguments: usize,
    /// A condition by its name or code, with what the message is without one.
    pub condition: Option<(SqlState, String)>,
    pub options: Vec<RaiseOption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Exception,
    /// A notice of this severity.
    Notice(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RaiseOption {
    Errcode,
    Message,
    Detail,
    Hint,
    Column,
    Constraint,
    DataType,
    Table,
    Schema,
}

/// What GET DIAGNOSTICS asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    RowCount,
    Context,
    State,
    Message,
    Detail,
    Hint,
    ErrorContext,
    Column,
    Constraint,
    Table,
    /// Not kept with errors: empty.
    Unknown,
}

impl Program {
    /// Finds what a name means where a statement stands: the variable, and how many parts of the name it takes.
    pub(crate) fn find(&self, scope: usize, name: &[String]) -> Option<(usize, usize)> {
        find(&self.scopes, scope, name)
    }
}

/// See [`Program::find`].
pub(crate) fn find(scopes: &[Scope], scope: usize, name: &[String]) -> Option<(usize, usize)> {
    let mut at = Some(scope);
    while let Some(scope) = at.map(|n| &scopes[n]) {
        if let Some(variable) = scope.names.get(name.first()?) {
            return Some((*variable, 1));
        }
        let is_label = name.len() > 1 && scope.label.as_ref() == name.first();
        if is_label && let Some(variable) = scope.names.get(&name[1]) {
            return Some((*variable, 2));
        }
        at = scope.parent;
    }
    None
}

/// Whether a name is that of a variable, or qualifies some.
pub(crate) fn is_name(scopes: &[Scope], scope: usize, name: &str) -> bool {
    let mut at = Some(scope);
    while let Some(scope) = at.map(|n| &scopes[n]) {
        if scope.names.contains_key(name) || scope.label.as_deref() == Some(name) {
            return true;
        }
        at = scope.parent;
    }
    false
}
