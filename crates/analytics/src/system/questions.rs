//! Questions that clients ask of the catalog in ways that DataFusion cannot plan: rewritten, or answered unplanned.

use super::kept_subqueries::KeptSubqueries;
use super::{partition_functions, vectors};
use base::schema::Catalog;
use datafusion::arrow::datatypes::{DataType as Arrow, Field, Schema};
use datafusion::catalog::SchemaProvider;
use datafusion::common::Result;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Statement};
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use sql::lower::FIRST_OID;
use sql::walk;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tables, functions and rewrites for what clients ask of the catalog.
pub struct SystemTables {
    parser: PostgresCompatibilityParser,
    kept_subqueries: KeptSubqueries,
    /// Types, operators, collations: the same in every database.
    pub fixed: Arc<dyn SchemaProvider>,
}

/// Tables without rows, because their features do not exist here.
const EMPTY_TABLES: &[&str] = &[
    "pg_policy",
    "pg_statistic_ext",
    "pg_publication",
    "pg_publication_rel",
    "pg_publication_namespace",
    "pg_rewrite",
    "pg_foreign_table",
    "pg_foreign_server",
    "pg_foreign_data_wrapper",
    "pg_event_trigger",
    "pg_subscription",
    "pg_transform",
    "pg_default_acl",
    "pg_init_privs",
    "pg_largeobject_metadata",
    "pg_seclabels",
    "pg_user_mappings",
    "pg_ts_config_map",
];

/// Tables without rows where no table is partitioned.
const TABLES_OF_PARTITIONS: &[&str] = &["pg_inherits", "pg_partitioned_table"];

impl SystemTables {
    pub fn install(context: &SessionContext) -> Result<SystemTables> {
        datafusion_pg_catalog::setup_pg_catalog(context, "meridian", EmptyContextProvider).map_err(|e| *e)?;
        let fixed = context.catalog("meridian").and_then(|c| c.schema("pg_catalog"));
        Ok(SystemTables {
            parser: PostgresCompatibilityParser::new(),
            kept_subqueries: KeptSubqueries::new(),
            fixed: fixed.expect("it was just registered"),
        })
    }

    /// A question of `pg_dump`'s, or of psql's about triggers, in words that can be planned.
    pub fn of_dump(&self, statement: &Statement) -> Option<Statement> {
        super::dump::question(statement).or_else(|| psql_triggers(statement))
    }

