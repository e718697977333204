//! Programs in PL/pgSQL: what runs for ever, grows, calls itself, is long or deep, floods its client with notices or nests
//! transactions; in `DO`, in functions that a query calls, and in triggers.

use crate::dice::{Dice, chance, magnitude, pick};
use crate::input::{Input, Step};
use crate::statements::expr::{Column, Scope, Type, expression};
use crate::text::Text;
use rand::Rng;

/// Bodies that ask for much, each between `begin` and `end`.
const GREEDY: &[(&str, &str)] = &[
    ("endless", "loop n := n + 1; end loop;"),
    ("endless-query", "while true loop select count(*) into n from t; end loop;"),
    ("endless-write", "loop update s set id = id where id = 1; end loop;"),
    ("doubling", "loop w := w || w; end loop;"),
    ("array", "loop a := a || a || 1; end loop;"),
    ("notices", "loop raise notice '%', repeat('x', 1000); end loop;"),
    ("savepoints", "loop begin n := 1 / 0; exception when others then n := 0; end; end loop;"),
    ("nested-savepoints", "loop begin perform 1; exception when others then null; end; end loop;"),
    ("dynamic", "loop execute 'select ' || n into n; n := n + 1; end loop;"),
    ("dynamic-doubling", "w := 'select 1'; loop execute w; w := w || ' union all ' || w; end loop;"),
    ("rows", "for r in select x.i from generate_series(1, 100000000) as x(i) loop n := r.i; end loop;"),
    ("product", "for r in select 1 as i from t, t t2, t t3, t t4 loop n := n + r.i; end loop;"),
    ("counting", "for i in 1..2000000000 loop n := i; end loop;"),
    ("sleep", "loop perform pg_sleep(0.001); end loop;"),
    ("tables", "loop execute 'create temp table if not exists x' || n || ' (a int)'; n := n + 1; end loop;"),
    ("pattern", "loop n := length(regexp_replace(repeat('a', 5000), '(a*)*b', '')); end loop;"),
];

/// Statements that a block may hold any number of.
const STATEMENTS: &[&str] = &[
    "n := n + 1;",
    "w := upper(w) || n;",
    "perform n, w;",
    "if n > 3 then n := 0; elsif n < 0 then n := 1; else null; end if;",
    "case when n = 1 then w := 'one'; else w := 'more'; end case;",
    "for i in 1..3 loop n := n + i; end loop;",
    "for i in reverse 3..1 by 2 loop n := n - i; end loop;",
    "select id into n from t order by id limit 1;",
    "select id into strict n from t where id = -1;",
    "insert into s values (n + 1000) on conflict do nothing;",
    "update t set a = a where id = n;",
    "get diagnostics n = row_count;",
    "raise notice 'n is %', n;",
    "raise exception 'no' using errcode = 'P0009';",
    "begin n := 1 / (n - n); exception when division_by_zero then n := 7; end;",
    "assert n is not null, 'none';",
    "execute 'select $1 + 1' into n using n;",
    "exit when n > 100;",
    "foreach n in array array[1, 2, 3] loop w := w || n; end loop;",
    "while n < 10 loop n := n + 3; continue when n = 4; end loop;",
    "return;",
    "n := no_such_name;",
];

/// What encloses a block and may be nested.
const NESTED: &[(&str, &str, &str)] = &[
    ("blocks", "begin ", "end; "),
    ("ifs", "if n < 5 then ", "end if; "),
    ("loops", "for i in 1..1 loop ", "end loop; "),
    ("handlers", "begin ", "exception when others then null; end; "),
    ("cases", "case when true then ", "else null; end case; "),
];

const VARIABLES: &str = "declare n bigint := 1; w text := 'x'; a int[] := array[1]; r record; i int; begin ";

