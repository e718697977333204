//! NewOrder (clause 2.4): `CALL new_order(w, d, c, 'item:supply_w:quantity,…', entered)`.

use super::*;
use crate::tpcc::inputs::{Line, NewOrder as Input};
use crate::tpcc::tables::{district, item, stock, warehouse};
use base::decimal::Decimal;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess};

/// Lines one order may have; the standard asks for 5 to 15.
const LINES_MAX: usize = 100;

pub struct NewOrder;

struct Call {
    w: i64,
    d: i64,
    c: i64,
    lines: Vec<Line>,
    entered: Datum,
}

impl Call {
    fn of(args: &[Datum]) -> SqlResult<Call> {
        let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let Some(Datum::Text(text)) = args.get(3) else { return Err(null_argument("lines")) };
        let lines = Input::parse_lines(text).ok_or_else(|| {
            invalid(format!("order lines \"{text}\" are not valid"))
                .hint("Write item:supply_warehouse:quantity, separated by commas, such as 5:1:3,77:1:2.")
        })?;
        if lines.len() > LINES_MAX {
            return Err(invalid(format!("an order has at most {LINES_MAX} lines, not {}", lines.len())));
        }
        if let Some(line) = lines.iter().find(|line| !(1..=99).contains(&line.quantity)) {
            return Err(invalid(format!("a line's quantity is 1 to 99, not {}", line.quantity)));
        }
        Ok(Call {
            w: int_arg(args, 0, "w")?,
            d: int_arg(args, 1, "d")?,
            c: int_arg(args, 2, "c")?,
            lines,
            entered: time_arg(args, 4, "entered")?,
        })
    }
    fn has_district(&self) -> bool {
        (1..=10).contains(&self.d)
    }
}

/// The tables it touches.
struct Tables<'a> {
    warehouse: &'a Table,
    district: &'a Table,
    customer: &'a Table,
    orders: &'a Table,
    new_order: &'a Table,
    order_line: &'a Table,
    item: &'a Table,
    stock: &'a Table,
}

