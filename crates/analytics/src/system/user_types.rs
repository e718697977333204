//! What the catalog shows of the types that users made: `pg_enum`, rows of `pg_type`, labels.

use super::Made;
use super::pg_tables::schema_oid;
use crate::context::Context;
use base::composite::CompositeType;
use base::enumeration::{EnumType, LABELS_MAX};
use base::identifier::quoted;
use base::roles::Object;
use base::{DataType, Datum, TableId};
use datafusion::arrow::array::{ArrayRef, ListBuilder, StringArray, StringBuilder, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType as Arrow, Field};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::LogicalPlanBuilder;
use sql::lower::{FIRST_OID, oid};
use sql::types::array_oid;
use std::sync::Arc;

/// Object ids of labels begin here; each type has room for so many.
const FIRST_LABEL: i64 = 0x5000_0000;
const ROOM: i64 = 1024;
const _: () = assert!(LABELS_MAX as i64 <= ROOM);

/// So many types have room below the largest number that the catalogs' `integer` holds. The ids of types begin anew
/// behind them: two types would have to be that many ids apart for labels of theirs to have one number.
const TYPES: i64 = (i32::MAX as i64 + 1 - FIRST_LABEL) / ROOM;

fn label_oid(of: TableId, nth: usize) -> i64 {
    FIRST_LABEL + i64::from(of.0) % TYPES * ROOM + nth as i64
}

fn enums(context: &Context<'_>) -> impl Iterator<Item = EnumType> {
    let known: Vec<EnumType> = context.catalog.types.enums.values().copied().collect();
    known.into_iter()
}

/// The enumerated or composite type of an object id.
pub(super) fn made_of(context: &Context<'_>, number: i64) -> Option<DataType> {
    let id = u32::try_from(number).ok()?.checked_sub(FIRST_OID)?;
    context.catalog.types.made(TableId(id))
}

/// Whether a type of ours is found without its schema.
pub(super) fn is_visible(context: &Context<'_>, of: DataType) -> bool {
    let types = &context.catalog.types;
    let Some((schema, name)) = of.made_id().and_then(|id| types.place_of(id)) else { return true };
    context.search_path.iter().find(|schema| types.has(schema, name)).is_some_and(|first| first == schema)
}

/// `format_type` of a type of ours.
pub(super) fn shown(context: &Context<'_>, number: i64) -> Option<String> {
    made_of(context, number).map(|of| name_shown(context, of))
}

/// The name of a type of ours, with its schema where the name alone does not mean it.
pub(super) fn name_shown(context: &Context<'_>, of: DataType) -> String {
    let place = of.made_id().and_then(|id| context.catalog.types.place_of(id));
    match place {
        Some((_, name)) if is_visible(context, of) => quoted(name),
        _ => of.qualified_name(),
    }
}

pub(super) fn pg_enum(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", DataType::Integer),
        ("enumtypid", DataType::Integer),
        ("enumsortorder", DataType::Real),
        ("enumlabel", DataType::Text),
    ]);
    for of in enums(context) {
        for (nth, label) in of.description().labels.iter().enumerate() {
            made.rows.push(vec![
                Datum::Int(label_oid(of.id(), nth)),
                Datum::Int(oid(of.id()).into()),
                Datum::Float(nth as f64 + 1.0),
                Datum::text(&label.text),
            ]);
        }
    }
    made
}

/// The labels of a type in their order, for clients that gather them in one value.
pub(super) fn labels(context: &Context<'_>, number: i64) -> Option<Vec<String>> {
    let of = made_of(context, number)?.enumeration()?;
    Some(of.description().labels.iter().map(|l| l.text.clone()).collect())
}

