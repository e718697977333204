//! What `pg_dump` asks of the catalog.
//!
//! Its questions use what DataFusion cannot plan: system columns (`tableoid`), lists of object ids as relations,
//! subqueries that gather arrays. Of relations, columns and indexes it is answered from tables made for it, whose
//! columns are numbered without holes, as it wants them; what PostgreSQL brings along (types, operators, casts) is
//! left out where it asks for `tableoid`, because it writes out only what users made.

pub(super) mod tables;

use super::questions::is_always_empty;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Query, Select, SelectItem, SetExpr, Statement, TableFactor, VisitorMut,
};
use sql::walk::{self, WalkMut};
use std::ops::ControlFlow;

/// Catalogs by their object ids, as `tableoid` tells them.
pub(super) const CATALOGS: &[(&str, u32)] = &[
    ("pg_class", CLASS),
    ("pg_attrdef", 2604),
    ("pg_constraint", CONSTRAINT),
    ("pg_namespace", NAMESPACE),
    ("pg_database", 1262),
    ("pg_proc", 1255),
    ("pg_type", 1247),
    ("pg_description", 2609),
    ("pg_trigger", 2620),
];
/// PostgreSQL's other catalogs, of which no `tableoid` is told.
pub(super) const OTHER_CATALOGS: &[(&str, u32)] = &[
    ("pg_aggregate", 2600),
    ("pg_am", 2601),
    ("pg_amop", 2602),
    ("pg_amproc", 2603),
    ("pg_attribute", 1249),
    ("pg_auth_members", 1261),
    ("pg_authid", 1260),
    ("pg_cast", 2605),
    ("pg_collation", 3456),
    ("pg_conversion", 2607),
    ("pg_db_role_setting", 2964),
    ("pg_default_acl", 826),
    ("pg_depend", 2608),
    ("pg_enum", 3501),
    ("pg_event_trigger", 3466),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_foreign_table", 3118),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_init_privs", 3394),
    ("pg_language", 2612),
    ("pg_largeobject", 2613),
    ("pg_largeobject_metadata", 2995),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_parameter_acl", 6243),
    ("pg_partitioned_table", 3350),
    ("pg_policy", 3256),
    ("pg_publication", 6104),
    ("pg_publication_namespace", 6237),
    ("pg_publication_rel", 6106),
    ("pg_range", 3541),
    ("pg_replication_origin", 6000),
    ("pg_rewrite", 2618),
    ("pg_seclabel", 3596),
    ("pg_sequence", 2224),
    ("pg_shdepend", 1214),
    ("pg_shdescription", 2396),
    ("pg_shseclabel", 3592),
    ("pg_statistic", 2619),
    ("pg_statistic_ext", 3381),
    ("pg_statistic_ext_data", 3429),
    ("pg_subscription", 6100),
    ("pg_subscription_rel", 6102),
    ("pg_tablespace", 1213),
    ("pg_transform", 3576),
    ("pg_ts_config", 3602),
    ("pg_ts_config_map", 3603),
    ("pg_ts_dict", 3600),
    ("pg_ts_parser", 3601),
    ("pg_ts_template", 3764),
    ("pg_user_mapping", 1418),
];
pub(super) const CLASS: u32 = 1259;
const NAMESPACE: u32 = 2615;
pub(super) const CONSTRAINT: u32 = 2606;

/// `'pg_class'::regclass`, a number here: the catalogs themselves are not listed in `pg_class`.
pub(super) fn catalog_named(e: &Expr, data_type: &ast::DataType) -> Option<Expr> {
    let type_name = data_type.to_string().to_lowercase();
    if type_name.strip_prefix("pg_catalog.").unwrap_or(&type_name) != "regclass" {
        return None;
    }
    let Expr::Value(value) = e else { return None };
    let name = match &value.value {
        // The value is a name, or a number as text.
        ast::Value::SingleQuotedString(_) => value.to_string(),
        ast::Value::Placeholder(place) => format!("CAST({place} AS text)"),
        _ => return None,
    };
    sql::parse::parse_expr(&format!("meridian_regclass({name})")).ok()
}

/// Catalogs of what users cannot make here.
const NOT_MADE: &[&str] = &[
    "pg_aggregate",
    "pg_am",
    "pg_cast",
    "pg_collation",
    "pg_conversion",
    "pg_default_acl",
    "pg_language",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_transform",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
];

