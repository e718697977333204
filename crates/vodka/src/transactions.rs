//! The six transactions as a client program sends them: BEGIN, statements, COMMIT.

use crate::tracker::{Deeds, Mark, Written};
use bench::statements::{Attempt, Connection, Failure, one, value};
use chrono::NaiveDateTime;
use rust_decimal::Decimal;
use std::sync::LazyLock;
use tokio_postgres::types::{ToSql, Type};
use workload::tpcc::inputs::{NewOrder, OrderStatus, Payment, StockLevel, Who};
use workload::vodka::inputs::{Input, LINES_MAX, LineTerms, Receipt, ReceivePointers, Shipment};
use workload::vodka::queries::DateColumn;
use workload::vodka::supplier_of;
use workload::vodka::versions::{Columns, RowKey};

/// Values with their types, as a prepared statement takes them.
macro_rules! with {
    ($($value:expr => $type:ident),* $(,)?) => {
        &[$((&$value as &(dyn ToSql + Sync), Type::$type)),*][..]
    };
}

/// µs from 1970 to 2000.
pub const UNIX_TO_2000_US: i64 = 946_684_800_000_000;

/// An instant in µs since 2000-01-01, as parameters have it, and back.
pub fn stamp(us: i64) -> NaiveDateTime {
    chrono::DateTime::from_timestamp_micros(us + UNIX_TO_2000_US).unwrap_or_default().naive_utc()
}
pub fn unstamp(at: NaiveDateTime) -> i64 {
    at.and_utc().timestamp_micros() - UNIX_TO_2000_US
}

/// The clocks of one attempt, µs since 2000-01-01.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The client's.
    pub wall_us: i64,
    /// The benchmark's, which dates orders.
    pub bench_us: i64,
}

/// How an attempt ended, and what it did if it committed.
pub struct Outcome {
    pub result: Result<Attempt, Failure>,
    pub deeds: Deeds,
    /// COMMIT was sent, and its answer was lost.
    pub in_doubt: bool,
}

/// Runs one transaction once; after a failure the connection is out of the transaction.
pub async fn run(
    connection: &mut Connection,
    input: &Input,
    now: Now,
    pointers: &ReceivePointers,
    steady_balances: bool,
) -> Outcome {
    run_marked(connection, input, now, pointers, steady_balances, None).await
}

/// As [`run`]; one that writes also gives its terminal this number.
pub async fn run_marked(
    connection: &mut Connection,
    input: &Input,
    now: Now,
    pointers: &ReceivePointers,
    steady_balances: bool,
    mark: Option<Mark>,
) -> Outcome {
    let mut deeds = Deeds::default();
    let read_only = matches!(input, Input::OrderStatus(_) | Input::StockLevel(_));
    if let Err(error) = connection.simple(if read_only { "BEGIN READ ONLY" } else { "BEGIN" }).await {
        return Outcome { result: Err(error.into()), deeds, in_doubt: false };
    }
    let result = match input {
        Input::NewOrder { order, terms, comment } => {
            new_order(connection, order, terms, comment, now, &mut deeds).await
        }
        Input::Payment(input) => payment(connection, input, now, &mut deeds).await,
        Input::OrderStatus(input) => order_status(connection, input).await,
        Input::Delivery { w, carrier, shipments } => {
            delivery(connection, *w, *carrier, shipments, now, steady_balances, &mut deeds).await
        }
        Input::StockLevel(input) => stock_level(connection, input).await,
        Input::ReceiveGoods { w, receipts } => {
            receive_goods(connection, *w, receipts, now, pointers, &mut deeds).await
        }
    };
    let result = match (result, mark) {
        (Ok(attempt @ Attempt::Committed { .. }), Some(mark)) if !read_only => {
            give_number(connection, mark, &mut deeds).await.map(|()| attempt)
        }
        (result, _) => result,
    };
    match result {
        Ok(attempt @ Attempt::Committed { .. }) => match connection.simple("COMMIT").await {
            Ok(()) => Outcome { result: Ok(attempt), deeds, in_doubt: false },
            Err(error) => {
                let in_doubt = error.as_db_error().is_none();
                Outcome { result: Err(error.into()), deeds, in_doubt }
            }
        },
        Ok(Attempt::RolledBack) => {
            let result = connection.simple("ROLLBACK").await.map(|()| Attempt::RolledBack);
            Outcome { result: result.map_err(Failure::from), deeds, in_doubt: false }
        }
        Err(failure) => {
            // What failed is worth more than what the rollback says about it.
            drop(connection.simple("ROLLBACK").await);
            Outcome { result: Err(failure), deeds, in_doubt: false }
        }
    }
}

