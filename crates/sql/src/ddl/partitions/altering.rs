//! ALTER TABLE of one partition: its name, and the constraints that it has of its own. Its table keeps these, for the
//! partition's rows alone.

use super::WRONG_KIND;
use super::own::{Condition, check_within};
use crate::ddl::create_table::{key_columns, put_check, refuse_deferred};
use crate::ddl::foreign_keys::has_constraint;
use crate::ddl::indexes::{drop_indexes, sweep};
use crate::ddl::{Ddl, DdlContext};
use crate::names;
use crate::names::quoted;
use crate::partitions::{self, Tree};
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::identifier::first_free;
use base::partitioning::Bound;
use base::schema::foreign::OfPartition;
use base::schema::{Index, SchemaAction, Table};
use base::views::{Relation, View};
use sqlparser::ast::{self, AlterTableOperation as Operation, Statement, TableConstraint};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A partition with the table that has its rows.
struct Altered<'a> {
    view: &'a Arc<View>,
    root: &'a Arc<Table>,
    /// Which of the table's rows are the partition's, as SQL text.
    text: String,
    condition: Condition,
    /// Those of the table's other partitions.
    others: Vec<Condition>,
}

impl Altered<'_> {
    /// Errors: 0A000 for the default partition.
    fn refuse_default(&self, what: &str) -> SqlResult<()> {
        match self.view.partition.as_ref().map(|of| &of.bound) {
            Some(Bound::Default) => Err(SqlError::unsupported(format!("{what} of the default partition alone"))
                .hint("Its rows become fewer with each new partition; give the constraint to the partitioned table.")),
            _ => Ok(()),
        }
    }

    fn has_own(&self, table: &Table, name: &str) -> bool {
        let id = self.view.shape.id;
        table.foreign.own.iter().any(|key| key.name == name && key.partition_id() == Some(id))
            || table.checks.iter().any(|check| check.name == name && self.condition.is_of(check))
            || self.own_unique(table, name).is_some()
    }

    /// The index of a unique constraint.
    fn own_unique<'t>(&self, table: &'t Table, name: &str) -> Option<&'t Index> {
        let is_it = |index: &&Index| index.unique && index.name == name && self.condition.is_of_index(index);
        table.indexes.iter().find(is_it)
    }

    fn missing(&self, name: &str) -> SqlError {
        let told = format!("constraint \"{name}\" of relation \"{}\" does not exist", self.view.shape.name);
        SqlError::new(SqlState::UNDEFINED_OBJECT, told)
    }

    /// Whether a constraint of the table is one of another partition alone.
    fn is_of_other(&self, table: &Table, name: &str) -> bool {
        let of_others = |is_it: &dyn Fn(&Condition) -> bool| self.others.iter().any(is_it);
        table.foreign.own.iter().any(|key| key.name == name && key.partition.is_some())
            || table.checks.iter().any(|check| check.name == name && of_others(&|of| of.is_of(check)))
            || table.indexes.iter().any(|index| index.name == name && of_others(&|of| of.is_of_index(index)))
    }
}

