//! CREATE INDEX: the columns that an index keeps, and those that are made for its expressions and its predicate.

mod expressions;
pub mod written;

use super::create_table::put_column;
use super::{Ddl, DdlContext, Rewrite, placement};
use crate::lower::output_name;
use crate::names;
use base::error::{SqlResult, SqlState};
use base::schema::{AccessMethod, Column, Identity, Index, IndexForm, SchemaAction, Table};
use base::{DataType, Datum, SqlError, TableId};
use expressions::{Place, shown};
use sqlparser::ast;

/// An index as a statement, or another table, describes it.
pub(super) struct Declared {
    keys: Vec<Key>,
    predicate: Option<ast::Expr>,
    include: Vec<usize>,
    method: AccessMethod,
    unique: bool,
    nulls_are_equal: bool,
}

struct Key {
    what: Keyed,
    is_descending: bool,
    are_nulls_moved: bool,
}

enum Keyed {
    Column(usize),
    Expression(ast::Expr),
}

impl Declared {
    /// The index is about rows alone for which a condition holds.
    pub(super) fn narrow(&mut self, condition: &ast::Expr) -> SqlResult<()> {
        self.predicate = Some(match self.predicate.take() {
            Some(own) => crate::parse::parse_expr(&format!("{condition} AND ({own})"))?,
            None => condition.clone(),
        });
        Ok(())
    }

    /// Whether a table has an index of all its rows that serves as well: the same columns, and as unique.
    fn is_there(&self, table: &Table) -> bool {
        let column = |key: &Key| match key.what {
            Keyed::Column(column) => Some(column),
            Keyed::Expression(_) => None,
        };
        let Some(columns) = self.keys.iter().map(column).collect::<Option<Vec<usize>>>() else {
            return false;
        };
        let is_same = |index: &Index| {
            let is_as_unique = index.unique && (index.form.nulls_are_equal || !self.nulls_are_equal);
            index.form.predicate.is_none() && index.keys() == columns && (is_as_unique || !self.unique)
        };
        self.predicate.is_none() && (table.primary_key == columns || table.indexes.iter().any(is_same))
    }
}