pub fn input(dice: &mut Dice) -> Input {
    let (shape, body) = body(dice);
    let name = format!("p{}", dice.random_range(0..16));
    let whole = |before: &str, after: &str| {
        Text::from(format!("{before}{VARIABLES}").as_str()).then_text(&body).then(after)
    };
    let drop = format!("drop function if exists {name}; drop table if exists {name}t cascade");
    let (how, steps): (&str, Vec<Text>) = match dice.random_range(0..10) {
        0..=3 => ("do", vec![whole("do $p$ ", " end $p$")]),
        4 => (
            "function",
            vec![
                whole(
                    &format!(
                        "create or replace function {name}(of int) returns int language plpgsql as $p$ "
                    ),
                    " return n; end $p$",
                ),
                format!("select {name}(1)").into(),
                format!("select id, {name}(id) from t where id < 4").into(),
                format!("insert into s select {name}(id) from t on conflict do nothing").into(),
            ],
        ),
        5 => (
            "procedure",
            vec![
                whole(&format!("create or replace procedure {name}r() language plpgsql as $p$ "), " end $p$"),
                format!("call {name}r()").into(),
                format!("drop procedure if exists {name}r").into(),
            ],
        ),
        6 => ("recursive", recursive(dice, &name)),
        7 => ("cascade", cascade(dice, &name)),
        _ => {
            let result =
                pick(dice, &["return new;", "return old;", "return null;", "new.a := n; return new;"]);
            let when = pick(dice, &["before", "after"]);
            (
                "trigger",
                vec![
                    format!("create table {name}t (id int primary key, a int)").into(),
                    whole(
                        &format!("create or replace function {name}() returns trigger language plpgsql as $p$ "),
                        &format!(" {result} end $p$"),
                    ),
                    format!(
                        "create trigger g {when} insert or update or delete on {name}t for each row execute function {name}()"
                    )
                    .into(),
                    format!("insert into {name}t select i, i from generate_series(1, 20) as x(i)").into(),
                    format!("update {name}t set a = a + 1").into(),
                    format!("delete from {name}t where id < 5").into(),
                    format!("drop table if exists {name}t cascade").into(),
                ],
            )
        }
    };
    let mut all: Vec<Step> = vec![Step::Query(drop.clone().into())];
    all.extend(steps.into_iter().map(Step::Query));
    all.push(Step::Query(drop.into()));
    Input::new(format!("{how}-{shape}"), all)
}

fn body(dice: &mut Dice) -> (String, Text) {
    match dice.random_range(0..10) {
        0..=2 => {
            let &(name, body) = &GREEDY[dice.random_range(0..GREEDY.len())];
            (name.into(), body.into())
        }
        3..=6 => ("random".into(), block(dice, 3).into()),
        7 => {
            let statement = pick(dice, STATEMENTS);
            let times = magnitude(dice, 10, 20_000);
            ("long".into(), Text::from("").repeat(times, format!("{statement} ")))
        }
        8 => {
            let &(name, open, close) = &NESTED[dice.random_range(0..NESTED.len())];
            let times = magnitude(dice, 10, 5_000);
            let nested = Text::from("").repeat(times, open).then("n := 2; ").repeat(times, close);
            (format!("deep-{name}"), nested)
        }
        _ => {
            let columns = [("n", Type::Big), ("w", Type::Text)];
            let columns = columns.map(|(name, of)| Column { name: name.into(), of });
            let scope = Scope { columns: &columns, aggregates: false, windows: false, subqueries: true };
            let (of, is_first) = (Type::any(dice), chance(dice, 50));
            let value = expression(dice, of, 4, &scope);
            let text = match is_first {
                true => format!("w := ({value})::text;"),
                false => format!("if ({value}) is null then raise notice '%', w; end if;"),
            };
            ("expression".into(), text.into())
        }
    }
}

/// Statements at random, some of them enclosed.
fn block(dice: &mut Dice, depth: u32) -> String {
    let mut text = String::new();
    for _ in 0..dice.random_range(1..6) {
        if depth > 0 && chance(dice, 30) {
            let &(_, open, close) = &NESTED[dice.random_range(0..NESTED.len())];
            text += &format!("{open}{}{close}", block(dice, depth - 1));
        } else {
            text += pick(dice, STATEMENTS);
            text.push(' ');
        }
    }
    text
}

/// Functions that call themselves or each other, for ever or twice at each level.
fn recursive(dice: &mut Dice, name: &str) -> Vec<Text> {
    let call = match dice.random_range(0..4) {
        0 => format!("return {name}(of + 1);"),
        1 => format!("return {name}(of - 1) + {name}(of - 2);"),
        2 => format!("return (select count(*) from t where {name}(of + 1) > 0);"),
        _ => format!("execute 'select {name}($1)' into of using of + 1; return of;"),
    };
    vec![
        format!("create or replace function {name}(of int) returns int language plpgsql as $p$ begin {call} end $p$")
            .into(),
        format!("select {name}({})", dice.random_range(1..40)).into(),
    ]
}

/// Triggers that write to the table that they are of, or to another one whose triggers write back.
fn cascade(dice: &mut Dice, name: &str) -> Vec<Text> {
    let writes = match dice.random_range(0..3) {
        0 => format!("insert into {name}t values (new.id + 1, 0);"),
        1 => format!("update {name}t set a = a + 1 where id = new.id;"),
        _ => format!(
            "insert into {name}t select max(id) + i, 0 from {name}t, generate_series(1, 2) as x(i) group by i;"
        ),
    };
    let when = pick(dice, &["before", "after"]);
    vec![
        format!("create table {name}t (id int primary key, a int)").into(),
        format!(
            "create or replace function {name}() returns trigger language plpgsql as $p$ begin {writes} return new; end $p$"
        )
        .into(),
        format!("create trigger g {when} insert or update on {name}t for each row execute function {name}()").into(),
        format!("insert into {name}t values (1, 1)").into(),
        format!("select count(*) from {name}t").into(),
        format!("drop table if exists {name}t cascade").into(),
    ]
}