/// Gives the terminal the number of this transaction, as its last statement: its row is locked for the shortest time.
async fn give_number(connection: &mut Connection, mark: Mark, deeds: &mut Deeds) -> Result<(), Failure> {
    let (w, terminal) = mark.terminal;
    let sql = "UPDATE vodka_freshness SET f_n = $1 WHERE f_w_id = $2 AND f_terminal = $3";
    let changed = connection.execute(sql, with![mark.number => INT8, w => INT4, terminal => INT4]).await?;
    if changed != 1 {
        return Err(Failure::Wrong(format!("vodka_freshness has {changed} rows of terminal {terminal}")));
    }
    deeds.mark = Some(mark);
    Ok(())
}

async fn new_order(
    connection: &mut Connection,
    i: &NewOrder,
    terms: &[LineTerms; LINES_MAX],
    comment: &str,
    now: Now,
    deeds: &mut Deeds,
) -> Result<Attempt, Failure> {
    let sql = "SELECT w_tax FROM vodka_warehouse WHERE w_id = $1";
    let w_tax: Decimal = value(one(&connection.query(sql, with![i.w => INT4]).await?, "warehouse")?, 0)?;
    let sql = "SELECT c_discount, c_last, c_credit FROM vodka_customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    let rows = connection.query(sql, with![i.w => INT4, i.d => INT4, i.c => INT4]).await?;
    let discount: Decimal = value(one(&rows, "customer")?, 0)?;
    let sql = "UPDATE vodka_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
        RETURNING d_next_o_id, d_tax";
    let rows = connection.query(sql, with![i.w => INT4, i.d => INT4]).await?;
    let district = one(&rows, "district")?;
    let (order, d_tax) = (value::<i32>(district, 0)? - 1, value::<Decimal>(district, 1)?);
    let (entered, count) = (stamp(now.bench_us), i.lines.len() as i32);
    let all_local = i32::from(i.lines.iter().all(|line| line.supply_w == i.w));
    let sql = "INSERT INTO vodka_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, \
        o_all_local, o_comment, o_shippriority, ver) VALUES ($1, $2, $3, $4, $5, NULL, $6, $7, $8, 0, 1)";
    let arguments = with![i.w => INT4, i.d => INT4, order => INT4, i.c => INT4, entered => TIMESTAMP,
        count => INT4, all_local => INT4, comment => TEXT];
    connection.execute(sql, arguments).await?;
    let sql = "INSERT INTO vodka_new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)";
    connection.execute(sql, with![i.w => INT4, i.d => INT4, order => INT4]).await?;
    let mut sum = Decimal::ZERO;
    for ((line, terms), number) in i.lines.iter().zip(terms).zip(1i32..) {
        let sql = "SELECT i_price, i_name, i_data FROM vodka_item WHERE i_id = $1";
        let rows = connection.query(sql, with![line.item => INT4]).await?;
        if rows.is_empty() && i.rollback {
            return Ok(Attempt::RolledBack);
        }
        let price: Decimal = value(one(&rows, "item")?, 0)?;
        let remote = i32::from(line.supply_w != i.w);
        let sql = "UPDATE vodka_stock SET s_quantity = CASE WHEN s_quantity >= $1 + 10 THEN s_quantity - $1 \
            ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, \
            s_remote_cnt = s_remote_cnt + $2, ver = ver + 1 WHERE s_w_id = $3 AND s_i_id = $4 \
            RETURNING s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, \
            s_dist_09, s_dist_10";
        let arguments =
            with![terms.quantity => INT4, remote => INT4, line.supply_w => INT4, line.item => INT4];
        let rows = connection.query(sql, arguments).await?;
        let dist: &str = value(one(&rows, "stock")?, (i.d - 1) as usize)?;
        let place = (i.w, i.d, order, number);
        sum += insert_line(connection, place, line, terms, (price, dist), now).await?;
        deeds.writes.push(Written {
            key: RowKey::order_line(i.w, i.d, order, number),
            version: 1,
            changed: Columns::LINE,
            written_us: Some(now.wall_us),
        });
    }
    if i.rollback {
        return Err(Failure::Wrong("an order with an unknown item was accepted".into()));
    }
    let total = sum * (Decimal::ONE - discount) * (Decimal::ONE + w_tax + d_tax);
    // The terminal would show it; a negative one would mean that rows were mixed up.
    if total.is_sign_negative() {
        return Err(Failure::Wrong(format!("an order's total is {total}")));
    }
    deeds.orders += 1;
    deeds.lines += i.lines.len() as u64;
    deeds.dates.push((DateColumn::Entry, now.bench_us));
    Ok(Attempt::Committed { rows: i.lines.len() as u64 })
}

