//! Delivery (clause 2.7): `CALL delivery(w, carrier, delivered)` delivers the oldest new order of each of the
//! warehouse's districts.

use super::*;
use crate::tpcc::DISTRICTS;
use crate::tpcc::tables::{customer, order_line, orders};
use base::decimal::Decimal;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess};

pub struct Delivery;

const CUSTOMER_CHANGED: [usize; 2] = [customer::C_BALANCE, customer::C_DELIVERY_CNT];

impl Procedure for Delivery {
    fn name(&self) -> &'static str {
        "delivery"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        vec![("w", INT), ("carrier", INT), ("delivered", DataType::Timestamp)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("delivered", INT)]
    }

    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let w = int_arg(args, 0, "w")?;
        int_arg(args, 1, "carrier")?;
        time_arg(args, 2, "delivered")?;
        let tables = [
            known(catalog, Known::NewOrder)?,
            known(catalog, Known::Orders)?,
            known(catalog, Known::OrderLine)?,
            known(catalog, Known::Customer)?,
        ];
        let home = placed(&tables, w, topology)?;
        let [new_order, orders, order_line, customer] = tables;
        let mut access = AccessSet::default();
        declare_rows(&mut access, home, new_order, &[w], AccessMode::Write);
        declare_update(&mut access, home, orders, &[w], &[orders::O_CARRIER_ID]);
        declare_update(&mut access, home, order_line, &[w], &[order_line::OL_DELIVERY_D]);
        declare_update(&mut access, home, customer, &[w], &CUSTOMER_CHANGED);
        access.normalize();
        Ok(access)
    }

    /// For each district with a new order: district, order, customer, balance afterwards.
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        let w = int_arg(args, 0, "w")?;
        let table = |name: &str| context.catalog.require(name);
        let (new_order, orders) = (table("new_order")?, table("orders")?);
        let (order_line, customers) = (table("order_line")?, table("customer")?);
        let mut values = Vec::with_capacity(4 * DISTRICTS as usize);
        for d in 1..=i64::from(DISTRICTS) {
            let mut oldest = None;
            rows.scan(new_order.id, &KeyRange::prefix(key(&[w, d])), false, &mut |_, row| {
                oldest = Some(row.get(2).int());
                false
            });
            let Some(order) = oldest else { continue };
            let row = rows.get(orders.id, &key(&[w, d, order]));
            let c = row.ok_or_else(|| not_found("order", &[w, d, order]))?.get(orders::O_C_ID).int();
            let row = rows.get(customers.id, &key(&[w, d, c]));
            let customer = row.ok_or_else(|| not_found("customer", &[w, d, c]))?;
            let mut balance = Some(customer.get(customer::C_BALANCE).decimal());
            rows.scan(order_line.id, &KeyRange::prefix(key(&[w, d, order])), false, &mut |_, row| {
                let amount: Decimal = row.get(order_line::OL_AMOUNT).decimal();
                balance = balance.and_then(|sum| sum.checked_add(amount));
                true
            });
            let balance = balance.map_or(Datum::Null, Datum::from);
            let balance = fit(Known::Customer, customer::C_BALANCE, balance)?;
            values.extend([Datum::Int(d), Datum::Int(order), Datum::Int(c), balance]);
        }
        Ok(values)
    }

    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        let w = args[0].int();
        let table = |name: &str| &**context.catalog.require(name).expect("gathering found the same tables");
        let (new_order, orders) = (table("new_order"), table("orders"));
        let (order_line, customers) = (table("order_line"), table("customer"));
        let districts = exchange[&context.partition].chunks_exact(4);
        let delivered = districts.len() as i64;
        for found in districts {
            let [d, order, c] = [found[0].int(), found[1].int(), found[2].int()];
            let order_key = key(&[w, d, order]);
            rows.delete(new_order.id, &order_key);
            let row = rows.get(orders.id, &order_key).expect("gathering found the order");
            let row = row.with(&[(orders::O_CARRIER_ID, args[1].clone())]);
            rows.put(orders.id, order_key.clone(), row);
            let mut lines = Vec::new();
            rows.scan(order_line.id, &KeyRange::prefix(order_key), false, &mut |key, row| {
                lines.push((key.clone(), row.with(&[(order_line::OL_DELIVERY_D, args[2].clone())])));
                true
            });
            for (key, row) in lines {
                rows.put(order_line.id, key, row);
            }
            let key = key(&[w, d, c]);
            let row = rows.get(customers.id, &key).expect("gathering found the customer");
            let count = row.get(customer::C_DELIVERY_CNT).int() + 1;
            let changes =
                [(customer::C_BALANCE, found[3].clone()), (customer::C_DELIVERY_CNT, Datum::Int(count))];
            rows.put(customers.id, key, row.with(&changes));
        }
        vec![Row::of(&[Datum::Int(delivered)])]
    }
}
