//! Statements of every kind, grown at random: most run, some are refused, each has to be answered.

use super::expr::{Column, S_COLUMNS, Scope, T_COLUMNS, Type, U_COLUMNS, expression};
use crate::dice::{Dice, chance, pick};
use crate::input::{Input, Step};
use rand::Rng;

pub fn input(dice: &mut Dice) -> Input {
    match dice.random_range(0..100) {
        0..=44 => one("select", select(dice, 3)),
        45..=59 => one("write", write(dice)),
        60..=69 => ddl(dice),
        70..=79 => transaction(dice),
        80..=84 => cursor(dice),
        85..=89 => prepared(dice),
        90..=93 => one("explain", explain(dice)),
        94..=96 => one("set", setting(dice)),
        _ => garbled(dice),
    }
}

fn one(shape: &str, sql: String) -> Input {
    Input::new(shape, vec![Step::Query(sql.into())])
}

/// Some tables, joined; the text after FROM and the columns that it offers.
fn tables(dice: &mut Dice, depth: u32) -> (String, Vec<Column>) {
    let mut columns = Vec::new();
    let mut text = String::new();
    for n in 0..dice.random_range(1..=3u32) {
        let alias = format!("r{n}");
        let (table, its): (String, Vec<Column>) = match dice.random_range(0..12) {
            0..=4 => ("t".into(), named(&alias, T_COLUMNS)),
            5..=7 => ("u".into(), named(&alias, U_COLUMNS)),
            8 => ("s".into(), named(&alias, S_COLUMNS)),
            9 => (
                format!("generate_series({}, {})", dice.random_range(-3..3), dice.random_range(0..50)),
                vec![Column { name: alias.clone(), of: Type::Int }],
            ),
            10 => {
                let value = Scope { columns: &[], aggregates: false, windows: false, subqueries: false };
                let rows: Vec<String> = (0..dice.random_range(1..4))
                    .map(|_| {
                        format!(
                            "({}, {})",
                            expression(dice, Type::Int, 1, &value),
                            expression(dice, Type::Text, 1, &value)
                        )
                    })
                    .collect();
                let its = [("column1", Type::Int), ("column2", Type::Text)];
                (format!("(values {})", rows.join(", ")), named(&alias, &its))
            }
            _ if depth > 0 => {
                let its = [("id", Type::Int), ("n", Type::Big)];
                let filter = Scope {
                    columns: &named("t", T_COLUMNS),
                    aggregates: false,
                    windows: false,
                    subqueries: false,
                };
                let filter = expression(dice, Type::Bool, depth - 1, &filter);
                (format!("(select id, count(*) as n from t where {filter} group by id)"), named(&alias, &its))
            }
            _ => ("t".into(), named(&alias, T_COLUMNS)),
        };
        if n == 0 {
            text = format!("{table} {alias}");
            columns = its;
            continue;
        }
        columns.extend(its);
        let scope = Scope { columns: &columns, aggregates: false, windows: false, subqueries: false };
        let join =
            pick(dice, &["join", "left join", "right join", "full join", "cross join", "natural join", ","]);
        text = match join {
            "cross join" | "natural join" => format!("{text} {join} {table} {alias}"),
            "," => format!("{text}, {table} {alias}"),
            _ if chance(dice, 60) => format!("{text} {join} {table} {alias} on r0.id = {alias}.id"),
            _ if chance(dice, 30) => format!("{text} {join} {table} {alias} using (id)"),
            _ => format!("{text} {join} {table} {alias} on {}", expression(dice, Type::Bool, 2, &scope)),
        };
    }
    (text, columns)
}

fn named(alias: &str, columns: &[(&str, Type)]) -> Vec<Column> {
    columns.iter().map(|&(name, of)| Column { name: format!("{alias}.{name}"), of }).collect()
}

pub fn select(dice: &mut Dice, depth: u32) -> String {
    if depth > 0 && chance(dice, 15) {
        let set = pick(dice, &["union", "union all", "except", "except all", "intersect", "intersect all"]);
        return format!("{} {set} {}", simple_select(dice, depth - 1), simple_select(dice, depth - 1));
    }
    let body = simple_select(dice, depth);
    match dice.random_range(0..20) {
        0 => format!("with q as ({body}) select * from q limit 5"),
        1 => format!("with q as materialized ({body}), p as (select 1 as one) select count(*) from q, p"),
        2 => format!(
            "with recursive q(n) as (select {} union {} select n + {} from q where n < {}) select * from q limit {}",
            dice.random_range(0..5),
            pick(dice, &["", "all"]),
            dice.random_range(0..3),
            dice.random_range(0..200),
            dice.random_range(0..20),
        ),
        3 => format!("select count(*) from ({body}) q"),
        4 => format!(
            "{body} for {}",
            pick(dice, &["update", "share", "update nowait", "update skip locked", "no key update"])
        ),
        _ => body,
    }
}