/// Adds a line of a new order; returns its amount.
async fn insert_line(
    connection: &mut Connection,
    (w, d, order, number): (i32, i32, i32, i32),
    line: &workload::tpcc::inputs::Line,
    terms: &LineTerms,
    (price, dist): (Decimal, &str),
    now: Now,
) -> Result<Decimal, Failure> {
    let amount = Decimal::from(terms.quantity) * price;
    let (off, tax) = (Decimal::new(terms.discount_percent, 2), Decimal::new(terms.tax_percent, 2));
    let (promised, written) = (stamp(now.bench_us + terms.commit_after_us), stamp(now.wall_us));
    let supplier = supplier_of(line.supply_w, line.item);
    let sql = "INSERT INTO vodka_order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
        ol_delivery_d, ol_receiptdate, ol_commitdate, ol_quantity, ol_amount, ol_discount, ol_tax, \
        ol_returnflag, ol_shipmode, ol_shipinstruct, ol_suppkey, ol_dist_info, ver, write_ts) \
        VALUES ($1, $2, $3, $4, $5, $6, NULL, NULL, $7, $8, $9, $10, $11, NULL, NULL, NULL, $12, $13, 1, $14)";
    let arguments = with![w => INT4, d => INT4, order => INT4, number => INT4, line.item => INT4,
        line.supply_w => INT4, promised => TIMESTAMP, terms.quantity => INT4, amount => NUMERIC,
        off => NUMERIC, tax => NUMERIC, supplier => INT4, dist => TEXT, written => TIMESTAMP];
    connection.execute(sql, arguments).await?;
    Ok(amount)
}

/// The customer's number; by name the middle one, rounded up.
async fn customer_id(connection: &mut Connection, w: i32, d: i32, who: &Who) -> Result<i32, Failure> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::LastName(name) => {
            let sql = "SELECT c_id FROM vodka_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
                ORDER BY c_first, c_id";
            let rows = connection.query(sql, with![w => INT4, d => INT4, name => TEXT]).await?;
            match rows.get(rows.len().saturating_sub(1) / 2) {
                Some(row) => value(row, 0),
                None => Err(Failure::Wrong(format!("no customer is called {name}"))),
            }
        }
    }
}