impl DdlContext<'_> {
    /// ALTER TABLE of a partition; `None` if the name is that of something else. Errors: 0A000 for what is a matter of
    /// the partitioned table.
    pub(in crate::ddl) fn alter_partition(&self, alter: &ast::AlterTable) -> SqlResult<Option<Ddl>> {
        let found = names::find_relation(self.catalog, self.search_path, self.database, &alter.name);
        let Some(Relation::View(view)) = found else { return Ok(None) };
        let Some(root) = partitions::root(self.catalog, view.shape.id).filter(|_| view.partition.is_some())
        else {
            return Ok(None);
        };
        self.refuse_only(&view.shape, alter)?;
        let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
        match alter.operations.as_slice() {
            [Operation::RenameTable { table_name }] => {
                ddl.actions.push(self.rename_partition(view, table_name)?);
                return Ok(Some(ddl));
            }
            [Operation::AddConstraint { constraint: TableConstraint::Unique(key), .. }]
                if !has_already(root, &alter.operations[0]) =>
            {
                return self.add_own_unique(view, key).map(Some);
            }
            _ => {}
        }
        let tree = Tree::within(self.catalog, root);
        let text = tree.condition(view.shape.id);
        let condition = Condition::of(&text)?;
        let others = tree.ids().filter(|id| *id != view.shape.id);
        let others = others.map(|id| Condition::of(&tree.condition(id))).collect::<SqlResult<_>>()?;
        let altered = Altered { view, root, text, condition, others };
        let mut next = root.as_ref().clone();
        for operation in &alter.operations {
            self.alter_own(&altered, &mut next, operation, &mut ddl)?;
        }
        if next != **root {
            ddl.later = self.follows(root, &mut next, &alter.operations);
            ddl.actions.push(SchemaAction::AlterTable(next));
        }
        Ok(Some(ddl))
    }

    /// Whether a table has a foreign key or a check of this name for the rows of one of its partitions alone.
    pub(in crate::ddl) fn is_of_partition(&self, table: &Table, name: &str) -> SqlResult<bool> {
        if let Some(key) = table.foreign.own.iter().find(|key| key.name == name) {
            return Ok(key.partition.is_some());
        }
        let check = table.checks.iter().find(|check| check.name == name);
        let Some(check) = check.filter(|_| table.partitioning.is_some()) else { return Ok(false) };
        let tree = Tree::within(self.catalog, table);
        for id in tree.ids() {
            if Condition::of(&tree.condition(id))?.is_of(check) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Errors: 42P16, 42809 for a change of ONLY a partitioned relation that its partitions would have to follow.
    pub(in crate::ddl) fn refuse_only(&self, shape: &Table, alter: &ast::AlterTable) -> SqlResult<()> {
        if !alter.only || shape.partitioning.is_none() {
            return Ok(());
        }
        let has_partitions = !partitions::children(self.catalog, shape.id).is_empty();
        for operation in &alter.operations {
            if let Operation::AddConstraint { constraint: TableConstraint::ForeignKey(key), .. } = operation {
                let parent = names::parts(&key.foreign_table)?.pop().unwrap_or_default();
                let told = format!(
                    "cannot use ONLY for foreign key on partitioned table \"{}\" referencing relation \"{parent}\"",
                    shape.name
                );
                return Err(SqlError::new(WRONG_KIND, told));
            }
            if let Some(told) = only_here(shape, operation).filter(|_| has_partitions) {
                let error = SqlError::new(SqlState::INVALID_TABLE_DEFINITION, &told);
                let hints = told.starts_with("cannot");
                return Err(if hints { error.hint("Do not specify the ONLY keyword.") } else { error });
            }
        }
        Ok(())
    }

    /// Errors: 42P07; 0A000 for a partition that a view reads.
    fn rename_partition(&self, view: &View, name: &ast::RenameTableNameKind) -> SqlResult<SchemaAction> {
        let (ast::RenameTableNameKind::To(name) | ast::RenameTableNameKind::As(name)) = name;
        let (schema, name) = self.renamed(&view.shape.schema, &view.shape.name, name)?;
        if let Some(reader) = self.readers(view.shape.id).next() {
            let what = format!("renaming table {} that {} reads", view.shape.name, self.called(reader));
            return Err(SqlError::unsupported(what).hint("Drop the view, rename, and create it again."));
        }
        let shape = Table { schema, name, ..view.shape.as_ref().clone() };
        Ok(SchemaAction::PutView(View { shape: Arc::new(shape), ..view.clone() }))
    }

    fn alter_own(
        &self,
        altered: &Altered<'_>,
        next: &mut Table,
        operation: &Operation,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        match operation {
            Operation::AddConstraint { constraint: TableConstraint::ForeignKey(key), not_valid } => {
                self.add_own_key(altered, next, key, !not_valid)
            }
            Operation::AddConstraint { constraint: TableConstraint::Check(check), not_valid } => {
                self.add_own_check(altered, next, check, !not_valid)
            }
            Operation::ValidateConstraint { name } => validate(altered, next, &names::fold(name)),
            Operation::DropConstraint { if_exists, name, .. } => {
                let name = names::fold(name);
                if altered.has_own(next, &name) {
                    drop_own(altered, next, &name);
                    return Ok(());
                }
                if has_constraint(next, &name) && !altered.is_of_other(next, &name) {
                    let relation = &altered.view.shape.name;
                    let told =
                        format!("cannot drop inherited constraint \"{name}\" of relation \"{relation}\"");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, told));
                }
                let missing = altered.missing(&name);
                if !if_exists {
                    return Err(missing);
                }
                ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", missing.message));
                Ok(())
            }
            // What says nothing of rows.
            Operation::RenameColumn { old_column_name, new_column_name }
                if crate::parse::stays(old_column_name, new_column_name).is_some() =>
            {
                Ok(())
            }
            Operation::SetOptionsParens { options }
                if crate::parse::said_options(options)
                    .iter()
                    .all(|(name, _)| crate::parse::is_physical(name)) =>
            {
                Ok(())
            }
            operation if has_already(altered.root, operation) => Ok(()),
            _ => {
                let told = format!("this ALTER TABLE of the partition \"{}\"", altered.view.shape.name);
                Err(SqlError::unsupported(told)
                    .hint("Columns, defaults and primary keys are those of the partitioned table; change them there."))
            }
        }
    }

    /// Errors: 42710 for a name that the partition has already, 0A000 for one that another partition has, and those of any
    /// foreign key.
    fn add_own_key(
        &self,
        altered: &Altered<'_>,
        next: &mut Table,
        key: &ast::ForeignKeyConstraint,
        is_validated: bool,
    ) -> SqlResult<()> {
        let name = match &key.name {
            Some(name) => names::fold(name),
            None => {
                let words: Vec<String> = key.columns.iter().map(names::fold).collect();
                let words = words.join("_");
                first_free([&altered.view.shape.name, &words, "fkey"], |name| !has_constraint(next, name))
            }
        };
        refuse_taken(altered, next, &name)?;
        let key = ast::ForeignKeyConstraint { name: Some(quoted(&name)), ..key.clone() };
        self.add_foreign_key(next, &key, is_validated)?;
        let condition = self.lowered_condition(altered.root, &altered.text)?;
        if let Some(made) = next.foreign_keys_mut().find(|key| key.name == name) {
            made.partition = Some(OfPartition { id: altered.view.shape.id, condition });
        }
        Ok(())
    }

    /// Errors: 0A000 for the default partition, 42710, and those of its expression.
    fn add_own_check(
        &self,
        altered: &Altered<'_>,
        next: &mut Table,
        check: &ast::CheckConstraint,
        is_validated: bool,
    ) -> SqlResult<()> {
        altered.refuse_default("a check")?;
        let name = match &check.name {
            Some(name) => names::fold(name),
            None => {
                let mut columns = BTreeSet::new();
                self.check(next, String::new(), &check.expr)?.expr.walk(&mut |e| {
                    if let Expr::Column(column) = e {
                        columns.insert(*column);
                    }
                });
                let column = match columns.first() {
                    Some(column) if columns.len() == 1 => next.columns[*column].name.as_str(),
                    _ => "",
                };
                first_free([&altered.view.shape.name, column, "check"], |name| !has_constraint(next, name))
            }
        };
        refuse_taken(altered, next, &name)?;
        let own = check_within(&altered.text, &check.expr.to_string())?;
        put_check(self, next, Some(name.clone()), &own)?;
        if let Some(made) = next.checks_mut().find(|check| check.name == name) {
            made.is_validated = is_validated;
        }
        Ok(())
    }

    /// A unique constraint of one partition is a unique index of its rows. Errors: 0A000 for the default partition.
    fn add_own_unique(&self, view: &View, key: &ast::UniqueConstraint) -> SqlResult<Ddl> {
        refuse_deferred(key.characteristics.as_ref())?;
        let columns: Vec<String> = key.columns.iter().map(ToString::to_string).collect();
        let name = match &key.name {
            Some(name) => names::fold(name),
            None => {
                let words: Vec<String> = key.columns.iter().map(|c| folded(&c.column.expr)).collect();
                let words = words.join("_");
                self.free_name(&view.shape.schema, [&view.shape.name, &words, "key"], &[])
            }
        };
        let included = crate::parse::included(&key.index_options);
        let included: Vec<String> = included.iter().map(ToString::to_string).collect();
        let include = match included.as_slice() {
            [] => String::new(),
            names => format!(" INCLUDE ({})", names.join(", ")),
        };
        let nulls = match key.nulls_distinct {
            ast::NullsDistinctOption::NotDistinct => " NULLS NOT DISTINCT",
            _ => "",
        };
        let text = format!(
            "CREATE UNIQUE INDEX {} ON {}.{} ({}){include}{nulls}",
            quoted(&name),
            quoted(&view.shape.schema),
            quoted(&view.shape.name),
            columns.join(", ")
        );
        let Some(Statement::CreateIndex(create)) = crate::parse::parse(&text)?.pop() else {
            return Err(SqlError::internal("this text creates an index"));
        };
        Ok(Ddl { tag: "ALTER TABLE", ..self.create_index(&create)? })
    }
}

