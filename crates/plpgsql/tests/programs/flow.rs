//! Loops, conditions, blocks and handlers.

use crate::host::*;
use base::DataType;
use base::Datum;
use plpgsql::Kind;

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
fn a_loop_over_a_cursor_closes_it_however_it_is_left() {
    let begins = ["open c: select a", "fetch c Rows(1)"];
    let whole = ["NOTICE 00000: 1", "fetch c Rows(1)", "NOTICE 00000: 0", "fetch c Rows(1)", "close c"];
    for (inside, goes_on) in [
        ("raise notice '%', r.n;", whole.to_vec()),
        ("exit;", vec!["close c"]),
        ("exit around;", vec!["close c"]),
        ("return;", vec!["close c"]),
    ] {
        let body =
            format!("<<around>> declare c cursor for select a; begin for r in c loop {inside} end loop; end");
        let wanted: Vec<&str> = begins.into_iter().chain(goes_on).chain(["done"]).collect();
        assert_eq!(run_with(&body, Host::of_rows(2)), wanted, "{inside}");
    }
}

#[test]
fn cursors_are_opened_moved_and_closed() {
    let body = "declare c refcursor; d cursor (x int) for select x; n int; m int;
        begin
          open c for execute 'some' || 'thing';
          fetch prior from c into n;
          move forward 3 from c;
          close c;
          open d(x := 5);
          fetch d into m;
          fetch absolute n from d into m;
          raise notice '% % %', n, m, found;
        end";
    let text = rows(&[("?column?", DataType::Text)], vec![vec![Datum::text("something")]]);
    let log = run_with(body, Host::with([("SELECT 'some' || 'thing'", text)]));
    assert_eq!(
        log,
        [
            "SELECT 'some' || 'thing'",
            "open <unnamed portal 1>: something",
            "fetch <unnamed portal 1> Rows(-1)",
            "fetch <unnamed portal 1> Rows(3)",
            "close <unnamed portal 1>",
            "open d: select x",
            "fetch d Rows(1)",
            "failed 22004: relative or absolute cursor position is null | PL/pgSQL function inline_code_block line 9 at FETCH",
        ]
    );
}

#[test]
fn elements_of_arrays_are_assigned() {
    check(
        "declare a int[]; begin a[1] := 7; a[3] := 9; raise notice '%', a; end",
        &["NOTICE 00000: {7,NULL,9}", "done"],
    );
    check(
        "declare a int; begin a[1] := 7; end",
        &[
            "failed 42804: cannot subscript type integer because it does not support subscripting | PL/pgSQL function \
         inline_code_block line 1 at assignment",
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
        ("SELECT __case_variable_2__ IN (1, 2)", truth(false)),
        ("SELECT __case_variable_2__ IN (3)", truth(true)),
    ]);
    let log = run_with(
        "begin case 1 + 2 when 1, 2 then null; when 3 then raise notice 'three'; else null; end case; end",
        host,
    );
    assert_eq!(
        log,
        [
            "SELECT __case_variable_2__ IN (1, 2)",
            "SELECT __case_variable_2__ IN (3)",
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
