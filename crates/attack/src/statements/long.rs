//! One production many times side by side. What walks such a text by recursion ends the process; what compares
//! each part with each other takes minutes.

use crate::dice::{Dice, magnitude, pick};
use crate::input::{Input, Step};
use crate::text::Text;
use rand::Rng;

/// A production: what comes before, the unit (`#` is its number), and what comes after.
type Production = (&'static str, &'static str, &'static str, &'static str);

pub const EXPRESSIONS: &[Production] = &[
    ("plus", "1", " + 1", ""),
    ("minus", "1", " - a", ""),
    ("times", "1.5", " * 1.0001", ""),
    ("divide", "1e30", " / 1.01", ""),
    ("modulo", "a", " % 7", ""),
    ("power", "1", " ^ 1", ""),
    ("concat", "'a'", " || 'a'", ""),
    ("concat-column", "c", " || c", ""),
    ("bits", "1", " | #", ""),
    ("shift", "1", " << 1", ""),
    ("case-arms", "case a", " when # then #", " else 0 end"),
    ("case-conditions", "case", " when a = # then '#'", " end"),
    ("casts", "1", "::int", ""),
    ("casts-of-two", "a", "::text::int", ""),
    ("array", "array[0", ", #", "]"),
    ("array-dimensions", "'{1}'::int", "[]", ""),
    ("coalesce", "coalesce(null", ", null", ", 1)"),
    ("greatest", "greatest(a", ", #", ")"),
    ("concat-function", "concat('a'", ", 'b'", ")"),
    ("row", "row(1", ", #", ")"),
    ("string", "'", "a", "'"),
    ("quotes", "'", "''", "'"),
    ("escapes", "E'", "\\n", "'"),
    ("unicode-escapes", "U&'", "\\0061", "'"),
    ("string-pieces", "'a'", "\n'b'", ""),
    ("digits", "1", "0", ""),
    ("decimals", "0.", "1", ""),
    ("exponent", "1e", "9", ""),
    ("subscripts", "(array[1])", "[1]", ""),
    ("fields", "t", ".t", ""),
    ("at-time-zone", "now()", " at time zone 'UTC'", ""),
    ("collate", "c", " collate \"C\"", ""),
    ("signs", "", "- ", "1"),
    ("plus-signs", "", "+ ", "1"),
    ("tildes", "", "~", "1"),
];

pub const CONDITIONS: &[Production] = &[
    ("and", "id > 0", " and id > 0", ""),
    ("or", "id = 0", " or id = #", ""),
    ("and-or", "id > 0", " and a = 1 or b = #", ""),
    ("nots", "", "not ", "true"),
    ("is-null", "a", " is null", ""),
    ("is-true", "f", " is true", ""),
    ("equals", "f", " = f", ""),
    ("in-list", "id in (0", ", #", ")"),
    ("in-texts", "c in ('x'", ", 'row #'", ")"),
    ("not-in-expressions", "a not in (1", ", a + #", ")"),
    ("any-array", "id = any(array[0", ", #", "])"),
    ("any-text", "id = any('{0", ",#", "}'::int[])"),
    ("rows-in", "(id, a) in ((0, 0)", ", (#, #)", ")"),
    ("like", "c like '", "%a", "'"),
    ("regexp", "c ~ '", "(a|b)", "'"),
    ("similar", "c similar to '", "(a|b)", "'"),
    ("between", "id > 0", " and id between # and 5", ""),
    ("exists", "true", " and exists (select 1 from u where u.id = #)", ""),
    ("in-subqueries", "true", " and id in (select t_id from u)", ""),
];

