//! One production nested many times. Whatever parses, plans, walks, clones or drops it by recursion needs a stack
//! that grows with the text; whatever tries each level twice takes time that doubles with each.

use crate::dice::{Dice, magnitude, pick};
use crate::input::{Input, Step};
use crate::text::Text;
use rand::Rng;

/// A production: what opens a level, what is innermost, what closes a level.
type Nesting = (&'static str, &'static str, &'static str, &'static str);

pub const EXPRESSIONS: &[Nesting] = &[
    ("parentheses", "(", "1", ")"),
    ("left-sum", "(", "1", " + 1)"),
    ("right-sum", "(1 + ", "1", ")"),
    ("negation", "-(", "1", ")"),
    ("not", "not(", "true", ")"),
    ("abs", "abs(", "1", ")"),
    ("length-of-text", "length(('x' || ", "'y'", ")::text)"),
    ("upper", "upper(", "'x'", ")"),
    ("coalesce", "coalesce(null, ", "1", ")"),
    ("coalesce-first", "coalesce(", "a", ", 0)"),
    ("coalesce-both", "coalesce(a + ", "1", ", 1 / a)"),
    ("second-name", "pow(", "a", ", 1)"),
    ("nullif", "nullif(", "a", ", 0)"),
    ("greatest", "greatest(1, ", "1", ", 2)"),
    ("concat", "concat('a', ", "'b'", ")"),
    ("substring", "substring(", "'b'", " from 1 for 2)"),
    ("position", "position('a' in ", "'b'", ")::text"),
    ("overlay", "overlay(", "'b'", " placing 'x' from 1)"),
    ("trim", "trim(both 'x' from ", "'b'", ")"),
    ("extract", "extract(day from ", "now()", ")::text::timestamp"),
    ("case-then", "case when true then ", "1", " end"),
    ("case-when", "case when ", "true", " then true end"),
    ("case-else", "case when false then 0 else ", "1", " end"),
    ("case-operand", "case ", "1", " when 1 then 1 end"),
    ("casts", "cast(", "1", " as int)"),
    ("double-colon", "(", "1", ")::int"),
    ("typed-literal", "interval ", "'1 day'", ""),
    ("array", "array[", "1", "]"),
    ("array-subscript", "(array[", "1", "])[1]"),
    ("row", "row(", "1", ")"),
    ("scalar-subquery", "(select ", "1", ")"),
    ("scalar-of-table", "(select max(a) + ", "1", " from t)"),
    ("exists", "exists (select 1 where ", "true", ")"),
    ("in-subquery", "1 in (select ", "1", ")::int"),
    ("in-list", "true in (", "true", ")"),
    ("between", "true between false and (", "true", ")"),
    ("any", "1 = any(array[", "1", "]) and true"),
    ("is-null", "(", "1", " is null)"),
    ("is-distinct", "(true is distinct from ", "true", ")"),
    ("like", "('a' like ", "'b'", ")::text"),
    ("collate", "(", "'x'", " collate \"C\")"),
    ("at-time-zone", "(", "now()", " at time zone 'UTC')"),
    ("aggregate", "sum(", "1", ")"),
    ("window", "sum(", "1", ") over ()"),
    ("window-order", "sum(1) over (order by ", "1", ")"),
    ("named-arguments", "make_interval(years => ", "1", ")"),
    ("unknown-function", "f(", "1", ")"),
    ("two-arguments", "f(1, ", "1", ")"),
    ("dotted-function", "a.b(", "1", ")"),
    ("json-arrow", "('{}' -> ", "'a'", ")"),
    ("and-or", "(true and (false or ", "true", "))"),
    ("ceil", "ceil(", "1", ")"),
    ("floor-to", "floor(", "1", " to day)"),
    ("convert", "convert(", "1", ", int)"),
    ("quoted-function", "\"abs\"(", "1", ")"),
    ("lambda", "(x) -> (", "1", ")"),
    ("braces", "{", "1", "}"),
    ("map", "map {", "1", "}"),
    ("regexp", "'", "a", "' ~ 'x'"),
];

pub const QUERIES: &[Nesting] = &[
    ("from-subquery", "select * from (", "select 1 as a", ") q"),
    ("parenthesised-query", "(", "select 1", ")"),
    ("union-right", "select 1 union all (", "select 1", ")"),
    ("union-left", "(", "select 1", ") union all select 1"),
    ("except-right", "select 1 except (", "select 1", ")"),
    ("with", "with q as (", "select 1 as a", ") select * from q"),
    ("with-recursive", "with recursive q as (", "select 1 as a", " union select 2) select * from q"),
    ("joined-parentheses", "select 1 from ", "t", ""),
    ("where-in", "select id from t where id in (", "select 1", ")"),
    ("where-exists", "select id from t where exists (", "select 1", ")"),
    ("lateral", "select * from t, lateral (", "select 1", ") q"),
    ("explain", "explain ", "select 1", ""),
    ("explain-analyze", "explain analyze ", "select 1", ""),
    ("prepare", "prepare p as ", "select 1", ""),
    ("insert-select", "insert into u (id) ", "select 1", ""),
    ("create-as", "create table xdeep as ", "select 1", ""),
    ("values-subquery", "values ((", "select 1", "))"),
    ("limit-subquery", "select 1 limit (", "select 1", ")"),
    ("order-subquery", "select 1 order by (", "select 1", ")"),
    ("copy-query", "copy (", "select 1", ") to stdout"),
    ("declare", "declare c cursor for ", "select 1", ""),
];

