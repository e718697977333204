//! Changes of tables with rows that come in several transactions, while others write: the first one concerns rows to come, then
//! the rows that are there are entered or looked at, and the last one says that they all were.

use super::{Ddl, DdlContext};
use ast::{AlterColumnOperation, AlterTableOperation as Operation, TableConstraint};
use base::TableId;
use base::expr::Expr;
use base::schema::{Check, Index, SchemaAction, Table};
use sqlparser::ast;

/// What follows a change.
#[derive(Clone, Debug)]
pub enum Later {
    /// The rows of its table are entered into an index.
    Index(Building),
    /// The rows of a table are held against a check.
    Check(Checking),
}

/// An index that comes into the catalog before the rows of its table come into it.
#[derive(Clone, Debug)]
pub struct Building {
    pub id: TableId,
    pub name: String,
    /// It keeps what expressions compute, so that rows have to be written with that. Any other may as well be filled
    /// when it comes into the catalog.
    pub is_computed: bool,
}

/// A check that comes into the catalog before the rows of its table are held against it.
#[derive(Clone, Debug)]
pub struct Checking {
    pub table: TableId,
    pub name: String,
    /// Was the check not there before, it goes again should a row not keep it.
    pub is_new: bool,
    /// The check stands for this column's NOT NULL until its rows are known to keep it.
    pub not_null: Option<usize>,
}

impl Later {
    /// The table whose rows it is about, and whether it can be done with the change itself.
    fn concerns(&self, table: &Table) -> bool {
        match self {
            Later::Index(building) => table.indexes.iter().any(|index| index.id == building.id),
            Later::Check(checking) => table.id == checking.table,
        }
    }
    /// A table's description once all of it is done.
    fn done_in(&self, mut table: Table) -> Table {
        match self {
            Later::Index(building) => {
                let made = table.indexes.iter_mut().filter(|index| index.id == building.id);
                made.for_each(|index| index.form.is_building = false);
            }
            Later::Check(checking) if table.id == checking.table => {
                checking.end(&mut table);
                let named = table.checks_mut().filter(|check| check.name == checking.name);
                named.for_each(|check| check.is_validated = true);
            }
            Later::Check(_) => {}
        }
        table
    }
}

impl Ddl {
    /// The table, as it is described by the first transaction, whose rows may be entered or looked at later, or else with
    /// this change.
    pub fn may_follow(&self) -> Option<&Table> {
        let later = self.later.as_ref().filter(|later| match later {
            Later::Index(building) => !building.is_computed,
            Later::Check(_) => true,
        })?;
        self.actions.iter().find_map(|action| match action {
            SchemaAction::AlterTable(table) if later.concerns(table) => Some(table),
            _ => None,
        })
    }

    /// The same with what would follow done by the change itself.
    pub fn at_once(self) -> Ddl {
        let Ddl { actions, later, .. } = self;
        let done = |action| match (action, &later) {
            (SchemaAction::AlterTable(table), Some(later)) => SchemaAction::AlterTable(later.done_in(table)),
            (action, _) => action,
        };
        Ddl { actions: actions.into_iter().map(done).collect(), later: None, ..self }
    }
}

impl Checking {
    /// What becomes of the table's description once its rows keep the check, beside that the check is validated.
    pub fn end(&self, table: &mut Table) {
        if let Some(column) = self.not_null {
            self.remove(table);
            super::alter_table::set_not_null(table, column, true);
        }
    }
    /// Takes the check away.
    pub fn remove(&self, table: &mut Table) {
        table.drop_checks(|check| check.name == self.name);
    }
    /// The check, as a table has it.
    pub fn check<'t>(&self, table: &'t Table) -> Option<&'t Check> {
        table.checks.iter().find(|check| check.name == self.name)
    }
}

impl DdlContext<'_> {
    /// Marks an index that was just added as one that is built later, if its rows decide for themselves who is in it.
    pub(super) fn begin_build(&self, table: &Table, next: &mut Table) -> Option<Later> {
        let is_computed = next.columns.len() > table.columns.len();
        let made: &mut Index = super::indexes::indexes_mut(next).last()?;
        if !self.is_alone || !table.index_is_local(made, self.topology) {
            return None;
        }
        made.form.is_building = true;
        Some(Later::Index(Building { id: made.id, name: made.name.clone(), is_computed }))
    }

    /// Of an ALTER TABLE that does one thing, what may follow it; `next` becomes what the first transaction makes.
    pub(super) fn follows(&self, table: &Table, next: &mut Table, operations: &[Operation]) -> Option<Later> {
        let [operation] = operations else { return None };
        if !self.is_alone {
            return None;
        }
        let check = |name: &str, is_new, not_null| {
            Later::Check(Checking { table: table.id, name: name.into(), is_new, not_null })
        };
        match operation {
            Operation::AddConstraint { constraint: TableConstraint::Unique(_), .. }
                if next.indexes.len() == table.indexes.len() + 1 && next.columns == table.columns =>
            {
                self.begin_build(table, next)
            }
            Operation::AddConstraint { constraint: TableConstraint::Check(_), not_valid: false }
                if next.checks.len() == table.checks.len() + 1 =>
            {
                let added = next.checks_mut().last()?;
                added.is_validated = false;
                Some(check(&added.name, true, None))
            }
            Operation::ValidateConstraint { name } => {
                let name = crate::names::fold(name);
                let was_validated = |check: &Check| check.name == name && check.is_validated;
                if table.checks.iter().any(was_validated) {
                    return None;
                }
                let named = next.checks_mut().find(|check| check.name == name)?;
                named.is_validated = false;
                Some(check(&name, false, None))
            }
            Operation::AlterColumn { op: AlterColumnOperation::SetNotNull, column_name } => {
                let column = next.column_named(&crate::names::fold(column_name))?;
                if table.columns[column].not_null {
                    return None;
                }
                let taken: Vec<String> = next.checks.iter().map(|check| check.name.clone()).collect();
                let parts: [&str; 3] = [&next.name, &next.columns[column].name, "not_null"];
                let name = self.free_name(&next.schema, parts, &taken);
                let sql = format!("{} IS NOT NULL", next.columns[column].name);
                super::alter_table::set_not_null(next, column, false);
                let expr = Expr::is_not_null(column);
                next.add_check(Check { name: name.clone(), sql, expr, is_validated: false });
                Some(check(&name, true, Some(column)))
            }
            _ => None,
        }
    }
}
