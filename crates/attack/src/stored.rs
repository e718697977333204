//! Definitions that are kept: what was accepted in a CHECK, a DEFAULT, an index or a prepared statement is planned
//! again whenever it is used, by other sessions and after a restart, and so has to be usable.

use crate::dice::{Dice, chance, magnitude};
use crate::input::{Input, Step};
use crate::statements::expr::{Column, Scope, Type, expression};
use crate::statements::{deep, long};
use crate::text::Text;
use rand::Rng;

pub fn input(dice: &mut Dice) -> Input {
    let name = format!("d{}", dice.random_range(0..16));
    let (shape, body) = body(dice);
    let with = |head: &str, tail: &str| Text::from(head).then_text(&body).then(tail);
    let drop = format!("drop table if exists {name}");
    let plain = format!(
        "create table {name} (id int primary key, a int default 1, c text default 'x', f boolean default true)"
    );
    let insert = format!("insert into {name} (id) values (1), (2) on conflict do nothing");
    let update = format!("update {name} set a = a + 1, c = c || 'y' where id = 1");
    let read = format!("select * from {name} where id > 0");
    let steps: Vec<Text> = match dice.random_range(0..9) {
        0 => vec![
            with(
                &format!(
                    "create table {name} (id int primary key, a int default 1, c text default 'x', f boolean default true, check (("
                ),
                ") is not null))",
            ),
            insert.clone().into(),
            update.into(),
            read.into(),
        ],
        1 => vec![
            with(
                &format!("create table {name} (id int primary key, a int default 1, c text default (("),
                ")::text))",
            ),
            insert.clone().into(),
            update.into(),
            read.into(),
        ],
        2 => vec![
            plain.into(),
            insert.clone().into(),
            with(&format!("alter table {name} add constraint k check (("), ") is not null)"),
            update.into(),
        ],
        3 => vec![
            plain.into(),
            insert.clone().into(),
            with(&format!("alter table {name} add column w text default (("), ")::text)"),
            read.into(),
            insert.clone().into(),
        ],
        4 => vec![
            plain.into(),
            with(&format!("create index on {name} (("), "))"),
            insert.clone().into(),
            read.into(),
        ],
        5 => vec![
            plain.into(),
            with(&format!("create unique index on {name} (id) where ("), ") is not null"),
            insert.clone().into(),
        ],
        6 => vec![
            plain.into(),
            with(&format!("create view {name}v as select "), &format!(" as v from {name}")),
            format!("select * from {name}v").into(),
            format!("drop view if exists {name}v").into(),
        ],
        7 => vec![
            plain.into(),
            insert.clone().into(),
            with("prepare stored as select ", &format!(" from {name} where id = $1::int")),
            "execute stored(1)".into(),
            format!("alter table {name} add column w int").into(),
            "execute stored(2)".into(),
        ],
        _ => vec![
            plain.into(),
            with(
                &format!(
                    "create table {name}g (id int primary key, a int, c text, f boolean, w text generated always as (("
                ),
                ")::text) stored)",
            ),
            format!("drop table if exists {name}g").into(),
        ],
    };
    let mut all: Vec<Step> = vec![Step::Query(drop.clone().into())];
    all.extend(steps.into_iter().map(Step::Query));
    all.push(Step::Query(drop.into()));
    Input::new(shape, all)
}

/// What is stored: something long, something deep, or a random expression over the table's columns.
fn body(dice: &mut Dice) -> (String, Text) {
    if chance(dice, 40) {
        let columns = [("id", Type::Int), ("a", Type::Int), ("c", Type::Text), ("f", Type::Bool)];
        let columns = columns.map(|(name, of)| Column { name: name.into(), of });
        let subqueries = chance(dice, 10);
        let scope = Scope { columns: &columns, aggregates: chance(dice, 5), windows: false, subqueries };
        let of = Type::any(dice);
        return ("random".into(), expression(dice, of, 4, &scope).into());
    }
    let times = magnitude(dice, 10, 20_000);
    match dice.random_range(0..3) {
        0 => {
            let &(name, before, unit, after) =
                &long::EXPRESSIONS[dice.random_range(0..long::EXPRESSIONS.len())];
            (format!("long-{name}"), long::wrap("", before, unit, times, after, ""))
        }
        1 => {
            let &(name, before, unit, after) =
                &long::CONDITIONS[dice.random_range(0..long::CONDITIONS.len())];
            (format!("long-{name}"), long::wrap("", before, unit, times, after, ""))
        }
        _ => {
            let &(name, open, core, close) =
                &deep::EXPRESSIONS[dice.random_range(0..deep::EXPRESSIONS.len())];
            (format!("deep-{name}"), deep::nest("", open, core, close, "", times))
        }
    }
}
