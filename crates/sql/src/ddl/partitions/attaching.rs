//! ATTACH PARTITION and DETACH PARTITION: a table's rows become those of a partition, and back.

use super::own::{Condition, check_within};
use super::{Parent, PartitionRows, WRONG_KIND};
use crate::ddl::create_table::{create_table, put_check};
use crate::ddl::foreign_keys::{has_constraint, with_columns};
use crate::ddl::{Ddl, DdlContext};
use crate::names::quoted;
use crate::partitions;
use base::TableId;
use base::comments::Commented;
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::identifier::first_free;
use base::partitioning::{Bound, PartitionKey, Partitioning};
use base::roles::{Object, Rights, RoleChange, RoleId};
use base::schema::foreign::OfPartition;
use base::schema::{Catalog, Column, ForeignKey, Identity, Index, SchemaAction, Table};
use base::views::{Relation, View};
use sqlparser::ast::{ForValues, ObjectName, Statement};
use std::collections::BTreeMap;
use std::sync::Arc;

impl DdlContext<'_> {
    /// Errors: 42804 for columns that are not the parent's, 0A000 for a table with something that a partition cannot have,
    /// 42501, and those of a new partition.
    pub(super) fn attach(
        &self,
        name: &ObjectName,
        parent: &ObjectName,
        values: &ForValues,
    ) -> SqlResult<Ddl> {
        let parent = self.parent(parent)?;
        let child = self.find_table(name)?;
        self.check_owner(&Object::Relation(child.id))?;
        super::refuse_mixture("attach", &child.schema, parent.shape)?;
        self.refuse_attached(&parent, child)?;
        let columns = same_columns(child, parent.root, &parent.shape.name)?;
        let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
        // Who reads the table goes on reading it.
        let id = child.id;
        let named = (id, child.schema.clone(), child.name.clone());
        let divides = child.partitioning.as_ref().map(|of| moved_keys(of, &columns)).transpose()?;
        let view = self.new_partition(&parent, named, values, divides)?;
        self.keep_free(&parent, &view, &mut ddl)?;
        let condition = self.condition_with(parent.root, &view)?;
        let mut next = self.with_checks_of(child, &parent, &view)?;
        self.add_indexes_of(child, &parent, &view, &columns, &mut next)?;
        add_keys_of(child, &view, &columns, &condition, &mut next);
        if next != **parent.root {
            ddl.actions.push(SchemaAction::AlterTable(next));
        }
        ddl.actions.push(SchemaAction::DropTable(child.id));
        ddl.actions.push(SchemaAction::PutView(view));
        for below in partitions::below(self.catalog, child.id) {
            let mut moved = below.as_ref().clone();
            if let Some(divides) = &below.shape.partitioning {
                let partitioning = Some(Arc::new(moved_keys(divides, &columns)?));
                moved.shape = Arc::new(Table { partitioning, ..below.shape.as_ref().clone() });
            }
            ddl.actions.push(SchemaAction::PutView(moved));
        }
        let shown: Vec<usize> = parent.root.visible_columns().map(|(number, _)| number).collect();
        let place = |to: &usize| shown.iter().position(|number| number == to);
        let places = columns.iter().filter_map(|(from, to)| Some((*from, place(to)?))).collect();
        ddl.actions.extend(self.handed_over(child.id, id, &places));
        for reader in self.readers(id) {
            let mut reader = reader.as_ref().clone();
            if let Some(read) = reader.uses.get_mut(&id) {
                *read = read.iter().filter_map(|column| places.get(column)).copied().collect();
            }
            ddl.actions.push(SchemaAction::PutView(reader));
        }
        let (from, to) = (child.clone(), parent.root.id);
        ddl.partition_rows.push(PartitionRows::Attached { from, to, columns, condition });
        Ok(ddl)
    }

    /// Owner, privileges and comments of a relation for the one that takes its place, whose columns have other numbers.
    fn handed_over(&self, from: TableId, to: TableId, columns: &BTreeMap<usize, usize>) -> Vec<SchemaAction> {
        let moved = |object: &Object| match object {
            Object::Relation(id) if *id == from => Some(Object::Relation(to)),
            Object::Column(id, column) if *id == from => {
                columns.get(&(*column as usize)).map(|column| Object::Column(to, *column as u32))
            }
            _ => None,
        };
        let roles = self.roles();
        let owner = roles.owners.get(&Object::Relation(from));
        let owner = owner.map(|role| RoleChange::SetOwner(Object::Relation(to), *role));
        let rights = roles.rights.iter().filter_map(|(object, all)| Some((moved(object)?, all)));
        let rights = rights.flat_map(|(object, all)| {
            let set = move |(role, rights): (&RoleId, &Rights)| {
                RoleChange::SetRights(object.clone(), *role, *rights)
            };
            all.iter().map(set)
        });
        let mut actions: Vec<SchemaAction> =
            owner.into_iter().chain(rights).map(SchemaAction::Roles).collect();
        let own = |what: &Commented| match what {
            Commented::Object(object @ (Object::Relation(id) | Object::Column(id, _))) if *id == from => {
                Some(object.clone())
            }
            _ => None,
        };
        let comments = self.catalog.comments.0.iter();
        let comments: Vec<_> = comments.filter_map(|(what, text)| Some((own(what)?, text))).collect();
        for (object, _) in &comments {
            actions.push(SchemaAction::Comment(Commented::Object(object.clone()), None));
        }
        for (object, text) in comments {
            let moved = moved(&object).map(Commented::Object);
            actions.extend(moved.map(|what| SchemaAction::Comment(what, Some(text.clone()))));
        }
        actions
    }

    fn refuse_attached(&self, parent: &Parent<'_>, child: &Arc<Table>) -> SqlResult<()> {
        let root = parent.root;
        if crate::materialized::is_one(self.catalog, child.id) {
            return Err(SqlError::new(WRONG_KIND, format!("\"{}\" is not a table", child.name)));
        }
        let name = |columns: &[usize], of: &Table| -> Vec<String> {
            columns.iter().map(|column| of.columns[*column].name.clone()).collect()
        };
        let own_key = child.primary_key.iter().all(|column| !child.columns[*column].hidden);
        let what = match () {
            () if child.id == root.id => "attaching a table to itself",
            () if own_key && name(&child.primary_key, child) != name(&root.primary_key, root) => {
                "attaching a table whose primary key is not that of the partitioned table"
            }
            () if self.catalog.referencing(child).next().is_some() => {
                "attaching a table that foreign keys reference"
            }
            () if child.triggers.all().next().is_some() => "attaching a table with triggers",
            () if self.catalog.sequences.values().any(|s| s.owner.is_some_and(|(of, _)| of == child.id)) => {
                "attaching a table that owns a sequence"
            }
            () if child.visible_columns().any(|(_, column)| is_stricter(column, root)) => {
                "attaching a table with a NOT NULL that the partitioned table has not"
            }
            () => return Ok(()),
        };
        Err(SqlError::unsupported(what)
            .hint("Keys, indexes and triggers are those of the partitioned table; drop the table's own."))
    }

    /// The partitioned table with the checks of a table whose rows it gets, each for these rows.
    fn with_checks_of(&self, child: &Table, parent: &Parent<'_>, view: &View) -> SqlResult<Table> {
        let is_known =
            |sql: &String| parent.root.declared_checks().any(|check| check.is_validated && check.sql == *sql);
        let own: Vec<_> = child.declared_checks().filter(|check| !is_known(&check.sql)).collect();
        if own.is_empty() {
            return Ok(parent.root.as_ref().clone());
        }
        if view.partition.as_ref().is_some_and(|of| of.bound == Bound::Default) {
            let told = "attaching a table with checks of its own as the default partition";
            return Err(SqlError::unsupported(told)
                .hint("Its rows become fewer with each new partition; drop the checks first."));
        }
        let known = self.catalog.views.values().map(Arc::as_ref);
        let condition = partitions::Tree::of(parent.root, known.chain([view])).condition(view.shape.id);
        let mut next = parent.root.as_ref().clone();
        for check in own {
            let e = check_within(&condition, &check.sql)?;
            // Another partition may have one of its name.
            let is_free = next.checks.iter().all(|other| other.name != check.name);
            put_check(self, &mut next, is_free.then(|| check.name.clone()), &e)?;
        }
        Ok(next)
    }

    /// The partitioned table gets the indexes of an attached one that it has not, for the rows of the partition alone: other rows
    /// have nulls in the columns that such an index computes. Errors: 42P07 for a name that is taken, 0A000.
    fn add_indexes_of(
        &self,
        child: &Table,
        parent: &Parent<'_>,
        view: &View,
        columns: &[(usize, usize)],
        next: &mut Table,
    ) -> SqlResult<()> {
        let missing: Vec<&Index> =
            child.indexes.iter().filter(|index| !has_index(parent.root, child, index)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let refused = match () {
            () if child.partitioning.is_some() => {
                "attaching a partitioned table with an index that the other has not"
            }
            () if view.partition.as_ref().is_some_and(|of| of.bound == Bound::Default) => {
                "attaching a table with an index of its own as the default partition"
            }
            () => "",
        };
        if !refused.is_empty() {
            return Err(SqlError::unsupported(refused)
                .hint("Create the index on the partitioned table, or drop it first."));
        }
        let known = self.catalog.views.values().map(Arc::as_ref);
        let condition = partitions::Tree::of(parent.root, known.chain([view])).condition(view.shape.id);
        let condition = crate::parse::parse_expr(&condition)?;
        let to = |column: usize| columns.iter().find(|(from, _)| *from == column).map(|(_, to)| *to);
        let mut next_id = self.catalog.next_id;
        for index in missing {
            if next.schema != child.schema && self.relation_exists(&next.schema, &index.name) {
                let told = format!("relation \"{}\" already exists", index.name);
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
            }
            let Some(mut declared) = self.copied_index(index, to)? else {
                return Err(SqlError::internal("all columns are those of the partitioned table"));
            };
            declared.narrow(&condition)?;
            self.put_index(next, declared, Some(index.name.clone()), &mut next_id)?;
        }
        Ok(())
    }

    /// Errors: 42P01 for what is no partition of the parent, 0A000.
    pub(in crate::ddl) fn detach(&self, parent: &ObjectName, name: &ObjectName) -> SqlResult<Ddl> {
        let parent = self.parent(parent)?;
        let found = self.find_relation(name)?;
        let is_its =
            |view: &Arc<View>| view.partition.as_ref().is_some_and(|of| of.parent == parent.shape.id);
        let view = match found {
            Relation::View(view) if is_its(view) => view,
            other => {
                let (child, parent) = (&other.shape().name, &parent.shape.name);
                let told = format!("relation \"{child}\" is not a partition of relation \"{parent}\"");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, told));
            }
        };
        self.check_owner(&Object::Relation(parent.shape.id))?;
        if view.shape.partitioning.is_some() {
            return Err(SqlError::unsupported("detaching a partition that is partitioned itself"));
        }
        let mut made = self.table_like(parent.root, view)?;
        let Some(SchemaAction::CreateTable(table)) = made.actions.first_mut() else {
            return Err(SqlError::internal("a table that was not made"));
        };
        let columns = same_columns(parent.root, table, &parent.shape.name)?;
        // Those of partitions that it is in are keys of its rows too.
        let within = partitions::upwards(self.catalog, view.shape.id);
        let is_its = |key: &&ForeignKey| key.partition_id().is_none_or(|id| within.contains(&id));
        for key in parent.root.foreign.own.iter().filter(is_its) {
            if let Some(key) = with_columns(key, &columns) {
                table.add_foreign_key(ForeignKey { partition: None, ..key });
            }
        }
        let tree = partitions::Tree::within(self.catalog, parent.root);
        let condition = self.lowered_condition(parent.root, &tree.condition(view.shape.id))?;
        let (from, to) = (parent.root.id, table.id);
        let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
        let places = columns.iter().enumerate().map(|(place, (_, to))| (place, *to)).collect();
        let handed_over = self.handed_over(view.shape.id, table.id, &places);
        ddl.actions.push(SchemaAction::DropView(view.shape.id));
        ddl.actions.extend(made.actions);
        ddl.actions.extend(handed_over);
        ddl.partition_rows.push(PartitionRows::Detached { from, to, columns, condition });
        Ok(ddl)
    }

    /// A table with a partition's name that has what the partitioned table has, but for identity columns and foreign keys.
    fn table_like(&self, root: &Table, view: &View) -> SqlResult<Ddl> {
        let text = format!(
            "CREATE TABLE {}.{} (LIKE {}.{} INCLUDING ALL EXCLUDING IDENTITY)",
            quoted(&view.shape.schema),
            quoted(&view.shape.name),
            quoted(&root.schema),
            quoted(&root.name)
        );
        let Some(Statement::CreateTable(create)) = crate::parse::parse(&text)?.pop() else {
            return Err(SqlError::internal("this text creates a table"));
        };
        // The partition's name is free behind the change, and what it has of its own, and what those have that it is in,
        // holds for all rows of the table.
        let mut catalog = Catalog::clone(self.catalog);
        catalog.views.remove(&view.shape.id);
        let (tree, mut like) = (partitions::Tree::within(self.catalog, root), root.clone());
        let within = partitions::upwards(self.catalog, view.shape.id);
        Condition::of(&tree.condition(view.shape.id))?.spread_over(&mut like);
        for id in tree.ids().filter(|id| !within.contains(id)) {
            Condition::of(&tree.condition(id))?.take_from(&mut like);
        }
        for id in within.iter().skip(1) {
            Condition::of(&tree.condition(*id))?.spread_over(&mut like);
        }
        catalog.tables.insert(like.id, Arc::new(like));
        create_table(&DdlContext { catalog: &Arc::new(catalog), ..*self }, &create)
    }
}

