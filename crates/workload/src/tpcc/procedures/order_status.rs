//! OrderStatus (clause 2.6): `CALL order_status(w, d, c, c_last)`. Reads only.

use super::*;
use crate::tpcc::tables::{customer, orders};
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess};

pub struct OrderStatus;

/// The index by which a customer's orders are found, if the table has it.
fn customer_index(table: &Table) -> Option<&Index> {
    use orders::*;
    table.indexes.iter().find(|index| index.columns.starts_with(&[O_W_ID, O_D_ID, O_C_ID, O_ID]))
}

impl Procedure for OrderStatus {
    fn name(&self) -> &'static str {
        "order_status"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![("w", INT), ("d", INT), ("c", INT), ("c_last", DataType::Text)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        let balance = DataType::Numeric { precision: 12, scale: 2 };
        vec![("c_id", INT), ("c_balance", balance), ("o_id", INT), ("lines", INT)]
    }

    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let (w, d, who) = (int_arg(args, 0, "w")?, int_arg(args, 1, "d")?, customer_arg(args, 2)?);
        let tables = [
            known(catalog, Known::Customer)?,
            known(catalog, Known::Orders)?,
            known(catalog, Known::OrderLine)?,
        ];
        let home = placed(&tables, w, topology)?;
        let [customer, orders, order_line] = tables;
        let mut access = AccessSet::default();
        declare_customer(&mut access, home, customer, (w, d), &who, &[]);
        declare_rows(&mut access, home, orders, &[w, d], AccessMode::Read);
        if let Some(index) = customer_index(orders) {
            // The customer may not be known yet: all of the district's.
            let range = KeyRange::prefix(key(&[w, d]));
            access.add(home, Granule::Range(index.id, range), AccessMode::Read);
        }
        declare_rows(&mut access, home, order_line, &[w, d], AccessMode::Read);
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
        let (w, d, who) = (int_arg(args, 0, "w")?, int_arg(args, 1, "d")?, customer_arg(args, 2)?);
        let table = |name: &str| context.catalog.require(name);
        let (_, found) = find_customer(rows, table("customer")?, (w, d), &who)?;
        let c = found.get(customer::C_ID).int();
        let mut last = None;
        let orders = table("orders")?;
        match customer_index(orders) {
            Some(index) => {
                let range = KeyRange::prefix(key(&[w, d, c]));
                rows.scan_index(index.id, &range, true, &mut |_, row| {
                    last = Some(row.get(orders::O_ID).int());
                    false
                });
            }
            None => rows.scan(orders.id, &KeyRange::prefix(key(&[w, d])), true, &mut |_, row| {
                if row.get(orders::O_C_ID).int() == c {
                    last = Some(row.get(orders::O_ID).int());
                }
                last.is_none()
            }),
        }
        let order = last.ok_or_else(|| not_found("an order of customer", &[w, d, c]))?;
        let mut lines = 0;
        let range = KeyRange::prefix(key(&[w, d, order]));
        rows.scan(table("order_line")?.id, &range, false, &mut |_, _| {
            lines += 1;
            true
        });
        Ok(vec![Datum::Int(c), found.get(customer::C_BALANCE), Datum::Int(order), Datum::Int(lines)])
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
