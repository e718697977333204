//! From SQL to what a node executes: typed expressions, key ranges, access sets, statements.
//!
//! Lowering happens once per statement and catalog version; parameters stay holes in the lowered
//! plan and are filled in by [`bind`]. What is too rich for a node's expressions is refused with
//! [`Refusal::TooRich`] and takes the analytical way.

pub mod access;
pub mod aggregate;
mod arrays;
pub mod bind;
mod computed_keys;
pub mod expr;
mod functions;
pub mod generated;
pub mod insert;
pub mod join;
mod json;
pub mod keys;
pub mod modify;
mod partition;
pub mod scope;
pub mod select;
mod text_search;
mod texts;

use crate::names;
use crate::types::Column;
pub use crate::types::{FIRST_OID, oid};
use base::error::SqlResult;
use base::expr::Expr;
use base::schema::{Catalog, Table};
use base::{DataType, SqlError};
use expr::ExprLowering;
use scope::{ParameterTypes, Scope};
use sqlparser::ast;
use std::sync::Arc;

/// Why something cannot be lowered.
#[derive(Debug)]
pub enum Refusal {
    /// The statement is wrong.
    Error(SqlError),
    /// Right perhaps, but it needs the analytical planner.
    TooRich,
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        Refusal::Error(error)
    }
}

impl Refusal {
    /// The error, or what `otherwise` says of something too rich.
    pub fn or(self, otherwise: impl FnOnce() -> SqlError) -> SqlError {
        match self {
            Refusal::Error(error) => error,
            Refusal::TooRich => otherwise(),
        }
    }
}

pub type Lowered<T> = Result<T, Refusal>;

/// What names mean while one statement is lowered.
pub struct Lowering<'a> {
    pub catalog: &'a Arc<Catalog>,
    pub search_path: &'a [String],
    pub database: &'a str,
    pub parameters: &'a mut ParameterTypes,
}

/// Expressions that make result rows from table rows, and how the rows look.
#[derive(Clone, Debug)]
pub struct Projection {
    pub exprs: Vec<Expr>,
    pub columns: Arc<Vec<Column>>,
    /// Every column of the row in its place: nothing to compute.
    pub is_identity: bool,
    /// Parameters or the time of day take part.
    pub has_holes: bool,
}

