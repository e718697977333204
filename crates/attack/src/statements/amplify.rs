//! Small statements that ask for much: memory that grows with a value, rows that multiply, patterns that backtrack,
//! numbers of many digits. A server with limits refuses them (53200, 54000, 57014) and keeps serving others.

use crate::dice::{Dice, magnitude, pick};
use crate::input::{Input, Step};
use rand::Rng;

pub fn input(dice: &mut Dice) -> Input {
    let large = magnitude(dice, 10_000, 2_000_000_000);
    let rows = magnitude(dice, 1_000, 100_000_000);
    let some = magnitude(dice, 10, 5_000);
    let text = pick(dice, &["'x'", "'xyz'", "repeat('ab', 1000)", "c"]);
    let from = if text == "c" { " from t" } else { "" };
    let (shape, sql): (&str, String) = match dice.random_range(0..38) {
        0 => ("repeat", format!("select length(repeat({text}, {large})){from}")),
        1 => ("repeat-of-repeat", format!("select length(repeat(repeat({text}, {some}), {large})){from}")),
        2 => ("lpad", format!("select length(lpad({text}, {large}, 'ab')){from}")),
        3 => ("rpad-returned", format!("select rpad('', {large})")),
        4 => ("concat-large", format!("select length(repeat('x', {rows}) || repeat('y', {rows}))")),
        5 => ("replace", format!("select length(replace(repeat('a', {some}), 'a', repeat('b', {rows})))")),
        6 => ("doubling", doubling(dice)),
        7 => ("string-agg", format!("select length(string_agg(repeat('x', {some}), ',')) from generate_series(1, {rows})")),
        8 => ("array-agg", format!("select cardinality(array_agg(n)) from generate_series(1, {rows}) g(n)")),
        9 => ("split", format!("select count(*) from unnest(string_to_array(repeat('a,', {rows}), ','))")),
        10 => ("array-fill", format!("select array_fill(1, array[{large}])")),
        11 => ("series-product", format!("select count(*) from generate_series(1, {rows}) a, generate_series(1, {rows}) b")),
        12 => ("series", format!("select count(n) from generate_series(1, {large}) g(n)")),
        13 => ("series-returned", format!("select n from generate_series(1, {rows}) g(n)")),
        14 => ("sort", format!("select n from generate_series(1, {rows}) g(n) order by md5(n::text) limit 1")),
        15 => ("distinct", format!("select count(distinct md5(n::text)) from generate_series(1, {rows}) g(n)")),
        16 => ("group", format!("select n, count(*) from generate_series(1, {rows}) g(n) group by n order by 2 limit 1")),
        17 => ("join", format!("select count(*) from generate_series(1, {rows}) a(n) join generate_series(1, {rows}) b(n) on a.n = b.n")),
        18 => ("self-joins", "select count(*) from t a, t b, t c, t d, t e".into()),
        19 => ("self-joins-sorted", "select a.c || b.c || c.c from t a, t b, t c order by 1 limit 1".into()),
        20 => ("recursive-endless", "with recursive q(n) as (select 1 union all select n + 1 from q) select count(*) from q".into()),
        21 => ("recursive-doubling", "with recursive q(n) as (select 1 union all select n + 1 from q, (values (1), (2)) v) select count(*) from q".into()),
        22 => ("recursive-text", "with recursive q(n) as (select 'x'::text union all select n || n from q) select max(length(n)) from q".into()),
        23 => ("window-frames", format!("select max(s) from (select sum(n) over (order by n rows between {some} preceding and {some} following) s from generate_series(1, {rows}) g(n)) q")),
        24 => ("cube", "select count(*) from t group by cube (id, a, b, c, d, e, f, g, h, i, j, k)".into()),
        25 => ("create-as", format!("create table xbig as select a.n as id, b.n as other from generate_series(1, {rows}) a(n), generate_series(1, {some}) b(n)")),
        26 => ("insert-select", format!("insert into bulk select n, repeat('x', 100) from generate_series(1, {rows}) g(n) on conflict do nothing")),
        27 => ("regexp", format!("select repeat('a', {some}) ~ '{}'", catastrophe(dice))),
        28 => ("regexp-size", format!("select 'a' ~ '{}'", pattern(dice))),
        29 => ("regexp-replace", format!("select length(regexp_replace(repeat('a', {some}), '{}', repeat('b', {some}), 'g'))", catastrophe(dice))),
        30 => ("like", format!("select repeat('a', {rows}) like '{}b'", "%a".repeat(some.min(500) as usize))),
        31 => ("power", format!("select power({some}::numeric, {large}::numeric)")),
        32 => ("numerics", format!("select ({}){}", "9".repeat(38), " * 99999999999999999999".repeat(dice.random_range(1..40)))),
        33 => ("factorial", format!("select factorial({large})")),
        34 => ("sleep", format!("select pg_sleep({some}) from generate_series(1, {some})")),
        35 => ("format", format!("select length(format('%{large}s', 'x')), to_char(1, repeat('9', {some}))")),
        36 => ("values-of-large", format!("select max(length(column1)) from (values (repeat('a', {rows})), (repeat('b', {rows})), (repeat('c', {rows}))) v")),
        _ => ("locks", "begin; select * from t for update; select count(*) from t a, t b, t c, t d".into()),
    };
    let mut steps = vec![Step::Query(sql.into())];
    match shape {
        "create-as" => steps.push(Step::Query("drop table if exists xbig".into())),
        // A DELETE may take longer than it is allowed to, and the rows of a run would grow in number.
        "insert-select" => steps.push(Step::Query("truncate bulk".into())),
        // The same at execution, where nothing is folded.
        "repeat" | "lpad" if dice.random_bool(0.5) => {
            let (name, count) = (shape, large.to_string());
            let sql = format!("select length({name}($1::text, $2::int))");
            steps = vec![Step::Execute(sql.into(), vec![Some("xy".into()), Some(count.into())])];
        }
        _ => {}
    }
    Input::new(shape, steps)
}

/// Each level holds what is below it twice.
fn doubling(dice: &mut Dice) -> String {
    let levels = dice.random_range(5..40);
    let mut text = String::from("select 'xxxxxxxxxxxxxxxx'::text as v");
    for n in 0..levels {
        text = format!("select v || v as v from ({text}) q{n}");
    }
    format!("select length(v) from ({text}) q")
}

/// Patterns that a backtracking matcher does not survive.
fn catastrophe(dice: &mut Dice) -> &'static str {
    pick(
        dice,
        &[
            "(a+)+$",
            "(a|a)*b",
            "(a|aa)+$",
            "^(([a-z])+.)+[A-Z]([a-z])+$",
            "(.*)*x",
            "(a*)*b",
            "(?:a?){50}a{50}",
            "((a{0,20}){0,20}){0,20}b",
            "(\\w+\\s?)+!",
        ],
    )
}

/// Patterns that are large once compiled.
fn pattern(dice: &mut Dice) -> String {
    let n = magnitude(dice, 10, 30_000);
    match dice.random_range(0..6) {
        0 => format!("a{{{n}}}"),
        1 => format!("((a{{{n}}}){{{n}}}){{{n}}}"),
        2 => format!("\\w{{{n}}}"),
        3 => "[a-z]|".repeat(n as usize) + "b",
        4 => format!("(\\d|\\w|.){{{n}}}"),
        _ => "(?i)\\p{L}".repeat((n as usize).min(3000)),
    }
}