    /// `ARRAY(SELECT …)` over the catalog as a call, where the planner could not gather: a constraint's columns, a type's
    /// labels, a domain's conditions, a role's memberships, privileges on columns; or nothing, of what there is none. Functions
    /// about partitions become tables.
    pub fn gather(&self, statement: &mut Statement) {
        partition_functions::expand(statement);
        let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
            if let ast::Expr::Function(call) = &*e
                && let ast::FunctionArguments::Subquery(query) = &call.args
                && let Some(gathered) = vectors::names_of_columns(query)
                    .or_else(|| of_labels(query))
                    .or_else(|| of_roles(query))
                    .or_else(|| of_domain(query))
                    .or_else(|| of_nothing(query))
            {
                *e = gathered;
            }
            ControlFlow::Continue(())
        });
    }

    /// A statement over the catalog in words that DataFusion knows: with its subqueries as values, if it has any, and as the
    /// library writes it, with NULL in their places. `None` for all others.
    pub fn rewrite(&self, statement: &Statement) -> Option<(Option<Statement>, Statement)> {
        let text = statement.to_string();
        let asks = [
            "pg_",
            "has_",
            "information_schema",
            "current_user",
            "session_user",
            "current_catalog",
            "current_role",
            "::reg",
            "AS reg",
            "to_reg",
            "::REGCLASS",
            "OPERATOR(",
            "current_schema",
            "current_database",
        ];
        // The type of an expression is no question about the catalog.
        let of_catalog = text.replace("pg_typeof(", "(");
        if !asks.iter().any(|word| of_catalog.contains(word)) {
            return None;
        }
        // psql shows the tables that reference one.
        let shown = "conrelid::pg_catalog.regclass AS ontable";
        if text.contains(shown)
            && let Some(named) =
                sql::parse::parse(&text.replace(shown, "meridian_relation_name(conrelid) AS ontable"))
                    .ok()
                    .and_then(|mut parsed| parsed.pop())
        {
            return self.rewrite(&named).or(Some((None, named)));
        }
        if let Some(types) = asyncpg_types(statement) {
            return Some((None, self.parser.rewrite(types)));
        }
        let mut rewritten = statement.clone();
        // Correlated subqueries that DataFusion cannot plan, as functions.
        let _: ControlFlow<()> = walk::expressions_mut(&mut rewritten, |e| {
            let replacement = match e {
                ast::Expr::Cast { expr, data_type, .. } => super::dump::catalog_named(expr, data_type)
                    .or_else(|| type_named(expr, data_type))
                    .or_else(|| named_as_text(expr, data_type)),
                ast::Expr::CompoundIdentifier(parts) => renamed_since(parts),
                ast::Expr::Subquery(query) => replaced_subquery(query),
                ast::Expr::Exists { subquery, .. } => replaced_exists(subquery),
                // The catalog library's rewrite would take it for session_user.
                ast::Expr::Function(f)
                    if f.args == ast::FunctionArguments::None
                        && f.name.to_string().eq_ignore_ascii_case("current_user") =>
                {
                    parse("current_role()")
                }
                _ => None,
            };
            if let Some(replacement) = replacement {
                *e = replacement;
            }
            ControlFlow::Continue(())
        });
        show_names(&mut rewritten);
        vectors::expand(&mut rewritten);
        Some((self.kept_subqueries.rewrite(&rewritten), self.parser.rewrite(rewritten)))
    }

    /// A plan without rows, for a query that cannot have any.
    pub fn empty_plan(&self, statement: &Statement, catalog: &Catalog) -> Option<LogicalPlan> {
        let Statement::Query(query) = statement else { return None };
        let has_partitions = catalog.tables.values().any(|table| table.partitioning.is_some());
        if query.with.is_some() || !is_always_empty(&query.body, has_partitions) {
            return None;
        }
        let mut body = query.body.as_ref();
        while let ast::SetExpr::SetOperation { left, .. } = body {
            body = left;
        }
        let ast::SetExpr::Select(select) = body else { return None };
        let fields: Vec<Field> = (0..select.projection.len())
            .map(|n| Field::new(format!("column{}", n + 1), Arrow::Utf8View, true))
            .collect();
        let schema = Arc::new(Schema::new(fields).try_into().ok()?);
        Some(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema }))
    }
}

/// `regclass` or `regtype` for an object id that shows as the name of a relation or of a type.
fn object_kind(e: &ast::Expr) -> Option<&'static str> {
    let word = match e {
        ast::Expr::Nested(e) => return object_kind(e),
        ast::Expr::Function(f) => f.name.to_string().to_lowercase().replace("pg_catalog.", ""),
        ast::Expr::Cast { data_type, .. } => word_of(data_type),
        _ => return None,
    };
    match word.as_str() {
        "meridian_regclass" | "to_regclass" | "regclass" | "pg_partition_root" => Some("regclass"),
        "meridian_regtype" | "to_regtype" | "regtype" => Some("regtype"),
        "meridian_regproc" | "to_regproc" | "regproc" => Some("regproc"),
        "meridian_regprocedure" | "to_regprocedure" | "regprocedure" => Some("regprocedure"),
        _ => None,
    }
}

fn word_of(data_type: &ast::DataType) -> String {
    data_type.to_string().to_lowercase().replace("pg_catalog.", "")
}

/// `'int4'::regtype`, `'f(int)'::regprocedure`.
fn type_named(e: &ast::Expr, to: &ast::DataType) -> Option<ast::Expr> {
    let is_name = matches!(e, ast::Expr::Value(v) if matches!(v.value, ast::Value::SingleQuotedString(_)));
    let to = word_of(to);
    let is_known = ["regtype", "regproc", "regprocedure"].contains(&to.as_str());
    (is_name && is_known).then(|| parse(&format!("meridian_{to}({e})")))?
}

