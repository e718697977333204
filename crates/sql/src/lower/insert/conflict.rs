//! ON CONFLICT: what it looks at, and what it does.

use super::super::scope::Scope;
use super::super::{Lowered, Lowering, Refusal, bind};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Identity, Table};
use base::txn::OnConflict;
use base::{SqlError, TableId};
use sqlparser::ast;

impl Lowering<'_> {
    pub(super) fn on_conflict(
        &mut self,
        table: &Table,
        alias: Option<&str>,
        clause: &ast::OnConflict,
        computed: &mut Vec<ast::Expr>,
    ) -> Lowered<OnConflict> {
        let index = match &clause.conflict_target {
            None => None,
            Some(ast::ConflictTarget::Columns(columns)) => {
                let mut numbers = Vec::with_capacity(columns.len());
                for column in columns {
                    let name = names::fold(column);
                    numbers.push(table.column_named(&name).ok_or_else(|| {
                        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                    })?);
                }
                Some(arbiter(table, &numbers)?)
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let name = names::parts(name)?.pop().expect("a name has a part");
                if name == table.primary_key_name {
                    Some(table.id)
                } else {
                    let found = table.indexes.iter().find(|i| i.unique && i.name == name);
                    let missing = || {
                        SqlError::new(
                            SqlState::UNDEFINED_OBJECT,
                            format!("constraint \"{name}\" for table \"{}\" does not exist", table.name),
                        )
                    };
                    Some(found.ok_or_else(missing)?.id)
                }
            }
        };
        match &clause.action {
            ast::OnConflictAction::DoNothing => Ok(OnConflict::Nothing { index }),
            ast::OnConflictAction::DoUpdate(update) => {
                let Some(index) = index else {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                    )
                    .hint("For example, ON CONFLICT (column_name).")
                    .into());
                };
                let mut scope = Scope::table(table, alias);
                scope.add(table, "excluded", None, table.columns.len(), false);
                let declared = self.parameters.clone();
                let mut set = match self.assignments(&update.assignments, table, &scope) {
                    Err(Refusal::TooRich) => {
                        self.redeclare(declared.clone());
                        self.conflict_assignments(&update.assignments, table, &scope, computed)?
                    }
                    set => set?,
                };
                self.generated(table)?.follow(table, &mut set);
                let filter = match &update.selection {
                    None => None,
                    Some(e) => {
                        let declared = self.parameters.clone();
                        Some(match self.exprs(&scope).condition(e, "WHERE") {
                            Err(Refusal::TooRich) => {
                                self.redeclare(declared);
                                computed.push(e.clone());
                                bind::computed(computed.len() - 1)
                            }
                            condition => condition?,
                        })
                    }
                };
                Ok(OnConflict::Update { index, set, filter })
            }
        }
    }

    /// SET of ON CONFLICT where nodes do not know all of it.
    fn conflict_assignments(
        &mut self,
        assignments: &[ast::Assignment],
        table: &Table,
        scope: &Scope,
        computed: &mut Vec<ast::Expr>,
    ) -> Lowered<Vec<(usize, Expr)>> {
        let mut set = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            let declared = self.parameters.clone();
            match self.assignments(std::slice::from_ref(assignment), table, scope) {
                Err(Refusal::TooRich) => {
                    self.redeclare(declared);
                    let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
                        return Err(SqlError::unsupported("assigning several columns at once here").into());
                    };
                    let (number, column) = super::super::modify::assigned_column(table, name)?;
                    super::super::modify::refuse_generated(column, &assignment.value)?;
                    if column.identity == Identity::Generated {
                        continue;
                    }
                    computed.push(assignment.value.clone());
                    set.push((number, bind::computed(computed.len() - 1)));
                }
                lowered => set.extend(lowered?),
            }
        }
        let mut given = std::collections::BTreeSet::new();
        if let Some((twice, _)) = set.iter().find(|(column, _)| !given.insert(*column)) {
            let name = &table.columns[*twice].name;
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
        }
        Ok(set)
    }
}

/// The unique constraint over exactly these columns: the primary key (as the table's own id) or an index.
fn arbiter(table: &Table, columns: &[usize]) -> SqlResult<TableId> {
    let same = |key: &[usize]| key.len() == columns.len() && key.iter().all(|c| columns.contains(c));
    if same(&table.primary_key) {
        return Ok(table.id);
    }
    table.indexes.iter().find(|i| i.unique && same(&i.columns)).map(|i| i.id).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        )
    })
}