impl DdlContext<'_> {
    pub(super) fn create_index(&self, create: &ast::CreateIndex) -> SqlResult<Ddl> {
        let partition = self.partition_named(&create.table_name)?;
        let table = match &partition {
            Some((root, _)) => root,
            None => self.find_table(&create.table_name)?,
        };
        let mut ddl = Ddl { tag: "CREATE INDEX", ..Ddl::default() };
        let mut declared = self.declared(table, create)?;
        if let Some((_, condition)) = &partition {
            if declared.is_there(table) {
                // An index of a partitioned table is one of each partition.
                return Ok(ddl);
            }
            declared.narrow(condition)?;
        }
        let name = create.name.as_ref().map(names::parts).transpose()?;
        let name = name.map(|mut parts| parts.pop().expect("a name has a part"));
        if let Some(name) = name.as_ref().filter(|name| self.relation_exists(&table.schema, name)) {
            let message = format!("relation \"{name}\" already exists");
            if !create.if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            ddl.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok(ddl);
        }
        let mut next = table.as_ref().clone();
        let mut next_id = self.catalog.next_id;
        let is_read = declared.method.is_read();
        self.put_index(&mut next, declared, name, &mut next_id)?;
        if !is_read {
            ddl.notice(SqlState::SUCCESSFUL, NOT_READ.into());
        }
        ddl.later = self.begin_build(table, &mut next);
        if ddl.later.is_some() || next.columns.len() == table.columns.len() {
            ddl.actions.push(SchemaAction::AlterTable(next));
            return Ok(ddl);
        }
        // Rows are written anew, with what the index has computed of them.
        let mut remade =
            placement::remade(self, Rewrite::of(table), next, Vec::new(), self.catalog.next_id, &[])?;
        remade.notices.extend(ddl.notices);
        Ok(Ddl { tag: "CREATE INDEX", ..remade })
    }

    /// Adds an index and the columns that it needs; without a name it gets one of its own.
    pub(super) fn put_index(
        &self,
        table: &mut Table,
        declared: Declared,
        name: Option<String>,
        next_id: &mut u32,
    ) -> SqlResult<()> {
        let name = name.unwrap_or_else(|| {
            let taken: Vec<String> = table.indexes.iter().map(|i| i.name.clone()).collect();
            let words = name_parts(table, &declared).join("_");
            self.free_name(&table.schema, [&table.name, &words, "idx"], &taken)
        });
        let mut form = IndexForm {
            include: declared.include,
            method: declared.method,
            nulls_are_equal: declared.nulls_are_equal,
            ..IndexForm::default()
        };
        let predicate = declared.predicate.as_ref().map(ToString::to_string);
        let mut columns = Vec::with_capacity(declared.keys.len() + 1);
        for (at, key) in declared.keys.iter().enumerate() {
            form.descending.extend(key.is_descending.then_some(at));
            form.nulls_moved.extend(key.are_nulls_moved.then_some(at));
            columns.push(match &key.what {
                Keyed::Column(column) => *column,
                Keyed::Expression(e) => {
                    let data_type = self.check_key(table, e)?;
                    // What a row outside the predicate has there is not asked for: it may even be an error.
                    let computed = match &predicate {
                        Some(predicate) => format!("CASE WHEN ({predicate}) THEN ({e}) END"),
                        None => e.to_string(),
                    };
                    let column = push_hidden(table, data_type, computed)?;
                    form.expressions.push((column, shown(e)));
                    column
                }
            });
        }
        if let (Some(e), Some(text)) = (&declared.predicate, predicate) {
            self.check_predicate(table, e)?;
            let computed = format!("CASE WHEN ({text}) THEN true END");
            columns.push(push_hidden(table, DataType::Boolean, computed)?);
            form.predicate = Some(text);
        }
        let (id, unique) = (TableId(*next_id), declared.unique);
        push_index(table, Index { id, name, columns, unique, constraint: false, form });
        *next_id += 1;
        Ok(())
    }

    /// What CREATE INDEX says. Errors: 42703, 42704, 42701, 0A000 for what is not there.
    fn declared(&self, table: &Table, create: &ast::CreateIndex) -> SqlResult<Declared> {
        let method = match &create.using {
            None => AccessMethod::Btree,
            Some(method) => access_method(&method.to_string().to_lowercase())?,
        };
        let mut keys: Vec<Key> = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let options = &column.column.options;
            let is_descending = options.asc == Some(false);
            let are_nulls_moved = options.nulls_first.is_some_and(|first| first != is_descending);
            if method != AccessMethod::Btree && options.asc.is_some() {
                return Err(not_of(method, "ASC/DESC options"));
            }
            if method != AccessMethod::Btree && options.nulls_first.is_some() {
                return Err(not_of(method, "NULLS FIRST/LAST options"));
            }
            let what = self.keyed(table, &column.column.expr)?;
            if !method.is_read() {
                self.refuse_unsearched(table, &what, method)?;
            }
            keys.push(Key { what, is_descending, are_nulls_moved });
        }
        let include = create.include.iter().map(|ident| named_column(table, ident));
        let include = include.collect::<SqlResult<Vec<usize>>>()?;
        if method != AccessMethod::Btree {
            let refused = match () {
                () if create.unique => Some("unique indexes"),
                () if !include.is_empty() && method != AccessMethod::Gist => Some("included columns"),
                () if keys.len() > 1 && method == AccessMethod::Hash => Some("multicolumn indexes"),
                () => None,
            };
            if let Some(refused) = refused {
                return Err(not_of(method, refused));
            }
        }
        let predicate = create.predicate.as_ref().map(|e| self.kept(table, e, Place::Predicate));
        // An index over all rows, said in another way.
        let is_all = |e: &ast::Expr| e.to_string().eq_ignore_ascii_case("true");
        let predicate = predicate.transpose()?.filter(|e| !is_all(e));
        let nulls_are_equal = create.nulls_distinct == Some(false);
        Ok(Declared { keys, predicate, include, method, unique: create.unique, nulls_are_equal })
    }

    /// Errors: 0A000 for keys of indexes that are no documents of full-text search.
    fn refuse_unsearched(&self, table: &Table, key: &Keyed, method: AccessMethod) -> SqlResult<()> {
        let data_type = match key {
            Keyed::Column(column) => table.columns[*column].data_type,
            Keyed::Expression(e) => self.check_key(table, e)?,
        };
        match data_type {
            DataType::TsVector => Ok(()),
            other => Err(unsupported_method(&format!("{} over {}", method.name(), other.name()))),
        }
    }

    fn keyed(&self, table: &Table, e: &ast::Expr) -> SqlResult<Keyed> {
        Ok(match self.kept(table, e, Place::Key)? {
            ast::Expr::Identifier(ident) => {
                let column = named_column(table, &ident)?;
                refuse_unordered(&table.columns[column])?;
                Keyed::Column(column)
            }
            e => Keyed::Expression(e),
        })
    }

    /// An index of another table over this one, whose columns are those that `mapped` says; `None` if one is not there.
    pub(super) fn copied_index(
        &self,
        index: &Index,
        mapped: impl Fn(usize) -> Option<usize>,
    ) -> SqlResult<Option<Declared>> {
        let form = &index.form;
        let mut keys = Vec::with_capacity(index.keys().len());
        for (at, column) in index.keys().iter().enumerate() {
            let what = match (index.expression(*column), mapped(*column)) {
                (Some(text), _) => Keyed::Expression(expressions::parsed(text)?),
                (None, Some(column)) => Keyed::Column(column),
                (None, None) => return Ok(None),
            };
            let is_descending = form.descending.contains(&at);
            keys.push(Key { what, is_descending, are_nulls_moved: form.nulls_moved.contains(&at) });
        }
        let Some(include) = form.include.iter().map(|c| mapped(*c)).collect() else { return Ok(None) };
        let predicate = form.predicate.as_deref().map(expressions::parsed).transpose()?;
        let (method, unique, nulls_are_equal) = (form.method, index.unique, form.nulls_are_equal);
        Ok(Some(Declared { keys, predicate, include, method, unique, nulls_are_equal }))
    }
}