/// The database, as a dump that can make it wants to know it.
const DATABASE: &str = "SELECT 1262 AS tableoid, oid, datname, datdba, 'UTF8' AS encoding, 'C.UTF-8' AS datcollate, \
    'C.UTF-8' AS datctype, 0 AS datfrozenxid, datacl, acldefault('d', datdba) AS acldefault, \
    datistemplate, datconnlimit, 0 AS datminmxid, 'c' AS datlocprovider, \
    CAST(NULL AS text) AS daticulocale, CAST(NULL AS text) AS datcollversion, CAST(NULL AS text) AS tablespace, \
    shobj_description(oid, 'pg_database') AS description FROM pg_catalog.pg_database WHERE datname = current_database()";

/// A question in words that can be planned; `None`: it is none of these.
pub(super) fn question(statement: &Statement) -> Option<Statement> {
    let Statement::Query(query) = statement else { return None };
    let text = statement.to_string();
    if text
        == "SELECT description, classoid, objoid, objsubid FROM pg_catalog.pg_description ORDER BY \
                classoid, objoid, objsubid"
    {
        return parse("SELECT * FROM pg_catalog.meridian_dump_comments");
    }
    // Of a prepared statement: it takes the number of the function.
    if text.contains("AS funciargs") && text.contains("aggtransfn") {
        return parse("SELECT * FROM pg_catalog.meridian_dump_aggregate_details WHERE oid = $1");
    }
    if text.contains("AS funciargs") {
        return parse("SELECT * FROM pg_catalog.meridian_dump_function_details WHERE oid = $1");
    }
    // Nothing is divided by the hash of an enumerated type.
    if text.contains("partclass") {
        return parse("SELECT partrelid FROM pg_catalog.pg_partitioned_table WHERE false");
    }
    if text.contains("AS aggname") {
        return parse(
            "SELECT *, proname AS aggname, pronamespace AS aggnamespace, proacl AS aggacl \
             FROM pg_catalog.meridian_dump_functions WHERE prokind = 'a' ORDER BY oid",
        );
    }
    if text.contains("p.prolang") && text.contains("LEFT JOIN pg_init_privs") {
        return parse("SELECT * FROM pg_catalog.meridian_dump_functions WHERE prokind = 'f' ORDER BY oid");
    }
    if !text.contains("tableoid") && !text.contains("tbloid") {
        return None;
    }
    let of = |table: &str, key: &str| {
        let listed = list_of(query)?;
        parse(&format!("SELECT * FROM pg_catalog.{table} WHERE {} ORDER BY 1, 2", condition(key, &listed)))
    };
    if text.contains("pg_options_to_table(attfdwoptions)") {
        return of("meridian_dump_columns", "attrelid");
    }
    if text.contains("pg_get_indexdef(i.indexrelid)") {
        return of("meridian_dump_indexes", "indrelid");
    }
    if text.contains("pg_get_triggerdef(t.oid, false)") {
        return of("meridian_dump_triggers", "tgrelid");
    }
    if text.contains("pg_get_expr(adbin, adrelid)") {
        // It takes these by their places.
        let places = "SELECT tableoid, oid, adrelid, adnum, adsrc FROM pg_catalog.meridian_dump_defaults";
        let wanted = condition("adrelid", &list_of(query)?);
        return parse(&format!("{places} WHERE {wanted} ORDER BY adrelid, adnum"));
    }
    if text.contains("typrelkind") && text.contains("FROM pg_type") {
        return parse("SELECT * FROM pg_catalog.meridian_dump_types ORDER BY oid");
    }
    if text.contains("is_identity_sequence") {
        return parse("SELECT * FROM pg_catalog.meridian_dump_relations ORDER BY oid");
    }
    if text.contains("datfrozenxid") {
        return parse(DATABASE);
    }
    if is_always_empty(&query.body, true) {
        return None;
    }
    let mut statement = statement.clone();
    let mut rewriting = Rewriting { found: false };
    let _ = statement.walk_mut(&mut rewriting);
    rewriting.found.then_some(statement)
}

/// Whether a query asks what users have made of something that they cannot make.
pub(super) fn is_of_nothing(select: &Select) -> bool {
    let asks = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(e) if is_table_oid(e));
    let first = select.from.first().and_then(|from| relation_name(&from.relation));
    first.is_some_and(|name| NOT_MADE.contains(&name.as_str())) && select.projection.iter().any(asks)
}

fn is_table_oid(e: &Expr) -> bool {
    match e {
        Expr::Identifier(name) => name.value == "tableoid",
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| name.value == "tableoid"),
        _ => false,
    }
}

fn parse(text: &str) -> Option<Statement> {
    sql::parse::parse(text).ok()?.pop()
}

