//! Functions over the catalog, made anew for each query that calls one.

use super::definitions::{self, list};
use super::domains::{self, check_definition};
use super::function_names::FUNCTIONS;
use super::pg_tables::{Object, elements, object};
use super::privileges::{self, Named};
use super::{partitions, reflection, routine_names, routines, settings, sizes, triggers};
use crate::cluster::ReplicaCommand;
use crate::context::{Context, OwnedContext};
use base::roles::RoleId;
use base::schema::Table;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, Int32Array, Int64Array, ListBuilder,
    StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use sql::ddl::indexes::written::{self, Style};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A function whose answers come from the session and its catalog.
struct CatalogFunction {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    asked: OwnedContext,
}

/// Return names: lists of text.
const KEY_NAMES: &str = "meridian_key_names";
const MEMBER_OF: &str = "meridian_member_of";
const LABELS: &str = "meridian_labels";
const DOMAIN_CHECKS: &str = "meridian_domain_checks";
const CURRENT_SCHEMAS: &str = "current_schemas";

pub(super) fn is_one(name: &str) -> bool {
    [KEY_NAMES, MEMBER_OF, LABELS, DOMAIN_CHECKS, CURRENT_SCHEMAS].contains(&name)
        || FUNCTIONS.iter().any(|(known, _)| *known == name)
}

pub(super) fn find(context: &Context<'_>, name: &str) -> Option<Arc<ScalarUDF>> {
    let names = DataType::new_list(DataType::Utf8, true);
    let (name, returns) = match name {
        KEY_NAMES => (KEY_NAMES, names),
        MEMBER_OF => (MEMBER_OF, names),
        LABELS => (LABELS, names),
        DOMAIN_CHECKS => (DOMAIN_CHECKS, names),
        CURRENT_SCHEMAS => (CURRENT_SCHEMAS, names),
        "format_type" => return Some(Arc::new(super::format_type::function(context.to_owned()))),
        _ => FUNCTIONS.iter().find(|(n, _)| *n == name)?.clone(),
    };
    let volatility = match name {
        "nextval" | "gen_random_uuid" | "meridian_replica" => Volatility::Volatile,
        _ => Volatility::Stable,
    };
    Some(Arc::new(ScalarUDF::new_from_impl(CatalogFunction {
        name,
        signature: Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], volatility),
        returns,
        asked: context.to_owned(),
    })))
}

impl std::fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.asked.catalog, &other.asked.catalog)
    }
}
impl Eq for CatalogFunction {}
impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let array: ArrayRef = match self.returns {
            DataType::Boolean if self.name.starts_with("has_") || self.name == "pg_has_role" => {
                let one = |row| self.privilege(&arrays, row);
                Arc::new((0..rows).map(one).collect::<Result<BooleanArray>>()?)
            }
            DataType::Boolean => {
                let visible = self.name.ends_with("_is_visible");
                let is_replica = || self.asked.analytics.node.cluster.read_only().is_some();
                let follows = self.name == "pg_is_in_recovery" && is_replica();
                Arc::new(
                    (0..rows)
                        .map(|row| Some(follows || visible && self.is_visible(&arrays, row)))
                        .collect::<BooleanArray>(),
                )
            }
            DataType::Int64 if self.name == "nextval" => {
                let values =
                    (0..rows).map(|row| self.next_value(&arrays, row)).collect::<Result<Vec<_>>>()?;
                Arc::new(Int64Array::from(values))
            }
            DataType::Int64 if routines::are_named(self.name) => {
                let names = (0..rows).map(|row| word(&arrays, 0, row));
                Arc::new(routines::numbers(&self.asked.context(), self.name, names)?)
            }
            DataType::FixedSizeBinary(size) => {
                let values = (0..rows).flat_map(|_| self.asked.analytics.node.generators.random_uuid());
                Arc::new(FixedSizeBinaryArray::new(size, values.collect::<Vec<u8>>().into(), None))
            }
            DataType::Int64 if self.name == "meridian_element" => {
                let one = |row| {
                    let at = number(&arrays, 1, row)? - number(&arrays, 2, row)?;
                    elements(&word(&arrays, 0, row)?).get(usize::try_from(at).ok()?).copied()
                };
                Arc::new((0..rows).map(one).collect::<Int64Array>())
            }
            DataType::Int32 => Arc::new(Int32Array::from(vec![self.of_session(); rows])),
            DataType::Int64 => {
                Arc::new((0..rows).map(|row| self.number(&arrays, row)).collect::<Result<Int64Array>>()?)
            }
            DataType::List(_) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in 0..rows {
                    lists
                        .append_option(self.key_names(&arrays, row).map(|names| names.into_iter().map(Some)));
                }
                Arc::new(lists.finish())
            }
            _ => {
                let mut out = Vec::with_capacity(rows);
                for row in 0..rows {
                    out.push(match self.name {
                        "current_setting" => self.setting(&arrays, row)?,
                        "set_config" => self.unchanged(&arrays, row)?,
                        "meridian_replica" => self.command_replica(&arrays, row)?,
                        "pg_get_serial_sequence" => self.serial_sequence(&arrays, row)?,
                        _ => self.text(&arrays, row),
                    });
                }
                Arc::new(StringArray::from(out))
            }
        };
        Ok(ColumnarValue::Array(array))
    }
}

