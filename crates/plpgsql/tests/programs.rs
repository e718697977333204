//! Programs run against a host that is a script: what they ask, in which order, and how they end.

use base::zone::Zone;
use base::{DataType, Datum, SqlError, SqlState};
use plpgsql::{
    Answer, Argument, Declared, Field, Kind, Outcome, QueryResult, Request, Returns, Run, Signature, parse,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Answers statements by their texts, and computes `a + b`, `a > b` and the like of integers and texts by itself.
#[derive(Default)]
struct Host {
    answers: BTreeMap<&'static str, Answer>,
    log: Vec<String>,
}

fn rows(columns: &[(&str, DataType)], rows: Vec<Vec<Datum>>) -> Answer {
    let columns = columns.iter().map(|(name, of)| (name.to_string(), *of)).collect();
    let count = Some(rows.len() as u64);
    Answer::Result(QueryResult { columns: Some(columns), rows, count })
}

fn changed(count: u64) -> Answer {
    Answer::Result(QueryResult { columns: None, rows: Vec::new(), count: Some(count) })
}

fn refused(state: SqlState, message: &str) -> Answer {
    Answer::Failed(SqlError::new(state, message))
}

impl Host {
    fn with(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> Host {
        Host { answers: answers.into_iter().collect(), log: Vec::new() }
    }

    fn answer(&mut self, run: &Run, request: &Request) -> Answer {
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

fn integer_pair() -> Vec<Field> {
    ["a", "b"].map(|name| Field { name: name.into(), of: DataType::Integer.into() }).into()
}

/// The kinds of a program's variables: types by a few names.
fn kinds(program: &plpgsql::Program) -> Vec<Kind> {
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
                "text" => scalar(DataType::Text),
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

fn function(arguments: &[&str], is_set: bool) -> Signature {
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
fn run_as(
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

fn run_with(body: &str, host: Host) -> Vec<String> {
    run_as(Signature::of_block(), Kind::Nothing, Vec::new(), body, host)
}

#[track_caller]
fn check(body: &str, wanted: &[&str]) {
    assert_eq!(run_with(body, Host::default()), wanted, "{body}");
}

#[track_caller]
fn check_value(arguments: &[&str], values: &[i64], body: &str, wanted: &[&str]) {
    let signature = function(arguments, false);
    let result = Kind::Scalar(DataType::Integer.into());
    assert_eq!(run_as(signature, result, values.to_vec(), body, Host::default()), wanted, "{body}");
}

const NAMES: [&str; 1] = ["n"];

#[test]
fn loops_count_up_down_and_by_steps() {
    check(
        "begin for i in 1..3 loop raise notice '%', i; end loop; end",
        &["NOTICE 00000: 1", "NOTICE 00000: 2", "NOTICE 00000: 3", "done"],
    );
    check(
        "begin for i in reverse 5..1 by 2 loop raise notice '%', i; end loop; end",
        &["NOTICE 00000: 5", "NOTICE 00000: 3", "NOTICE 00000: 1", "done"],
    );
    check(
        "begin for i in 3..1 loop raise notice '%', i; end loop; raise notice '%', found; end",
        &["NOTICE 00000: f", "done"],
    );
    check(
        "begin for i in 2147483646..2147483647 loop raise notice '%', i; end loop; end",
        &["NOTICE 00000: 2147483646", "NOTICE 00000: 2147483647", "done"],
    );
    check(
        "begin for i in 1..2 by 0 loop null; end loop; end",
        &[
            "failed 22023: BY value of FOR loop must be greater than zero | PL/pgSQL function inline_code_block line 1 at FOR \
         with integer loop variable",
        ],
    );
    check(
        "begin for i in null..2 loop null; end loop; end",
        &[
            "failed 22004: lower bound of FOR loop cannot be null | PL/pgSQL function inline_code_block line 1 at FOR with \
         integer loop variable",
        ],
    );
}

#[test]
fn loops_are_left_and_continued_by_label() {
    let body = "<<outside>> declare n int := 0;
        begin
          <<a>> for i in 1..3 loop
            <<b>> for j in 1..3 loop
              continue a when j = 2;
              exit outside when i > 2;
              raise notice '% %', a.i, b.j;
            end loop b;
          end loop;
          raise notice 'not here';
        end outside;";
    check(body, &["NOTICE 00000: 1 1", "NOTICE 00000: 2 1", "done"]);
    check(
        "declare n int := 0; begin loop n := n + 1; exit when n > 2; end loop; while n > 0 loop n := n + -1; end loop; raise info '%', n; end",
        &["INFO 00000: 0", "done"],
    );
}

#[test]
fn a_value_is_returned_from_inside_of_everything() {
    let body = "begin
        for i in 1..10 loop
          begin
            if i * n > 6 then return i; end if;
          exception when others then return -1;
          end;
        end loop;
      end";
    // `i * n > 6` is more than the script computes.
    let host =
        Host::with([("SELECT i * n > 6", rows(&[("x", DataType::Boolean)], vec![vec![Datum::Bool(true)]]))]);
    let result = Kind::Scalar(DataType::Integer.into());
    let log = run_as(function(&NAMES, false), result, vec![3], body, host);
    assert_eq!(log, ["savepoint", "SELECT i * n > 6", "release", "done 1"]);
}

#[test]
fn the_end_without_a_value_is_an_error() {
    check_value(
        &NAMES,
        &[1],
        "begin if n > 1 then return 7; end if; end",
        &["failed 2F005: control reached end of function without RETURN | PL/pgSQL function f(integer)"],
    );
    check_value(&NAMES, &[2], "begin if n > 1 then return 7; end if; end", &["done 7"]);
}

#[test]
fn conditions_choose() {
    let body = "begin
        if n > 2 then return 1; elsif n = 2 then return 2; elseif n = 1 then return 3; else return 4; end if;
      end";
    for (n, wanted) in [(3, "done 1"), (2, "done 2"), (1, "done 3"), (0, "done 4")] {
        check_value(&NAMES, &[n], body, &[wanted]);
    }
    let searched = "begin case when n > 1 then return 1; when n = 1 then return 2; end case; end";
    check_value(&NAMES, &[2], searched, &["done 1"]);
    check_value(&NAMES, &[1], searched, &["done 2"]);
    check_value(
        &NAMES,
        &[0],
        searched,
        &["failed 20000: case not found | PL/pgSQL function f(integer) line 1 at CASE"],
    );
}

#[test]
fn a_simple_case_compares_with_each_list() {
    let truth = |holds| rows(&[("x", DataType::Boolean)], vec![vec![Datum::Bool(holds)]]);
    let host = Host::with([
        ("SELECT __case_variable_1__ IN (1, 2)", truth(false)),
        ("SELECT __case_variable_1__ IN (3)", truth(true)),
    ]);
    let log = run_with(
        "begin case 1 + 2 when 1, 2 then null; when 3 then raise notice 'three'; else null; end case; end",
        host,
    );
    assert_eq!(
        log,
        [
            "SELECT __case_variable_1__ IN (1, 2)",
            "SELECT __case_variable_1__ IN (3)",
            "NOTICE 00000: three",
            "done"
        ]
    );
}

#[test]
fn errors_are_caught_and_what_was_done_is_undone() {
    let body = "declare n int := 0;
        begin
          begin
            n := 5;
            n := 1 / 0;
          exception
            when unique_violation then raise notice 'wrong';
            when division_by_zero or sqlstate '22003' then
              raise notice '% % %', sqlstate, sqlerrm, n;
          end;
          raise notice 'goes on';
        end";
    check(
        body,
        &[
            "savepoint",
            "back to 0",
            "NOTICE 00000: 22012 division by zero 5",
            "NOTICE 00000: goes on",
            "done",
        ],
    );
}

#[test]
fn errors_in_handlers_go_to_the_block_around() {
    let body = "begin
          begin
            begin
              perform 1 / 0;
            exception when others then
              raise exception 'again: %', sqlerrm using errcode = 'unique_violation', hint = 'h';
            end;
          exception when division_by_zero then raise notice 'not this';
          end;
        exception when unique_violation then
          raise notice '%', sqlerrm;
          raise;
        end";
    check(
        body,
        &[
            "savepoint",
            "savepoint",
            "savepoint",
            "back to 2",
            "back to 0",
            "NOTICE 00000: again: division by zero",
            "failed 23505: again: division by zero | PL/pgSQL function inline_code_block line 6 at RAISE",
        ],
    );
}

#[test]
fn cancels_and_failed_assertions_are_not_others() {
    let body = "begin assert 1 > 2, 'no'; exception when others then null; end";
    check(body, &["savepoint", "failed P0004: no | PL/pgSQL function inline_code_block line 1 at ASSERT"]);
    check(
        "begin assert 2 > 1; assert null; exception when assert_failure then raise notice '%', sqlerrm; end",
        &["savepoint", "back to 0", "NOTICE 00000: assertion failed", "done"],
    );
}

#[test]
fn savepoints_are_released_however_a_block_is_left() {
    let body = "begin
          for i in 1..3 loop
            begin
              continue when i = 1;
              exit when i = 2;
            exception when others then null;
            end;
          end loop;
          begin
            begin perform 1 / 0; exception when others then exit_twice := 0; end;
          exception when others then null; end;
        end";
    let body = body.replace("exit_twice := 0", "null");
    check(
        &body,
        &[
            "savepoint",
            "release",
            "savepoint",
            "release",
            "savepoint",
            "savepoint",
            "back to 1",
            "release",
            "done",
        ],
    );
}

#[test]
fn a_handler_that_leaves_its_loop_forgets_its_error() {
    let body = "begin
          loop
            begin perform 1 / 0; exception when others then exit; end;
          end loop;
          raise;
        end";
    check(
        body,
        &[
            "savepoint",
            "back to 0",
            "failed 0Z002: RAISE without parameters cannot be used outside an exception handler | PL/pgSQL function \
         inline_code_block line 5 at RAISE",
        ],
    );
}

#[test]
fn queries_fill_variables() {
    let pair = [("a", DataType::Integer), ("b", DataType::Text)];
    let one = rows(&pair, vec![vec![Datum::Int(1), Datum::text("x")]]);
    let two = rows(&pair, vec![vec![Datum::Int(1), Datum::text("x")], vec![Datum::Int(2), Datum::text("y")]]);
    let host = Host::with([
        ("SELECT a, b FROM t", one),
        ("SELECT a, b FROM none", rows(&pair, vec![])),
        ("SELECT a, b FROM two", two),
    ]);
    let body = "declare r record; i int; s text;
        begin
          SELECT a, b INTO STRICT r FROM t;
          raise notice '% % %', r.a, r.b, found;
          SELECT a, b FROM none INTO i, s;
          raise notice '% % %', i, s, found;
          SELECT a, b FROM two INTO i, s;
          raise notice '% %', i, s;
          begin
            SELECT a, b FROM none INTO STRICT i, s;
          exception when no_data_found then raise notice '%', sqlerrm; end;
          SELECT a, b FROM two INTO STRICT i, s;
        end";
    assert_eq!(
        run_with(body, host),
        [
            "SELECT a, b FROM t",
            "NOTICE 00000: 1 x t",
            "SELECT a, b FROM none",
            "NOTICE 00000: <NULL> <NULL> f",
            "SELECT a, b FROM two",
            "NOTICE 00000: 1 x",
            "savepoint",
            "SELECT a, b FROM none",
            "back to 0",
            "NOTICE 00000: query returned no rows",
            "SELECT a, b FROM two",
            "failed P0003: query returned more than one row | PL/pgSQL function inline_code_block line 12 at SQL statement",
        ]
    );
}

#[test]
fn statements_count_their_rows() {
    let host = Host::with([
        ("UPDATE t SET a = 1", changed(3)),
        (
            "INSERT INTO t VALUES (1) RETURNING a",
            rows(&[("a", DataType::Integer)], vec![vec![Datum::Int(9)]]),
        ),
        ("SELECT 1 FROM t", rows(&[("a", DataType::Integer)], vec![vec![Datum::Int(1)]])),
    ]);
    let body = "declare n int; m int;
        begin
          UPDATE t SET a = 1;
          get diagnostics n = row_count;
          raise notice '% %', n, found;
          INSERT INTO t VALUES (1) RETURNING a INTO m;
          raise notice '%', m;
          SELECT 1 FROM t;
        end";
    assert_eq!(
        run_with(body, host),
        [
            "UPDATE t SET a = 1",
            "NOTICE 00000: 3 t",
            "INSERT INTO t VALUES (1) RETURNING a",
            "NOTICE 00000: 9",
            "SELECT 1 FROM t",
            "failed 42601: query has no destination for result data | PL/pgSQL function inline_code_block line 8 at SQL \
         statement",
        ]
    );
}

#[test]
fn texts_are_executed_with_values() {
    let host = Host::with([("select$1", rows(&[("x", DataType::Integer)], vec![vec![Datum::Int(5)]]))]);
    let body = "declare n int := 4;
        begin
          execute 'select' || '$1' into strict n using n + 1, 'x';
          execute 'drop' || n;
          execute null;
        end";
    assert_eq!(
        run_with(body, host),
        [
            "execute select$1 [5, x]",
            "execute drop5 []",
            "failed 22004: query string argument of EXECUTE is null | PL/pgSQL function inline_code_block line 5 at EXECUTE",
        ]
    );
}

#[test]
fn rows_are_looped_over_and_returned() {
    let pair = [("a", DataType::Integer), ("b", DataType::Integer)];
    let two = rows(&pair, vec![vec![Datum::Int(1), Datum::Int(2)], vec![Datum::Int(3), Datum::Null]]);
    let host = Host::with([("SELECT a, b FROM t", two.clone()), ("SELECT b, a FROM t", two)]);
    let body = "declare r record; x t%rowtype; i int; j int;
        begin
          for r in SELECT a, b FROM t loop
            r.a := r.a + 10;
            return next r;
          end loop;
          for i, j in SELECT a, b FROM t loop x.b := i; return next x; end loop;
          for r in execute 'SELECT b, a FROM t' loop continue; end loop;
          return query SELECT b, a FROM t;
          return;
        end";
    let log = run_as(function(&[], true), Kind::Row(integer_pair().into()), vec![], body, host);
    assert_eq!(
        log,
        [
            "SELECT a, b FROM t",
            "row 11, 2",
            "row 13, NULL",
            "SELECT a, b FROM t",
            "row NULL, 1",
            "row NULL, 3",
            "execute SELECT b, a FROM t []",
            "SELECT b, a FROM t",
            "row 1, 2",
            "row 3, NULL",
            "done"
        ]
    );
}

#[test]
fn results_of_another_shape_are_refused() {
    let host = Host::with([("SELECT b FROM t", rows(&[("b", DataType::Text)], vec![]))]);
    let result = Kind::Scalar(DataType::Integer.into());
    let log = run_as(function(&[], true), result, vec![], "begin return query SELECT b FROM t; end", host);
    assert_eq!(
        log[1],
        "failed 42804: structure of query does not match function result type | PL/pgSQL function \
                        f(integer) line 1 at RETURN QUERY"
    );
}

#[test]
fn arrays_are_looped_over() {
    let of = DataType::Array(base::element::Element::of(DataType::Integer).unwrap());
    let array = Datum::Array(vec![Datum::Int(4), Datum::Null].into());
    let host = Host::with([("SELECT array[4, null]", rows(&[("x", of)], vec![vec![array]]))]);
    let body =
        "declare x int; begin foreach x in array array[4, null] loop raise notice '%', x; end loop; end";
    assert_eq!(
        run_with(body, host),
        ["SELECT array[4, null]", "NOTICE 00000: 4", "NOTICE 00000: <NULL>", "done"]
    );
}

#[test]
fn values_become_those_of_their_variables() {
    check(
        "declare n numeric(4, 1) := 12; s varchar(3) := 'ab'; i int := '42'; begin raise notice '% % %', n, s, i; s := 'abcd'; end",
        &[
            "NOTICE 00000: 12.0 ab 42",
            "failed 22001: value too long for type character varying(3) | PL/pgSQL function inline_code_block line 1 at assignment",
        ],
    );
    check(
        "declare i int not null := 3; begin i := null; end",
        &[
            "failed 22004: null value cannot be assigned to variable \"i\" declared NOT NULL | PL/pgSQL function \
         inline_code_block line 1 at assignment",
        ],
    );
    check(
        "declare i int; begin i := 'x'; end",
        &[
            "failed 22P02: invalid input syntax for type integer: \"x\" | PL/pgSQL function inline_code_block line 1 at assignment",
        ],
    );
    check(
        "declare r record; begin raise notice '%', r.a; end",
        &[
            "failed 55000: record \"r\" is not assigned yet | PL/pgSQL function inline_code_block line 1 at RAISE",
        ],
    );
}

#[test]
fn blocks_have_their_own_names() {
    let body = "<<a>> declare x int := 1; y x%type := 5;
        begin
          declare x int := 2; b alias for y; begin raise notice '% % %', x, a.x, b; end;
          raise notice '%', x;
        end";
    check(body, &["NOTICE 00000: 2 1 5", "NOTICE 00000: 1", "done"]);
    check_value(&NAMES, &[4], "declare n int := 1; begin return f.n + $1; end", &["done 8"]);
    // Declared anew each time that its block begins.
    check(
        "begin for i in 1..2 loop declare s int; begin raise notice '%', s; s := i; end; end loop; end",
        &["NOTICE 00000: <NULL>", "NOTICE 00000: <NULL>", "done"],
    );
}

#[test]
fn raise_says_what_it_is_told() {
    check(
        "begin raise warning 'a %% % %', 1, 'x' using detail = 'd', errcode = '01234'; end",
        &["WARNING 01234: a % 1 x (d)", "done"],
    );
    check(
        "begin raise division_by_zero; end",
        &["failed 22012: division_by_zero | PL/pgSQL function inline_code_block line 1 at RAISE"],
    );
    check(
        "begin raise sqlstate '22222' using message = 'm'; end",
        &["failed 22222: m | PL/pgSQL function inline_code_block line 1 at RAISE"],
    );
    check(
        "begin raise 'plain'; end",
        &["failed P0001: plain | PL/pgSQL function inline_code_block line 1 at RAISE"],
    );
    check(
        "begin raise using message = 'm', errcode = 'no such'; end",
        &[
            "failed 42704: unrecognized exception condition \"no such\" | PL/pgSQL function inline_code_block line 1 at RAISE",
        ],
    );
}

#[test]
fn diagnostics_of_a_caught_error_are_told() {
    let host = Host::with([("INSERT INTO t VALUES (1)", refused(SqlState::UNIQUE_VIOLATION, "twice"))]);
    let body = "declare a text; b text; c text;
        begin
          INSERT INTO t VALUES (1);
        exception when others then
          get stacked diagnostics a = returned_sqlstate, b = message_text, c := pg_exception_context;
          raise notice '% % %', a, b, c;
        end";
    assert_eq!(
        run_with(body, host),
        [
            "savepoint",
            "INSERT INTO t VALUES (1)",
            "back to 0",
            "NOTICE 00000: 23505 twice PL/pgSQL function inline_code_block line 3 at SQL statement",
            "done"
        ]
    );
}

#[test]
fn an_endless_loop_gives_way() {
    let program = Arc::new(parse("begin loop null; end loop; end", &Signature::of_block()).unwrap());
    let kinds = kinds(&program);
    let mut run = Run::new(program, kinds, Kind::Nothing, Vec::new(), Zone::Utc);
    for _ in 0..10 {
        assert_eq!(run.step(Answer::Done), Request::GiveWay);
    }
}

#[test]
fn what_is_held_is_counted() {
    let long = Datum::text("x".repeat(10_000));
    let many = rows(&[("a", DataType::Text)], vec![vec![long.clone()]; 20]);
    let body = "declare r record; s text := ''; begin for r in SELECT a FROM t loop s := r.a; raise notice ''; end loop; r := null; s := ''; raise notice ''; end";
    let program = Arc::new(parse(body, &Signature::of_block()).unwrap());
    let kinds = kinds(&program);
    let mut run = Run::new(program, kinds, Kind::Nothing, Vec::new(), Zone::Utc);
    let empty = run.bytes();
    assert!(matches!(run.step(Answer::Done), Request::Execute { .. }));
    let mut held = Vec::new();
    let mut request = run.step(many);
    while let Request::Notice(_) = request {
        held.push(run.bytes());
        request = run.step(Answer::Done);
    }
    assert_eq!(request, Request::Done(Outcome::Nothing));
    assert_eq!(held.len(), 21);
    // The rows that are left, the row and the text.
    assert!((21 * 10_000..22 * 10_000).contains(&held[0]), "{held:?}");
    assert!((2 * 10_000..3 * 10_000).contains(&held[19]), "{held:?}");
    assert!(held[20] < empty + 100, "{held:?}");
}

#[test]
fn triggers_return_rows() {
    let signature = Signature { returns: Returns::Trigger, ..function(&[], false) };
    let body = "begin if tg_op = 'INSERT' then new.a := new.a + 1; return new; end if; return null; end";
    let run = |operation: &str| {
        let program = Arc::new(parse(body, &signature).unwrap());
        let of_texts = |v: &plpgsql::Variable| match &v.declared {
            Declared::Type(_) => Kind::Any,
            Declared::Record => Kind::Record,
            Declared::Integer => Kind::Scalar(DataType::Integer.into()),
            Declared::Boolean => Kind::Scalar(DataType::Boolean.into()),
            _ => Kind::Scalar(DataType::Text.into()),
        };
        let kinds = program.variables.iter().map(of_texts).collect();
        let mut run = Run::new(program, kinds, Kind::Record, Vec::new(), Zone::Utc);
        let fields: Arc<[Field]> = integer_pair().into();
        run.give("new", Some(plpgsql::Row { fields, values: vec![Datum::Int(1), Datum::Null] }), Datum::Null);
        run.give("tg_op", None, Datum::text(operation));
        let mut host = Host::default();
        let mut answer = Answer::Done;
        loop {
            match run.step(answer) {
                Request::Done(outcome) => return outcome,
                request => answer = host.answer(&run, &request),
            }
        }
    };
    let Outcome::Row(row) = run("INSERT") else { panic!("a row") };
    assert_eq!(row.values, [Datum::Int(2), Datum::Null]);
    assert_eq!(run("DELETE"), Outcome::NoRow);
}

#[test]
fn transactions_are_not_ended_inside() {
    check(
        "begin commit; end",
        &[
            "failed 0A000: COMMIT in PL/pgSQL is not supported | PL/pgSQL function inline_code_block line 1 at COMMIT",
        ],
    );
    check_value(
        &[],
        &[],
        "begin rollback; end",
        &["failed 2D000: invalid transaction termination | PL/pgSQL function f(integer) line 1 at ROLLBACK"],
    );
}

#[test]
fn values_of_expressions_are_one() {
    let several = rows(&[("a", DataType::Integer)], vec![vec![Datum::Int(1)], vec![Datum::Int(2)]]);
    let wide = rows(&[("a", DataType::Integer), ("b", DataType::Integer)], vec![]);
    let host = Host::with([("SELECT a from t", several), ("SELECT a, b", wide)]);
    let body = "declare i int; begin begin i := a, b; exception when syntax_error then null; end; i := a from t; end";
    let log = run_with(body, host);
    assert_eq!(
        log.last().unwrap(),
        "failed 21000: query \"SELECT a from t\" returned more than one row | PL/pgSQL \
        function inline_code_block line 1 at assignment"
    );
}
