//! The five transactions as a client program sends them: BEGIN, statements, COMMIT.

use super::procedures::now;
use crate::statements::{Attempt, Connection, Failure, one, value};
use rust_decimal::Decimal;
use std::slice;
use tokio_postgres::types::Type;
use workload::tpcc::inputs::{Delivery, Input, NewOrder, OrderStatus, Payment, StockLevel, Who};

/// Runs one transaction once; after a failure the connection is out of the transaction.
pub async fn run(connection: &mut Connection, input: &Input) -> Result<Attempt, Failure> {
    let read_only = matches!(input, Input::OrderStatus(_) | Input::StockLevel(_));
    connection.simple(if read_only { "BEGIN READ ONLY" } else { "BEGIN" }).await?;
    let result = match input {
        Input::NewOrder(input) => new_order(connection, input).await,
        Input::Payment(input) => payment(connection, input).await,
        Input::OrderStatus(input) => order_status(connection, input).await,
        Input::Delivery(input) => delivery(connection, input).await,
        Input::StockLevel(input) => stock_level(connection, input).await,
    };
    match result {
        Ok(Attempt::Committed { rows }) => {
            connection.simple("COMMIT").await?;
            Ok(Attempt::Committed { rows })
        }
        Ok(Attempt::RolledBack) => {
            connection.simple("ROLLBACK").await?;
            Ok(Attempt::RolledBack)
        }
        Err(failure) => {
            // What failed is worth more than what the rollback says about it.
            drop(connection.simple("ROLLBACK").await);
            Err(failure)
        }
    }
}

/// The stock update that returns one district's column. (Prepared statements are known by their text.)
macro_rules! stock_update {
    ($($column:literal),*) => {
        [$(concat!(
            "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $1 + 10 THEN s_quantity - $1 ",
            "ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, ",
            "s_remote_cnt = s_remote_cnt + $2 WHERE s_w_id = $3 AND s_i_id = $4 ",
            "RETURNING s_quantity, ", $column
        )),*]
    };
}
const STOCK_UPDATES: [&str; 10] = stock_update!(
    "s_dist_01",
    "s_dist_02",
    "s_dist_03",
    "s_dist_04",
    "s_dist_05",
    "s_dist_06",
    "s_dist_07",
    "s_dist_08",
    "s_dist_09",
    "s_dist_10"
);

async fn new_order(connection: &mut Connection, i: &NewOrder) -> Result<Attempt, Failure> {
    let (w, d, c) = ((&i.w as _, Type::INT4), (&i.d as _, Type::INT4), (&i.c as _, Type::INT4));
    let sql = "SELECT w_tax FROM warehouse WHERE w_id = $1";
    let w_tax: Decimal = value(one(&connection.query(sql, slice::from_ref(&w)).await?, "warehouse")?, 0)?;
    let sql =
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    let rows = connection.query(sql, &[w.clone(), d.clone(), c.clone()]).await?;
    let discount: Decimal = value(one(&rows, "customer")?, 0)?;
    let sql = "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
        RETURNING d_next_o_id, d_tax";
    let rows = connection.query(sql, &[w.clone(), d.clone()]).await?;
    let district = one(&rows, "district")?;
    let (order, d_tax) = (value::<i32>(district, 0)? - 1, value::<Decimal>(district, 1)?);
    let o = (&order as _, Type::INT4);
    let (now, count) = (now(), i.lines.len() as i32);
    let all_local = i32::from(i.lines.iter().all(|line| line.supply_w == i.w));
    let sql = "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
        VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)";
    let counts = [(&count as _, Type::INT4), (&all_local as _, Type::INT4)];
    let [count, all_local] = counts;
    let entered = (&now as _, Type::TIMESTAMP);
    connection.execute(sql, &[w.clone(), d.clone(), o.clone(), c, entered, count, all_local]).await?;
    let sql = "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)";
    connection.execute(sql, &[w.clone(), d.clone(), o.clone()]).await?;
    let mut sum = Decimal::ZERO;
    for (line, number) in i.lines.iter().zip(1i32..) {
        let item = (&line.item as _, Type::INT4);
        let sql = "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1";
        let rows = connection.query(sql, slice::from_ref(&item)).await?;
        if rows.is_empty() && i.rollback {
            return Ok(Attempt::RolledBack);
        }
        let price: Decimal = value(one(&rows, "item")?, 0)?;
        let remote = i32::from(line.supply_w != i.w);
        let (supply, quantity) = ((&line.supply_w as _, Type::INT4), (&line.quantity as _, Type::INT4));
        let arguments = [quantity.clone(), (&remote as _, Type::INT4), supply.clone(), item.clone()];
        let rows = connection.query(STOCK_UPDATES[i.d as usize - 1], &arguments).await?;
        let dist: &str = value(one(&rows, "stock")?, 1)?;
        let amount = Decimal::from(line.quantity) * price;
        sum += amount;
        let sql = "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, \
            ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) \
            VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)";
        let (number, amount, dist) =
            ((&number as _, Type::INT4), (&amount as _, Type::NUMERIC), (&dist as _, Type::TEXT));
        let arguments = [w.clone(), d.clone(), o.clone(), number, item, supply, quantity, amount, dist];
        connection.execute(sql, &arguments).await?;
    }
    if i.rollback {
        return Err(Failure::Wrong("an order with an unknown item was accepted".into()));
    }
    let total = sum * (Decimal::ONE - discount) * (Decimal::ONE + w_tax + d_tax);
    // The terminal would show it; a negative one would mean that rows were mixed up.
    if total.is_sign_negative() {
        return Err(Failure::Wrong(format!("an order's total is {total}")));
    }
    Ok(Attempt::Committed { rows: i.lines.len() as u64 })
}

