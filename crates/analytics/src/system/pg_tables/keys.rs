//! `pg_index` and `pg_constraint`, and their columns one by one.

use super::super::Made;
use super::super::definitions::{key_numbers, primary_index};
use super::{
    BOOL, INT, OID, SMALL, TEXT, check_oid, constraint_oid, foreign_key_oid, has_primary_key, int,
    primary_key_oid, schema_oid, text,
};
use crate::context::Context;
use crate::system::partitions;
use base::domain::Domain;
use base::schema::foreign::{Action, Timing};
use base::schema::{Check, ForeignKey, Index, Table};
use base::{DataType, Datum, TableId};
use sql::ddl::indexes::written::{self, Style};
use sql::lower::oid;
use std::sync::Arc;

/// A row per column of a vector: see [`super::vectors`].
pub(super) fn keys(of: Made, key: &str, vector: &str) -> Made {
    let find = |name: &str| of.columns.iter().position(|(n, _)| *n == name);
    let at = |name: &str| find(name).expect("a column of this table");
    let (key, vector, foreign, option) = (at(key), at(vector), find("confkey"), find("indoption"));
    let mut made = Made::new(&[
        ("meridian_of", OID),
        ("meridian_nth", INT),
        ("meridian_element", SMALL),
        ("meridian_opclass", OID),
        ("meridian_option", SMALL),
        ("meridian_foreign", SMALL),
    ]);
    for row in &of.rows {
        let numbers = |at: usize| elements(&base::text::display(&row[at]));
        let (others, options) = (foreign.map_or(Vec::new(), numbers), option.map_or(Vec::new(), numbers));
        for (n, element) in elements(&base::text::display(&row[vector])).into_iter().enumerate() {
            made.rows.push(vec![
                row[key].clone(),
                int(n as i64 + 1),
                int(element),
                int(0),
                int(options.get(n).copied().unwrap_or_default()),
                others.get(n).map_or(Datum::Null, |other| int(*other)),
            ]);
        }
    }
    made
}

/// Elements of a vector or an array of numbers in its text form.
pub(in super::super) fn elements(text: &str) -> Vec<i64> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '-');
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Numbers as an int2vector prints them.
fn vector(numbers: &[usize]) -> Datum {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    text(numbers.join(" "))
}

/// How each key is ordered: 1 is descending, 2 with nulls first.
fn options(index: &Index) -> Vec<usize> {
    let option = |at: usize| {
        let is_descending = index.form.descending.contains(&at);
        let are_nulls_first = is_descending != index.form.nulls_moved.contains(&at);
        usize::from(is_descending) + 2 * usize::from(are_nulls_first)
    };
    (0..index.keys().len()).map(option).collect()
}

pub(super) fn index(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("indexrelid", OID),
        ("indrelid", OID),
        ("indnatts", SMALL),
        ("indnkeyatts", SMALL),
        ("indisunique", BOOL),
        ("indnullsnotdistinct", BOOL),
        ("indisprimary", BOOL),
        ("indisexclusion", BOOL),
        ("indimmediate", BOOL),
        ("indisclustered", BOOL),
        ("indisvalid", BOOL),
        ("indcheckxmin", BOOL),
        ("indisready", BOOL),
        ("indislive", BOOL),
        ("indisreplident", BOOL),
        ("indkey", TEXT),
        ("indclass", TEXT),
        ("indoption", TEXT),
        ("indexprs", TEXT),
        ("indpred", TEXT),
    ]);
    let mut add = |number: u32, table: &Table, index: &Index, primary: bool| {
        let (numbers, count) = (key_numbers(index), index.keys().len());
        let or_null = |text: Option<String>| text.map_or(Datum::Null, super::text);
        let (yes, no) = (|| Datum::Bool(true), || Datum::Bool(false));
        made.rows.push(vec![
            int(number),
            int(oid(table.id)),
            int(numbers.len() as i64),
            int(count as i64),
            Datum::Bool(index.unique),
            Datum::Bool(index.form.nulls_are_equal),
            Datum::Bool(primary),
            no(),
            yes(),
            no(),
            Datum::Bool(!index.form.is_building),
            no(),
            yes(),
            yes(),
            no(),
            vector(&numbers),
            vector(&vec![0; count]),
            vector(&options(index)),
            or_null(written::expressions(table, index, Style::Plain)),
            or_null(written::predicate(table, index, Style::Plain)),
        ]);
    };
    for table in context.catalog.tables.values() {
        if has_primary_key(table) {
            add(primary_key_oid(table), table, &primary_index(table), true);
        }
        for index in &table.indexes {
            add(oid(index.id), table, index, false);
        }
    }
    made
}