/// Openings without their ends, and other text that a parser may try again and again.
const OPENINGS: &[(&str, &str)] = &[
    ("open-parentheses", "("),
    ("open-functions", "abs("),
    ("open-named", "f(a => "),
    ("open-not", "not("),
    ("open-case", "case "),
    ("open-when", "case when "),
    ("open-array", "array["),
    ("open-brackets", "["),
    ("open-cast", "cast("),
    ("open-interval", "interval ("),
    ("open-subquery", "(select "),
    ("open-exists", "exists("),
    ("open-row", "row("),
    ("open-comments", "/*"),
    ("open-from", "select * from ("),
    ("open-lists", "(1, "),
    ("open-in", "1 in ("),
    ("open-between", "1 between "),
    ("open-with", "with a as ("),
    ("open-filter", "sum(1) filter (where "),
    ("open-over", "sum(1) over (order by "),
    ("open-types", "1::array("),
    ("open-structs", "struct<"),
    ("open-position", "position("),
    ("open-trim", "trim(("),
    ("open-any", "1 = any("),
    ("open-braces", "{a: "),
    ("open-lambda", "(a, b) -> "),
];

pub fn input(dice: &mut Dice) -> Input {
    let times = if dice.random_bool(0.5) { magnitude(dice, 5, 200) } else { magnitude(dice, 100, 50_000) };
    match dice.random_range(0..10) {
        0..=4 => {
            let &(name, open, core, close) = &EXPRESSIONS[dice.random_range(0..EXPRESSIONS.len())];
            let (head, tail) = *pick(
                dice,
                &[
                    &("select ", ""),
                    &("select ", " from t where id = 1"),
                    &("select id from t where id = 1 and (", ") is not null"),
                    &("update t set c = (", ")::text where id = 1"),
                    &("insert into u (id, x) values (6000, (", ")::text) on conflict do nothing"),
                    &("select count(*) from t group by ", ""),
                    &("select count(*) from t join u on (", ") is not null"),
                    &("prepare p as select ", ""),
                ],
            );
            Input::new(name, vec![Step::Query(nest(head, open, core, close, tail, times))])
        }
        5 | 6 => {
            let &(name, open, core, close) = &QUERIES[dice.random_range(0..QUERIES.len())];
            if name == "joined-parentheses" {
                let text = nest("select 1 from ", "(", "t", " cross join (select 1) q)", "", times);
                return Input::new(name, vec![Step::Query(text)]);
            }
            let mut steps = vec![Step::Query(nest("", open, core, close, "", times))];
            if name == "create-as" {
                steps.push(Step::Query("drop table if exists xdeep".into()));
            }
            Input::new(name, steps)
        }
        7 => two_productions(dice, times),
        8 => {
            let &(name, open) = &OPENINGS[dice.random_range(0..OPENINGS.len())];
            let head = pick(
                dice,
                &[
                    "select ",
                    "",
                    "select id from t where ",
                    "insert into u values (1, ",
                    "create table x (a int default ",
                ],
            );
            let end = pick(dice, &["", "1", "from", "'"]);
            Input::new(name, vec![Step::Query(Text::from(head).repeat(times, open).then(end))])
        }
        _ => {
            // The value is deep, not the statement.
            let (name, text) = match dice.random_range(0..5) {
                0 => ("array-text", nest("select '", "{", "1", "}", "'::int[]", times)),
                1 => ("regexp-groups", nest("select 'a' ~ '", "(", "a", ")", "'", times)),
                2 => ("regexp-repeats", nest("select 'aaaa' ~ '", "(", "a", "){2}", "'", times)),
                3 => ("json-text", nest("select '", "[", "1", "]", "'::json", times)),
                _ => ("similar-groups", nest("select 'a' similar to '", "(", "a", ")*", "'", times)),
            };
            Input::new(name, vec![Step::Query(text)])
        }
    }
}

/// Two productions in turn: a bound on one kind of nesting does not bound the other.
fn two_productions(dice: &mut Dice, times: u32) -> Input {
    let a = EXPRESSIONS[dice.random_range(0..EXPRESSIONS.len())];
    let b = EXPRESSIONS[dice.random_range(0..EXPRESSIONS.len())];
    let text = Text::from("select ")
        .repeat(times, format!("{}{}", a.1, b.1))
        .then(b.2)
        .repeat(times, format!("{}{}", b.3, a.3));
    Input::new("two-in-turn", vec![Step::Query(text)])
}

pub fn nest(head: &str, open: &str, core: &str, close: &str, tail: &str, times: u32) -> Text {
    let text = Text::from(head).repeat(times, open).then(core);
    let text = if close.is_empty() { text } else { text.repeat(times, close) };
    text.then(tail)
}
