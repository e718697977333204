//! Partitioned tables: new partitions, ATTACH, DETACH, and what a change of a table means for its partitions.
//!
//! The rows of all partitions are those of one table ([`base::partitioning`]). KEEPS: behind every planned change the
//! table's own check takes in the rows of exactly the partitions that there then are, and the view of each shows the columns
//! that the table then has ([`DdlContext::with_partitions`], the one place that writes either).

mod altering;
mod attaching;
mod bounds;
mod following;
mod own;

use super::{Ddl, DdlContext};
use crate::names;
use crate::partitions;
use crate::temporary::is_temporary;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::partitioning::{Bound, Partition, Partitioning};
use base::roles::Object;
use base::schema::{SchemaAction, Table};
use base::views::{CheckOption, Relation, View};
use sqlparser::ast::{self, ObjectName};
use std::sync::Arc;

/// Another kind of relation than is wanted.
const WRONG_KIND: SqlState = SqlState(*b"42809");

/// Rows that a change of partitions has to do with, in its own transaction.
#[derive(Debug)]
pub enum PartitionRows {
    /// None of a table's rows, which are the default partition's, may be one of a new partition.
    Free { of: TableId, condition: Expr, default: String },
    /// All rows of a table go into a partitioned one: those of each column into another. None may break the condition,
    /// which is over the partitioned table.
    Attached { from: Arc<Table>, to: TableId, columns: Vec<(usize, usize)>, condition: Expr },
    /// Rows of a partitioned table go into a table of their own.
    Detached { from: TableId, to: TableId, columns: Vec<(usize, usize)>, condition: Expr },
    /// Rows of a partitioned table are deleted.
    Dropped { from: TableId, condition: Expr },
}

/// A relation that is divided, with the table that has its rows.
pub(super) struct Parent<'a> {
    root: &'a Arc<Table>,
    shape: &'a Arc<Table>,
    divides: &'a Arc<Partitioning>,
}

