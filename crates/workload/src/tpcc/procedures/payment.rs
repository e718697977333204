//! Payment (clause 2.5): `CALL payment(w, d, c_w, c_d, c, c_last, amount, history, paid)`; `c` counts only
//! where `c_last` is null, and `history` is the key of the new history row.

use super::*;
use crate::tpcc::tables::{customer, district, warehouse};
use base::decimal::Decimal;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess};

pub struct Payment;

struct Call<'a> {
    w: i64,
    d: i64,
    c_w: i64,
    c_d: i64,
    who: Customer<'a>,
    amount: Decimal,
    history: i64,
    paid: Datum,
}

impl Call<'_> {
    fn of(args: &[Datum]) -> SqlResult<Call<'_>> {
        let amount = match args.get(6) {
            Some(Datum::Decimal(amount)) if amount.units() > 0 => *amount,
            Some(Datum::Decimal(amount)) => {
                let message = format!("a payment is above 0, not {amount}");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            _ => return Err(null_argument("amount")),
        };
        Ok(Call {
            w: int_arg(args, 0, "w")?,
            d: int_arg(args, 1, "d")?,
            c_w: int_arg(args, 2, "c_w")?,
            c_d: int_arg(args, 3, "c_d")?,
            who: customer_arg(args, 4)?,
            amount,
            history: int_arg(args, 7, "history")?,
            paid: time_arg(args, 8, "paid")?,
        })
    }
}

const CUSTOMER_CHANGED: [usize; 4] =
    [customer::C_BALANCE, customer::C_YTD_PAYMENT, customer::C_PAYMENT_CNT, customer::C_DATA];

impl Procedure for Payment {
    fn name(&self) -> &'static str {
        "payment"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        let amount = DataType::Numeric { precision: 6, scale: 2 };
        let (text, time) = (DataType::Text, DataType::Timestamp);
        let customer = [("w", INT), ("d", INT), ("c_w", INT), ("c_d", INT), ("c", INT), ("c_last", text)];
        let payment = [("amount", amount), ("history", DataType::BigInt), ("paid", time)];
        customer.into_iter().chain(payment).collect()
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("c_id", INT), ("c_balance", DataType::Numeric { precision: 12, scale: 2 })]
    }

    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let call = Call::of(args)?;
        let of_warehouse = [
            known(catalog, Known::Warehouse)?,
            known(catalog, Known::District)?,
            known(catalog, Known::History)?,
        ];
        let home = placed(&of_warehouse, call.w, topology)?;
        let [warehouse, district, history] = of_warehouse;
        let customer = known(catalog, Known::Customer)?;
        let customers_home = placed(&[customer], call.c_w, topology)?;
        let mut access = AccessSet::default();
        declare_update(&mut access, home, warehouse, &[call.w], &[warehouse::W_YTD]);
        declare_update(&mut access, home, district, &[call.w, call.d], &[district::D_YTD]);
        declare_insert(&mut access, home, history, &[call.w, call.history]);
        let place = (call.c_w, call.c_d);
        declare_customer(&mut access, customers_home, customer, place, &call.who, &CUSTOMER_CHANGED);
        access.normalize();
        Ok(access)
    }

    /// At home the warehouse's and the district's name; then, where the customer lives, its number and its
    /// balance after the payment.
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        let call = Call::of(args)?;
        let catalog = context.catalog;
        let mut values = Vec::with_capacity(4);
        let warehouse = catalog.require("warehouse")?;
        if home(warehouse, call.w, context.topology) == context.partition {
            let district = catalog.require("district")?;
            let row = rows.get(warehouse.id, &key(&[call.w]));
            let w_row = row.ok_or_else(|| not_found("warehouse", &[call.w]))?;
            let row = rows.get(district.id, &key(&[call.w, call.d]));
            let d_row = row.ok_or_else(|| not_found("district", &[call.w, call.d]))?;
            more(Known::Warehouse, warehouse::W_YTD, &w_row.get(warehouse::W_YTD), call.amount)?;
            more(Known::District, district::D_YTD, &d_row.get(district::D_YTD), call.amount)?;
            let history = catalog.require("history")?;
            if rows.get(history.id, &key(&[call.w, call.history])).is_some() {
                return Err(taken(history, &call));
            }
            values.extend([w_row.get(warehouse::W_NAME), d_row.get(district::D_NAME)]);
        }
        let customers = catalog.require("customer")?;
        if home(customers, call.c_w, context.topology) == context.partition {
            let (_, row) = find_customer(rows, customers, (call.c_w, call.c_d), &call.who)?;
            let balance = row.get(customer::C_BALANCE);
            let balance = more(Known::Customer, customer::C_BALANCE, &balance, call.amount.negated())?;
            let paid = row.get(customer::C_YTD_PAYMENT);
            more(Known::Customer, customer::C_YTD_PAYMENT, &paid, call.amount)?;
            values.extend([row.get(customer::C_ID), balance]);
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
        let call = Call::of(args).expect("gathering read the same arguments");
        let table = |name: &str| &**context.catalog.require(name).expect("gathering found the same tables");
        let (here, topology) = (context.partition, context.topology);
        let (warehouses, customers) = (table("warehouse"), table("customer"));
        let customers_home = home(customers, call.c_w, topology);
        let [.., c_id, balance] = exchange[&customers_home].as_slice() else {
            panic!("the customer was gathered where it lives")
        };
        if customers_home == here {
            pay(rows, customers, &call, c_id.int(), balance);
        }
        if home(warehouses, call.w, topology) != here {
            return vec![];
        }
        add(rows, warehouses, key(&[call.w]), warehouse::W_YTD, call.amount);
        add(rows, table("district"), key(&[call.w, call.d]), district::D_YTD, call.amount);
        let names = &exchange[&here];
        let row = [
            Datum::Int(call.w),
            Datum::Int(call.history),
            Datum::Int(call.d),
            Datum::Int(call.c_w),
            Datum::Int(call.c_d),
            c_id.clone(),
            call.paid.clone(),
            call.amount.into(),
            format!("{}    {}", names[0].str(), names[1].str()).into(),
        ];
        rows.put(table("history").id, key(&[call.w, call.history]), Row::of(&row));
        vec![Row::of(&[c_id.clone(), balance.clone()])]
    }
}

