//! Compiled bodies, and what was found out about them.

use super::kinds::Kinds;
use crate::session::roles::PlannedFor;
use crate::session::{Prepared, Session};
use base::DataType;
use base::error::SqlResult;
use base::routines::Routine;
use base::schema::Catalog;
use plpgsql::{Program, Reference};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A compiled body, and what was found out about it.
pub(super) struct Compiled {
    pub program: Arc<Program>,
    /// `None`: of a DO.
    pub routine: Option<Arc<Routine>>,
    /// Kinds of its variables, for one version of the catalog.
    kinds: Mutex<Option<(Arc<Catalog>, Kinds)>>,
    /// Its statements as they were planned last.
    bound: Mutex<BTreeMap<usize, Arc<Bound>>>,
}

/// A statement as it was planned last.
pub(super) struct Bound {
    pub catalog: Arc<Catalog>,
    pub planned_for: PlannedFor,
    pub types: Vec<DataType>,
    pub references: Vec<Reference>,
    /// It does not depend on which fields a record has, nor on values.
    pub is_kept: bool,
    pub prepared: Arc<Prepared>,
}

impl Compiled {
    pub fn new(program: Arc<Program>, routine: Option<Arc<Routine>>) -> Arc<Compiled> {
        let (kinds, bound) = (Mutex::new(None), Mutex::new(BTreeMap::new()));
        Arc::new(Compiled { program, routine, kinds, bound })
    }

    /// Kinds of its variables and of its result. Errors: 42704, 42P01 and 42703 for what a declaration names in vain.
    pub fn kinds(&self, session: &Session) -> SqlResult<Kinds> {
        let catalog = session.catalog();
        let mut known = self.kinds.lock().expect("looking types up does not panic");
        if let Some((of, kinds)) = known.as_ref()
            && Arc::ptr_eq(of, &catalog)
        {
            return Ok(kinds.clone());
        }
        let found = session.kinds(&catalog, &self.program, self.routine.as_deref())?;
        *known = Some((catalog, found.clone()));
        Ok(found)
    }

    /// A statement as it was planned last.
    pub fn bound(&self, statement: usize) -> Option<Arc<Bound>> {
        self.bound.lock().expect("no panic while it is held").get(&statement).cloned()
    }

    pub fn keep_bound(&self, statement: usize, bound: &Arc<Bound>) {
        self.bound.lock().expect("no panic while it is held").insert(statement, bound.clone());
    }
}