impl<'a> Tables<'a> {
    fn of(catalog: &'a Catalog) -> SqlResult<Tables<'a>> {
        let table = |table: Known| catalog.require(table.spec().name).map(|table| &**table);
        Ok(Tables {
            warehouse: table(Known::Warehouse)?,
            district: table(Known::District)?,
            customer: table(Known::Customer)?,
            orders: table(Known::Orders)?,
            new_order: table(Known::NewOrder)?,
            order_line: table(Known::OrderLine)?,
            item: table(Known::Item)?,
            stock: table(Known::Stock)?,
        })
    }
}

const STOCK_CHANGED: [usize; 4] = [stock::S_QUANTITY, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT];

impl Procedure for NewOrder {
    fn name(&self) -> &'static str {
        "new_order"
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        let (text, time) = (DataType::Text, DataType::Timestamp);
        vec![("w", INT), ("d", INT), ("c", INT), ("lines", text), ("entered", time)]
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        vec![("o_id", INT), ("total", DataType::Numeric { precision: 12, scale: 2 })]
    }

    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let call = Call::of(args)?;
        if !call.has_district() {
            return Err(not_found("district", &[call.w, call.d]));
        }
        let (w, d) = (call.w, call.d);
        let of_warehouse = [
            known(catalog, Known::Warehouse)?,
            known(catalog, Known::District)?,
            known(catalog, Known::Customer)?,
            known(catalog, Known::Orders)?,
            known(catalog, Known::NewOrder)?,
            known(catalog, Known::OrderLine)?,
        ];
        let home = placed(&of_warehouse, w, topology)?;
        let [warehouse, district, customer, orders, new_order, order_line] = of_warehouse;
        let (item, stock) = (known(catalog, Known::Item)?, known(catalog, Known::Stock)?);
        let mut access = AccessSet::default();
        declare_rows(&mut access, home, warehouse, &[w], AccessMode::Read);
        declare_update(&mut access, home, district, &[w, d], &[district::D_NEXT_O_ID]);
        declare_rows(&mut access, home, customer, &[w, d, call.c], AccessMode::Read);
        declare_insert(&mut access, home, orders, &[w, d]);
        declare_insert(&mut access, home, new_order, &[w, d]);
        declare_insert(&mut access, home, order_line, &[w, d]);
        for line in &call.lines {
            let (supply_w, id) = (i64::from(line.supply_w), i64::from(line.item));
            let supplier = placed(&[stock], supply_w, topology)?;
            declare_update(&mut access, supplier, stock, &[supply_w, id], &STOCK_CHANGED);
            let reader = item_home(item, id, home, topology);
            declare_rows(&mut access, reader, item, &[id], AccessMode::Read);
        }
        access.normalize();
        Ok(access)
    }

    /// Elsewhere than at home: for each line, its number and the price, or its number and the district's
    /// text, of what lies here; a price is a numeric, so the two are told apart.
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        let call = Call::of(args)?;
        let tables = Tables::of(context.catalog)?;
        let (here, topology) = (context.partition, context.topology);
        let home = home(tables.district, call.w, topology);
        if here == home {
            let found = |table: &Table, what: &str, id: &[i64]| {
                rows.get(table.id, &key(id)).map(|_| ()).ok_or_else(|| not_found(what, id))
            };
            found(tables.warehouse, "warehouse", &[call.w])?;
            found(tables.district, "district", &[call.w, call.d])?;
            found(tables.customer, "customer", &[call.w, call.d, call.c])?;
        }
        let mut values = Vec::new();
        for (number, line) in call.lines.iter().enumerate() {
            let (supply_w, id) = (i64::from(line.supply_w), i64::from(line.item));
            if item_home(tables.item, id, home, topology) == here {
                let row = rows.get(tables.item.id, &key(&[id])).ok_or_else(unknown_item)?;
                if here != home {
                    values.extend([Datum::Int(number as i64), row.get(item::I_PRICE)]);
                }
            }
            if super::home(tables.stock, supply_w, topology) == here {
                let row = rows.get(tables.stock.id, &key(&[supply_w, id]));
                let row = row.ok_or_else(|| not_found("stock", &[supply_w, id]))?;
                // Room for this order's lines, should they all be for this item.
                let sold = row.get(stock::S_YTD).int() + 99 * LINES_MAX as i64;
                fit(Known::Stock, stock::S_YTD, Datum::Int(sold))?;
                if here != home {
                    values.extend([Datum::Int(number as i64), row.get(dist_column(call.d))]);
                }
            }
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
        let tables = Tables::of(context.catalog).expect("gathering found the same tables");
        let (here, topology) = (context.partition, context.topology);
        let home = home(tables.district, call.w, topology);
        let order = (here == home).then(|| take_order_number(rows, tables.district, &call));
        let mut sum = Decimal::ZERO;
        for (number, line) in call.lines.iter().enumerate() {
            let (supply_w, id) = (i64::from(line.supply_w), i64::from(line.item));
            let mut dist = None;
            if super::home(tables.stock, supply_w, topology) == here {
                dist = Some(take_stock(rows, tables.stock, &call, line));
            }
            let Some((order, _)) = order else { continue };
            let price = if item_home(tables.item, id, home, topology) == here {
                rows.get(tables.item.id, &key(&[id])).expect("gathering found it").get(item::I_PRICE)
            } else {
                gathered(exchange, number, |value| matches!(value, Datum::Decimal(_)))
            };
            let dist =
                dist.unwrap_or_else(|| gathered(exchange, number, |value| matches!(value, Datum::Text(_))));
            let amount = Decimal::new(price.decimal().units() * i128::from(line.quantity), 2);
            sum = sum.checked_add(amount).expect("a hundred small amounts");
            let number = number as i64 + 1;
            let row = [
                Datum::Int(call.w),
                Datum::Int(call.d),
                Datum::Int(order),
                Datum::Int(number),
                Datum::Int(id),
                Datum::Int(supply_w),
                Datum::Null,
                Datum::Int(i64::from(line.quantity)),
                amount.into(),
                dist,
            ];
            rows.put(tables.order_line.id, key(&[call.w, call.d, order, number]), Row::of(&row));
        }
        let Some((order, d_tax)) = order else { return vec![] };
        insert_order(rows, &tables, &call, order);
        let get = |rows: &dyn RowAccess, table: &Table, id: &[i64], column: usize| {
            rows.get(table.id, &key(id)).expect("gathering found it").get(column).decimal()
        };
        let discount = get(rows, tables.customer, &[call.w, call.d, call.c], super::customer::C_DISCOUNT);
        let w_tax = get(rows, tables.warehouse, &[call.w], warehouse::W_TAX);
        vec![Row::of(&[Datum::Int(order), total(sum, discount, w_tax, d_tax).into()])]
    }
}