/// The object id of a relation or of a type as text is its name.
fn named_as_text(e: &ast::Expr, to: &ast::DataType) -> Option<ast::Expr> {
    let is_text =
        matches!(sql::names::data_type(to), Ok(base::DataType::Text | base::DataType::Varchar { .. }));
    is_text.then(|| name_of(e))?
}

/// What shows the name of an object id.
fn name_of(e: &ast::Expr) -> Option<ast::Expr> {
    match object_kind(e)? {
        "regclass" => parse(&format!("meridian_relation_name({e})")),
        "regproc" => parse(&format!("meridian_routine_name({e}, false)")),
        "regprocedure" => parse(&format!("meridian_routine_name({e}, true)")),
        _ => parse(&format!("format_type({e}, NULL)")),
    }
}

/// Relations and types among the columns of the outermost query are shown by their names.
fn show_names(statement: &mut Statement) {
    let Statement::Query(query) = statement else { return };
    let ast::SetExpr::Select(select) = query.body.as_mut() else { return };
    for item in &mut select.projection {
        let (ast::SelectItem::UnnamedExpr(e) | ast::SelectItem::ExprWithAlias { expr: e, .. }) = item else {
            continue;
        };
        let (Some(kind), Some(shown)) = (object_kind(e), name_of(e)) else { continue };
        let alias = match item {
            ast::SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => ast::Ident::new(kind),
        };
        *item = ast::SelectItem::ExprWithAlias { expr: shown, alias };
    }
}

/// psql's question about the triggers of a table, without a look for partitions that they come from.
fn psql_triggers(statement: &Statement) -> Option<Statement> {
    let Statement::Query(query) = statement else { return None };
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let text = statement.to_string();
    if !text.contains("pg_get_triggerdef") || !text.contains("tgparentid") {
        return None;
    }
    let table = equal_to(select.selection.as_ref()?, "tgrelid")?;
    let asked = format!(
        "SELECT t.tgname, pg_catalog.pg_get_triggerdef(t.oid, true) AS pg_get_triggerdef, t.tgenabled, \
         t.tgisinternal, CAST(NULL AS text) AS parent FROM pg_catalog.pg_trigger t WHERE t.tgrelid = {table} ORDER BY 1"
    );
    sql::parse::parse(&asked).ok()?.pop()
}

/// asyncpg's question about types that it does not know. Here these are arrays only: no domains, ranges or
/// composites, whose parts it would follow recursively.
fn asyncpg_types(statement: &Statement) -> Option<Statement> {
    let Statement::Query(query) = statement else { return None };
    let names = |cte: &ast::Cte| cte.alias.name.value == "typeinfo_tree";
    if !query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(names)) {
        return None;
    }
    let mut wanted = None;
    let mut statement = statement.clone();
    let _: ControlFlow<()> = walk::expressions_mut(&mut statement, |e| {
        let mut condition = e.clone();
        if let ast::Expr::InList { expr, .. } | ast::Expr::AnyOp { left: expr, .. } = &mut condition
            && wanted.is_none()
            && expr.to_string() == "ti.oid"
            && let Some(oid) = parse("t.oid")
        {
            **expr = oid;
            wanted = Some(condition);
        }
        ControlFlow::Continue(())
    });
    let text = format!(
        "SELECT t.oid, n.nspname AS ns, t.typname AS name, t.typtype AS kind, CAST(NULL AS integer) AS basetype, \
         t.typelem AS elemtype, e.typdelim AS elemdelim, CAST(NULL AS integer) AS range_subtype, \
         CAST(NULL AS text) AS attrtypoids, CAST(NULL AS text) AS attrnames, 0 AS depth, \
         CAST(NULL AS text) AS basetype_name, e.typname AS elemtype_name, CAST(NULL AS text) AS range_subtype_name \
         FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
         LEFT JOIN pg_catalog.pg_type e ON t.typelem = e.oid WHERE {}",
        wanted?
    );
    sql::parse::parse(&text).ok()?.pop()
}