pub(super) fn indexes_mut(table: &mut Table) -> impl Iterator<Item = &mut Index> {
    table.indexes.iter_mut()
}

/// Takes indexes away; the columns that they alone had stay until [`sweep`].
pub(super) fn drop_indexes(table: &mut Table, is_dropped: impl Fn(&Index) -> bool) {
    table.indexes.retain(|index| !is_dropped(index));
}

pub(super) fn push_index(table: &mut Table, index: Index) {
    table.indexes.push(index);
}

/// A column that users do not see, which keeps what an expression over the others is.
/// Errors: 54011.
fn push_hidden(table: &mut Table, data_type: DataType, computed: String) -> SqlResult<usize> {
    let column = Column {
        name: format!("........meridian.index.{}........", table.columns.len() + 1),
        data_type,
        not_null: false,
        default: Some(computed),
        missing: Datum::Null,
        identity: Identity::Generated,
        hidden: true,
    };
    put_column(table, column)
}

/// Takes an index away, with the columns that were made for it.
pub fn without_index(table: &mut Table, id: TableId) {
    drop_indexes(table, |index| index.id == id);
    sweep(table);
}

/// Hides the columns that were made for an index which is no more.
pub(super) fn sweep(table: &mut Table) {
    let is_left =
        |column: &usize| table.is_of_index(*column) && !table.indexes.iter().any(|index| index.owns(*column));
    let left: Vec<usize> = (0..table.columns.len()).filter(is_left).collect();
    left.into_iter().for_each(|column| super::alter_table::hide(table, column));
}

/// The types of columns that indexes compute from one, now that it is of another type. Errors: those of the expressions.
pub(super) fn computed_types(
    context: &DdlContext<'_>,
    table: &Table,
    computed: &[usize],
) -> SqlResult<Vec<(usize, DataType)>> {
    let mut types = Vec::new();
    for column in computed {
        let Some(index) = table.indexes.iter().find(|index| index.owns(*column)) else { continue };
        match (index.expression(*column), &index.form.predicate) {
            (Some(text), _) => {
                types.push((*column, context.check_key(table, &expressions::parsed(text)?)?));
            }
            (None, Some(text)) => context.check_predicate(table, &expressions::parsed(text)?)?,
            (None, None) => {}
        }
    }
    Ok(types)
}

