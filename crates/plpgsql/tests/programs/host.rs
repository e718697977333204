//! A host that is a script.

use base::zone::Zone;
use base::{DataType, Datum, SqlError, SqlState};
use plpgsql::{
    Answer, Argument, Declared, Field, Kind, Opening, Outcome, QueryResult, Request, Returns, Run, Signature,
    parse,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Answers statements by their texts, and computes `a + b`, `a > b` and the like of integers and texts by itself.
#[derive(Default)]
pub struct Host {
    answers: BTreeMap<&'static str, Answer>,
    log: Vec<String>,
    /// Rows that its cursors have still to give, which are counted down.
    left: i64,
}

pub fn rows(columns: &[(&str, DataType)], rows: Vec<Vec<Datum>>) -> Answer {
    let columns = columns.iter().map(|(name, of)| (name.to_string(), *of)).collect();
    let count = Some(rows.len() as u64);
    Answer::Result(QueryResult { columns: Some(columns), rows, count })
}

pub fn changed(count: u64) -> Answer {
    Answer::Result(QueryResult { columns: None, rows: Vec::new(), count: Some(count) })
}

pub fn refused(state: SqlState, message: &str) -> Answer {
    Answer::Failed(SqlError::new(state, message))
}

impl Host {
    pub fn with(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> Host {
        Host { answers: answers.into_iter().collect(), ..Host::default() }
    }

    /// One whose cursors give so many rows.
    pub fn of_rows(left: i64) -> Host {
        Host { left, ..Host::default() }
    }

    pub fn answer(&mut self, run: &Run, request: &Request) -> Answer {
        match request {
            Request::Execute { statement, .. } => {
                let text = run.program().statements[*statement].sql();
                let value = |name: &str| operand(run, *statement, name);
                if let Some(answer) = self.answers.get(text.as_str()) {
                    self.log.push(text);
                    return answer.clone();
                }
                match computed(&text, &value) {
                    Some(Ok((datum, of))) => rows(&[("?column?", of)], vec![vec![datum]]),
                    Some(Err(error)) => Answer::Failed(error),
                    None => panic!("nothing is known of: {text}"),
                }
            }
            Request::ExecuteText { text, using, .. } => {
                let shown: Vec<String> = using.iter().map(|v| base::text::display(&v.datum)).collect();
                self.log.push(format!("execute {text} [{}]", shown.join(", ")));
                self.answers.get(text.as_str()).cloned().unwrap_or_else(|| changed(0))
            }
            Request::OpenCursor { name, query, .. } => {
                let name = name.clone().unwrap_or_else(|| "<unnamed portal 1>".into());
                let text = match query {
                    Opening::Statement(statement) => run.program().statements[*statement].sql(),
                    Opening::Text { text, .. } => text.clone(),
                };
                self.log.push(format!("open {name}: {text}"));
                rows(&[("name", DataType::Text)], vec![vec![Datum::text(name)]])
            }
            Request::Fetch { cursor, movement, .. } => {
                self.log.push(format!("fetch {cursor} {movement:?}"));
                self.left -= 1;
                let row = (self.left >= 0).then(|| vec![Datum::Int(self.left)]);
                rows(&[("n", DataType::Integer)], row.into_iter().collect())
            }
            Request::CloseCursor(name) => self.note(format!("close {name}")),
            Request::Savepoint => self.note("savepoint".into()),
            Request::Release => self.note("release".into()),
            Request::RollBackTo { outer } => self.note(format!("back to {outer}")),
            Request::Notice(raised) => {
                let detail = raised.detail.as_ref().map_or_else(String::new, |d| format!(" ({d})"));
                self.note(format!("{} {}: {}{detail}", raised.severity, raised.state, raised.message))
            }
            Request::Rows(rows) => {
                for row in rows {
                    let shown: Vec<String> = row.iter().map(shown).collect();
                    self.log.push(format!("row {}", shown.join(", ")));
                }
                Answer::Done
            }
            Request::GiveWay => self.note("gives way".into()),
            Request::Done(_) | Request::Failed(_) => unreachable!("it is over"),
        }
    }

    fn note(&mut self, what: String) -> Answer {
        self.log.push(what);
        Answer::Done
    }
}

fn shown(datum: &Datum) -> String {
    if datum.is_null() { "NULL".into() } else { base::text::display(datum) }
}

fn operand(run: &Run, statement: usize, text: &str) -> Option<Datum> {
    if let Ok(n) = text.parse::<i64>() {
        return Some(Datum::Int(n));
    }
    if let Some(text) = text.strip_prefix('\'') {
        return Some(Datum::text(text.trim_end_matches('\'')));
    }
    let parts: Vec<String> = text.split('.').map(String::from).collect();
    run.find(statement, &parts).map(|found| run.value(&found).expect("it has a value").datum)
}

/// `SELECT a op b`, or a value alone.
fn computed(
    text: &str,
    value: &dyn Fn(&str) -> Option<Datum>,
) -> Option<Result<(Datum, DataType), SqlError>> {
    let words: Vec<&str> = text.strip_prefix("SELECT ")?.split(' ').collect();
    let [a, op, b] = words.as_slice() else { return None };
    let (a, b) = (value(a)?, value(b)?);
    let truth = |holds: bool| Ok((Datum::Bool(holds), DataType::Boolean));
    Some(match (&a, *op, &b) {
        (Datum::Text(a), "||", b) => Ok((Datum::text(format!("{a}{}", shown(b))), DataType::Text)),
        (Datum::Int(a), "+", Datum::Int(b)) => Ok((Datum::Int(a + b), DataType::Integer)),
        (Datum::Int(a), "*", Datum::Int(b)) => Ok((Datum::Int(a * b), DataType::Integer)),
        (Datum::Int(_), "/", Datum::Int(0)) => {
            Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"))
        }
        (a, "=", b) => truth(a == b),
        (a, ">", b) => truth(a.compare(b) == Some(std::cmp::Ordering::Greater)),
        _ => return None,
    })
}

pub fn integer_pair() -> Vec<Field> {
    ["a", "b"].map(|name| Field { name: name.into(), of: DataType::Integer.into() }).into()
}

/// The kinds of a program's variables: types by a few names.
pub fn kinds(program: &plpgsql::Program) -> Vec<Kind> {
    let scalar = |of: DataType| Kind::Scalar(of.into());
    let mut kinds: Vec<Kind> = Vec::new();
    for variable in &program.variables {
        kinds.push(match &variable.declared {
            Declared::Argument(_) | Declared::Integer => scalar(DataType::Integer),
            Declared::Boolean => scalar(DataType::Boolean),
            Declared::Text => scalar(DataType::Text),
            Declared::Record => Kind::Record,
            Declared::Any => Kind::Any,
            Declared::RowOf(_) => Kind::Row(integer_pair().into()),
            Declared::OfVariable(n) => kinds[*n].clone(),
            Declared::Type(of) => match of.as_str() {
                "int" => scalar(DataType::Integer),
                "text" | "refcursor" => scalar(DataType::Text),
                "numeric(4, 1)" => scalar(DataType::Numeric { precision: 4, scale: 1 }),
                "varchar(3)" => scalar(DataType::Varchar { length: 3 }),
                "int[]" => scalar(DataType::Array(base::element::Element::of(DataType::Integer).unwrap())),
                other => panic!("no type {other}"),
            },
            other => panic!("no type {other:?}"),
        });
    }
    kinds
}

pub fn function(arguments: &[&str], is_set: bool) -> Signature {
    let argument = |name: &&str| Argument { name: Some(name.to_string()), goes_in: true, goes_out: false };
    Signature {
        name: "f".into(),
        shown: "f(integer)".into(),
        arguments: arguments.iter().map(argument).collect(),
        returns: Returns::Value,
        is_set,
        is_procedure: false,
    }
}

/// Runs a body to its end; the log's last line says how it ended.
pub fn run_as(
    signature: Signature,
    result: Kind,
    arguments: Vec<i64>,
    body: &str,
    mut host: Host,
) -> Vec<String> {
    let program = Arc::new(parse(body, &signature).unwrap_or_else(|e| panic!("{e}: {:?}", e.context)));
    let kinds = kinds(&program);
    let arguments = arguments.into_iter().map(Datum::Int).collect();
    let mut run = Run::new(program, kinds, result, arguments, Zone::Utc);
    let mut answer = Answer::Done;
    for _ in 0..100_000 {
        let request = run.step(answer);
        match &request {
            Request::Done(outcome) => {
                host.log.push(match outcome {
                    Outcome::Nothing => "done".into(),
                    Outcome::Value(datum) => format!("done {}", shown(datum)),
                    Outcome::Row(row) => {
                        format!("done ({})", row.values.iter().map(shown).collect::<Vec<_>>().join(", "))
                    }
                    Outcome::NoRow => "done without a row".into(),
                });
                return host.log;
            }
            Request::Failed(error) => {
                let context = error.context.clone().unwrap_or_default();
                host.log.push(format!("failed {}: {} | {context}", error.state, error.message));
                return host.log;
            }
            _ => answer = host.answer(&run, &request),
        }
    }
    panic!("it does not end");
}

pub fn run_with(body: &str, host: Host) -> Vec<String> {
    run_as(Signature::of_block(), Kind::Nothing, Vec::new(), body, host)
}

#[track_caller]
pub fn check(body: &str, wanted: &[&str]) {
    assert_eq!(run_with(body, Host::default()), wanted, "{body}");
}

#[track_caller]
pub fn check_value(arguments: &[&str], values: &[i64], body: &str, wanted: &[&str]) {
    let signature = function(arguments, false);
    let result = Kind::Scalar(DataType::Integer.into());
    assert_eq!(run_as(signature, result, values.to_vec(), body, Host::default()), wanted, "{body}");
}

pub const NAMES: [&str; 1] = ["n"];