fn relation_name(relation: &TableFactor) -> Option<String> {
    let TableFactor::Table { name, args: None, .. } = relation else { return None };
    sql::names::parts(name).ok()?.pop()
}

/// Object ids in `unnest('{1,2}'::oid[])`, the first relation of a query.
fn list_of(query: &Query) -> Option<Vec<u32>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    listed(&select.from.first()?.relation)
}

fn listed(relation: &TableFactor) -> Option<Vec<u32>> {
    let text = relation.to_string();
    if !text.to_lowercase().starts_with("unnest(") {
        return None;
    }
    let (_, rest) = text.split_once("'{")?;
    let (numbers, _) = rest.split_once("}'")?;
    numbers.split(',').filter(|word| !word.is_empty()).map(|word| word.trim().parse().ok()).collect()
}

fn condition(key: &str, listed: &[u32]) -> String {
    let words: Vec<String> = listed.iter().map(ToString::to_string).collect();
    if words.is_empty() { "false".into() } else { format!("{key} IN ({})", words.join(", ")) }
}

/// Leaves rows that are so.
fn restrict(select: &mut Select, within: Expr) {
    select.selection = Some(match select.selection.take() {
        None => within,
        Some(given) => Expr::BinaryOp {
            left: Box::new(within),
            op: ast::BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(given))),
        },
    });
}

struct Rewriting {
    found: bool,
}

impl VisitorMut for Rewriting {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.narrow(select);
        self.tell(select);
        ControlFlow::Continue(())
    }
}

impl Rewriting {
    /// `unnest('{1,2}') AS src (x) JOIN t ON src.x = t.y` as `t` where `t.y` is one of these.
    fn narrow(&mut self, select: &mut Select) -> Option<()> {
        let from = select.from.first_mut()?;
        let numbers = listed(&from.relation)?;
        let join = from.joins.first()?;
        let (ast::JoinOperator::Join(ast::JoinConstraint::On(on))
        | ast::JoinOperator::Inner(ast::JoinConstraint::On(on))) = &join.join_operator
        else {
            return None;
        };
        let text = on.to_string();
        let (_, key) = text.trim_matches(['(', ')']).split_once('=')?;
        let within = sql::parse::parse_expr(&condition(key.trim(), &numbers)).ok()?;
        from.relation = from.joins.remove(0).relation;
        restrict(select, within);
        self.found = true;
        Some(())
    }

    /// `tableoid` as the number that it is.
    fn tell(&mut self, select: &mut Select) {
        let relations = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let called: Vec<(String, u32)> = relations
            .filter_map(|relation| {
                let TableFactor::Table { alias, .. } = relation else { return None };
                let name = relation_name(relation)?;
                let mut catalogs = CATALOGS.iter().chain(OTHER_CATALOGS);
                let (_, number) = catalogs.find(|(known, _)| *known == name)?;
                let alias = alias.as_ref().map_or(name, |alias| sql::names::fold(&alias.name));
                Some((alias, *number))
            })
            .collect();
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else {
                continue;
            };
            if !is_table_oid(e) {
                continue;
            }
            let of = match e {
                Expr::CompoundIdentifier(parts) => {
                    parts.len().checked_sub(2).map(|at| sql::names::fold(&parts[at]))
                }
                _ => None,
            };
            let found = called.iter().find(|(alias, _)| of.as_ref().is_none_or(|of| of == alias));
            let Some((_, number)) = found else { continue };
            let Ok(expr) = sql::parse::parse_expr(&number.to_string()) else { continue };
            let alias = match item {
                SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                _ => ast::Ident::new("tableoid"),
            };
            *item = SelectItem::ExprWithAlias { expr, alias };
            self.found = true;
        }
        // Clients look for comments by it.
        let _: ControlFlow<()> = walk::expressions_mut(select, |e| {
            if let Expr::CompoundIdentifier(parts) = &*e
                && let [.., of, name] = parts.as_slice()
                && name.value == "tableoid"
                && let of = sql::names::fold(of)
                && let Some((_, number)) = called.iter().find(|(alias, _)| *alias == of)
                && let Ok(number) = sql::parse::parse_expr(&number.to_string())
            {
                *e = number;
                self.found = true;
            }
            ControlFlow::Continue(())
        });
        // Every database has the schema of the cluster's own views.
        let namespaces = called.iter().find(|(_, number)| self.found && *number == NAMESPACE);
        let others = namespaces.map(|(alias, _)| format!("{alias}.nspname <> 'meridian'"));
        if let Some(Ok(others)) = others.map(|others| sql::parse::parse_expr(&others)) {
            restrict(select, others);
        }
    }
}