/// What is told of a change that cannot be one of a partitioned relation without its partitions.
fn only_here(shape: &Table, operation: &Operation) -> Option<String> {
    use ast::AlterColumnOperation as OfColumn;
    Some(match operation {
        Operation::AddColumn { .. } => "column must be added to child tables too".into(),
        Operation::AddConstraint { constraint: TableConstraint::Check(_), .. } => {
            "constraint must be added to child tables too".into()
        }
        Operation::DropColumn { .. } => {
            "cannot drop column from only the partitioned table when partitions exist".into()
        }
        Operation::RenameColumn { old_column_name: name, new_column_name }
            if crate::parse::stays(name, new_column_name).is_none() =>
        {
            format!("inherited column \"{}\" must be renamed in child tables too", names::fold(name))
        }
        Operation::RenameConstraint { old_name, .. }
            if shape.checks.iter().any(|check| check.name == names::fold(old_name)) =>
        {
            format!("inherited constraint \"{}\" must be renamed in child tables too", names::fold(old_name))
        }
        Operation::DropConstraint { .. } | Operation::AlterColumn { op: OfColumn::DropNotNull, .. } => {
            "cannot remove constraint from only the partitioned table when partitions exist".into()
        }
        Operation::AlterColumn { column_name, op: OfColumn::SetDataType { .. } } => {
            format!(
                "type of inherited column \"{}\" must be changed in child tables too",
                names::fold(column_name)
            )
        }
        _ => return None,
    })
}