fn simple_select(dice: &mut Dice, depth: u32) -> String {
    let (from, columns) = tables(dice, depth);
    let grouped = chance(dice, 30);
    let scope = Scope {
        columns: &columns,
        aggregates: grouped,
        windows: !grouped && chance(dice, 20),
        subqueries: depth > 1,
    };
    let filter = Scope { aggregates: false, windows: false, ..scope };
    let list: Vec<String> = (0..dice.random_range(1..5))
        .map(|_| {
            let of = Type::any(dice);
            expression(dice, of, depth + 1, &scope)
        })
        .collect();
    let list = if chance(dice, 8) { "*".into() } else { list.join(", ") };
    let distinct = match dice.random_range(0..20) {
        0 => "distinct ",
        1 => "distinct on (1) ",
        _ => "",
    };
    let mut text = format!("select {distinct}{list} from {from}");
    if chance(dice, 60) {
        text += &format!(" where {}", expression(dice, Type::Bool, depth + 1, &filter));
    }
    if grouped && chance(dice, 60) {
        let key = |dice: &mut Dice| {
            let of = Type::any(dice);
            expression(dice, of, 1, &filter)
        };
        let (one, other) = (key(dice), key(dice));
        text += &match dice.random_range(0..6) {
            0 => format!(" group by rollup ({one}, {other})"),
            1 => format!(" group by cube ({one}, {other})"),
            2 => format!(" group by grouping sets (({one}), ({other}), ())"),
            3 => " group by 1".into(),
            _ => format!(" group by {one}, {other}"),
        };
        if chance(dice, 40) {
            text += &format!(" having {}", expression(dice, Type::Bool, 2, &scope));
        }
    }
    if chance(dice, 40) {
        text += &format!(
            " order by 1 {}",
            pick(dice, &["", "desc", "nulls first", "desc nulls last", "using <"])
        );
    }
    match dice.random_range(0..12) {
        0 => text += " limit 0",
        1 => text += " limit -1",
        2 => text += " offset 9223372036854775807",
        3 => text += " fetch first 3 rows with ties",
        _ => text += &format!(" limit {}", dice.random_range(1..200)),
    }
    text
}

fn values_for(dice: &mut Dice, columns: &[(&str, Type)], depth: u32) -> String {
    let scope = Scope { columns: &[], aggregates: false, windows: false, subqueries: depth > 1 };
    let values: Vec<String> = columns
        .iter()
        .map(|&(_, of)| if chance(dice, 8) { "default".into() } else { expression(dice, of, depth, &scope) })
        .collect();
    format!("({})", values.join(", "))
}

fn write(dice: &mut Dice) -> String {
    let t = named("t", T_COLUMNS);
    let scope = Scope { columns: &t, aggregates: false, windows: false, subqueries: chance(dice, 30) };
    let returning = if chance(dice, 30) {
        let of = Type::any(dice);
        format!(" returning id, {}", expression(dice, of, 2, &scope))
    } else {
        String::new()
    };
    let columns: &[(&str, Type)] = if chance(dice, 50) { &T_COLUMNS[..4] } else { T_COLUMNS };
    let names: Vec<&str> = columns.iter().map(|c| c.0).collect();
    let id = dice.random_range(0..400);
    match dice.random_range(0..12) {
        0..=2 => {
            let rows: Vec<String> =
                (0..dice.random_range(1..4)).map(|_| values_for(dice, columns, 2)).collect();
            let conflict = pick(
                dice,
                &[
                    "",
                    " on conflict do nothing",
                    " on conflict (id) do update set a = excluded.a + t.a, c = excluded.c where t.a is not null",
                    " on conflict (a) do nothing",
                    " on conflict on constraint t_pkey do update set b = t.b + 1",
                ],
            );
            format!("insert into t ({}) values {}{conflict}{returning}", names.join(", "), rows.join(", "))
        }
        3 => format!(
            "insert into u (id, t_id, x) select id, a, c from t where {} limit 20 on conflict do nothing",
            expression(dice, Type::Bool, 2, &scope)
        ),
        4..=7 => {
            let (name, of) = columns[dice.random_range(1..columns.len())];
            let (value, filter) = (expression(dice, of, 2, &scope), expression(dice, Type::Bool, 2, &scope));
            let filter = if chance(dice, 50) { format!("id = {id}") } else { filter };
            format!("update t set {name} = {value} where {filter}{returning}")
        }
        8 => format!(
            "update t set a = q.id from u q where q.t_id = t.id and {}",
            expression(dice, Type::Bool, 2, &scope)
        ),
        9 => format!("delete from t using u q where q.t_id = t.id and t.id = {id}{returning}"),
        10 => format!(
            "delete from t where id = {id} and {}{returning}",
            expression(dice, Type::Bool, 2, &scope)
        ),
        _ => {
            let region = pick(dice, &["'local'", "null", "'mars'", "region || 'x'"]);
            format!(
                "update s set region = {region}, v = {} where k = {}",
                expression(dice, Type::Text, 2, &scope),
                id % 50
            )
        }
    }
}

