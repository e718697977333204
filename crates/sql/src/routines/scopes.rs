//! What the names of columns in a query may mean, as far as the text and the catalog tell.

use super::inferred::of_values;
use crate::lower::output_name;
use crate::names;
use base::DataType;
use base::schema::Catalog;
use base::views::Relation;
use sqlparser::ast::{
    ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind as Wildcard, SetExpr, TableAlias,
    TableFactor, TableWithJoins,
};

/// What names are looked up in.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    pub catalog: &'a Catalog,
    pub search_path: &'a [String],
    pub database: &'a str,
}

/// Rows of VALUES whose types are looked at.
const TYPED_ROWS_MAX: usize = 100;

/// A column with its type, where that is known.
pub type NamedColumn = (String, Option<DataType>);

/// Something that stands in FROM.
#[derive(Clone, Debug)]
pub struct Source {
    pub qualifier: Option<String>,
    pub columns: Vec<NamedColumn>,
    /// False if it may have other columns, too.
    pub is_known: bool,
}

/// Common table expressions, and what is in FROM, of the queries around a place.
#[derive(Default)]
pub struct Scopes {
    tables: Vec<Vec<(String, Vec<NamedColumn>)>>,
    sources: Vec<Vec<Source>>,
}

impl Scopes {
    /// Enters a query. What ORDER BY and LIMIT see is what its SELECT has in FROM.
    pub fn enter_query(&mut self, lookup: Lookup<'_>, query: &Query) {
        self.tables.push(Vec::new());
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let mut columns = self.outputs(lookup, &cte.query);
            rename(&mut columns, &cte.alias);
            let name = names::fold(&cte.alias.name);
            self.tables.last_mut().expect("pushed just now").push((name, columns));
        }
        let sources = match query.body.as_ref() {
            SetExpr::Select(select) => self.from(lookup, &select.from),
            _ => Vec::new(),
        };
        self.sources.push(sources);
    }
    pub fn leave_query(&mut self) {
        self.tables.pop();
        self.sources.pop();
    }
    pub fn enter(&mut self, sources: Vec<Source>) {
        self.sources.push(sources);
    }
    pub fn leave(&mut self) {
        self.sources.pop();
    }

    /// Whether anything is in FROM around a place.
    pub fn has_some(&self) -> bool {
        self.sources.iter().any(|sources| !sources.is_empty())
    }

    /// The innermost FROM.
    pub fn innermost(&self) -> &[Source] {
        self.sources.last().map_or(&[], Vec::as_slice)
    }

    /// Whether a name is that of a column, with the type of it if that is known.
    pub fn column(&self, name: &str) -> Option<Option<DataType>> {
        let mut all = self.sources.iter().rev().flatten();
        all.find_map(|source| source.columns.iter().find(|(column, _)| column == name).map(|(_, of)| *of))
    }

    /// What the column of a name is a column of; `None` where that is not known.
    pub fn qualifier_of(&self, name: &str) -> Option<String> {
        let all = || self.sources.iter().rev().flatten();
        let named = all().find(|source| source.columns.iter().any(|(column, _)| column == name));
        match (named, self.innermost()) {
            (Some(source), _) => source.qualifier.clone(),
            (None, [one]) if !one.is_known => one.qualifier.clone(),
            _ => None,
        }
    }

    /// The column of a name behind a qualifier; `None` if nothing has the qualifier.
    pub fn qualified(&self, qualifier: &str, name: &str) -> Option<Option<DataType>> {
        let mut all = self.sources.iter().rev().flatten();
        let source = all.find(|source| source.qualifier.as_deref() == Some(qualifier))?;
        Some(source.columns.iter().find(|(column, _)| column == name).and_then(|(_, of)| *of))
    }

    /// Whether something has the qualifier.
    pub fn has_qualifier(&self, qualifier: &str) -> bool {
        self.sources.iter().flatten().any(|source| source.qualifier.as_deref() == Some(qualifier))
    }

    /// What a list of tables brings.
    pub fn from(&self, lookup: Lookup<'_>, from: &[TableWithJoins]) -> Vec<Source> {
        let mut sources = Vec::new();
        for table in from {
            self.add(lookup, &table.relation, &mut sources);
            table.joins.iter().for_each(|join| self.add(lookup, &join.relation, &mut sources));
        }
        sources
    }

    fn add(&self, lookup: Lookup<'_>, factor: &TableFactor, sources: &mut Vec<Source>) {
        let (name, columns, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = self.relation(lookup, name);
                let last = name.0.last().and_then(|part| part.as_ident()).map(names::fold);
                (last, columns, alias)
            }
            TableFactor::Table { name, alias, args: Some(_), .. }
            | TableFactor::Function { name, alias, .. } => {
                let last = name.0.last().and_then(|part| part.as_ident()).map(names::fold);
                // Of a function that gives one column, that has the name of the whole.
                let column = alias.as_ref().map(|alias| names::fold(&alias.name)).or(last.clone());
                (last, column.map(|column| vec![(column, None)]), alias)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                (None, Some(self.outputs(lookup, subquery)), alias)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                sources.extend(self.from(lookup, std::slice::from_ref(table_with_joins)));
                return;
            }
            TableFactor::UNNEST { alias, .. } => {
                let column = alias.as_ref().map_or("unnest".into(), |alias| names::fold(&alias.name));
                (Some("unnest".into()), Some(vec![(column, None)]), alias)
            }
            TableFactor::NestedJoin { alias, .. } | TableFactor::TableFunction { alias, .. } => {
                (None, None, alias)
            }
            _ => return,
        };
        let is_known = columns.is_some();
        let mut columns = columns.unwrap_or_default();
        let mut qualifier = name;
        if let Some(alias) = alias {
            rename(&mut columns, alias);
            qualifier = Some(names::fold(&alias.name));
        }
        sources.push(Source { qualifier, columns, is_known });
    }

    /// The columns of a table, a view or a common table expression.
    fn relation(&self, lookup: Lookup<'_>, name: &ObjectName) -> Option<Vec<NamedColumn>> {
        if let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident().map(names::fold)
            && let Some((_, columns)) = self.tables.iter().rev().flatten().rev().find(|(cte, _)| *cte == name)
        {
            return Some(columns.clone());
        }
        let found = names::find_relation(lookup.catalog, lookup.search_path, lookup.database, name)?;
        let shape = Relation::shape(found);
        Some(
            shape
                .visible_columns()
                .map(|(_, column)| (column.name.clone(), Some(column.data_type)))
                .collect(),
        )
    }

    /// The columns of a query's result.
    pub fn outputs(&self, lookup: Lookup<'_>, query: &Query) -> Vec<NamedColumn> {
        self.outputs_of(lookup, &query.body)
    }

    fn outputs_of(&self, lookup: Lookup<'_>, body: &SetExpr) -> Vec<NamedColumn> {
        match body {
            SetExpr::Select(select) => self.outputs_of_select(lookup, select),
            SetExpr::Query(query) => self.outputs(lookup, query),
            SetExpr::SetOperation { left, right, .. } => {
                // What both sides are columns of, their union is, too.
                let others = self.outputs_of(lookup, right).into_iter().map(|(_, of)| of);
                let columns = self.outputs_of(lookup, left).into_iter();
                let both = columns.zip(others.chain(std::iter::repeat(None)));
                both.map(|((name, of), other)| (name, of.filter(|_| of == other))).collect()
            }
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.len());
                let types = |nth: usize| {
                    let column = values.rows.iter().filter_map(|row| row.content.get(nth));
                    if values.rows.len() > TYPED_ROWS_MAX { None } else { of_values(column) }
                };
                (0..width).map(|nth| (format!("column{}", nth + 1), types(nth))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn outputs_of_select(&self, lookup: Lookup<'_>, select: &Select) -> Vec<NamedColumn> {
        let sources = self.from(lookup, &select.from);
        let of = |e: &sqlparser::ast::Expr| match e {
            sqlparser::ast::Expr::Identifier(ident) => {
                let name = names::fold(ident);
                let mut all = sources.iter().flat_map(|source| &source.columns);
                all.find(|(column, _)| *column == name).and_then(|(_, of)| *of)
            }
            e => of_values(std::iter::once(e)),
        };
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => {
                    columns.extend(sources.iter().flat_map(|source| source.columns.iter().cloned()));
                }
                SelectItem::QualifiedWildcard(Wildcard::ObjectName(name), _) => {
                    let wanted = name.0.last().and_then(|part| part.as_ident()).map(names::fold);
                    let of_it = sources.iter().filter(|source| source.qualifier == wanted);
                    columns.extend(of_it.flat_map(|source| source.columns.iter().cloned()));
                }
                SelectItem::UnnamedExpr(e) => columns.push((output_name(e), of(e))),
                SelectItem::ExprWithAlias { expr, alias } => columns.push((names::fold(alias), of(expr))),
                _ => {}
            }
        }
        columns
    }
}

fn rename(columns: &mut Vec<NamedColumn>, alias: &TableAlias) {
    for (nth, given) in alias.columns.iter().enumerate() {
        let name = names::fold(&given.name);
        match columns.get_mut(nth) {
            Some(column) => column.0 = name,
            None => columns.push((name, None)),
        }
    }
}