/// The customer's number; by name the middle one, rounded up.
async fn customer_id(connection: &mut Connection, w: i32, d: i32, who: &Who) -> Result<i32, Failure> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::LastName(name) => {
            let sql = "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
                ORDER BY c_first, c_id";
            let arguments = [(&w as _, Type::INT4), (&d as _, Type::INT4), (name as _, Type::TEXT)];
            let rows = connection.query(sql, &arguments).await?;
            match rows.get(rows.len().saturating_sub(1) / 2) {
                Some(row) => value(row, 0),
                None => Err(Failure::Wrong(format!("no customer is called {name}"))),
            }
        }
    }
}

async fn payment(connection: &mut Connection, i: &Payment) -> Result<Attempt, Failure> {
    let (w, d) = ((&i.w as _, Type::INT4), (&i.d as _, Type::INT4));
    let cents = Decimal::new(i.amount_cents, 2);
    let amount = (&cents as _, Type::NUMERIC);
    let sql = "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 RETURNING w_name";
    let rows = connection.query(sql, &[amount.clone(), w.clone()]).await?;
    let w_name: &str = value(one(&rows, "warehouse")?, 0)?;
    let sql = "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 RETURNING d_name";
    let rows = connection.query(sql, &[amount.clone(), w.clone(), d.clone()]).await?;
    let d_name: &str = value(one(&rows, "district")?, 0)?;
    let data = format!("{w_name}    {d_name}");
    let id = customer_id(connection, i.c_w, i.c_d, &i.customer).await?;
    let (c_w, c_d, c) = ((&i.c_w as _, Type::INT4), (&i.c_d as _, Type::INT4), (&id as _, Type::INT4));
    let sql = "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
        c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 \
        RETURNING c_balance, c_credit, c_data";
    let rows = connection.query(sql, &[amount.clone(), c_w.clone(), c_d.clone(), c.clone()]).await?;
    let customer = one(&rows, "customer")?;
    let credit: &str = value(customer, 1)?;
    if credit == "BC" {
        let old: &str = value(customer, 2)?;
        let mut c_data = format!("{id} {} {} {} {} {cents}|{old}", i.c_d, i.c_w, i.d, i.w);
        c_data.truncate(500);
        let sql = "UPDATE customer SET c_data = $1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";
        connection.execute(sql, &[(&c_data as _, Type::TEXT), c_w.clone(), c_d.clone(), c.clone()]).await?;
    }
    let sql = "INSERT INTO history (h_w_id, h_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_date, h_amount, h_data) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let paid_at = now();
    let history = (&i.history as _, Type::INT8);
    let (paid_at, data) = ((&paid_at as _, Type::TIMESTAMP), (&data as _, Type::TEXT));
    connection.execute(sql, &[w, history, d, c_w, c_d, c, paid_at, amount, data]).await?;
    Ok(Attempt::Committed { rows: 1 })
}

