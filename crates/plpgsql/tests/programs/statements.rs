//! Statements, values and results.

use crate::host::*;
use base::zone::Zone;
use base::{DataType, Datum, SqlState};
use plpgsql::{Answer, Declared, Field, Kind, Outcome, Request, Returns, Run, Signature, parse};
use std::sync::Arc;

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
    let mut turns = 0;
    let mut request = run.step(many);
    loop {
        match request {
            Request::Notice(_) => held.push(run.bytes()),
            Request::GiveWay => turns += 1,
            _ => break,
        }
        request = run.step(Answer::Done);
    }
    // 20 rounds of a few instructions, each of which counts for what is held.
    assert!((2..10).contains(&turns), "{turns}");
    assert_eq!(request, Request::Done(Outcome::Nothing));
    assert_eq!(held.len(), 21);
    // The rows that are left, the row and the text.
    assert!((21 * 10_000..22 * 10_000).contains(&held[0]), "{held:?}");
    assert!((2 * 10_000..3 * 10_000).contains(&held[19]), "{held:?}");
    assert!(held[20] < empty + 100, "{held:?}");
}

/// What a trigger's function returns that is told this.
fn fired(body: &str, tell: impl Fn(&mut Run, Arc<[Field]>)) -> Outcome {
    let signature = Signature { returns: Returns::Trigger, ..function(&[], false) };
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
    tell(&mut run, integer_pair().into());
    let mut host = Host::default();
    let mut answer = Answer::Done;
    loop {
        match run.step(answer) {
            Request::Done(outcome) => return outcome,
            request => answer = host.answer(&run, &request),
        }
    }
}

/// The values of a row.
fn values(outcome: Outcome) -> Vec<Datum> {
    let Outcome::Row(row) = outcome else { panic!("{outcome:?}") };
    row.values
}

#[test]
fn triggers_return_rows() {
    let body = "begin if tg_op = 'INSERT' then new.a := new.a + 1; return new; end if; return null; end";
    let run = |operation: &str| {
        fired(body, |run, fields| {
            let row = plpgsql::Row { fields, values: vec![Datum::Int(1), Datum::Null] };
            run.give("new", Some(row), Datum::Null);
            run.give("tg_op", None, Datum::text(operation));
        })
    };
    assert_eq!(values(run("INSERT")), [Datum::Int(2), Datum::Null]);
    assert_eq!(run("DELETE"), Outcome::NoRow);
}

#[test]
fn records_that_are_absent_are_null_and_have_fields() {
    let run = |body: &str| {
        fired(body, |run, fields| {
            let row = plpgsql::Row { fields: fields.clone(), values: vec![Datum::Int(7), Datum::Int(8)] };
            run.give("old", Some(row), Datum::Null);
            run.give_absent("new", fields);
        })
    };
    assert_eq!(run("begin return new; end"), Outcome::NoRow);
    assert_eq!(values(run("begin return coalesce(new, old); end")), [Datum::Int(7), Datum::Int(8)]);
    assert_eq!(values(run("begin return coalesce(old, new); end")), [Datum::Int(7), Datum::Int(8)]);
    assert_eq!(values(run("begin old.a := new.b; return old; end")), [Datum::Null, Datum::Int(8)]);
    // A field that is assigned makes a row of it.
    assert_eq!(values(run("begin new.b := 5; return new; end")), [Datum::Null, Datum::Int(5)]);
    assert_eq!(values(run("begin new := old; return new; end")), [Datum::Int(7), Datum::Int(8)]);
    assert_eq!(run("begin new := null; return new; end"), Outcome::NoRow);
}

#[test]
fn a_condition_may_begin_with_a_row() {
    let signature = Signature { returns: Returns::Trigger, ..function(&[], false) };
    let text = |body: &str| {
        let program = parse(body, &signature).unwrap();
        program.statements.last().map(|statement| statement.sql()).unwrap_or_default()
    };
    let compared = text("begin if new.* is distinct from old.* then null; end if; end");
    assert_eq!(compared, "SELECT (new.* is distinct from old.*)");
    assert_eq!(text("begin perform new.a; end"), "SELECT new.a");
    assert_eq!(text("declare r record; begin select new.* into r; end"), "select new.*");
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