/// What the name of an index without one is made of: each key by its column or its function.
fn name_parts(table: &Table, declared: &Declared) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let column = |column: &usize| table.columns[*column].name.clone();
    let keys = declared.keys.iter().map(|key| match &key.what {
        Keyed::Column(number) => column(number),
        Keyed::Expression(e) => key_name(e),
    });
    for name in keys.chain(declared.include.iter().map(column)) {
        let numbered = (1..).map(|n| format!("{name}{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        parts.push(names.find(|name| !parts.contains(name)).expect("numbers do not end"));
    }
    parts
}

/// What a key that is an expression is called.
pub fn key_name(e: &ast::Expr) -> String {
    Some(output_name(e)).filter(|name| name != "?column?").unwrap_or_else(|| "expr".into())
}

/// Errors: 0A000, 42704.
fn access_method(name: &str) -> SqlResult<AccessMethod> {
    match name {
        "btree" => Ok(AccessMethod::Btree),
        "hash" => Ok(AccessMethod::Hash),
        "gin" => Ok(AccessMethod::Gin),
        "gist" => Ok(AccessMethod::Gist),
        "brin" | "spgist" | "sp-gist" | "bloom" => Err(unsupported_method(name)),
        other => {
            let told = format!("access method \"{other}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
        }
    }
}

/// What is told of an index of access method gin or gist.
const NOT_READ: &str = "no query reads the index: full-text search looks at all documents of a table";

fn unsupported_method(what: &str) -> SqlError {
    SqlError::unsupported(format!("access method {what}")).hint(
        "Indexes are of access method btree, and of hash, which is kept alike; gin and gist are accepted over tsvector.",
    )
}

fn not_of(method: AccessMethod, what: &str) -> SqlError {
    let told = format!("access method \"{}\" does not support {what}", method.name());
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
}

/// Columns of a constraint. Errors: 42703, 0A000 for expressions.
pub(super) fn index_columns(table: &Table, columns: &[ast::IndexColumn]) -> SqlResult<Vec<usize>> {
    let mut numbers = Vec::with_capacity(columns.len());
    for column in columns {
        let ast::Expr::Identifier(ident) = &column.column.expr else {
            return Err(SqlError::unsupported("a constraint on an expression"));
        };
        let number = named_column(table, ident)?;
        if numbers.contains(&number) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" appears twice in the key", names::fold(ident)),
            ));
        }
        refuse_unordered(&table.columns[number])?;
        numbers.push(number);
    }
    Ok(numbers)
}

/// Columns that a constraint includes in its index. Errors: 42703.
pub(super) fn included(table: &Table, options: &[ast::IndexOption]) -> SqlResult<Vec<usize>> {
    crate::parse::included(options).iter().map(|ident| named_column(table, ident)).collect()
}

/// Nulls of a column are equal to each other for its unique constraint.
pub(super) fn nulls_become_equal(table: &mut Table, column: usize) {
    let of_column = |index: &&mut Index| index.constraint && index.columns == [column];
    if let Some(index) = indexes_mut(table).find(of_column) {
        index.form.nulls_are_equal = true;
    }
}

/// Errors: 42703.
fn named_column(table: &Table, ident: &ast::Ident) -> SqlResult<usize> {
    let name = names::fold(ident);
    table.column_named(&name).filter(|c| !table.columns[*c].hidden).ok_or_else(|| {
        let mut error =
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
        error.position = names::ident_position(ident);
        error
    })
}

/// The text of a computed key as a list of keys shows it.
pub fn shown_key(text: &str) -> String {
    expressions::parsed(text).map_or_else(|_| format!("({text})"), |e| shown(&e))
}

/// An expression that decides the partition of a row, as it is kept, and the type of its values. Errors: those of the
/// expression of an index.
pub(super) fn partition_expression(
    context: &DdlContext<'_>,
    table: &Table,
    e: &ast::Expr,
) -> SqlResult<(String, DataType)> {
    let kept = context.kept(table, e, Place::Key)?;
    let data_type = context.check_key(table, &kept)?;
    Ok((kept.to_string(), data_type))
}

/// Errors: 42704 for a key of `json`, whose values have no order.
pub(super) fn refuse_unordered(column: &Column) -> SqlResult<()> {
    refuse_type(column.data_type)
}

/// The same of a type.
fn refuse_type(data_type: DataType) -> SqlResult<()> {
    if !data_type.has(DataType::Json) {
        return Ok(());
    }
    let name = data_type.name();
    let told = format!("data type {name} has no default operator class for access method \"btree\"");
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told).hint("Use jsonb, which has an order."))
}