/// Whether a partitioned table has an index that serves as well as one of a table that is attached.
fn has_index(root: &Table, child: &Table, index: &Index) -> bool {
    let names = |columns: &[usize], of: &Table| -> Vec<String> {
        columns.iter().map(|column| of.columns[*column].name.clone()).collect()
    };
    let is_plain = index.form.expressions.is_empty() && index.form.predicate.is_none();
    let keys = names(index.keys(), child);
    let is_same = |other: &Index| {
        let is_of_all = other.form.predicate.is_none() && other.form.expressions.is_empty();
        is_of_all && names(other.keys(), root) == keys && (other.unique || !index.unique)
    };
    is_plain && (names(&root.primary_key, root) == keys || root.indexes.iter().any(is_same))
}

/// Adds the foreign keys of a table whose rows a partitioned table gets, each for these rows, but for those that it has
/// already. `condition`: which rows these are.
fn add_keys_of(child: &Table, view: &View, columns: &[(usize, usize)], condition: &Expr, next: &mut Table) {
    for key in child.foreign.own.iter().filter_map(|key| with_columns(key, columns)) {
        let is_same = |own: &ForeignKey| {
            own.partition.is_none()
                && (own.table, &own.columns, &own.referenced) == (key.table, &key.columns, &key.referenced)
                && (&own.on_update, &own.on_delete) == (&key.on_update, &key.on_delete)
                && (own.is_full, own.timing) == (key.is_full, key.timing)
        };
        if next.foreign.own.iter().any(is_same) {
            continue;
        }
        let words: Vec<&str> = key.columns.iter().map(|at| next.columns[*at].name.as_str()).collect();
        // Another partition may have one of its name.
        let name = match has_constraint(next, &key.name) {
            true => {
                first_free([&view.shape.name, &words.join("_"), "fkey"], |name| !has_constraint(next, name))
            }
            false => key.name.clone(),
        };
        // One of a partition that the table has stays that one's.
        let id = key.partition_id().unwrap_or(view.shape.id);
        let partition = Some(OfPartition { id, condition: condition.clone() });
        next.add_foreign_key(ForeignKey { name, partition, ..key });
    }
}

