//! PL/pgSQL: texts of functions to programs, and programs that run step by step.
//!
//! IN: a body with what is known of its function ([`parse()`]); types of variables, arguments and answers to what a running
//! program has asked ([`Run::step`]). OUT: a [`Program`]; [`Request`]s: run this statement, set this savepoint, tell this
//! notice, here is a row of the result. KEEPS: nothing here reads SQL, a catalog or a clock: a statement is its text, whose
//! names the host looks up ([`Run::find`]) and puts values in for ([`Run::value`]). The same answers give the same requests.
//! Reading takes time linear in the length of a text; a step ends after a bounded number of instructions, so that whoever
//! drives a program can stop it.
//!
//! [`parse()`] compiles in one go: control flow becomes jumps (`program::Op`), and what a statement leaves when it is left
//! early (loops, savepoints, caught errors) is said by instructions of its own. The behaviour is that of PostgreSQL 15,
//! documentation chapter 43.
//!
//! What a program holds in memory is counted ([`Run::bytes`]); the host accounts for it after each step. Rows of a
//! function's result are handed over one by one and are the host's from then on.

mod conditions;
mod lex;
mod parse;
mod program;
mod run;

pub use parse::{TRIGGER_DEPTH, parse};
pub use program::{Argument, Conflict, Declared, Movement, Program, Returns, Signature, Statement, Variable};
pub use run::types::{Field, Kind, Row, ScalarType, Value};
pub use run::{Answer, Opening, Outcome, QueryResult, Raised, Reference, Request, Run, Wants};