async fn payment(
    connection: &mut Connection,
    i: &Payment,
    now: Now,
    deeds: &mut Deeds,
) -> Result<Attempt, Failure> {
    let amount = Decimal::new(i.amount_cents, 2);
    let sql = "UPDATE vodka_warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 RETURNING w_name";
    let rows = connection.query(sql, with![amount => NUMERIC, i.w => INT4]).await?;
    let w_name: &str = value(one(&rows, "warehouse")?, 0)?;
    let sql = "UPDATE vodka_district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 RETURNING d_name";
    let rows = connection.query(sql, with![amount => NUMERIC, i.w => INT4, i.d => INT4]).await?;
    let data = format!("{w_name}    {}", value::<&str>(one(&rows, "district")?, 0)?);
    let id = customer_id(connection, i.c_w, i.c_d, &i.customer).await?;
    let sql = "UPDATE vodka_customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
        c_payment_cnt = c_payment_cnt + 1, ver = ver + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 \
        RETURNING c_credit, c_data, ver";
    let rows =
        connection.query(sql, with![amount => NUMERIC, i.c_w => INT4, i.c_d => INT4, id => INT4]).await?;
    let customer = one(&rows, "customer")?;
    let mut write = Written {
        key: RowKey::customer(i.c_w, i.c_d, id),
        version: value::<i32>(customer, 2)? as u32,
        changed: Columns::BALANCE,
        written_us: None,
    };
    deeds.writes.push(write);
    if value::<&str>(customer, 0)? == "BC" {
        let old: &str = value(customer, 1)?;
        let mut c_data = format!("{id} {} {} {} {} {amount}|{old}", i.c_d, i.c_w, i.d, i.w);
        c_data.truncate(500);
        let sql = "UPDATE vodka_customer SET c_data = $1, ver = ver + 1 \
            WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";
        connection.execute(sql, with![c_data => TEXT, i.c_w => INT4, i.c_d => INT4, id => INT4]).await?;
        write.version += 1;
        write.changed = Columns::DATA;
        deeds.writes.push(write);
    }
    let sql = "INSERT INTO vodka_history (h_w_id, h_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_date, h_amount, \
        h_data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let paid = stamp(now.wall_us);
    let arguments = with![i.w => INT4, i.history => INT8, i.d => INT4, i.c_w => INT4, i.c_d => INT4, id => INT4,
        paid => TIMESTAMP, amount => NUMERIC, data => TEXT];
    connection.execute(sql, arguments).await?;
    deeds.history += 1;
    Ok(Attempt::Committed { rows: 1 })
}

async fn order_status(connection: &mut Connection, i: &OrderStatus) -> Result<Attempt, Failure> {
    let id = customer_id(connection, i.w, i.d, &i.customer).await?;
    let sql = "SELECT c_balance, c_first, c_middle, c_last FROM vodka_customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    one(&connection.query(sql, with![i.w => INT4, i.d => INT4, id => INT4]).await?, "customer")?;
    let sql = "SELECT o_id, o_entry_d, o_carrier_id FROM vodka_orders \
        WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
    let rows = connection.query(sql, with![i.w => INT4, i.d => INT4, id => INT4]).await?;
    let order: i32 = value(one(&rows, "orders")?, 0)?;
    let sql = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM vodka_order_line \
        WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    let lines = connection.query(sql, with![i.w => INT4, i.d => INT4, order => INT4]).await?;
    if lines.len() < 5 {
        return Err(Failure::Wrong(format!("order {order} has {} lines", lines.len())));
    }
    Ok(Attempt::Committed { rows: lines.len() as u64 })
}

/// `CASE WHEN ol_number = 1 THEN $from WHEN … ELSE $… END`: a value for each line.
fn by_line(from: usize) -> String {
    let arms: Vec<String> =
        (1..LINES_MAX).map(|n| format!("WHEN ol_number = {n} THEN ${}", from + n - 1)).collect();
    format!("CASE {} ELSE ${} END", arms.join(" "), from + LINES_MAX - 1)
}

static SHIP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE vodka_order_line SET ol_delivery_d = {}, ol_shipmode = {}, ol_shipinstruct = {}, ver = ver + 1, \
         write_ts = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_number, ver, ol_amount",
        by_line(5),
        by_line(5 + LINES_MAX),
        by_line(5 + 2 * LINES_MAX)
    )
});