impl Lowering<'_> {
    pub fn table(&self, name: &ast::ObjectName) -> SqlResult<Arc<Table>> {
        names::find_table(self.catalog, self.search_path, self.database, name).cloned()
    }

    /// A table whose rows can be read one by one: neither one of the system catalog, which is not ours to find, nor rows
    /// of the statement itself, which are in no partition.
    fn stored_table(&self, name: &ast::ObjectName) -> Lowered<Arc<Table>> {
        match self.table(name) {
            Ok(table) if table.schema != crate::with::SCHEMA => Ok(table),
            _ => Err(Refusal::TooRich),
        }
    }

    /// Forgets what was found of parameters since they were declared so.
    fn redeclare(&mut self, declared: ParameterTypes) {
        *self.parameters = declared;
    }

    pub fn exprs<'b>(&'b mut self, scope: &'b Scope) -> ExprLowering<'b> {
        ExprLowering {
            scope,
            catalog: self.catalog,
            search_path: self.search_path,
            parameters: self.parameters,
            aggregates: None,
            is_assignment: false,
        }
    }

    /// Lowers a SELECT or RETURNING list over a table whose columns begin at number 0.
    pub fn projection(
        &mut self,
        items: &[ast::SelectItem],
        table: &Table,
        scope: &Scope,
    ) -> Lowered<Projection> {
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for item in items {
            match item {
                ast::SelectItem::Wildcard(options) => {
                    if *options != ast::WildcardAdditionalOptions::default() && has_options(options) {
                        return Err(Refusal::TooRich);
                    }
                    all_columns(table, &mut exprs, &mut columns);
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let qualifier = names::parts(name)?.pop().expect("a name has a part");
                    if !scope.has_qualifier(&qualifier) {
                        return Err(SqlError::new(
                            base::SqlState::UNDEFINED_TABLE,
                            format!("missing FROM-clause entry for table \"{qualifier}\""),
                        )
                        .into());
                    }
                    all_columns(table, &mut exprs, &mut columns);
                }
                ast::SelectItem::UnnamedExpr(e) => {
                    self.projected(e, output_name(e), table, scope, &mut exprs, &mut columns)?;
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    self.projected(expr, names::fold(alias), table, scope, &mut exprs, &mut columns)?;
                }
                _ => return Err(Refusal::TooRich),
            }
        }
        let is_identity = exprs.len() == table.columns.len()
            && exprs.iter().enumerate().all(|(i, e)| matches!(e, Expr::Column(c) if *c == i));
        let has_holes = exprs.iter().any(bind::has_holes);
        Ok(Projection { exprs, columns: Arc::new(columns), is_identity, has_holes })
    }

    /// Lowers a SELECT without FROM: one row of constants.
    pub fn constants(&mut self, query: &ast::Query) -> Lowered<Projection> {
        let ast::SetExpr::Select(select) = query.body.as_ref() else { return Err(Refusal::TooRich) };
        let is_plain = query.with.is_none()
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && query.locks.is_empty()
            && select.from.is_empty()
            && select.selection.is_none()
            && select::has_no_groups(select)
            && select.distinct.is_none()
            && select.into.is_none();
        if !is_plain {
            return Err(Refusal::TooRich);
        }
        let scope = Scope::default();
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for item in &select.projection {
            let (e, name) = match item {
                ast::SelectItem::UnnamedExpr(e) => (e, output_name(e)),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, names::fold(alias)),
                _ => return Err(Refusal::TooRich),
            };
            let mut lowering = self.exprs(&scope);
            let typed = lowering.lower(e)?;
            let typed = lowering.resolve(typed, DataType::Text)?;
            columns.push(Column::new(name, typed.data_type()));
            exprs.push(typed.expr);
        }
        Ok(Projection { exprs, columns: Arc::new(columns), is_identity: false, has_holes: true })
    }

    fn projected(
        &mut self,
        e: &ast::Expr,
        name: String,
        table: &Table,
        scope: &Scope,
        exprs: &mut Vec<Expr>,
        columns: &mut Vec<Column>,
    ) -> Lowered<()> {
        let mut lowering = self.exprs(scope);
        let typed = lowering.lower(e)?;
        let typed = lowering.resolve(typed, DataType::Text)?;
        let mut column = Column::new(name, typed.data_type());
        match &typed.expr {
            Expr::Column(c) if *c < table.columns.len() => {
                column.origin = Some((oid(table.id), *c as i16 + 1));
            }
            _ => column.type_modifier = -1,
        }
        // A value that changes per row would have to be evaluated here, row by row.
        if bind::changes_per_row(&typed.expr) {
            return Err(Refusal::TooRich);
        }
        exprs.push(typed.expr);
        columns.push(column);
        Ok(())
    }
}

fn has_options(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_some()
        || options.opt_exclude.is_some()
        || options.opt_except.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
}

fn all_columns(table: &Table, exprs: &mut Vec<Expr>, columns: &mut Vec<Column>) {
    for (i, c) in table.visible_columns() {
        exprs.push(Expr::Column(i));
        let mut column = Column::new(&c.name, c.data_type);
        column.origin = Some((oid(table.id), i as i16 + 1));
        columns.push(column);
    }
}

