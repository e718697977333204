//! A running program.
//!
//! KEEPS: between two steps the program waits for the answer to its last request, at the instruction that asked; a
//! savepoint that it asked for is released or gone back to before the program is done.

mod cursors;
mod errors;
mod loops;
mod operations;
mod results;
pub mod types;
mod variables;

use crate::program::{Movement, Program};
use base::error::SqlResult;
use base::zone::Zone;
use base::{DataType, Datum, SqlError, SqlState};
use loops::Loop;
use std::sync::Arc;
use types::{Field, Kind, Row, Value};
pub use variables::Reference;
use variables::Slot;

/// Instructions between two times at which the host may stop a program, or let others go on.
const INSTRUCTIONS_MAX: usize = 256;

/// What variables take, for each of which an instruction counts once more: it may copy all of them.
const BYTES_OF_AN_INSTRUCTION: usize = 8 << 10;

/// What a running program asks of its host.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Run a statement of the program; its names are looked up by [`Run::find`]. Answer: [`Answer::Result`].
    Execute {
        statement: usize,
        wants: Wants,
    },
    /// Run a text with these values for `$1`, `$2`, … Answer: [`Answer::Result`].
    ExecuteText {
        text: String,
        using: Vec<Value>,
        wants: Wants,
    },
    /// Open a cursor; without a name, under one that is free. Answer: an [`Answer::Result`] of one value, its name.
    OpenCursor {
        name: Option<String>,
        query: Opening,
        /// SCROLL and NO SCROLL.
        scroll: Option<bool>,
    },
    /// Move a cursor. Answer: an [`Answer::Result`] that counts the rows on the way, and has them if they are wanted.
    Fetch {
        cursor: String,
        movement: Movement,
        is_wanted: bool,
    },
    CloseCursor(String),
    /// Set a savepoint inside of those that are set.
    Savepoint,
    /// Release the innermost savepoint.
    Release,
    /// Undo what was done since the savepoint that has `outer` others around it, and release it.
    RollBackTo {
        outer: usize,
    },
    Notice(Raised),
    /// Rows of the result, fitted to its type.
    Rows(Vec<Vec<Datum>>),
    /// Nothing: whoever waits for the host may go first.
    GiveWay,
    Done(Outcome),
    /// The error that nothing caught. The transaction's savepoints are the host's to clean up.
    Failed(SqlError),
}

/// What a cursor is opened for.
#[derive(Clone, Debug, PartialEq)]
pub enum Opening {
    /// A statement of the program, as [`Request::Execute`] has it.
    Statement(usize),
    /// A text, as [`Request::ExecuteText`] has it.
    Text { text: String, using: Vec<Value> },
}

/// What of a statement's result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// How many rows it had.
    Count,
    /// Its first rows, so many at most. The count is of all rows that were seen.
    First(usize),
    All,
}

/// What the host has done.
#[derive(Clone, Debug)]
pub enum Answer {
    /// What was asked for; also the first one.
    Done,
    Result(QueryResult),
    Failed(SqlError),
}

impl Answer {
    /// What a statement has given, or its error.
    pub fn from_result(result: SqlResult<QueryResult>) -> Answer {
        result.map_or_else(Answer::Failed, Answer::Result)
    }
}

/// A statement's result.
#[derive(Clone, Debug, Default)]
pub struct QueryResult {
    /// Of the rows that it returns; `None` if it is a command without rows.
    pub columns: Option<Vec<(String, DataType)>>,
    pub rows: Vec<Vec<Datum>>,
    /// Rows that it returned or changed; `None` for what counts none.
    pub count: Option<u64>,
}

/// A message of RAISE.
#[derive(Clone, Debug, PartialEq)]
pub struct Raised {
    pub severity: &'static str,
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// What a function returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Nothing,
    Value(Datum),
    Row(Row),
    /// NULL where a row is returned.
    NoRow,
}

/// Something on the stack.
#[derive(Clone, Debug)]
enum Item {
    Value(Value),
    Row(Row),
}

/// A block with handlers that runs.
#[derive(Debug)]
struct Protected {
    handlers: usize,
    stack: usize,
    loops: usize,
    caught: usize,
}

