//! The types that users have made, for the statement that a thread plans.
//!
//! A type's name can stand wherever a type can, so reading names asks here, as it asks [`crate::zones`] for the session's
//! zone. Planning sets it; what is planned holds the types themselves ([`base::enumeration::EnumType`]). A query
//! over columns that waits for parameters is optimized once they are there, and keeps the types until then ([`Kept`]).

use base::composite::CompositeType;
use base::domain::Domain;
use base::enumeration::EnumType;
use base::error::SqlResult;
use base::schema::Catalog;
use base::user_types::UserTypes;
use base::{DataType, Datum, SqlError, SqlState, TableId};
use std::cell::RefCell;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Known {
    types: Arc<UserTypes>,
    search_path: Arc<[String]>,
}

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// Plans something over a catalog's types.
pub fn within<T>(catalog: &Catalog, search_path: &[String], work: impl FnOnce() -> T) -> T {
    // Most databases have none, and nobody asks them for one.
    let known = (!catalog.types.is_empty())
        .then(|| Known { types: catalog.types.clone(), search_path: search_path.into() });
    knowing(known, work)
}

fn knowing<T>(known: Option<Known>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Known>);
    impl Drop for Back {
        fn drop(&mut self) {
            KNOWN.set(self.0.take());
        }
    }
    let _back = Back(KNOWN.replace(known));
    work()
}

/// The types that a thread knew when something was planned, for what is computed of the plan later.
#[derive(Clone, Debug, Default)]
pub struct Kept(Option<Known>);

impl Kept {
    /// The calling thread's.
    pub fn here() -> Kept {
        Kept(KNOWN.with_borrow(Clone::clone))
    }
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        knowing(self.0.clone(), work)
    }
}

/// Work that knows the calling thread's types, whichever thread runs it.
pub(crate) fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let known = KNOWN.with_borrow(Clone::clone);
    move || knowing(known, work)
}

/// The type of a name, along the search path if it has no schema.
pub(crate) fn named(schema: Option<&str>, name: &str) -> Option<DataType> {
    KNOWN.with_borrow(|known| {
        let known = known.as_ref()?;
        let within = |schema: &str| {
            let row = || known.types.composite_named(schema, name).map(DataType::Composite);
            known.types.named(schema, name).map(DataType::Enum).or_else(row)
        };
        match schema {
            Some(schema) => within(schema),
            None => known.search_path.iter().find_map(|schema| within(schema)),
        }
    })
}

/// The domain of a name, along the search path if it has no schema.
pub(crate) fn domain_named(schema: Option<&str>, name: &str) -> Option<Arc<Domain>> {
    KNOWN.with_borrow(|known| {
        let known = known.as_ref()?;
        let within = |schema: &str| known.types.domain_named(schema, name);
        let found = match schema {
            Some(schema) => within(schema),
            None => known.search_path.iter().find_map(|schema| within(schema)),
        };
        found.cloned()
    })
}

/// The domain of an id.
pub fn domain_of(id: TableId) -> Option<Arc<Domain>> {
    KNOWN.with_borrow(|known| known.as_ref()?.types.domains.get(&id).cloned())
}

/// Whether the thread knows any.
pub(crate) fn has_some() -> bool {
    KNOWN.with_borrow(Option::is_some)
}

/// A type as a catalog describes it; itself if it is none of the catalog's.
pub fn now(catalog: &Catalog, data_type: DataType) -> DataType {
    let made = data_type.made_id().and_then(|id| catalog.types.made(id));
    made.map_or(data_type, |made| data_type.retyped(made))
}

/// The composite type of an id; one without attributes where the thread knows none.
pub fn composite_of(id: TableId) -> CompositeType {
    let known = KNOWN.with_borrow(|known| known.as_ref()?.types.composites.get(&id).copied());
    known.unwrap_or_else(|| CompositeType::unknown(id))
}

/// The type of an id; one without labels where the thread knows none.
pub fn enum_of(id: TableId) -> EnumType {
    let known = KNOWN.with_borrow(|known| known.as_ref()?.types.enums.get(&id).copied());
    known.unwrap_or_else(|| EnumType::unknown(id))
}

/// What `enum_first`, `enum_last` and `enum_range` give of a type, of labels between two codes; `None` is no bound. Errors:
/// 55000 for a type without labels.
pub fn labels(function: &str, of: EnumType, [from, to]: [Option<i64>; 2]) -> SqlResult<Datum> {
    let is_within = |code: &i64| from.is_none_or(|from| from <= *code) && to.is_none_or(|to| *code <= to);
    let mut codes = of.description().labels.iter().map(|label| label.code).filter(is_within);
    let one = match function {
        "enum_range" => return Ok(Datum::Array(codes.map(Datum::Int).collect())),
        "enum_first" => codes.next(),
        _ => codes.next_back(),
    };
    one.map(Datum::Int)
        .ok_or_else(|| SqlError::new(SqlState(*b"55000"), format!("enum {} contains no values", of.name())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::enumeration::Enumeration;

    #[test]
    fn a_name_is_found_along_the_search_path() {
        let mut catalog = Catalog::default();
        let of = |id, schema: &str| {
            let labels = vec![format!("of {schema}")];
            EnumType::of(Enumeration::new(TableId(id), schema.into(), "mood".into(), labels).unwrap())
        };
        let types = Arc::make_mut(&mut catalog.types);
        types.enums = [of(7, "public"), of(8, "other")].into_iter().map(|e| (e.id(), e)).collect();
        let path = ["other".to_string(), "public".to_string()];
        let found = |schema| named(schema, "mood").and_then(DataType::made_id);
        within(&catalog, &path, || {
            assert_eq!(found(None), Some(TableId(8)));
            assert_eq!(found(Some("public")), Some(TableId(7)));
            assert_eq!(enum_of(TableId(7)).description().labels[0].text, "of public");
            assert_eq!(carried(|| found(None))(), Some(TableId(8)));
            within(&Catalog::default(), &path, || assert_eq!(found(None), None));
        });
        assert_eq!(found(None), None);
        assert!(enum_of(TableId(7)).description().labels.is_empty());
    }
}