fn ddl(dice: &mut Dice) -> Input {
    // A name of its own, so that inputs that run at the same time seldom meet, and never pile up.
    let name = format!("x{}", dice.random_range(0..16));
    let columns: Vec<Column> = [("a", Type::Int), ("b", Type::Text), ("c", Type::Numeric)]
        .map(|(name, of)| Column { name: name.into(), of })
        .to_vec();
    let scope = Scope { columns: &columns, aggregates: false, windows: false, subqueries: false };
    let none = Scope { columns: &[], ..scope };
    let of = Type::any(dice);
    let options = pick(
        dice,
        &[
            "",
            "",
            " with (home = 'local')",
            " with (replicated = true)",
            " with (home_by = 'a', home_map = 'hash')",
            " with (home = 'mars')",
            " with (fillfactor = 7)",
        ],
    );
    let create = format!(
        "create table {name} (a int primary key, b text default {}, c numeric(10, 2) check ({}), d {} not null default {}{}){options}",
        expression(dice, Type::Text, 2, &none),
        expression(dice, Type::Bool, 2, &scope),
        of.name(),
        expression(dice, of, 1, &none),
        pick(
            dice,
            &[
                "",
                ", unique (b)",
                ", check (c > 0)",
                ", e int generated always as identity",
                ", foreign key (a) references t"
            ]
        ),
    );
    let mut steps = vec![format!("drop table if exists {name}"), create];
    for _ in 0..dice.random_range(1..5) {
        let of = Type::any(dice);
        steps.push(match dice.random_range(0..12) {
            0 => format!("create {}index on {name} (b, c)", pick(dice, &["", "unique "])),
            1 => format!(
                "alter table {name} add column f{} {} default {}",
                dice.random_range(0..3),
                of.name(),
                expression(dice, of, 1, &none)
            ),
            2 => format!(
                "alter table {name} add constraint k check ({})",
                expression(dice, Type::Bool, 2, &scope)
            ),
            3 => format!("alter table {name} set (home = 'local')"),
            4 => format!("truncate {name}"),
            5 => format!("create table {name}y as {}", select(dice, 2)),
            6 => format!("create view {name}v as {}", select(dice, 1)),
            7 => format!("create sequence {name}s increment {}", dice.random_range(-2..3)),
            8 => format!("comment on table {name} is {}", expression(dice, Type::Text, 0, &none)),
            _ => format!(
                "insert into {name} (a, b, c) values ({}, {}, {}) on conflict do nothing",
                dice.random_range(0..9),
                expression(dice, Type::Text, 2, &none),
                expression(dice, Type::Numeric, 2, &none),
            ),
        });
    }
    steps.push(format!("select * from {name}"));
    steps.push(format!("drop table if exists {name}, {name}y"));
    Input::new("ddl", steps.into_iter().map(|s| Step::Query(s.into())).collect())
}

fn transaction(dice: &mut Dice) -> Input {
    let mut parts = vec![
        pick(
            dice,
            &[
                "begin",
                "begin isolation level serializable read only",
                "start transaction read write",
                "begin; begin",
            ],
        )
        .to_string(),
    ];
    for _ in 0..dice.random_range(1..6) {
        parts.push(match dice.random_range(0..8) {
            0 => format!("savepoint s{}", dice.random_range(0..2)),
            1 => format!("rollback to s{}", dice.random_range(0..2)),
            2 => "release savepoint s0".into(),
            3 | 4 => write(dice),
            5 => "select * from t where id = 3 for update".into(),
            6 => "set local statement_timeout = '700ms'".into(),
            _ => select(dice, 1),
        });
    }
    parts.push(pick(dice, &["commit", "rollback", "commit and chain", "end; commit", "abort"]).to_string());
    let steps = if chance(dice, 20) {
        // One text is one implicit transaction.
        vec![Step::Query(parts.join("; ").into())]
    } else {
        parts.into_iter().map(|p| Step::Query(p.into())).collect()
    };
    Input::new("transaction", steps)
}

