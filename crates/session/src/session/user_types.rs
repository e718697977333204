//! Types that users have made, as a session's statements name them and its client knows them.

use super::Session;
use base::schema::Catalog;
use sql::types::ParameterType;

impl Session {
    /// A parameter's type, with the labels that it has by now if users have made it.
    pub fn type_now(&mut self, parameter: ParameterType) -> ParameterType {
        if parameter.data_type.made_id().is_none() {
            return parameter;
        }
        self.look_up_catalog();
        let data_type = sql::user_types::now(&self.catalog(), parameter.data_type);
        ParameterType { data_type, ..parameter }
    }

    /// The type of a parameter that a client has declared by the object id of an array of a type that a user made.
    pub fn made_array(&mut self, oid: u32) -> Option<ParameterType> {
        let element = sql::types::element_oid(oid)?.checked_sub(sql::types::FIRST_OID)?;
        self.look_up_catalog();
        let of = self.catalog().types.enums.get(&base::TableId(element)).copied()?;
        Some(ParameterType { is_array: true, ..base::DataType::Enum(of).into() })
    }

    /// Reads a part of a statement where names of the catalog's types are known.
    pub(super) fn knowing_types<T>(&self, catalog: &Catalog, work: impl FnOnce() -> T) -> T {
        sql::user_types::within(catalog, &self.settings.search_path, work)
    }
}