impl DdlContext<'_> {
    /// Errors: 42P01, 42P17.
    fn parent(&self, name: &ObjectName) -> SqlResult<Parent<'_>> {
        let shape = self.find_relation(name)?.shape();
        let root = partitions::root(self.catalog, shape.id);
        match (root, &shape.partitioning) {
            (Some(root), Some(divides)) => Ok(Parent { root, shape, divides }),
            _ => {
                let told = format!("\"{}\" is not partitioned", shape.name);
                Err(SqlError::new(bounds::INVALID_OBJECT, told))
            }
        }
    }

    /// CREATE TABLE … PARTITION OF, and ATTACH PARTITION, which the parser writes like it.
    pub(super) fn create_partition(&self, create: &ast::CreateTable, of: &ObjectName) -> SqlResult<Ddl> {
        let Some(values) = &create.for_values else {
            return Err(SqlError::internal("a partition has a bound"));
        };
        if let Some(parent) = crate::parse::attached_to(of) {
            return self.attach(&create.name, &parent, values);
        }
        let refused = [
            (!create.columns.is_empty(), "columns in PARTITION OF"),
            (!create.constraints.is_empty(), "constraints in PARTITION OF"),
            (create.query.is_some() || create.like.is_some(), "this form of PARTITION OF"),
        ];
        if let Some((_, what)) = refused.into_iter().find(|(is_said, _)| *is_said) {
            return Err(SqlError::unsupported(what)
                .hint("Columns and constraints are those of the partitioned table; declare them there."));
        }
        let parent = self.parent(of)?;
        let mut ddl = Ddl { tag: "CREATE TABLE", ..Ddl::default() };
        let (schema, name) = self.new_name(&create.name, create.temporary)?;
        refuse_mixture("create", &schema, parent.shape)?;
        super::temporary::check_on_commit(&schema, create.on_commit.as_ref())?;
        if matches!(create.on_commit, Some(ast::OnCommit::Drop | ast::OnCommit::DeleteRows)) {
            return Err(SqlError::unsupported("ON COMMIT of a partition")
                .hint("Say it of the partitioned table: with ON COMMIT DROP its partitions go with it."));
        }
        if self.relation_exists(&schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if !create.if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            ddl.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok(ddl);
        }
        self.refuse_name_of_type(&schema, &name)?;
        let by = create.partition_by.as_deref();
        let divides = by.map(|by| self.partitioning(parent.root, by)).transpose()?;
        let id = TableId(self.catalog.next_id);
        let view = self.new_partition(&parent, (id, schema, name), values, divides)?;
        self.keep_free(&parent, &view, &mut ddl)?;
        ddl.actions.push(SchemaAction::PutView(view));
        Ok(ddl)
    }

    /// A partition before its columns and its query are known. Errors: 42501 for who does not own the parent, 42P16,
    /// 42P17.
    fn new_partition(
        &self,
        parent: &Parent<'_>,
        (id, schema, name): (TableId, String, String),
        values: &ast::ForValues,
        divides: Option<Partitioning>,
    ) -> SqlResult<View> {
        self.check_owner(&Object::Relation(parent.shape.id))?;
        let bound = self.bound(parent, &name, values)?;
        let others = partitions::children(self.catalog, parent.shape.id);
        let others: Vec<&View> = others.into_iter().map(Arc::as_ref).collect();
        bounds::refuse_overlap(&name, &bound, &others)?;
        let mut shape = View::shape(id, schema, name, Vec::new());
        shape.partitioning = divides.map(Arc::new);
        Ok(View {
            shape: Arc::new(shape),
            type_oids: Vec::new(),
            definition: String::new(),
            uses: Default::default(),
            check_option: CheckOption::Cascaded,
            partition: Some(Partition { parent: parent.shape.id, bound }),
            security: Default::default(),
        })
    }

    /// Rows of a default partition stay there, so a new partition may not be for any of them.
    fn keep_free(&self, parent: &Parent<'_>, view: &View, ddl: &mut Ddl) -> SqlResult<()> {
        let is_default =
            |other: &&Arc<View>| other.partition.as_ref().is_some_and(|of| of.bound == Bound::Default);
        let others = partitions::children(self.catalog, parent.shape.id);
        let Some(default) = others.into_iter().find(is_default) else { return Ok(()) };
        let condition = self.condition_with(parent.root, view)?;
        let default = default.shape.name.clone();
        ddl.partition_rows.push(PartitionRows::Free { of: parent.root.id, condition, default });
        Ok(())
    }

    /// Which of a table's rows a partition would have.
    fn condition_with(&self, root: &Table, view: &View) -> SqlResult<Expr> {
        let known =
            self.catalog.views.values().map(Arc::as_ref).filter(|known| known.shape.id != view.shape.id);
        let tree = partitions::Tree::of(root, known.chain([view]));
        self.lowered_condition(root, &tree.condition(view.shape.id))
    }

    fn lowered_condition(&self, root: &Table, condition: &str) -> SqlResult<Expr> {
        let parsed = crate::parse::parse_expr(condition)?;
        self.check(root, String::new(), &parsed).map(|check| check.expr)
    }

    /// If a name is that of a partition, the table that has its rows, and which of them are its. Errors: 0A000 for the
    /// default partition, whose rows become fewer with each new partition.
    pub(super) fn partition_named(&self, name: &ObjectName) -> SqlResult<Option<(&Arc<Table>, ast::Expr)>> {
        let found = names::find_relation(self.catalog, self.search_path, self.database, name);
        let Some(Relation::View(view)) = found else { return Ok(None) };
        let Some(partition) = &view.partition else { return Ok(None) };
        let Some(root) = partitions::root(self.catalog, view.shape.id) else { return Ok(None) };
        if partition.bound == Bound::Default {
            return Err(SqlError::unsupported("an index of the default partition alone")
                .hint("Create the index on the partitioned table."));
        }
        let condition = partitions::Tree::within(self.catalog, root).condition(view.shape.id);
        Ok(Some((root, crate::parse::parse_expr(&condition)?)))
    }

    /// DROP TABLE of a partition: the views go here, and the rows with them ([`Self::with_partitions`]).
    pub(super) fn drop_partition(&self, view: &View) -> Vec<SchemaAction> {
        let below = partitions::below(self.catalog, view.shape.id);
        let all = below.into_iter().rev().map(|view| view.shape.id).chain([view.shape.id]);
        all.map(SchemaAction::DropView).collect()
    }
}

impl DdlContext<'_> {
    /// Stored queries that read a relation.
    pub(super) fn readers(&self, id: TableId) -> impl Iterator<Item = &Arc<View>> {
        let reads = move |view: &&Arc<View>| view.partition.is_none() && view.uses.contains_key(&id);
        self.catalog.views.values().filter(reads)
    }
}

/// Errors: 42809 for a partition that is temporary where its table is not, and the other way round.
fn refuse_mixture(verb: &str, schema: &str, parent: &Table) -> SqlResult<()> {
    let (of, is) = match (is_temporary(&parent.schema), is_temporary(schema)) {
        (true, false) => ("temporary", "permanent"),
        (false, true) => ("permanent", "temporary"),
        _ => return Ok(()),
    };
    let told = format!("cannot {verb} a {is} relation as partition of {of} relation \"{}\"", parent.name);
    Err(SqlError::new(WRONG_KIND, told))
}
