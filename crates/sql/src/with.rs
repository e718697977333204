//! `WITH` whose queries write or lock rows: the parts of such a statement, each by itself.
//!
//! A part is run on its own, and its rows stand for it in what follows: under its name there is a query of a table that
//! only this statement knows, in a schema of a name that no other text can say.

use crate::names;
use crate::types::{Column, type_oid};
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Table;
use base::views::View;
use base::{DataType, TableId};
use sqlparser::ast::{self, Cte, Ident, Query, SetExpr, Statement};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The schema of tables that stand for rows of parts.
pub const SCHEMA: &str = "\u{f8ff}with";

/// The first of their ids.
const FIRST_ID: u32 = 0x7000_0000;

/// Whether a statement writes, or what it reads is locked.
fn acts(query: &Query) -> bool {
    !query.locks.is_empty()
        || matches!(
            query.body.as_ref(),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        )
}

/// Whether one of a statement's common table expressions is a part to be run by itself.
pub fn has_parts(query: &Query) -> bool {
    query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(|cte| acts(&cte.query)))
}

/// Whether a query writes.
pub fn writes(query: &Query) -> bool {
    let is_written = |query: &Query| acts(query) && query.locks.is_empty();
    is_written(query)
        || query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(|cte| is_written(&cte.query)))
}

/// A query that is an INSERT, or a change without WITH, as that statement.
pub fn unwrapped(statement: &Statement) -> Cow<'_, Statement> {
    let Statement::Query(query) = statement else { return Cow::Borrowed(statement) };
    match (query.body.as_ref(), &query.with) {
        (SetExpr::Insert(Statement::Insert(insert)), Some(with)) => {
            let mut insert = insert.clone();
            if let Some(source) = &mut insert.source {
                if source.with.is_some() {
                    let inner = std::mem::replace(&mut source.body, Box::new(SetExpr::Values(no_values())));
                    let body = Query { body: inner, ..source.as_ref().clone() };
                    **source = bare(SetExpr::Query(Box::new(body)));
                }
                source.with = Some(with.clone());
            }
            Cow::Owned(Statement::Insert(insert))
        }
        (
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner),
            None,
        ) => Cow::Borrowed(inner),
        _ => Cow::Borrowed(statement),
    }
}

/// A change with its WITH, if a statement is one.
pub fn change_of(query: &Query) -> Option<(Option<&ast::With>, &Statement)> {
    match query.body.as_ref() {
        SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => {
            Some((query.with.as_ref(), inner))
        }
        _ => None,
    }
}

fn no_values() -> ast::Values {
    ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() }
}

/// A query of a body and nothing else.
fn bare(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// A statement with parts, taken apart.
pub struct Taken<'q> {
    query: &'q Query,
    with: &'q ast::With,
    /// How many of its common table expressions were looked at.
    nth: usize,
    /// Those that later ones can name.
    known: Vec<Cte>,
    /// Names of parts that give no rows.
    silent: BTreeSet<String>,
}