/// Subqueries about one row of the catalog: a column's default (of which clients say which column they mean
/// in many ways), its sequence, its collation, a foreign key's target. The last three are not there.
fn replaced_subquery(query: &ast::Query) -> Option<ast::Expr> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let first = select.from.first().and_then(|f| relation_name(&f.relation))?;
    let conditions = select.selection.as_ref()?;
    match first.as_str() {
        "pg_attrdef" => {
            let relation = equal_to(conditions, "adrelid")?;
            let column = equal_to(conditions, "adnum")?;
            parse(&format!("meridian_column_default({relation}, {column})"))
        }
        "pg_sequence" => identity_options(conditions).or_else(|| parse("CAST(NULL AS text)")),
        "pg_collation" => parse("CAST(NULL AS text)"),
        // Types of tables are none here, so a type that has a relation is a composite one.
        "pg_class" if equal_to(conditions, "oid").is_some_and(|e| e.to_string().ends_with("typrelid")) => {
            parse(&format!("{} >= {FIRST_OID}", equal_to(conditions, "oid")?))
        }
        "pg_type" => {
            let shown = select.projection.first()?.to_string();
            shown.ends_with("typcollation").then(|| parse("0"))?
        }
        "pg_attribute" | "pg_class" => {
            let element = equal_to(conditions, "attnum").map(|e| e.to_string())?;
            let key = element.strip_suffix("confkey[1]")?;
            let is_named = select.projection.first()?.to_string().ends_with("attname");
            is_named.then(|| parse(&format!("meridian_referenced({key}oid)")))?
        }
        _ => None,
    }
}

/// SQLAlchemy's question about the sequence of an identity column, which it finds by the column.
fn identity_options(conditions: &ast::Expr) -> Option<ast::Expr> {
    let wanted = equal_to(conditions, "seqrelid")?;
    let column = walk::expressions(&wanted, |e| match e {
        ast::Expr::Function(call) if call.name.to_string().ends_with("pg_get_serial_sequence") => {
            let ast::FunctionArguments::List(list) = &call.args else { return ControlFlow::Continue(()) };
            list.args
                .last()
                .map_or(ControlFlow::Continue(()), |column| ControlFlow::Break(column.to_string()))
        }
        _ => ControlFlow::Continue(()),
    });
    let ControlFlow::Break(column) = column else { return None };
    let of = column.strip_suffix("attname")?;
    parse(&format!("CAST(meridian_identity({of}attrelid, {column}) AS jsonb)"))
}

/// A column of PostgreSQL 15's that the library's tables, which are of a later version, call otherwise.
fn renamed_since(parts: &[ast::Ident]) -> Option<ast::Expr> {
    let [of @ .., name] = parts else { return None };
    let mut parts = of.to_vec();
    (sql::names::fold(name) == "colliculocale").then(|| {
        parts.push(ast::Ident::new("colllocale"));
        ast::Expr::CompoundIdentifier(parts)
    })
}

/// What a condition wants a column to be equal to.
fn equal_to(condition: &ast::Expr, column: &str) -> Option<ast::Expr> {
    match condition {
        ast::Expr::Nested(e) => equal_to(e, column),
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
            equal_to(left, column).or_else(|| equal_to(right, column))
        }
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } => {
            let is_it = |e: &ast::Expr| match e {
                ast::Expr::Identifier(name) => sql::names::fold(name) == column,
                ast::Expr::CompoundIdentifier(names) => {
                    names.last().is_some_and(|name| sql::names::fold(name) == column)
                }
                _ => false,
            };
            match (is_it(left), is_it(right)) {
                (true, _) => Some(right.as_ref().clone()),
                (_, true) => Some(left.as_ref().clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

fn parse(text: &str) -> Option<ast::Expr> {
    sql::parse::parse_expr(text).ok()
}

/// psql's `\dD` gathers a domain's conditions.
fn of_domain(query: &ast::Query) -> Option<ast::Expr> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let first = select.from.first().and_then(|f| relation_name(&f.relation))?;
    let of = equal_to(select.selection.as_ref()?, "contypid").filter(|_| first == "pg_constraint")?;
    select.projection.first()?.to_string().contains("pg_get_constraintdef").then_some(())?;
    parse(&format!("meridian_domain_checks({of})"))
}

/// Options of the table beside a table that PostgreSQL keeps long values in, and rows of tables that are empty.
fn of_nothing(query: &ast::Query) -> Option<ast::Expr> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_toast = select.projection.first()?.to_string().starts_with("'toast.' ||");
    (is_toast || is_always_empty(&query.body, true)).then(|| parse("CAST(ARRAY[] AS text[])"))?
}

/// psql's `\dT+` gathers a type's labels.
fn of_labels(query: &ast::Query) -> Option<ast::Expr> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let first = select.from.first().and_then(|f| relation_name(&f.relation))?;
    if first != "pg_enum" || !select.projection.first()?.to_string().ends_with("enumlabel") {
        return None;
    }
    let of = equal_to(select.selection.as_ref()?, "enumtypid")?;
    parse(&format!("meridian_labels({of})"))
}