fn external(error: base::SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An argument as a number; text counts if it holds one.
fn number(arrays: &[ArrayRef], at: usize, row: usize) -> Option<i64> {
    let array = cast(arrays.get(at)?, &DataType::Int64).ok()?;
    let row = if array.len() == 1 { 0 } else { row };
    (!array.is_null(row)).then(|| array.as_primitive::<Int64Type>().value(row))
}

fn word(arrays: &[ArrayRef], at: usize, row: usize) -> Option<String> {
    let array = cast(arrays.get(at)?, &DataType::Utf8).ok()?;
    let row = if array.len() == 1 { 0 } else { row };
    (!array.is_null(row)).then(|| array.as_string::<i32>().value(row).to_string())
}

/// Whether an argument is there and true.
fn flag(arrays: &[ArrayRef], at: usize, row: usize) -> bool {
    let array = arrays.get(at).and_then(|array| cast(array, &DataType::Boolean).ok());
    array.is_some_and(|array| {
        let row = if array.len() == 1 { 0 } else { row };
        !array.is_null(row) && array.as_boolean().value(row)
    })
}

/// The first argument as the number of a role.
fn role_id(arrays: &[ArrayRef], row: usize) -> Option<RoleId> {
    u32::try_from(number(arrays, 0, row)?).ok().map(RoleId)
}

/// `array_to_string` of a list, or of an access control list, which is kept as its text.
fn listed(arrays: &[ArrayRef], row: usize) -> Option<String> {
    if matches!(arrays.first()?.data_type(), DataType::List(_)) {
        return joined(arrays, row);
    }
    let (list, between) = (word(arrays, 0, row)?, word(arrays, 1, row)?);
    match list.strip_prefix('{').and_then(|list| list.strip_suffix('}')) {
        Some(entries) => Some(entries.replace(',', &between)),
        None => Some(list),
    }
}

/// `array_to_string(list, between, null)`: nulls are left out unless they have a text.
fn joined(arrays: &[ArrayRef], row: usize) -> Option<String> {
    let lists = arrays.first()?.as_list_opt::<i32>()?;
    let at = if lists.len() == 1 { 0 } else { row };
    let between = word(arrays, 1, row)?;
    let of_null = word(arrays, 2, row);
    let mut texts = Vec::new();
    (!lists.is_null(at)).then(|| elements_of(&lists.value(at), of_null.as_deref(), &mut texts))??;
    Some(texts.join(&between))
}

/// Elements of all dimensions, as they are printed.
fn elements_of(list: &ArrayRef, of_null: Option<&str>, texts: &mut Vec<String>) -> Option<()> {
    for at in 0..list.len() {
        if list.is_null(at) {
            texts.extend(of_null.map(str::to_string));
        } else if let Some(inner) = list.as_list_opt::<i32>() {
            elements_of(&inner.value(at), of_null, texts)?;
        } else {
            texts.extend(wire::text_at(list, at).ok()?);
        }
    }
    Some(())
}

impl CatalogFunction {
    fn setting(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<String>> {
        let Some(name) = word(arrays, 0, row) else { return Ok(None) };
        settings::current(&self.asked.context(), &name, flag(arrays, 1, row)).map_err(external)
    }

    /// `set_config` of what has no effect.
    fn unchanged(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<String>> {
        settings::refuse_change(word(arrays, 0, row).as_deref()).map_err(external)?;
        Ok(word(arrays, 1, row))
    }

    /// The number of an encoding or of a relation, or bytes of what an argument means. Errors: 42P01, 3D000.
    fn number(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<i64>> {
        match self.name {
            "pg_char_to_encoding" => Ok(word(arrays, 0, row).map(|name| definitions::encoding_named(&name))),
            "pg_partition_root" => self.partition_root(arrays, row),
            _ => self.size(arrays, row),
        }
    }

    /// Bytes of what an argument means. Errors: 42P01, 3D000.
    fn size(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<i64>> {
        let is_number = arrays.first().is_some_and(|array| array.data_type().is_integer());
        let asked = match is_number {
            true => number(arrays, 0, row).map(sizes::Asked::Number),
            false => word(arrays, 0, row).map(sizes::Asked::Name),
        };
        let Some(asked) = asked else { return Ok(None) };
        let fork = word(arrays, 1, row);
        let bytes = sizes::bytes(&self.asked.context(), self.name, asked, fork.as_deref());
        bytes.map_err(external)
    }

    /// `pg_partition_root` of a number or a name. Errors: 42P01.
    fn partition_root(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<i64>> {
        let context = self.asked.context();
        let Some(name) = word(arrays, 0, row) else { return Ok(None) };
        let relation = definitions::relation_named(&context, &name).map_err(external)?;
        Ok(partitions::root(&context, relation))
    }

    fn next_value(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<i64>> {
        let Some(name) = word(arrays, 0, row) else { return Ok(None) };
        sql::catalog::find_sequence(&self.asked.catalog, &self.asked.search_path, &name)
            .and_then(|sequence| {
                let generators = &self.asked.analytics.node.generators;
                sql::given::within(&self.asked.given, || generators.next_value(sequence)).map(Some)
            })
            .map_err(external)
    }

    fn serial_sequence(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<String>> {
        let (Some(table), Some(column)) = (word(arrays, 0, row), word(arrays, 1, row)) else {
            return Ok(None);
        };
        definitions::serial_sequence(&self.asked.context(), &table, &column).map_err(external)
    }

    /// `meridian_replica(command, node)`: what was done. Errors: 42501, 22023.
    fn command_replica(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<String>> {
        let failed = |error| Err(external(error));
        let (Some(command), Some(node)) = (word(arrays, 0, row), number(arrays, 1, row)) else {
            return Ok(None);
        };
        if !self.asked.standing.is_superuser {
            let message = "permission denied for function meridian_replica";
            return failed(base::SqlError::new(base::SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let wrong = |message: String| base::SqlError::new(base::SqlState::INVALID_PARAMETER_VALUE, message);
        let Some(parsed) = ReplicaCommand::parse(&command.to_ascii_lowercase()) else {
            let hint = "Commands are drain, undrain, pause, resume and restart.";
            return failed(wrong(format!("no command \"{command}\" for a replica")).hint(hint));
        };
        let Ok(node) = u16::try_from(node).map(base::NodeId) else {
            return failed(wrong(format!("no node {node}")));
        };
        let cluster = &self.asked.analytics.node.cluster;
        match cluster.command_replica(node, parsed) {
            Ok(()) => Ok(Some(format!("{command} {node}"))),
            Err(error) => failed(error),
        }
    }

    /// A question about privileges; null if one of its arguments is.
    fn privilege(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<bool>> {
        let mut arguments = Vec::with_capacity(arrays.len());
        for (at, array) in arrays.iter().enumerate() {
            let argument = match array.data_type().is_integer() {
                true => number(arrays, at, row).map(Named::Oid),
                false => word(arrays, at, row).map(Named::Text),
            };
            let Some(argument) = argument else { return Ok(None) };
            arguments.push(argument);
        }
        let has = privileges::has(&self.asked.context(), self.name, &arguments);
        has.map(Some).map_err(external)
    }

    fn is_visible(&self, arrays: &[ArrayRef], row: usize) -> bool {
        let Some(id) = number(arrays, 0, row) else { return self.name != "pg_table_is_visible" };
        if self.name != "pg_table_is_visible" {
            let context = self.asked.context();
            if let Some(domain) = domains::domain_of(&context, id) {
                return domains::is_visible(&context, domain);
            }
            if self.name == "pg_function_is_visible" {
                return routine_names::routine_of(&context, id)
                    .is_none_or(|of| routines::is_visible(&context, of));
            }
            let own = super::user_types::made_of(&context, id);
            return own.is_none_or(|of| super::user_types::is_visible(&context, of));
        }
        definitions::is_visible(&self.asked.context(), id)
    }

    /// Programs of triggers know how deep they are; outside of them there are none.
    fn of_session(&self) -> i32 {
        if self.name == "pg_trigger_depth" { 0 } else { self.asked.process_id }
    }

    fn foreign_key_definition(&self, table: &Table, nth: usize) -> Option<String> {
        let key = table.foreign.own.get(nth)?;
        let parent = self.asked.catalog.table(key.table)?;
        let name = definitions::relation_shown(&self.asked.context(), sql::lower::oid(parent.id).into());
        Some(sql::ddl::foreign_key_definition(table, key, parent, &name))
    }

    /// Names of the columns of a constraint.
    fn key_names(&self, arrays: &[ArrayRef], row: usize) -> Option<Vec<String>> {
        let context = self.asked.context();
        if self.name == LABELS {
            return super::user_types::labels(&context, number(arrays, 0, row)?);
        }
        if self.name == DOMAIN_CHECKS {
            return domains::checks(&context, number(arrays, 0, row)?);
        }
        if self.name == CURRENT_SCHEMAS {
            return word(arrays, 0, row).map(|_| settings::schemas(&context, flag(arrays, 0, row)));
        }
        if self.name == MEMBER_OF {
            return Some(privileges::member_of(&context, role_id(arrays, row)?));
        }
        reflection::columns(object(&context, number(arrays, 0, row)?)?)
    }

    fn text(&self, arrays: &[ArrayRef], row: usize) -> Option<String> {
        let context = self.asked.context();
        let named = || number(arrays, 0, row).and_then(|id| object(&context, id));
        match self.name {
            "pg_get_indexdef" => {
                let (table, index) = definitions::index(named()?)?;
                let style = if flag(arrays, 2, row) { Style::Pretty } else { Style::Plain };
                match number(arrays, 1, row) {
                    None | Some(0) => Some(written::definition(table, &index, style)),
                    Some(nth) => Some(written::column(table, &index, usize::try_from(nth - 1).ok()?, style)),
                }
            }
            "pg_get_constraintdef" => match named()? {
                Object::PrimaryKey(t) => Some(format!("PRIMARY KEY ({})", list(t, &t.primary_key))),
                Object::Index(t, i) if i.constraint => Some(written::constraint(t, i, false)),
                Object::Check(t, nth) => t.checks.get(nth).map(check_definition),
                Object::OfDomain(domain, nth) => domain.checks.get(nth).map(check_definition),
                Object::ForeignKey(t, nth) => self.foreign_key_definition(t, nth),
                _ => None,
            },
            "pg_get_triggerdef" => triggers::told(&context, number(arrays, 0, row)?, flag(arrays, 1, row)),
            "meridian_column_default" => {
                let table = match named()? {
                    Object::Table(table) => table,
                    Object::View(view) => &view.shape,
                    _ => return None,
                };
                let column = table.columns.get(usize::try_from(number(arrays, 1, row)? - 1).ok()?)?;
                partitions::shown(context.catalog, table, column).default.clone()
            }
            "meridian_identity" => match named()? {
                Object::Table(t) => reflection::identity_options(&context, t, &word(arrays, 1, row)?),
                _ => None,
            },
            "meridian_referenced" => reflection::referenced(&context, named()?),
            // The catalog keeps expressions as their text.
            "array_to_string" => listed(arrays, row),
            "obj_description" | "shobj_description" => {
                let catalog = word(arrays, 1, row);
                super::descriptions::of(&context, number(arrays, 0, row)?, 0, catalog.as_deref())
            }
            "col_description" => {
                let (relation, column) = (number(arrays, 0, row)?, number(arrays, 1, row)?);
                super::descriptions::of(&context, relation, column, Some("pg_class")).filter(|_| column > 0)
            }
            "acldefault" => {
                let owner = u32::try_from(number(arrays, 1, row)?).ok().map(RoleId);
                privileges::default_list(&context, &word(arrays, 0, row)?, owner?)
            }
            "pg_get_viewdef" => match named()? {
                Object::View(view) if view.partition.is_none() => {
                    Some(super::views_of_users::definition(view))
                }
                Object::Table(table) => {
                    let view = sql::materialized::of(context.catalog, table.id)?;
                    Some(super::views_of_users::definition(view))
                }
                _ => None,
            },
            "meridian_column_privileges" => match named()? {
                Object::Table(t) => privileges::of_columns(&context, t, "\n"),
                Object::View(view) => privileges::of_columns(&context, &view.shape, "\n"),
                _ => None,
            },
            "pg_get_expr" => {
                let text = word(arrays, 0, row)?;
                let of = number(arrays, 1, row).and_then(|id| object(&context, id));
                Some(match of.filter(|_| flag(arrays, 2, row)) {
                    Some(Object::Table(table)) => written::pretty(table, &text),
                    _ => text,
                })
            }
            // As a regclass is shown.
            "meridian_relation_name" => {
                let id = number(arrays, 0, row)?;
                Some(definitions::relation_shown(&context, id))
            }
            name if partitions::FUNCTIONS.contains(&name) => {
                partitions::told(&context, name, number(arrays, 0, row)?)
            }
            name if routines::FUNCTIONS.contains(&name) => {
                routines::told(&context, name, number(arrays, 0, row)?, flag(arrays, 1, row))
            }
            "pg_get_userbyid" => privileges::role_name(&context, role_id(arrays, row)?),
            "current_user" | "current_role" | "user" => Some(self.asked.user.clone()),
            "session_user" => self.asked.settings.get("session_authorization").cloned(),
            "current_database" | "current_catalog" => Some(self.asked.database.clone()),
            "current_schema" => {
                let mut path = sql::temporary::shown(&self.asked.search_path);
                path.find(|s| definitions::is_schema(&context, s)).cloned()
            }
            "getdatabaseencoding" => Some("UTF8".into()),
            // Tables lie where the server's directory is.
            "pg_tablespace_location" => Some(String::new()),
            "pg_size_pretty" => {
                let shown = definitions::size_shown(number(arrays, 0, row)?);
                Some(definitions::with_fraction(shown, &word(arrays, 0, row)?))
            }
            _ => None,
        }
    }
}