pub(super) fn constraint(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", OID),
        ("conname", TEXT),
        ("connamespace", OID),
        ("contype", TEXT),
        ("condeferrable", BOOL),
        ("condeferred", BOOL),
        ("convalidated", BOOL),
        ("conrelid", OID),
        ("contypid", OID),
        ("conindid", OID),
        ("conparentid", OID),
        ("confrelid", OID),
        ("confupdtype", TEXT),
        ("confdeltype", TEXT),
        ("confmatchtype", TEXT),
        ("conislocal", BOOL),
        ("coninhcount", INT),
        ("connoinherit", BOOL),
        ("conkey", TEXT),
        ("confkey", TEXT),
        ("conbin", TEXT),
    ]);
    let mut add = |number: u32,
                   name: &str,
                   table: &Table,
                   kind: &str,
                   index: u32,
                   columns: Option<&[usize]>,
                   bin: Datum| {
        let key = columns.map_or(Datum::Null, array);
        let no = || Datum::Bool(false);
        made.rows.push(vec![
            int(number),
            text(name),
            int(schema_oid(context, &table.schema)),
            text(kind),
            no(),
            no(),
            Datum::Bool(true),
            int(oid(table.id)),
            int(0),
            int(index),
            int(0),
            int(0),
            text(" "),
            text(" "),
            text(" "),
            Datum::Bool(true),
            int(0),
            Datum::Bool(true),
            key,
            Datum::Null,
            bin,
        ]);
    };
    for table in context.catalog.tables.values() {
        if has_primary_key(table) {
            let number = primary_key_oid(table);
            add(number, &table.primary_key_name, table, "p", number, Some(&table.primary_key), Datum::Null);
        }
        for index in table.indexes.iter().filter(|i| i.constraint) {
            add(oid(index.id), &index.name, table, "u", oid(index.id), Some(&index.columns), Datum::Null);
        }
        for (nth, check) in table.checks.iter().enumerate().filter(|(_, check)| !check.is_of_partitions()) {
            add(check_oid(table, nth), &check.name, table, "c", 0, None, text(&check.sql));
        }
    }
    made.rows.extend(of_domains(context, &made.columns));
    made.rows.extend(of_partitions(context, &made.columns));
    let at = |name: &str| made.columns.iter().position(|(n, _)| *n == name).expect("a column of this table");
    let (validated, number) = (at("convalidated"), at("oid"));
    for table in context.catalog.tables.values() {
        for (nth, _) in table.checks.iter().enumerate().filter(|(_, check)| !check.is_validated) {
            let oid = int(check_oid(table, nth));
            let rows = made.rows.iter_mut().filter(|row| row[number] == oid);
            rows.for_each(|row| row[validated] = Datum::Bool(false));
        }
        for (nth, key) in table.foreign.own.iter().enumerate() {
            let Some(parent) = context.catalog.table(key.table) else { continue };
            made.rows.push(foreign_key(context, table, nth, key, parent));
        }
    }
    made
}

/// Rows of domains in `pg_constraint`, whose columns are given.
fn of_domains(context: &Context<'_>, columns: &[(&'static str, DataType)]) -> Vec<Vec<Datum>> {
    let domains = context.catalog.types.domains.values();
    let checks =
        domains.flat_map(|domain| domain.checks.iter().enumerate().map(move |check| (domain, check)));
    let row = |(domain, check): (&Arc<Domain>, (usize, &Check))| {
        of_check(context, columns, (domain.id, &domain.schema), ON_DOMAIN, check)
    };
    checks.map(row).collect()
}