/// psql's `\du` asks for a role's memberships, `\dp` for the privileges on a table's columns.
fn of_roles(query: &ast::Query) -> Option<ast::Expr> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let first = select.from.first().and_then(|f| relation_name(&f.relation))?;
    let conditions = select.selection.as_ref()?;
    match first.as_str() {
        "pg_auth_members" => {
            let member = equal_to(conditions, "member")?;
            parse(&format!("meridian_member_of({member})"))
        }
        "pg_attribute" if select.projection.iter().any(|item| item.to_string().contains("attacl")) => {
            let relation = equal_to(conditions, "attrelid")?;
            parse(&format!("meridian_column_privileges({relation})"))
        }
        _ => None,
    }
}

/// psql's `\d` of an index asks for deferrable constraints, of which there are none.
fn replaced_exists(query: &ast::Query) -> Option<ast::Expr> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let first = select.from.first().and_then(|f| relation_name(&f.relation))?;
    let asks = select.selection.as_ref()?.to_string();
    let is_deferrable = asks.ends_with("condeferrable") || asks.ends_with("condeferred");
    (first == "pg_constraint" && is_deferrable).then(|| parse("false"))?
}

fn relation_name(relation: &ast::TableFactor) -> Option<String> {
    let ast::TableFactor::Table { name, .. } = relation else { return None };
    sql::names::parts(name).ok()?.pop()
}

/// Whether a query's rows all come from an empty table by inner joins.
pub(super) fn is_always_empty(body: &ast::SetExpr, has_partitions: bool) -> bool {
    match body {
        ast::SetExpr::Select(select) => {
            let no_group = matches!(&select.group_by, ast::GroupByExpr::Expressions(e, _) if e.is_empty());
            let text = select.projection.iter().map(ToString::to_string).collect::<String>().to_lowercase();
            // An aggregate without groups has a row even over nothing.
            let aggregates = ["count(", "sum(", "min(", "max(", "bool_or(", "every("];
            let is_empty = |relation: &ast::TableFactor| {
                relation_name(relation).is_some_and(|name| {
                    EMPTY_TABLES.contains(&name.as_str())
                        || !has_partitions && TABLES_OF_PARTITIONS.contains(&name.as_str())
                })
            };
            let inner = |join: &ast::Join| {
                matches!(
                    join.join_operator,
                    ast::JoinOperator::Join(_)
                        | ast::JoinOperator::Inner(_)
                        | ast::JoinOperator::CrossJoin(_)
                )
            };
            let asks = select.selection.as_ref().map(ToString::to_string).unwrap_or_default();
            super::dump::is_of_nothing(select)
                || !has_partitions && asks.starts_with("c.relkind IN ('p', 'I', '')")
                || no_group
                    && !aggregates.iter().any(|a| text.contains(a))
                    && select.from.iter().any(|from| {
                        is_empty(&from.relation)
                            || (from.joins.iter().all(inner)
                                && from.joins.iter().any(|j| is_empty(&j.relation)))
                    })
        }
        ast::SetExpr::SetOperation { op: ast::SetOperator::Union, left, right, .. } => {
            is_always_empty(left, has_partitions) && is_always_empty(right, has_partitions)
        }
        _ => false,
    }
}
