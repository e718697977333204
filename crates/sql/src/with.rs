//! `WITH` whose queries write or lock rows: the parts of such a statement, each by itself.
//!
//! A part is run on its own, and its rows stand for it in what follows: under its name there is a query of a table that
//! only this statement knows, in a schema of a name that no client can say. So is a query that only reads if others
//! would find other rows in it, each its own; a statement with such a query that is named several times has parts, too.

use crate::names;
use crate::types::{Column, type_oid};
use crate::volatile::is_volatile;
use crate::walk::Walk;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Table;
use base::views::View;
use base::{DataType, TableId};
use sqlparser::ast::{self, Cte, Ident, Query, SetExpr, Statement, TableFactor, Visitor};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The schema of tables that stand for rows of parts.
pub const SCHEMA: &str = "\u{f8ff}with";

/// The first of their ids.
const FIRST_ID: u32 = 0x7000_0000;

/// The n-th table of a statement that rows stand for: it is named by its number in [`SCHEMA`].
pub fn table_of_rows(nth: usize, columns: Vec<(String, DataType)>) -> Table {
    View::shape(TableId(FIRST_ID + nth as u32), SCHEMA.into(), nth.to_string(), columns)
}

/// Whether a statement writes, or what it reads is locked.
fn acts(query: &Query) -> bool {
    !query.locks.is_empty()
        || matches!(
            query.body.as_ref(),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        )
}

/// Whether one of a statement's common table expressions is a part to be run by itself: it acts, or it has other rows each
/// time and is named several times.
pub fn has_parts(query: &Query) -> bool {
    let Some(with) = &query.with else { return false };
    let repeats = |cte: &Cte| {
        let name = names::fold(&cte.alias.name);
        is_volatile(&cte.query) && times_named(query, &name) - times_named(&cte.query, &name) > 1
    };
    with.cte_tables.iter().any(|cte| acts(&cte.query) || repeats(cte))
}

/// How often a query has a relation of a name that no schema is said of.
fn times_named(query: &Query, name: &str) -> usize {
    struct Named<'n>(&'n str, usize);
    impl Visitor for Named<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: None, .. } = factor
                && let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice()
                && names::fold(name) == self.0
            {
                self.1 += 1;
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(name, 0);
    let _: ControlFlow<()> = query.walk(&mut named);
    named.1
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

/// Errors: 0A000 for a WITH that has the name of the table that is changed, which a query over both would take for it.
pub fn refuse_target(with: &ast::With, change: &Statement) -> SqlResult<()> {
    let target = match change {
        Statement::Update(update) => Some(&update.table.relation),
        Statement::Delete(delete) => match &delete.from {
            ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from) => {
                from.first().map(|table| &table.relation)
            }
        },
        Statement::Merge(merge) => Some(&merge.table),
        _ => None,
    };
    let Some(ast::TableFactor::Table { name, .. }) = target else { return Ok(()) };
    let [part] = name.0.as_slice() else { return Ok(()) };
    let name = part.as_ident().map(names::fold);
    if with.cte_tables.iter().any(|cte| Some(names::fold(&cte.alias.name)) == name) {
        let told =
            format!("a WITH query with the name of the changed table \"{}\"", name.unwrap_or_default());
        return Err(SqlError::unsupported(told).hint("Give the WITH query another name."));
    }
    Ok(())
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
                if self.varies(cte) {
                    let alone = self.scoped(&self.alone(cte)?)?;
                    return Ok(Some((self.nth - 1, Statement::Query(Box::new(alone)))));
                }
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
                    .hint("Give one of them another name."));
            }
            made.push((called, column.data_type));
        }
        let table = table_of_rows(nth, made);
        let query = Box::new(all_of(&format!("\"{SCHEMA}\".\"{nth}\""))?);
        let mut cte = cte.clone();
        cte.alias.columns.clear();
        self.known.push(Cte { query, ..cte });
        Ok(Some(table))
    }

    /// Whether a query that only reads is run as a part: something names it, and it would give others rows to each.
    fn varies(&self, cte: &Cte) -> bool {
        if !is_volatile(&cte.query) {
            return false;
        }
        let name = names::fold(&cte.alias.name);
        let around = Query { with: None, ..self.query.clone() };
        let later = self.with.cte_tables[self.nth..].iter().map(|later| later.query.as_ref());
        later.chain([&around]).any(|query| names_of(query).outer.contains(&name))
    }

    /// A common table expression that only reads as a query of its own.
    fn alone(&self, cte: &Cte) -> SqlResult<Query> {
        if !(self.with.recursive && names_itself(cte)) {
            return Ok(cte.query.as_ref().clone());
        }
        let mut query = all_of(&Ident::with_quote('"', names::fold(&cte.alias.name)).to_string())?;
        query.with = Some(ast::With { cte_tables: vec![cte.clone()], ..self.with.clone() });
        Ok(query)
    }

    /// A query with those of the known expressions that it names, and that these name. Errors: 0A000 for one that gives
    /// no rows, and for a WITH in it that one list cannot say together with them.
    fn scoped(&self, query: &Query) -> SqlResult<Query> {
        let Named { outer: mut wanted, own, .. } = names_of(query);
        if let Some(name) = self.silent.intersection(&wanted).next() {
            let told = format!("WITH query \"{name}\" does not have a RETURNING clause");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        let mut named = Vec::new();
        for cte in self.known.iter().rev() {
            let name = names::fold(&cte.alias.name);
            if wanted.contains(&name) {
                if own.contains(&name) {
                    return Err(SqlError::unsupported(format!(
                        "WITH query \"{name}\" beside another of its name inside"
                    ))
                    .hint("Give one of them another name."));
                }
                wanted.extend(names_of(&cte.query).outer);
                named.push(cte.clone());
            }
        }
        if named.is_empty() {
            return Ok(query.clone());
        }
        named.reverse();
        let with = ast::With { cte_tables: named, ..self.with.clone() };
        let with = match &query.with {
            None => with,
            Some(inner) => together(with, inner)?,
        };
        Ok(Query { with: Some(with), ..query.clone() })
    }
}

