//! Functions and procedures in the catalog.

use super::{Catalog, stale_schema};
use crate::error::SqlResult;
use crate::routines::{Routine, TypeOf};
use crate::{DataType, TableId};
use std::sync::Arc;

impl Catalog {
    /// Errors: 40001 if another routine has taken name and argument types meanwhile.
    pub(crate) fn put_routine(&mut self, routine: &Routine) -> SqlResult<()> {
        let types: Vec<TypeOf> = routine.types().collect();
        let other = self.routines.exact(&routine.schema, &routine.name, &types);
        if other.is_some_and(|other| other.id != routine.id) {
            return Err(stale_schema());
        }
        self.claim(routine.id);
        Arc::make_mut(&mut self.routines).0.insert(routine.id, Arc::new(routine.clone()));
        Ok(())
    }

    pub(crate) fn drop_routine(&mut self, id: TableId) -> SqlResult<()> {
        Arc::make_mut(&mut self.routines).0.remove(&id).ok_or_else(stale_schema)?;
        self.forget_rights(id);
        Ok(())
    }

    /// Describes anew the routines whose signatures have a type.
    pub(crate) fn retype_routines(&mut self, of: DataType) {
        let has_it = |routine: &Routine| routine.all_types().any(|t| t.data_type.has(of));
        if self.routines.0.values().any(|routine| has_it(routine)) {
            let routines = Arc::make_mut(&mut self.routines);
            for routine in routines.0.values_mut().filter(|routine| has_it(routine)) {
                *routine = Arc::new(routine.retyped(of));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Catalog, SchemaAction, SchemaChange};
    use crate::enumeration::{EnumType, Enumeration, Position};
    use crate::error::SqlResult;
    use crate::routines::{Estimates, Form, Language, Parallel, Parameter, ResultOf, Routine, Volatility};
    use crate::{DataType, TableId};

    fn routine(id: u32, types: &[DataType]) -> Routine {
        let parameter = |of: &DataType| Parameter { name: None, of: (*of).into(), default: None };
        Routine {
            id: TableId(id),
            schema: "public".into(),
            name: "f".into(),
            parameters: types.iter().map(parameter).collect(),
            result: ResultOf::One(DataType::Integer.into()),
            language: Language::Sql,
            volatility: Volatility::Volatile,
            is_strict: false,
            is_leakproof: false,
            parallel: Parallel::Unsafe,
            estimates: Estimates::default(),
            body: "SELECT 1".into(),
            is_standard: false,
            is_definer: false,
            form: Form::Plain,
            is_variadic: false,
        }
    }

    fn change(catalog: &mut Catalog, actions: Vec<SchemaAction>) -> SqlResult<()> {
        catalog.apply(&SchemaChange { database: Default::default(), base_version: catalog.version, actions })
    }

    #[test]
    fn a_name_is_taken_with_its_argument_types() {
        let mut catalog = Catalog::default();
        let put = |id, types: &[DataType]| SchemaAction::PutRoutine(routine(id, types));
        change(&mut catalog, vec![put(1, &[DataType::Integer]), put(2, &[DataType::Text])]).unwrap();
        assert!(change(&mut catalog, vec![put(3, &[DataType::Text])]).is_err());
        let exact = |catalog: &Catalog, of: DataType| {
            catalog.routines.exact("public", "f", &[of.into()]).map(|routine| routine.id)
        };
        assert_eq!(exact(&catalog, DataType::Text), Some(TableId(2)));
        change(&mut catalog, vec![SchemaAction::DropRoutine(TableId(2))]).unwrap();
        assert_eq!(exact(&catalog, DataType::Text), None);
        assert_eq!(catalog.next_id, 3);
        assert!(change(&mut catalog, vec![SchemaAction::DropRoutine(TableId(2))]).is_err());
    }

    #[test]
    fn a_signature_knows_the_labels_that_its_type_has_now() {
        let mut catalog = Catalog::default();
        let mut mood =
            Enumeration::new(TableId(1), "public".into(), "mood".into(), vec!["sad".into()]).unwrap();
        let of = EnumType::of(mood.clone());
        let actions =
            vec![SchemaAction::PutEnum(of), SchemaAction::PutRoutine(routine(2, &[DataType::Enum(of)]))];
        change(&mut catalog, actions).unwrap();
        mood.add("glad", Position::End).unwrap();
        change(&mut catalog, vec![SchemaAction::PutEnum(EnumType::of(mood))]).unwrap();
        let known = catalog.routines.0[&TableId(2)].parameters[0].of.data_type.enumeration().unwrap();
        assert!(known.description().has("glad"));
    }
}