async fn order_status(connection: &mut Connection, i: &OrderStatus) -> Result<Attempt, Failure> {
    let (w, d) = ((&i.w as _, Type::INT4), (&i.d as _, Type::INT4));
    let id = customer_id(connection, i.w, i.d, &i.customer).await?;
    let c = (&id as _, Type::INT4);
    let sql = "SELECT c_balance, c_first, c_middle, c_last FROM customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    one(&connection.query(sql, &[w.clone(), d.clone(), c.clone()]).await?, "customer")?;
    let sql = "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
        WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
    let rows = connection.query(sql, &[w.clone(), d.clone(), c]).await?;
    let order: i32 = value(one(&rows, "orders")?, 0)?;
    let sql = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
        WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    let lines = connection.query(sql, &[w, d, (&order as _, Type::INT4)]).await?;
    if lines.len() < 5 {
        return Err(Failure::Wrong(format!("order {order} has {} lines", lines.len())));
    }
    Ok(Attempt::Committed { rows: lines.len() as u64 })
}

async fn delivery(connection: &mut Connection, i: &Delivery) -> Result<Attempt, Failure> {
    let w = (&i.w as _, Type::INT4);
    let (carrier, now) = ((&i.carrier as _, Type::INT4), now());
    let mut delivered = 0;
    for district in 1i32..=10 {
        let d = (&district as _, Type::INT4);
        let sql = "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
            ORDER BY no_o_id LIMIT 1 FOR UPDATE";
        let rows = connection.query(sql, &[w.clone(), d.clone()]).await?;
        // A district without new orders, or whose oldest another delivery has just taken, is skipped.
        let Some(row) = rows.first() else { continue };
        let order: i32 = value(row, 0)?;
        let o = (&order as _, Type::INT4);
        let sql = "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
        connection.execute(sql, &[w.clone(), d.clone(), o.clone()]).await?;
        let sql = "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 \
            RETURNING o_c_id";
        let rows = connection.query(sql, &[carrier.clone(), w.clone(), d.clone(), o.clone()]).await?;
        let customer: i32 = value(one(&rows, "orders")?, 0)?;
        let sql =
            "UPDATE order_line SET ol_delivery_d = $1 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4";
        let delivered_at = (&now as _, Type::TIMESTAMP);
        connection.execute(sql, &[delivered_at, w.clone(), d.clone(), o.clone()]).await?;
        let sql =
            "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
        let rows = connection.query(sql, &[w.clone(), d.clone(), o]).await?;
        let amount: Decimal = value(one(&rows, "a sum")?, 0)?;
        let sql = "UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
            WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";
        let arguments = [(&amount as _, Type::NUMERIC), w.clone(), d, (&customer as _, Type::INT4)];
        connection.execute(sql, &arguments).await?;
        delivered += 1;
    }
    Ok(Attempt::Committed { rows: delivered })
}

async fn stock_level(connection: &mut Connection, i: &StockLevel) -> Result<Attempt, Failure> {
    let (w, d) = ((&i.w as _, Type::INT4), (&i.d as _, Type::INT4));
    let sql = "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2";
    let rows = connection.query(sql, &[w.clone(), d.clone()]).await?;
    let next: i32 = value(one(&rows, "district")?, 0)?;
    let first = next - 20;
    let sql = "SELECT count(DISTINCT s_i_id) FROM order_line, stock \
        WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 \
        AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5";
    let arguments =
        [w, d, (&first as _, Type::INT4), (&next as _, Type::INT4), (&i.threshold as _, Type::INT4)];
    let rows = connection.query(sql, &arguments).await?;
    let low: i64 = value(one(&rows, "a count")?, 0)?;
    Ok(Attempt::Committed { rows: low as u64 })
}