/// One list of an outer WITH and of the one in its query. Errors: 0A000 where RECURSIVE, said of one of them, would make
/// a query of the other name itself.
fn together(outer: ast::With, inner: &ast::With) -> SqlResult<ast::With> {
    let naming_themselves = [&outer, inner].map(|with| with.cte_tables.iter().any(names_itself));
    let flags = [outer.recursive, inner.recursive];
    let recursive = (0..2).any(|n| flags[n] && naming_themselves[n]);
    if recursive && (0..2).any(|n| !flags[n] && naming_themselves[n]) {
        return Err(SqlError::unsupported(
            "a WITH query that names a table of its own name, beside RECURSIVE ones",
        ));
    }
    let mut with = ast::With { recursive, ..outer };
    with.cte_tables.extend(inner.cte_tables.iter().cloned());
    Ok(with)
}

/// `SELECT * FROM relation`.
fn all_of(relation: &str) -> SqlResult<Query> {
    match crate::parse::parse(&format!("SELECT * FROM {relation}"))?.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(SqlError::internal("this text is a query")),
    }
}

fn names_itself(cte: &Cte) -> bool {
    names_of(&cte.query).outer.contains(&names::fold(&cte.alias.name))
}

/// What a query names.
#[derive(Default)]
struct Named {
    /// Relations without a schema that no WITH in it has.
    outer: BTreeSet<String>,
    /// Names that a WITH in it gives.
    own: BTreeSet<String>,
    /// Those that can be said where the visit is.
    visible: Vec<String>,
    /// How many of them there were around each query that the visit is in.
    around: Vec<usize>,
    /// Names that can be said behind a query of a WITH.
    given: BTreeMap<*const Query, String>,
}

fn names_of(query: &Query) -> Named {
    let mut named = Named::default();
    let _: ControlFlow<()> = query.walk(&mut named);
    named
}