fn cursor(dice: &mut Dice) -> Input {
    let mut parts = vec![
        "begin".to_string(),
        format!(
            "declare c {}cursor {}for {}",
            pick(dice, &["", "scroll ", "no scroll "]),
            pick(dice, &["", "with hold "]),
            select(dice, 1)
        ),
    ];
    for _ in 0..dice.random_range(1..4) {
        let way = pick(
            dice,
            &[
                "5",
                "all",
                "backward 3",
                "absolute -1",
                "relative 0",
                "first",
                "last",
                "forward -2147483648",
                "prior",
            ],
        );
        parts.push(format!("{} {way} from c", pick(dice, &["fetch", "move"])));
    }
    parts.push(pick(dice, &["close c", "close all", "commit", "rollback", "fetch 1 from c"]).to_string());
    Input::new("cursor", parts.into_iter().map(|p| Step::Query(p.into())).collect())
}

fn prepared(dice: &mut Dice) -> Input {
    let columns = [
        Column { name: "$1".into(), of: Type::Int },
        Column { name: "$2".into(), of: Type::Text },
        Column { name: "a".into(), of: Type::Int },
    ];
    let scope = Scope { columns: &columns, aggregates: false, windows: false, subqueries: false };
    let of = Type::any(dice);
    let sql = format!(
        "select {}, id from t where {} limit 10",
        expression(dice, of, 2, &scope),
        expression(dice, Type::Bool, 3, &scope)
    );
    if chance(dice, 50) {
        let steps = [
            format!("prepare p{} as {sql}", pick(dice, &["", " (int, text)"])),
            format!("execute p({}, 'x')", dice.random_range(-5..500)),
            "execute p(null, null)".into(),
            "execute p".into(),
            "deallocate p".into(),
        ];
        return Input::new("prepare", steps.into_iter().map(|s| Step::Query(s.into())).collect());
    }
    let parameter = |dice: &mut Dice| match dice.random_range(0..6) {
        0 => None,
        1 => Some("not a number".into()),
        2 => Some("99999999999999999999".into()),
        3 => Some("".into()),
        _ => Some(dice.random_range(0..300).to_string().as_str().into()),
    };
    let parameters = (0..dice.random_range(0..4)).map(|_| parameter(dice)).collect();
    Input::new("execute", vec![Step::Execute(sql.into(), parameters)])
}

fn explain(dice: &mut Dice) -> String {
    let what = if chance(dice, 50) { select(dice, 2) } else { write(dice) };
    format!(
        "explain {}{what}",
        pick(dice, &["", "analyze ", "(verbose) ", "(analyze, format json) ", "(costs off) "])
    )
}

fn setting(dice: &mut Dice) -> String {
    let name = pick(
        dice,
        &[
            "search_path",
            "statement_timeout",
            "meridian.consistency",
            "meridian.token",
            "DateStyle",
            "TimeZone",
            "client_encoding",
            "work_mem",
            "extra_float_digits",
            "nonsense",
            "a.b",
            "meridian.copy_batch_rows",
            "default_transaction_read_only",
            "lock_timeout",
            "bytea_output",
            "IntervalStyle",
            "application_name",
            "server_version",
        ],
    );
    let value = pick(
        dice,
        &[
            "'stale'",
            "'rss'",
            "0",
            "-1",
            "'x y'",
            "default",
            "on",
            "'UTC'",
            "'Mars/Phobos'",
            "99999999999",
            "'life/9,1@2'",
            "'ISO, MDY'",
            "''",
            "'utf8'",
        ],
    );
    match dice.random_range(0..4) {
        0 => format!("show {name}"),
        1 => format!("reset {name}"),
        2 => format!("set local {name} = {value}"),
        _ => format!("set {name} {} {value}", pick(dice, &["=", "to"])),
    }
}

/// A good statement with a few characters lost, doubled or replaced.
fn garbled(dice: &mut Dice) -> Input {
    let mut bytes = if chance(dice, 50) { select(dice, 2) } else { write(dice) }.into_bytes();
    for _ in 0..dice.random_range(1..6) {
        if bytes.is_empty() {
            break;
        }
        let at = dice.random_range(0..bytes.len());
        match dice.random_range(0..5) {
            0 => _ = bytes.remove(at),
            1 => bytes.insert(at, dice.random()),
            2 => {
                let odd = pick(
                    dice,
                    &[
                        "'", "\"", "$$", "/*", "--", "(", ")", ";", "\\", "E'", "U&'", "::", "$1", "\u{0}",
                        "\u{feff}",
                    ],
                );
                bytes.splice(at..at, odd.bytes());
            }
            3 => bytes.truncate(at.max(1)),
            _ => bytes[at] = dice.random(),
        }
    }
    Input::new("garbled", vec![Step::Query(bytes.into())])
}