pub const QUERIES: &[Production] = &[
    ("union-all", "select 1", " union all select #", ""),
    ("union", "select 1", " union select 1", ""),
    ("intersect", "select 1", " intersect select 1", ""),
    ("except", "select 1", " except select 2", ""),
    ("mixed-sets", "select 1", " union all select 2 except select 3", ""),
    ("union-tables", "select id from t", " union all select id from u", ""),
    ("values", "values (0)", ", (#)", ""),
    ("select-list", "select 1", ", # as c#", ""),
    ("select-columns", "select id", ", a", " from t"),
    ("cross-joins", "select count(*) from (select 1) r", " cross join (select 1) r#", ""),
    ("table-joins", "select count(*) from t", " join t t# on t#.id = t.id", ""),
    ("left-joins", "select t.id from t", " left join u u# on u#.id = t.id", " where t.id = 1"),
    ("using-joins", "select id from t", " join u u# using (id)", ""),
    ("natural-joins", "select 1 from (select 1 as a) r", " natural join (select 1 as a) r#", ""),
    ("comma-joins", "select count(*) from (select 1) r", ", (select 1) r#", ""),
    ("ctes", "with c as (select 1)", ", c# as (select # as n)", " select * from c"),
    ("group-by", "select count(*) from t group by id", ", a + #", ""),
    ("grouping-sets", "select count(*) from t group by grouping sets ((id)", ", (a)", ")"),
    ("rollup", "select count(*) from t group by rollup (id", ", a + #", ")"),
    ("cube", "select count(*) from t group by cube (id", ", a + #", ")"),
    ("order-by", "select id from t order by id", ", a + #", ""),
    ("distinct-on", "select distinct on (id", ", a", ") id from t"),
    ("aggregates", "select count(*)", ", sum(a + #)", " from t"),
    ("windows", "select id", ", sum(a) over (order by b, #)", " from t"),
    ("named-windows", "select 1 from t window w as ()", ", w# as (order by #)", ""),
    ("scalar-subqueries", "select 1", ", (select max(#) from t)", ""),
    ("comments", "", "/* */", "select 1"),
    ("line-comments", "", "--\n", "select 1"),
    ("spaces", "select", " ", "1"),
    ("statements", "select 1", "; select #", ""),
    ("semicolons", "select 1", ";", ""),
    ("inserts", "insert into u (id, t_id) values (1000, 0)", ", (1000#, 0)", " on conflict do nothing"),
    ("insert-columns", "insert into t (id", ", a", ") values (1)"),
    ("update-columns", "update t set a = 1", ", b = #", " where id = 1"),
    ("update-sum", "update t set a = 1", " + 0", " where id = 1"),
    ("returning", "update t set a = 1 where id = 1 returning id", ", a + #", ""),
    ("name", "select 1 as a", "b", ""),
    ("name-with-dots", "select * from a", ".b", ""),
    ("search-path", "set search_path = public", ", s#", ""),
    ("drops", "drop table if exists n", ", n#", ""),
    ("create-columns", "create table xlong (id int primary key", ", c# int", ")"),
    ("create-checks", "create table xlong (id int primary key", ", check (id > #)", ")"),
    ("create-keys", "create table xlong (id int primary key", ", unique (id)", ")"),
    ("alter-adds", "alter table u add column w int", ", add column w# int", ""),
    ("table-options", "create table xlong (id int primary key) with (home = 'local'", ", o# = 1", ")"),
    (
        "home-list",
        "create table xlong (id int primary key) with (home_by = 'id', home_map = 'list(0:local",
        ", 1#:local",
        ")')",
    ),
    ("savepoints", "begin", "; savepoint s#", "; rollback"),
    ("explain-chain", "explain select 1", " + 1", ""),
    ("lock-clauses", "select id from t where id = 1", " for update", ""),
    ("window-frames", "select sum(1) over (order by 1", ", 1", ") from t"),
    ("dollars", "select $", "a", "$x$"),
    ("placeholders", "prepare p as select $1::int", " + $1", ""),
    ("tuple-values", "insert into t values (1", ", 1", ")"),
    ("limits", "select 1 limit 1", " + 0", ""),
    (
        "recursive-arms",
        "with recursive q(n) as (select 1",
        " union all select n + 1 from q where n < #",
        ") select * from q limit 3",
    ),
];

pub fn input(dice: &mut Dice) -> Input {
    let times = magnitude(dice, 10, 100_000);
    match dice.random_range(0..3) {
        0 => {
            let &(name, before, unit, after) = &EXPRESSIONS[dice.random_range(0..EXPRESSIONS.len())];
            let text = |head: &str, tail: &str| wrap(head, before, unit, times, after, tail);
            let step = match dice.random_range(0..6) {
                0 => text("select ", " from t where id < 5"),
                1 => text("select id from t where id < 5 order by ", ""),
                2 => text("update t set a = length((", ")::text) where id = 1"),
                3 => text("insert into u (id, x) values (5000, (", ")::text) on conflict do nothing"),
                4 => text("select id from t where c = (", ")::text"),
                _ => text("select count(*) from t group by ", ""),
            };
            Input::new(name, vec![Step::Query(step)])
        }
        1 => {
            let &(name, before, unit, after) = &CONDITIONS[dice.random_range(0..CONDITIONS.len())];
            let head = pick(
                dice,
                &[
                    "select id from t where ",
                    "update t set a = a where ",
                    "delete from t where id < 0 and ",
                    "select sum(a) filter (where id > 0) from t having true or ",
                    "select * from t join u using (id) where ",
                    "select count(*) from t where a = 1 and ",
                    "explain select * from t where ",
                ],
            );
            // In a join `id` alone is ambiguous nowhere but in ON: USING merges it.
            Input::new(name, vec![Step::Query(wrap(head, before, unit, times, after, ""))])
        }
        _ => {
            let &(name, before, unit, after) = &QUERIES[dice.random_range(0..QUERIES.len())];
            // Time limits are per statement: many of them may rightly take many times as long.
            let times = if name == "statements" || name == "savepoints" { times.min(1000) } else { times };
            let mut steps = vec![Step::Query(wrap("", before, unit, times, after, ""))];
            if before.contains("xlong") {
                steps.push(Step::Query("insert into xlong (id) values (1)".into()));
                steps.push(Step::Query("select * from xlong".into()));
                steps.push(Step::Query("drop table if exists xlong".into()));
            }
            if before.starts_with("prepare") {
                steps.push(Step::Query("execute p(1)".into()));
            }
            Input::new(name, steps)
        }
    }
}

pub fn wrap(head: &str, before: &str, unit: &str, times: u32, after: &str, tail: &str) -> Text {
    let text = Text::from(format!("{head}{before}"));
    let text = if unit.contains('#') { text.numbered(times, unit) } else { text.repeat(times, unit) };
    text.then(format!("{after}{tail}"))
}