impl ast::Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.around.push(self.visible.len());
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                let name = names::fold(&cte.alias.name);
                self.own.insert(name.clone());
                match with.recursive {
                    true => self.visible.push(name),
                    false => drop(self.given.insert(cte.query.as_ref(), name)),
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.visible.truncate(self.around.pop().unwrap_or_default());
        self.visible.extend(self.given.remove(&std::ptr::from_ref(query)));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
        if let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident().map(names::fold)
            && !self.visible.contains(&name)
        {
            self.outer.insert(name);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_name_what_was_before_them() {
        let sql = "with a as (select 1 as x), b as (delete from t using a where t.x = a.x returning x), \
                   c (y) as (insert into u select x from b returning x), d as (update v set z = 1) \
                   select y from c";
        let query = one(sql);
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
    fn what_changes_by_itself_is_computed_once_if_it_is_named() {
        let sql = "with i as (select random() as x), j as (select random() as x), k as (select x from i), \
                   a as (insert into t select x from k) insert into u select x from k";
        let query = one(sql);
        let mut taken = Taken::of(&query).unwrap();
        let (nth, part) = taken.next_part().unwrap().unwrap();
        assert_eq!((nth, part.to_string()), (0, "SELECT random() AS x".to_string()));
        taken.put_table(nth, Some(&[Column::new("x", DataType::Double)])).unwrap().unwrap();
        assert_eq!(taken.next_part().unwrap().unwrap().0, 3);
        taken.put_table(3, None).unwrap();
        assert!(taken.next_part().unwrap().is_none());
        let rest = taken.rest().unwrap().to_string();
        assert!(rest.contains("k AS (SELECT x FROM i)") && !rest.contains("random"), "{rest}");

        let sql = "with recursive r (n) as (select random() union all select n + 1 from r where n < 3), \
                   a as (delete from t) select n from r";
        let query = one(sql);
        let part = Taken::of(&query).unwrap().next_part().unwrap().unwrap().1.to_string();
        assert!(
            part.starts_with("WITH RECURSIVE r (n) AS (") && part.ends_with("SELECT * FROM \"r\""),
            "{part}"
        );
    }

    #[test]
    fn a_with_in_a_part_says_what_its_own_names_are() {
        let scoped = |recursive: &str, part: &str| {
            let sql = format!(
                "with {recursive} a as (select 1 as x), b as (select 2 as x), d as (delete from t), \
                 e as (update t set x = 1 where x in (select x from a) returning x) select 1"
            );
            let query = one(&sql);
            let mut taken = Taken::of(&query).unwrap();
            while let Some((nth, _)) = taken.next_part().unwrap() {
                taken.put_table(nth, Some(&[Column::new("x", DataType::Integer)])).unwrap();
            }
            taken.scoped(&one(part)).map(|query| query.with.map(|w| w.to_string()).unwrap_or_default())
        };
        let own = "with b as (select x from a) select x from b";
        let wanted = "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a)";
        assert_eq!(scoped("", own).unwrap(), wanted);
        assert_eq!(scoped("recursive", own).unwrap(), wanted);
        assert_eq!(
            scoped("recursive", "with b as (select x from b) select 1").unwrap_err().state,
            SqlState(*b"0A000")
        );
        let own = "with recursive r as (select x from a union all select x from r) select x from r";
        assert!(scoped("", own).unwrap().starts_with("WITH RECURSIVE a AS (SELECT 1 AS x), r AS"));
        let own = "with a as (select 3 as x) select x from a";
        assert_eq!(scoped("", own).unwrap(), "WITH a AS (SELECT 3 AS x)");
        let own = "select x from (with recursive a as (select x from a) select x from a) q";
        assert_eq!(scoped("", own).unwrap(), "");
        let both = "with c as (select * from c), r as (select x from a) select x from r, c";
        assert_eq!(
            scoped("recursive", both).unwrap(),
            "WITH a AS (SELECT 1 AS x), c AS (SELECT * FROM c), r AS (SELECT x FROM a)"
        );
    }

    fn one(sql: &str) -> Query {
        let Some(Statement::Query(query)) = crate::parse::parse(sql).unwrap().pop() else { panic!() };
        *query
    }

    #[test]
    fn what_returns_nothing_cannot_be_read() {
        let sql = "with d as (delete from t) select * from d";
        let query = one(sql);
        let mut taken = Taken::of(&query).unwrap();
        let (nth, _) = taken.next_part().unwrap().unwrap();
        taken.put_table(nth, None).unwrap();
        assert_eq!(taken.rest().unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}