async fn delivery(
    connection: &mut Connection,
    w: i32,
    carrier: i32,
    shipments: &[[Shipment; LINES_MAX]],
    now: Now,
    steady_balances: bool,
    deeds: &mut Deeds,
) -> Result<Attempt, Failure> {
    let written = stamp(now.wall_us);
    for (d, shipments) in (1i32..).zip(shipments) {
        let sql = "SELECT no_o_id FROM vodka_new_order WHERE no_w_id = $1 AND no_d_id = $2 \
            ORDER BY no_o_id LIMIT 1 FOR UPDATE";
        let rows = connection.query(sql, with![w => INT4, d => INT4]).await?;
        // A district without new orders, or whose oldest another delivery has just taken, is skipped.
        let Some(row) = rows.first() else { continue };
        let order: i32 = value(row, 0)?;
        let sql = "DELETE FROM vodka_new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
        connection.execute(sql, with![w => INT4, d => INT4, order => INT4]).await?;
        let sql = "UPDATE vodka_orders SET o_carrier_id = $1, ver = ver + 1 \
            WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 RETURNING o_c_id, o_entry_d";
        let rows = connection.query(sql, with![carrier => INT4, w => INT4, d => INT4, order => INT4]).await?;
        let row = one(&rows, "orders")?;
        let (customer, entered) = (value::<i32>(row, 0)?, unstamp(value(row, 1)?));
        let dates: Vec<NaiveDateTime> = shipments.iter().map(|s| stamp(entered + s.after_us)).collect();
        let mut arguments = with![w => INT4, d => INT4, order => INT4, written => TIMESTAMP].to_vec();
        arguments.extend(dates.iter().map(|date| (date as &(dyn ToSql + Sync), Type::TIMESTAMP)));
        arguments.extend(shipments.iter().map(|s| (&s.mode as &(dyn ToSql + Sync), Type::TEXT)));
        arguments.extend(shipments.iter().map(|s| (&s.instruction as &(dyn ToSql + Sync), Type::TEXT)));
        let lines = connection.query(SHIP.as_str(), &arguments).await?;
        let mut amount = Decimal::ZERO;
        for line in &lines {
            let number: i32 = value(line, 0)?;
            amount += value::<Decimal>(line, 2)?;
            deeds.writes.push(Written {
                key: RowKey::order_line(w, d, order, number),
                version: value::<i32>(line, 1)? as u32,
                changed: Columns::SHIPPED,
                written_us: Some(now.wall_us),
            });
            let after_us = shipments[(number as usize).clamp(1, LINES_MAX) - 1].after_us;
            deeds.dates.push((DateColumn::Delivery, entered + after_us));
        }
        if steady_balances {
            amount = Decimal::ZERO;
        }
        let sql = "UPDATE vodka_customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1, \
            ver = ver + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 RETURNING ver";
        let rows =
            connection.query(sql, with![amount => NUMERIC, w => INT4, d => INT4, customer => INT4]).await?;
        deeds.writes.push(Written {
            key: RowKey::customer(w, d, customer),
            version: value::<i32>(one(&rows, "customer")?, 0)? as u32,
            changed: Columns::BALANCE,
            written_us: None,
        });
        deeds.delivered_orders += 1;
        deeds.delivered_lines += lines.len() as u64;
    }
    Ok(Attempt::Committed { rows: deeds.delivered_orders })
}

async fn stock_level(connection: &mut Connection, i: &StockLevel) -> Result<Attempt, Failure> {
    let sql = "SELECT d_next_o_id FROM vodka_district WHERE d_w_id = $1 AND d_id = $2";
    let rows = connection.query(sql, with![i.w => INT4, i.d => INT4]).await?;
    let next: i32 = value(one(&rows, "district")?, 0)?;
    let first = next - 20;
    let sql = "SELECT count(DISTINCT s_i_id) FROM vodka_order_line, vodka_stock \
        WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 \
        AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5";
    let arguments = with![i.w => INT4, i.d => INT4, first => INT4, next => INT4, i.threshold => INT4];
    let rows = connection.query(sql, arguments).await?;
    Ok(Attempt::Committed { rows: value::<i64>(one(&rows, "a count")?, 0)? as u64 })
}