/// A column's name in the names of what is made of it.
fn folded(e: &ast::Expr) -> String {
    match e {
        ast::Expr::Identifier(name) => names::fold(name),
        other => other.to_string(),
    }
}

/// Errors: 42710, 0A000.
fn refuse_taken(altered: &Altered<'_>, table: &Table, name: &str) -> SqlResult<()> {
    if altered.has_own(table, name) || has_constraint(table, name) && !altered.is_of_other(table, name) {
        let relation = &altered.view.shape.name;
        let told = format!("constraint \"{name}\" for relation \"{relation}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, told));
    }
    if has_constraint(table, name) {
        return Err(SqlError::unsupported(format!("a constraint \"{name}\" of several partitions"))
            .hint("Give each partition's constraint a name of its own."));
    }
    Ok(())
}

/// Errors: 42704; 0A000 for a constraint of the partitioned table that is not valid.
fn validate(altered: &Altered<'_>, next: &mut Table, name: &str) -> SqlResult<()> {
    let is_own = altered.has_own(next, name);
    if !has_constraint(next, name) || !is_own && altered.is_of_other(next, name) {
        return Err(altered.missing(name));
    }
    let is_validated = next.checks.iter().filter(|check| check.name == name).all(|check| check.is_validated)
        && next.foreign.own.iter().filter(|key| key.name == name).all(|key| key.is_validated);
    if is_validated {
        return Ok(());
    }
    if !is_own {
        return Err(SqlError::unsupported("VALIDATE CONSTRAINT of one partition")
            .hint("Validate the constraint of the partitioned table."));
    }
    next.foreign_keys_mut().filter(|key| key.name == name).for_each(|key| key.is_validated = true);
    next.checks_mut().filter(|check| check.name == name).for_each(|check| check.is_validated = true);
    Ok(())
}

fn drop_own(altered: &Altered<'_>, next: &mut Table, name: &str) {
    next.drop_foreign_keys(|key| key.name == name);
    if next.checks.iter().any(|check| check.name == name) {
        next.drop_checks(|check| check.name == name);
    }
    if let Some(id) = altered.own_unique(next, name).map(|index| index.id) {
        drop_indexes(next, |index| index.id == id);
        sweep(next);
    }
}

/// Whether a table has what an operation would give to one of its partitions: a key, or a column without nulls. Then the
/// partition has it too.
fn has_already(root: &Table, operation: &Operation) -> bool {
    if let Operation::AlterColumn { column_name, op: ast::AlterColumnOperation::SetNotNull {} } = operation {
        let column = root.column_named(&names::fold(column_name)).map(|column| &root.columns[column]);
        return column.is_some_and(|column| !column.hidden && column.not_null);
    }
    let Operation::AddConstraint { constraint, .. } = operation else { return false };
    let columns = match constraint {
        TableConstraint::PrimaryKey(key) => &key.columns,
        TableConstraint::Unique(key) => &key.columns,
        _ => return false,
    };
    let Ok(columns) = key_columns(root, columns) else { return false };
    let is_key = root.primary_key == columns;
    match constraint {
        TableConstraint::PrimaryKey(_) => is_key,
        _ => is_key || root.indexes.iter().any(|index| index.unique && index.columns == columns),
    }
}