/// Types as `pg_dump` asks for them.
pub(super) fn dumped(context: &Context<'_>) -> Made {
    const COLUMNS: [(&str, DataType); 13] = [
        ("tableoid", DataType::Integer),
        ("oid", DataType::Integer),
        ("typname", DataType::Text),
        ("typnamespace", DataType::Integer),
        ("typacl", DataType::Text),
        ("acldefault", DataType::Text),
        ("typowner", DataType::Integer),
        ("typelem", DataType::Integer),
        ("typrelid", DataType::Integer),
        ("typrelkind", DataType::Text),
        ("typtype", DataType::Text),
        ("typisdefined", DataType::Boolean),
        ("isarray", DataType::Boolean),
    ];
    let mut made = Made::new(&COLUMNS);
    let types = &context.catalog.types;
    for id in types.ids() {
        let Some((schema, name)) = types.place_of(id) else { continue };
        let kind = match types.made(id) {
            Some(DataType::Composite(_)) => "c",
            Some(_) => "e",
            None => "d",
        };
        let (relation, relation_kind) = if kind == "c" { (oid(id), "c") } else { (0, " ") };
        let owner = context.catalog.roles.owner_of(&Object::Relation(id));
        made.rows.push(vec![
            Datum::Int(1247),
            Datum::Int(oid(id).into()),
            Datum::text(name),
            Datum::Int(schema_oid(context, schema).into()),
            Datum::Null,
            Datum::Null,
            Datum::Int(owner.0.into()),
            Datum::Int(0),
            Datum::Int(relation.into()),
            Datum::text(relation_kind),
            Datum::text(kind),
            Datum::Bool(true),
            Datum::Bool(false),
        ]);
    }
    made
}

/// `pg_type`: PostgreSQL's own types, and those that users made; `of_domains`: a column of the rows of domains.
pub(super) fn with_own(
    context: &Context<'_>,
    fixed: Arc<dyn TableProvider>,
    of_domains: &dyn Fn(&str) -> Vec<Option<String>>,
) -> Result<Arc<dyn TableProvider>> {
    let own: Vec<EnumType> = enums(context).collect();
    let composites = &context.catalog.types.composites;
    let count = 2 * own.len() + composites.len() + context.catalog.types.domains.len();
    let field = |name: &str| {
        let own_ones = own.iter().map(|of| type_field(context, *of, name));
        let arrays = own.iter().map(|of| array_field(context, *of, name));
        let rows = composites.values().map(|of| row_field(context, *of, name));
        let values = own_ones.chain(arrays).chain(rows).chain(of_domains(name));
        values.map(|value| value.map(|value| vec![value])).collect()
    };
    appended("pg_type", fixed, count, &field)
}

