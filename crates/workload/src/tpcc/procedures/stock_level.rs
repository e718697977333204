//! StockLevel (clause 2.8): `CALL stock_level(w, d, threshold)` counts the items of the district's last 20
//! orders that run low. Reads only.

use super::*;
use crate::tpcc::tables::{district, order_line, stock};
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess};
use std::collections::BTreeSet;

/// Orders it looks back at.
const ORDERS: i64 = 20;

pub struct StockLevel;

impl Procedure for StockLevel {
    fn name(&self) -> &'static str {
        "stock_level"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![("w", INT), ("d", INT), ("threshold", INT)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("low_stock", DataType::BigInt)]
    }

    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let (w, d) = (int_arg(args, 0, "w")?, int_arg(args, 1, "d")?);
        int_arg(args, 2, "threshold")?;
        let tables = [
            known(catalog, Known::District)?,
            known(catalog, Known::OrderLine)?,
            known(catalog, Known::Stock)?,
        ];
        let home = placed(&tables, w, topology)?;
        let [district, order_line, stock] = tables;
        let mut access = AccessSet::default();
        declare_rows(&mut access, home, district, &[w, d], AccessMode::Read);
        declare_rows(&mut access, home, order_line, &[w, d], AccessMode::Read);
        declare_rows(&mut access, home, stock, &[w], AccessMode::Read);
        access.normalize();
        Ok(access)
    }

    /// The answer.
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        let (w, d) = (int_arg(args, 0, "w")?, int_arg(args, 1, "d")?);
        let threshold = int_arg(args, 2, "threshold")?;
        let table = |name: &str| context.catalog.require(name);
        let row = rows.get(table("district")?.id, &key(&[w, d]));
        let next = row.ok_or_else(|| not_found("district", &[w, d]))?.get(district::D_NEXT_O_ID).int();
        let recent = KeyRange { low: key(&[w, d, next - ORDERS]), high: Some(key(&[w, d, next])) };
        let mut items = BTreeSet::new();
        rows.scan(table("order_line")?.id, &recent, false, &mut |_, row| {
            items.insert(row.get(order_line::OL_I_ID).int());
            true
        });
        let stocks = table("stock")?.id;
        let is_low = |item: &&i64| {
            let row = rows.get(stocks, &key(&[w, **item]));
            row.is_some_and(|row| row.get(stock::S_QUANTITY).int() < threshold)
        };
        Ok(vec![Datum::Int(items.iter().filter(is_low).count() as i64)])
    }

    fn apply(
        &self,
        _: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        _: &mut dyn RowAccess,
    ) -> Vec<Row> {
        vec![Row::of(&exchange[&context.partition])]
    }
}