/// A program under way.
pub struct Run {
    program: Arc<Program>,
    zone: Zone,
    slots: Vec<Slot>,
    result: Kind,
    stack: Vec<Item>,
    loops: Vec<Loop>,
    protected: Vec<Protected>,
    /// Errors whose handlers run, innermost last.
    caught: Vec<SqlError>,
    at: usize,
    /// Since the host could last stop it.
    instructions: usize,
    row_count: u64,
    /// Rows of RETURN QUERY that the host has still to take.
    returned: Vec<Vec<Datum>>,
    bytes: usize,
}

impl Run {
    /// A program with the kinds of its variables, in their order; `result` is what it returns, `arguments` are the values of
    /// those that go in. `zone` is what texts of moments are read and shown in.
    pub fn new(
        program: Arc<Program>,
        kinds: Vec<Kind>,
        result: Kind,
        arguments: Vec<Datum>,
        zone: Zone,
    ) -> Run {
        assert_eq!(kinds.len(), program.variables.len(), "each variable has a kind");
        let mut slots: Vec<Slot> = kinds.into_iter().map(Slot::new).collect();
        let goes_in = program.signature.arguments.iter().enumerate().filter(|(_, a)| a.goes_in);
        for ((n, _), datum) in goes_in.zip(arguments) {
            slots[n].begin(datum);
        }
        slots[program.found].begin(Datum::Bool(false));
        let bytes = slots.iter().map(Slot::bytes).sum();
        Run {
            program,
            zone,
            slots,
            result,
            stack: Vec::new(),
            loops: Vec::new(),
            protected: Vec::new(),
            caught: Vec::new(),
            at: 0,
            instructions: 0,
            row_count: 0,
            returned: Vec::new(),
            bytes,
        }
    }

    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
    /// What variables and rows of loops take in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Goes on with the answer to the last request, the first time with [`Answer::Done`]. After [`Request::Done`] and
    /// [`Request::Failed`] it is not to be called again.
    pub fn step(&mut self, answer: Answer) -> Request {
        let taken = match answer {
            Answer::Done => Ok(()),
            Answer::Result(result) => self.take(result),
            Answer::Failed(error) => Err(error),
        };
        if let Err(error) = taken {
            return self.fail(error);
        }
        if !self.returned.is_empty() {
            return Request::Rows(std::mem::take(&mut self.returned));
        }
        while self.instructions < INSTRUCTIONS_MAX {
            self.instructions += 1 + self.bytes / BYTES_OF_AN_INSTRUCTION;
            match self.advance() {
                Ok(None) => {}
                Ok(Some(request)) => return request,
                Err(error) => return self.fail(error),
            }
        }
        self.instructions = 0;
        Request::GiveWay
    }

    fn push(&mut self, datum: Datum, data_type: DataType) {
        self.stack.push(Item::Value(Value::new(datum, data_type)));
    }
    fn push_item(&mut self, item: Item) {
        self.stack.push(item);
    }
    fn cut_stack(&mut self, remaining: usize) {
        self.stack.truncate(remaining);
    }
    fn pop(&mut self) -> Item {
        self.stack.pop().expect("instructions push what others pop")
    }
    /// Errors: 42804 for a row.
    fn pop_value(&mut self) -> SqlResult<Value> {
        match self.pop() {
            Item::Value(value) => Ok(value),
            Item::Row(_) => Err(types::mismatch("a row stands where a value is needed")),
        }
    }
    /// The values that were pushed last.
    fn pop_values(&mut self, count: usize) -> SqlResult<Vec<Value>> {
        let mut values = (0..count).map(|_| self.pop_value()).collect::<SqlResult<Vec<_>>>()?;
        values.reverse();
        Ok(values)
    }
    fn set_found(&mut self, found: bool) {
        self.slots[self.program.found].begin(Datum::Bool(found));
    }
}

/// Fields of a query's columns.
fn fields(columns: &[(String, DataType)]) -> Arc<[Field]> {
    columns.iter().map(|(name, of)| Field { name: name.clone(), of: (*of).into() }).collect()
}