impl<'q> Taken<'q> {
    /// `None`: it has no parts.
    pub fn of(query: &'q Query) -> Option<Taken<'q>> {
        let with = query.with.as_ref().filter(|_| has_parts(query))?;
        Some(Taken { query, with, nth: 0, known: Vec::new(), silent: BTreeSet::new() })
    }

    /// The next part as a statement, and its place. Errors: 42601 for MERGE, 0A000.
    pub fn next_part(&mut self) -> SqlResult<Option<(usize, Statement)>> {
        while let Some(cte) = self.with.cte_tables.get(self.nth) {
            self.nth += 1;
            if !acts(&cte.query) {
                self.known.push(cte.clone());
                continue;
            }
            if matches!(cte.query.body.as_ref(), SetExpr::Merge(_)) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"merge\""));
            }
            return Ok(Some((self.nth - 1, Statement::Query(Box::new(self.scoped(&cte.query)?)))));
        }
        Ok(None)
    }

    /// What is left when all parts have been taken: the statement around them. Errors: 0A000.
    pub fn rest(&self) -> SqlResult<Statement> {
        let around = Query { with: None, ..self.query.clone() };
        Ok(Statement::Query(Box::new(self.scoped(&around)?)))
    }

    /// The rows that a part gives, as a table that can be named from now on. `columns`: `None` if it gives none. Errors:
    /// 0A000 for columns of which there can be no table, 42P10.
    pub fn put_table(&mut self, nth: usize, columns: Option<&[Column]>) -> SqlResult<Option<Table>> {
        let cte = &self.with.cte_tables[nth];
        let name = names::fold(&cte.alias.name);
        let Some(columns) = columns else {
            self.silent.insert(name);
            return Ok(None);
        };
        let given = &cte.alias.columns;
        if given.len() > columns.len() {
            let told = format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                given.len()
            );
            return Err(SqlError::new(SqlState(*b"42P10"), told));
        }
        let mut made: Vec<(String, DataType)> = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let called = given.get(at).map_or_else(|| column.name.clone(), |given| names::fold(&given.name));
            if column.type_oid != type_oid(column.data_type) {
                return Err(SqlError::unsupported(format!(
                    "a column of the type of \"{called}\" in this WITH"
                )));
            }
            if made.iter().any(|(other, _)| *other == called) {
                return Err(SqlError::unsupported(format!("two columns \"{called}\" in this WITH"))
                    .hint("Give one of them another name in RETURNING."));
            }
            made.push((called, column.data_type));
        }
        let id = TableId(FIRST_ID + nth as u32);
        let table = View::shape(id, SCHEMA.into(), nth.to_string(), made);
        let text = format!("SELECT * FROM \"{SCHEMA}\".\"{nth}\"");
        let Some(Statement::Query(query)) = crate::parse::parse(&text)?.pop() else {
            return Err(SqlError::internal("this text is a query"));
        };
        let mut cte = cte.clone();
        cte.alias.columns.clear();
        self.known.push(Cte { query, ..cte });
        Ok(Some(table))
    }

    /// A query with those of the known expressions that it names, and that these name. Errors: 0A000 for one that gives
    /// no rows.
    fn scoped(&self, query: &Query) -> SqlResult<Query> {
        let mut wanted = relations_of(query);
        if let Some(name) = self.silent.intersection(&wanted).next() {
            let told = format!("WITH query \"{name}\" does not have a RETURNING clause");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        let mut named = Vec::new();
        for cte in self.known.iter().rev() {
            if wanted.contains(&names::fold(&cte.alias.name)) {
                wanted.extend(relations_of(&cte.query));
                named.push(cte.clone());
            }
        }
        if named.is_empty() {
            return Ok(query.clone());
        }
        named.reverse();
        let mut with = ast::With { cte_tables: named, ..self.with.clone() };
        with.cte_tables.extend(query.with.iter().flat_map(|own| own.cte_tables.iter().cloned()));
        Ok(Query { with: Some(with), ..query.clone() })
    }
}

/// Names without a schema that a query names as relations.
fn relations_of(query: &Query) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let _: ControlFlow<()> = ast::visit_relations(query, |name| {
        if let [part] = name.0.as_slice() {
            found.extend(part.as_ident().map(|ident: &Ident| names::fold(ident)));
        }
        ControlFlow::Continue(())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_name_what_was_before_them() {
        let sql = "with a as (select 1 as x), b as (delete from t using a where t.x = a.x returning x), \
                   c (y) as (insert into u select x from b returning x), d as (update v set z = 1) \
                   select y from c";
        let Some(Statement::Query(query)) = crate::parse::parse(sql).unwrap().pop() else { panic!() };
        let mut taken = Taken::of(&query).unwrap();
        let column = [Column::new("x", DataType::Integer)];
        let (nth, part) = taken.next_part().unwrap().unwrap();
        assert_eq!(
            part.to_string(),
            "WITH a AS (SELECT 1 AS x) DELETE FROM t USING a WHERE t.x = a.x RETURNING x"
        );
        taken.put_table(nth, Some(&column)).unwrap();
        let (nth, part) = taken.next_part().unwrap().unwrap();
        let part = unwrapped(&part).to_string();
        assert!(part.contains("INSERT INTO u WITH b AS (SELECT * FROM"), "{part}");
        let table = taken.put_table(nth, Some(&column)).unwrap().unwrap();
        assert_eq!(table.columns[0].name, "y");
        let (nth, part) = taken.next_part().unwrap().unwrap();
        assert_eq!(unwrapped(&part).to_string(), "UPDATE v SET z = 1");
        taken.put_table(nth, None).unwrap();
        assert!(taken.next_part().unwrap().is_none());
        assert!(taken.rest().unwrap().to_string().ends_with("SELECT y FROM c"));
        assert!(writes(&query));
    }

    #[test]
    fn what_returns_nothing_cannot_be_read() {
        let sql = "with d as (delete from t) select * from d";
        let Some(Statement::Query(query)) = crate::parse::parse(sql).unwrap().pop() else { panic!() };
        let mut taken = Taken::of(&query).unwrap();
        let (nth, _) = taken.next_part().unwrap().unwrap();
        taken.put_table(nth, None).unwrap();
        assert_eq!(taken.rest().unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}