fn taken(history: &Table, call: &Call<'_>) -> SqlError {
    let name = &history.primary_key_name;
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    SqlError::new(SqlState::UNIQUE_VIOLATION, message)
        .detail(format!("Key (h_w_id, h_id)=({}, {}) already exists.", call.w, call.history))
        .table(&history.name)
        .constraint(name)
}

/// A sum as its column takes it.
fn more(table: Known, column: usize, value: &Datum, amount: Decimal) -> SqlResult<Datum> {
    let sum = value.decimal().checked_add(amount);
    let sum =
        sum.ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow"))?;
    fit(table, column, sum.into())
}

fn add(rows: &mut dyn RowAccess, table: &Table, key: Key, column: usize, amount: Decimal) {
    let row = rows.get(table.id, &key).expect("gathering found the row");
    let sum = row.get(column).decimal().checked_add(amount).expect("gathering saw that it fits");
    rows.put(table.id, key, row.with(&[(column, sum.into())]));
}

fn pay(rows: &mut dyn RowAccess, table: &Table, call: &Call<'_>, id: i64, balance: &Datum) {
    let key = key(&[call.c_w, call.c_d, id]);
    let row = rows.get(table.id, &key).expect("gathering found the customer");
    let [credit, paid, count] =
        row.pick([customer::C_CREDIT, customer::C_YTD_PAYMENT, customer::C_PAYMENT_CNT]);
    let paid = paid.decimal().checked_add(call.amount).expect("gathering saw that it fits");
    let mut changes = vec![
        (customer::C_BALANCE, balance.clone()),
        (customer::C_YTD_PAYMENT, paid.into()),
        (customer::C_PAYMENT_CNT, Datum::Int(count.int() + 1)),
    ];
    if credit.str() == "BC" {
        let (Call { w, d, c_w, c_d, amount, .. }, old) = (call, row.get(customer::C_DATA));
        let data = format!("{id} {c_d} {c_w} {d} {w} {amount}|{}", old.str());
        changes.push((customer::C_DATA, data.chars().take(500).collect::<String>().into()));
    }
    rows.put(table.id, key, row.with(&changes));
}
