//! ON CONFLICT: what it looks at, and what it does.

use super::super::computed_keys::ComputedKeys;
use super::super::generated::Generated;
use super::super::scope::Scope;
use super::super::{Lowered, Lowering, Refusal, bind, keys};
use crate::names;
use crate::parse::inference;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Identity, Index, Table};
use base::txn::OnConflict;
use base::{SqlError, TableId};
use sqlparser::ast;
use std::collections::BTreeSet;

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
            Some(ast::ConflictTarget::Columns(columns)) => Some(self.inferred(table, alias, columns)?),
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let name = names::parts(name)?.pop().expect("a name has a part");
                if name == table.primary_key_name {
                    Some(table.id)
                } else {
                    let found = table.indexes.iter().find(|i| i.constraint && i.name == name);
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

    /// The unique constraint that a list of columns and expressions with a condition means. Errors: 42703, 42P10.
    fn inferred(&mut self, table: &Table, alias: Option<&str>, columns: &[ast::Ident]) -> Lowered<TableId> {
        let inference = inference(columns)?;
        let generated = self.computed_keys(table)?;
        let scope = Scope::table(table, alias);
        let mut wanted = Wanted::default();
        for element in &inference.elements {
            if let ast::Expr::Identifier(column) = element {
                let name = names::fold(column);
                let is_shown = |at: &usize| !table.columns[*at].hidden;
                wanted.columns.insert(table.column_named(&name).filter(is_shown).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                })?);
                continue;
            }
            let lowered = self.exprs(&scope).lower(element).map_err(|refusal| refusal.or(none_matches))?;
            wanted.expressions.push(generated.over_others(&lowered.expr, table));
        }
        if let Some(predicate) = &inference.predicate {
            let lowered = self.exprs(&scope).condition(predicate, "WHERE");
            let lowered = lowered.map_err(|refusal| refusal.or(none_matches))?;
            wanted.conditions = keys::conjuncts(Some(&generated.over_others(&lowered, table)));
        }
        Ok(arbiter(table, &generated, &wanted)?)
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
        let mut given = BTreeSet::new();
        if let Some((twice, _)) = set.iter().find(|(column, _)| !given.insert(*column)) {
            let name = &table.columns[*twice].name;
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).into());
        }
        Ok(set)
    }
}

/// What ON CONFLICT says of the index that it means.
#[derive(Default)]
struct Wanted {
    columns: BTreeSet<usize>,
    expressions: Vec<Expr>,
    /// Hold of all rows that it is about.
    conditions: Vec<Expr>,
}

impl Wanted {
    /// Whether a unique index is over exactly these keys, and about all rows that are meant.
    fn is_met_by(&self, index: &Index, generated: &Generated) -> bool {
        let computed = ComputedKeys::of(index, generated);
        let is_plain = |column: &&usize| index.expression(**column).is_none();
        let columns: BTreeSet<usize> = index.keys().iter().filter(is_plain).copied().collect();
        let named: Option<BTreeSet<usize>> = self.expressions.iter().map(|e| computed.column_of(e)).collect();
        let kept: BTreeSet<usize> = computed.expressions.iter().map(|(column, _)| *column).collect();
        columns == self.columns && named == Some(kept) && computed.covers(&self.conditions)
    }
}

/// The unique constraint that is meant: the primary key (as the table's own id) or an index; one over all rows before one
/// over some of them. Errors: 42P10.
fn arbiter(table: &Table, generated: &Generated, wanted: &Wanted) -> SqlResult<TableId> {
    let is_key = wanted.expressions.is_empty()
        && wanted.columns == table.primary_key.iter().copied().collect::<BTreeSet<usize>>();
    if is_key {
        return Ok(table.id);
    }
    let unique = table.indexes.iter().filter(|index| index.unique && !index.form.is_building);
    let met = unique.filter(|index| wanted.is_met_by(index, generated));
    met.min_by_key(|index| index.form.predicate.is_some()).map(|index| index.id).ok_or_else(none_matches)
}

fn none_matches() -> SqlError {
    SqlError::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
    )
}