/// A table of PostgreSQL's own with rows behind them; `rows`: the values of a column in these, as text. The elements of an
/// array are told one by one; a list of numbers is one text.
pub(super) fn appended(
    name: &str,
    fixed: Arc<dyn TableProvider>,
    count: usize,
    rows: &dyn Fn(&str) -> Vec<Option<Vec<String>>>,
) -> Result<Arc<dyn TableProvider>> {
    if count == 0 {
        return Ok(fixed);
    }
    let schema = fixed.schema();
    let column = |field: &Arc<Field>| -> Result<ArrayRef> {
        let values = rows(field.name());
        if values.iter().all(Option::is_none) {
            return Ok(new_null_array(field.data_type(), count));
        }
        if matches!(field.data_type(), Arrow::List(_)) {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values {
                lists.append_option(value.map(|elements| elements.into_iter().map(Some)));
            }
            return Ok(cast(&lists.finish(), field.data_type())?);
        }
        let texts: Vec<Option<String>> = values.into_iter().map(|value| Some(value?.join(" "))).collect();
        Ok(cast(&StringArray::from(texts), field.data_type())?)
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    let made: Arc<dyn TableProvider> = Arc::new(MemTable::try_new(schema, vec![vec![batch]])?);
    let scan = |provider| LogicalPlanBuilder::scan(name, provider_as_source(provider), None);
    let both = scan(fixed)?.union(scan(made)?.build()?)?.build()?;
    Ok(Arc::new(ViewTable::new(both, None)))
}

/// A column of a type's row in `pg_type`, as text; `None` is null.
fn type_field(context: &Context<'_>, of: EnumType, name: &str) -> Option<String> {
    let what = of.description();
    Some(match name {
        "oid" => oid(of.id()).to_string(),
        "typname" => what.name.clone(),
        "typnamespace" => schema_oid(context, &what.schema).to_string(),
        "typowner" => context.catalog.roles.owner_of(&Object::Relation(of.id())).0.to_string(),
        "typlen" => "4".into(),
        "typbyval" | "typisdefined" => "true".into(),
        "typtype" => "e".into(),
        "typcategory" => "E".into(),
        "typispreferred" | "typnotnull" => "false".into(),
        "typdelim" => ",".into(),
        "typarray" => array_oid(oid(of.id())).to_string(),
        "typrelid" | "typelem" | "typbasetype" | "typndims" | "typcollation" => "0".into(),
        "typinput" => "enum_in".into(),
        "typoutput" => "enum_out".into(),
        "typreceive" => "enum_recv".into(),
        "typsend" => "enum_send".into(),
        "typsubscript" | "typmodin" | "typmodout" | "typanalyze" => "-".into(),
        "typalign" => "i".into(),
        "typstorage" => "p".into(),
        "typtypmod" => "-1".into(),
        _ => return None,
    })
}

/// The same of the row of a composite type. Its relation has the number of the type.
fn row_field(context: &Context<'_>, of: CompositeType, name: &str) -> Option<String> {
    let what = of.description();
    Some(match name {
        "oid" | "typrelid" => oid(of.id()).to_string(),
        "typname" => what.name.clone(),
        "typnamespace" => schema_oid(context, &what.schema).to_string(),
        "typowner" => context.catalog.roles.owner_of(&Object::Relation(of.id())).0.to_string(),
        "typlen" | "typtypmod" => "-1".into(),
        "typisdefined" => "true".into(),
        "typbyval" | "typispreferred" | "typnotnull" => "false".into(),
        "typtype" => "c".into(),
        "typcategory" => "C".into(),
        "typdelim" => ",".into(),
        "typarray" | "typelem" | "typbasetype" | "typndims" | "typcollation" => "0".into(),
        "typinput" => "record_in".into(),
        "typoutput" => "record_out".into(),
        "typreceive" => "record_recv".into(),
        "typsend" => "record_send".into(),
        "typsubscript" | "typmodin" | "typmodout" | "typanalyze" => "-".into(),
        "typalign" => "d".into(),
        "typstorage" => "x".into(),
        _ => return None,
    })
}

/// The same of the row of the type's arrays.
fn array_field(context: &Context<'_>, of: EnumType, name: &str) -> Option<String> {
    Some(match name {
        "oid" => array_oid(oid(of.id())).to_string(),
        "typname" => format!("_{}", of.description().name),
        "typlen" => "-1".into(),
        "typbyval" => "false".into(),
        "typtype" => "b".into(),
        "typcategory" => "A".into(),
        "typelem" => oid(of.id()).to_string(),
        "typarray" => "0".into(),
        "typinput" => "array_in".into(),
        "typoutput" => "array_out".into(),
        "typreceive" => "array_recv".into(),
        "typsend" => "array_send".into(),
        "typsubscript" => "array_subscript_handler".into(),
        "typanalyze" => "array_typanalyze".into(),
        "typstorage" => "x".into(),
        name => return type_field(context, of, name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_ids_of_labels_are_integers_whatever_the_types_id() {
        for id in [0, 1, TYPES as u32 - 1, TYPES as u32, 4_000_000, u32::MAX] {
            for nth in [0, LABELS_MAX - 1] {
                let number = label_oid(TableId(id), nth);
                assert!((FIRST_LABEL..=i64::from(i32::MAX)).contains(&number), "{number} of {id}");
            }
        }
        assert!(label_oid(TableId(7), LABELS_MAX - 1) < label_oid(TableId(8), 0));
    }
}