/// The columns of `pg_constraint` that name what a check is on.
const ON_DOMAIN: &str = "contypid";
const ON_TABLE: &str = "conrelid";

/// Rows of partitions in `pg_constraint`, whose columns are given: they have the checks of their tables.
fn of_partitions(context: &Context<'_>, columns: &[(&'static str, DataType)]) -> Vec<Vec<Datum>> {
    let mut rows = Vec::new();
    for view in partitions::all(context.catalog) {
        let of = (view.shape.id, view.shape.schema.as_str());
        let Some(table) = sql::partitions::root(context.catalog, of.0) else { continue };
        let checks = table.checks.iter().enumerate().filter(|(_, check)| !check.is_of_partitions());
        rows.extend(checks.map(|check| of_check(context, columns, of, ON_TABLE, check)));
    }
    rows
}

/// The row in `pg_constraint`, whose columns are given, of the check that has a number among those of something; `on` says
/// what that is. A partition has its checks from its table.
fn of_check(
    context: &Context<'_>,
    columns: &[(&'static str, DataType)],
    (of, schema): (TableId, &str),
    on: &str,
    (nth, check): (usize, &Check),
) -> Vec<Datum> {
    let field = |(name, _): &(&str, DataType)| match *name {
        "oid" => int(constraint_oid(of, nth)),
        "conname" => text(&check.name),
        "connamespace" => int(schema_oid(context, schema)),
        "contype" => text("c"),
        name if name == on => int(oid(of)),
        "condeferrable" | "condeferred" | "connoinherit" => Datum::Bool(false),
        "convalidated" => Datum::Bool(check.is_validated),
        "conislocal" => Datum::Bool(on == ON_DOMAIN),
        "coninhcount" => int(i32::from(on == ON_TABLE)),
        "confupdtype" | "confdeltype" | "confmatchtype" => text(" "),
        "conkey" | "confkey" => Datum::Null,
        "conbin" => text(&check.sql),
        _ => Datum::Int(0),
    };
    columns.iter().map(field).collect()
}

/// Column numbers as an array of smallint prints them.
fn array(columns: &[usize]) -> Datum {
    let numbers: Vec<String> = columns.iter().map(|c| (c + 1).to_string()).collect();
    text(format!("{{{}}}", numbers.join(",")))
}

/// The row of a foreign key in `pg_constraint`.
fn foreign_key(
    context: &Context<'_>,
    table: &Arc<Table>,
    nth: usize,
    key: &ForeignKey,
    parent: &Table,
) -> Vec<Datum> {
    let letter = |action: &Action| match action {
        Action::NoAction => "a",
        Action::Restrict => "r",
        Action::Cascade => "c",
        Action::SetNull(_) => "n",
        Action::SetDefault(_) => "d",
    };
    let unique = if key.unique == parent.id { primary_key_oid(parent) } else { oid(key.unique) };
    // A partition has no column that its table hides.
    let partition = key.partition_id().and_then(|id| context.catalog.views.get(&id));
    let visible = |column: &usize| table.visible_columns().filter(|(at, _)| at < column).count();
    let (of, columns) = match partition {
        Some(view) => (&view.shape, key.columns.iter().map(visible).collect()),
        None => (table, key.columns.clone()),
    };
    vec![
        int(foreign_key_oid(table, nth)),
        text(&key.name),
        int(schema_oid(context, &of.schema)),
        text("f"),
        Datum::Bool(key.timing.is_deferrable()),
        Datum::Bool(key.timing == Timing::Deferred),
        Datum::Bool(key.is_validated),
        int(oid(of.id)),
        int(0),
        int(unique),
        int(0),
        int(oid(parent.id)),
        text(letter(&key.on_update)),
        text(letter(&key.on_delete)),
        text(if key.is_full { "f" } else { "s" }),
        Datum::Bool(true),
        int(0),
        Datum::Bool(true),
        array(&columns),
        array(&key.referenced),
        Datum::Null,
    ]
}