/// Whether a column takes no nulls where the one of its name does.
fn is_stricter(column: &Column, root: &Table) -> bool {
    let same = root.column_named(&column.name).map(|number| &root.columns[number]);
    column.not_null && same.is_some_and(|same| !same.not_null)
}

/// How a table divides its rows, as the one does that gets them: columns have other numbers there.
fn moved_keys(of: &Partitioning, columns: &[(usize, usize)]) -> SqlResult<Partitioning> {
    let moved = |key: &PartitionKey| match key {
        PartitionKey::Column(column) => {
            let to = columns.iter().find(|(from, _)| from == column).map(|(_, to)| *to);
            to.map(PartitionKey::Column).ok_or_else(|| SqlError::internal("a partition key without a column"))
        }
        key => Ok(key.clone()),
    };
    let keys = of.keys.iter().map(moved).collect::<SqlResult<_>>()?;
    Ok(Partitioning { strategy: of.strategy, keys })
}

/// The columns of a table with those of the same names of another one. Errors: 42804 if one has others.
fn same_columns(from: &Table, to: &Table, parent: &str) -> SqlResult<Vec<(usize, usize)>> {
    let mismatch = |told: String| SqlError::new(SqlState::DATATYPE_MISMATCH, told);
    let mut columns = Vec::new();
    for (number, column) in from.visible_columns() {
        let found = to.visible_columns().find(|(_, other)| other.name == column.name);
        let Some((other, to_column)) = found else {
            let told = format!(
                "table \"{}\" contains column \"{}\" not found in parent \"{parent}\"",
                from.name, column.name
            );
            return Err(
                mismatch(told).detail("The new partition may contain only the columns present in parent.")
            );
        };
        if column.data_type != to_column.data_type {
            let told =
                format!("child table \"{}\" has different type for column \"{}\"", from.name, column.name);
            return Err(mismatch(told));
        }
        let is_generated = |column: &Column| column.identity == Identity::Generated;
        if is_generated(column) != is_generated(to_column) {
            let not = if is_generated(to_column) { "" } else { "not " };
            let told = format!("column \"{}\" in child table must {not}be a generated column", column.name);
            return Err(mismatch(told));
        }
        if to_column.not_null && !column.not_null {
            let told = format!("column \"{}\" in child table must be marked NOT NULL", column.name);
            return Err(mismatch(told));
        }
        columns.push((number, other));
    }
    let is_missing = |(number, _): &(usize, &Column)| columns.iter().all(|(_, to)| to != number);
    if let Some((_, column)) = to.visible_columns().find(is_missing) {
        return Err(mismatch(format!("child table is missing column \"{}\"", column.name)));
    }
    Ok(columns)
}
