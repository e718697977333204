//! Partitions where rows are written: the condition that makes a row one of a partition.

use super::expr::{ExprLowering, Typed};
use super::scope::Scope;
use super::{Lowered, Lowering, Refusal};
use crate::partitions::Tree;
use base::error::{SqlError, SqlResult};
use base::expr::{Expr, Function};
use base::schema::{Catalog, Check, Table};
use base::views::Relation;
use base::{DataType, TableId};
use sqlparser::ast::{self, ObjectName};
use std::sync::Arc;

impl Lowering<'_> {
    /// Which of a table's rows a partition has.
    pub fn partition_condition(&mut self, catalog: &Catalog, root: &Table, id: TableId) -> SqlResult<Expr> {
        let parsed = crate::parse::parse_expr(&Tree::within(catalog, root).condition(id))?;
        let scope = Scope::table(root, None);
        let mut exprs = self.exprs(&scope);
        exprs.is_assignment = true;
        let lowered = exprs.condition(&parsed, "CHECK");
        lowered
            .map_err(|r: Refusal| r.or(|| SqlError::internal(format!("the partition's condition {parsed}"))))
    }

    /// The table that COPY writes to: of a partition, that which has its rows, with the partition's name and condition.
    pub fn copied_table(&mut self, name: &ObjectName) -> SqlResult<Arc<Table>> {
        let catalog = self.catalog;
        let found = crate::names::find_relation(catalog, self.search_path, self.database, name);
        let Some(Relation::View(view)) = found else { return self.table(name) };
        let Some(root) = crate::partitions::root(catalog, view.shape.id) else { return self.table(name) };
        let expr = self.partition_condition(catalog, root, view.shape.id)?;
        let (schema, name) = (view.shape.schema.clone(), view.shape.name.clone());
        let mut table = Table { schema, name, partitioning: None, ..root.as_ref().clone() };
        table.drop_checks(Check::is_of_partitions);
        table.add_check(Check { name: String::new(), sql: String::new(), expr, is_validated: false });
        Ok(Arc::new(table))
    }
}

impl ExprLowering<'_> {
    /// A call of [`base::partitioning::hash::FUNCTION`]: a modulus, a remainder and keys. A whole number has the same hash in
    /// types of all widths, so keys need no casts.
    pub(super) fn in_hash_partition(&mut self, arguments: &[&ast::Expr]) -> Lowered<Typed> {
        let [modulus, remainder, keys @ ..] = arguments else { return Err(Refusal::TooRich) };
        let mut lowered = vec![self.integer(modulus)?, self.integer(remainder)?];
        for key in keys {
            lowered.push(self.lower(key)?.expr);
        }
        Ok(Typed::known(Expr::Call(Function::HashPartition, lowered), DataType::Boolean))
    }
}