/// The name PostgreSQL gives to a column without an alias.
pub fn output_name(e: &ast::Expr) -> String {
    use ast::Expr as E;
    match e {
        E::Identifier(ident) => names::fold(ident),
        E::CompoundIdentifier(path) => path.last().map(names::fold).unwrap_or_default(),
        E::Nested(inner) => output_name(inner),
        E::Function(function) if let Some((_, name)) = crate::parse::attribute_of(function) => name.into(),
        E::Function(function) => {
            names::parts(&function.name).ok().and_then(|mut p| p.pop()).unwrap_or_default()
        }
        // A name that only a type or CASE gave is not worth keeping.
        E::Cast { expr, data_type, .. } => match given_name(expr) {
            Some(name) => name,
            None => cast_name(data_type).unwrap_or_else(|| output_name(expr)),
        },
        E::TypedString(typed) => cast_name(&typed.data_type).unwrap_or_else(|| "?column?".into()),
        E::Case { else_result, .. } => {
            else_result.as_deref().and_then(given_name).unwrap_or_else(|| "case".into())
        }
        E::Substring { .. } => "substring".into(),
        E::Trim { .. } => "btrim".into(),
        E::Extract { .. } => "extract".into(),
        E::Floor { .. } => "floor".into(),
        E::Ceil { .. } => "ceil".into(),
        E::Position { .. } => "position".into(),
        E::Exists { negated: false, .. } => "exists".into(),
        E::AtTimeZone { .. } => "timezone".into(),
        E::Interval(_) => "interval".into(),
        E::Array(_) => "array".into(),
        E::Subquery(query) => name_of_first(&query.body),
        E::Value(v) if matches!(v.value, ast::Value::Boolean(_)) => "bool".into(),
        _ => "?column?".into(),
    }
}

/// The name of a query's first column.
fn name_of_first(body: &ast::SetExpr) -> String {
    match body {
        ast::SetExpr::Select(select) => match select.projection.first() {
            Some(ast::SelectItem::UnnamedExpr(e)) => output_name(e),
            Some(ast::SelectItem::ExprWithAlias { alias, .. }) => names::fold(alias),
            _ => "?column?".into(),
        },
        ast::SetExpr::Query(query) => name_of_first(&query.body),
        ast::SetExpr::SetOperation { left, .. } => name_of_first(left),
        ast::SetExpr::Values(_) => "column1".into(),
        _ => "?column?".into(),
    }
}

/// The name of an expression that is one of its own: of a column, a function, a clause.
fn given_name(e: &ast::Expr) -> Option<String> {
    use ast::Expr as E;
    match e {
        E::Nested(inner) => given_name(inner),
        E::Cast { expr, .. } => given_name(expr),
        E::Case { else_result, .. } => else_result.as_deref().and_then(given_name),
        E::TypedString(_) | E::Interval(_) | E::Value(_) => None,
        e => Some(output_name(e)).filter(|name| name != "?column?"),
    }
}

/// What a cast to a type is called, an array's after its elements.
fn cast_name(data_type: &ast::DataType) -> Option<String> {
    match data_type {
        ast::DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::AngleBracket(element),
        ) => cast_name(element),
        ast::DataType::Interval { .. } => Some("interval".into()),
        ast::DataType::Varchar(_) | ast::DataType::CharacterVarying(_) => Some("varchar".into()),
        data_type => match names::domain(data_type) {
            Some(domain) => Some(domain.name.clone()),
            None => names::data_type(data_type).ok().map(|t| short_type_name(t)),
        },
    }
}

/// A type's name inside PostgreSQL.
pub fn short_type_name(data_type: DataType) -> String {
    let plain = match data_type {
        DataType::Boolean => "bool",
        DataType::SmallInt => "int2",
        DataType::Integer => "int4",
        DataType::BigInt => "int8",
        DataType::Real => "float4",
        DataType::Double => "float8",
        DataType::Numeric { .. } => "numeric",
        DataType::Text => "text",
        DataType::Varchar { .. } => "varchar",
        DataType::Char { .. } => "bpchar",
        DataType::Date => "date",
        DataType::Timestamp => "timestamp",
        DataType::TimestampTz => "timestamptz",
        DataType::Uuid => "uuid",
        DataType::Bytea => "bytea",
        DataType::Time => "time",
        DataType::Interval => "interval",
        DataType::Json => "json",
        DataType::Jsonb => "jsonb",
        DataType::Inet => "inet",
        DataType::Cidr => "cidr",
        DataType::MacAddr => "macaddr",
        DataType::MacAddr8 => "macaddr8",
        DataType::TimeTz => "timetz",
        DataType::TsVector => "tsvector",
        DataType::TsQuery => "tsquery",
        DataType::Enum(of) => return of.description().name.clone(),
        DataType::Composite(of) => return of.description().name.clone(),
        DataType::Array(of) => return format!("_{}", short_type_name(of.data_type())),
    };
    plain.into()
}