fn unknown_item() -> SqlError {
    SqlError::new(NO_DATA_FOUND, "Item number is not valid")
}

/// What another partition gathered for this line.
fn gathered(exchange: &Exchange, line: usize, is_it: fn(&Datum) -> bool) -> Datum {
    let pairs = exchange.values().flat_map(|values| values.chunks_exact(2));
    let mut found = pairs.filter(|pair| pair[0] == Datum::Int(line as i64) && is_it(&pair[1]));
    found.next().expect("every line was gathered where its rows lie")[1].clone()
}

/// Draws the order's number; with it the district's tax.
fn take_order_number(rows: &mut dyn RowAccess, table: &Table, call: &Call) -> (i64, Decimal) {
    let key = key(&[call.w, call.d]);
    let row = rows.get(table.id, &key).expect("gathering found the district");
    let [tax, order] = row.pick([district::D_TAX, district::D_NEXT_O_ID]);
    let order = order.int();
    rows.put(table.id, key, row.with(&[(district::D_NEXT_O_ID, Datum::Int(order + 1))]));
    (order, tax.decimal())
}

/// Takes a line's quantity from stock and returns the district's text.
fn take_stock(rows: &mut dyn RowAccess, table: &Table, call: &Call, line: &Line) -> Datum {
    let (supply_w, quantity) = (i64::from(line.supply_w), i64::from(line.quantity));
    let key = key(&[supply_w, i64::from(line.item)]);
    let row = rows.get(table.id, &key).expect("gathering found the stock");
    let dist = dist_column(call.d);
    let [in_stock, dist, sold, orders, remote] =
        row.pick([stock::S_QUANTITY, dist, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT]);
    let left = in_stock.int() - quantity;
    let changed = row.with(&[
        (stock::S_QUANTITY, Datum::Int(if left >= 10 { left } else { left + 91 })),
        (stock::S_YTD, Datum::Int(sold.int() + quantity)),
        (stock::S_ORDER_CNT, Datum::Int(orders.int() + 1)),
        (stock::S_REMOTE_CNT, Datum::Int(remote.int() + i64::from(supply_w != call.w))),
    ]);
    rows.put(table.id, key, changed);
    dist
}

fn dist_column(district: i64) -> usize {
    stock::S_DIST_01 + district as usize - 1
}

fn insert_order(rows: &mut dyn RowAccess, tables: &Tables<'_>, call: &Call, order: i64) {
    let all_local = call.lines.iter().all(|line| i64::from(line.supply_w) == call.w);
    let row = [
        Datum::Int(call.w),
        Datum::Int(call.d),
        Datum::Int(order),
        Datum::Int(call.c),
        call.entered.clone(),
        Datum::Null,
        Datum::Int(call.lines.len() as i64),
        Datum::Int(i64::from(all_local)),
    ];
    let key = key(&[call.w, call.d, order]);
    rows.put(tables.orders.id, key.clone(), Row::of(&row));
    rows.put(tables.new_order.id, key, Row::of(&row[..3]));
}

/// sum × (1 − discount) × (1 + both taxes), in cents; the rates have four decimals.
fn total(sum: Decimal, discount: Decimal, w_tax: Decimal, d_tax: Decimal) -> Decimal {
    let one = Decimal::new(10_000, 4);
    let rate = |rate: Decimal| rate.rescale(4).expect("rates are below 1").units();
    let factors = (one.units() - rate(discount)) * (one.units() + rate(w_tax) + rate(d_tax));
    let total = Decimal::new(sum.rescale(2).expect("cents").units() * factors, 10);
    total.rescale(2).expect("cents")
}