static RECEIVE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE vodka_order_line SET ol_receiptdate = {}, ol_returnflag = {}, ver = ver + 1, write_ts = $4 \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_number, ver",
        by_line(5),
        by_line(5 + LINES_MAX)
    )
});

/// Receives the oldest order of each district that was delivered and not received.
async fn receive_goods(
    connection: &mut Connection,
    w: i32,
    receipts: &[([Receipt; LINES_MAX], String)],
    now: Now,
    pointers: &ReceivePointers,
    deeds: &mut Deeds,
) -> Result<Attempt, Failure> {
    let written = stamp(now.wall_us);
    for (d, (receipts, comment)) in (1i32..).zip(receipts) {
        let order = pointers.order(d);
        let sql = "SELECT ol_number, ol_delivery_d, ol_receiptdate FROM vodka_order_line \
            WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 FOR UPDATE";
        let lines = connection.query(sql, with![w => INT4, d => INT4, order => INT4]).await?;
        let Some(shipped) = delivered_and_not_received(&lines)? else { continue };
        let mut dates = [written; LINES_MAX];
        for (number, shipped) in shipped {
            let place = (number as usize).clamp(1, LINES_MAX) - 1;
            let received = unstamp(shipped) + receipts[place].after_us;
            dates[place] = stamp(received);
            deeds.dates.push((DateColumn::Receipt, received));
        }
        let mut arguments = with![w => INT4, d => INT4, order => INT4, written => TIMESTAMP].to_vec();
        arguments.extend(dates.iter().map(|date| (date as &(dyn ToSql + Sync), Type::TIMESTAMP)));
        arguments.extend(receipts.iter().map(|r| (&r.flag as &(dyn ToSql + Sync), Type::TEXT)));
        for line in connection.query(RECEIVE.as_str(), &arguments).await? {
            deeds.writes.push(Written {
                key: RowKey::order_line(w, d, order, value(&line, 0)?),
                version: value::<i32>(&line, 1)? as u32,
                changed: Columns::RECEIVED,
                written_us: Some(now.wall_us),
            });
            deeds.received_lines += 1;
        }
        let sql = "UPDATE vodka_orders SET o_comment = $1, ver = ver + 1 \
            WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4";
        connection.execute(sql, with![comment => TEXT, w => INT4, d => INT4, order => INT4]).await?;
        deeds.received.push((d, order));
    }
    Ok(Attempt::Committed { rows: deeds.received.len() as u64 })
}

/// Number and date of delivery of each line, if the order was delivered and not received.
fn delivered_and_not_received(
    lines: &[tokio_postgres::Row],
) -> Result<Option<Vec<(i32, NaiveDateTime)>>, Failure> {
    let mut out = Vec::new();
    for line in lines {
        let delivered: Option<NaiveDateTime> = value(line, 1)?;
        let received: Option<NaiveDateTime> = value(line, 2)?;
        match (delivered, received) {
            (Some(delivered), None) => out.push((value(line, 0)?, delivered)),
            _ => return Ok(None),
        }
    }
    Ok((!out.is_empty()).then_some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_the_way_to_the_server() {
        for us in [0, -47_000_000_000_000_000, 812_345_678_901_234] {
            assert_eq!(unstamp(stamp(us)), us);
        }
        assert_eq!(stamp(0).to_string(), "2000-01-01 00:00:00");
    }

    #[test]
    fn every_line_of_an_order_has_its_place_among_the_parameters() {
        let text = by_line(5);
        assert!(text.starts_with("CASE WHEN ol_number = 1 THEN $5 WHEN ol_number = 2 THEN $6 "));
        assert!(text.ends_with("WHEN ol_number = 14 THEN $18 ELSE $19 END"));
        assert!(SHIP.contains("ELSE $49 END") && RECEIVE.contains("ELSE $34 END"));
    }
}
