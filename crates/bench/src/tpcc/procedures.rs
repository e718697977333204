//! The five transactions as one CALL each.

use crate::load::now_us;
use crate::statements::{Attempt, Connection, Failure};
use chrono::{NaiveDate, NaiveDateTime, TimeDelta};
use rust_decimal::Decimal;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use workload::tpcc::UNKNOWN_ITEM;
use workload::tpcc::inputs::{Input, Who};

/// The client's clock, as TPC-C's dates take it.
pub fn now() -> NaiveDateTime {
    let epoch =
        NaiveDate::from_ymd_opt(2000, 1, 1).and_then(|day| day.and_hms_opt(0, 0, 0)).unwrap_or_default();
    epoch + TimeDelta::microseconds(now_us())
}

/// Number and name by which the procedures take a customer; one of them is null.
fn customer(who: &Who) -> (Option<i32>, Option<&str>) {
    match who {
        Who::Id(id) => (Some(*id), None),
        Who::LastName(name) => (None, Some(name)),
    }
}

/// Runs one transaction once.
pub async fn run(connection: &mut Connection, input: &Input) -> Result<Attempt, Failure> {
    let result = match input {
        Input::NewOrder(i) => {
            let sql = "CALL new_order($1, $2, $3, $4, $5)";
            let (lines, now) = (i.lines_text(), now());
            let arguments = [
                (&i.w as _, Type::INT4),
                (&i.d as _, Type::INT4),
                (&i.c as _, Type::INT4),
                (&lines as _, Type::TEXT),
                (&now as _, Type::TIMESTAMP),
            ];
            connection.query(sql, &arguments).await
        }
        Input::Payment(i) => {
            let sql = "CALL payment($1, $2, $3, $4, $5, $6, $7, $8, $9)";
            let ((id, name), amount, now) = (customer(&i.customer), Decimal::new(i.amount_cents, 2), now());
            let arguments = [
                (&i.w as _, Type::INT4),
                (&i.d as _, Type::INT4),
                (&i.c_w as _, Type::INT4),
                (&i.c_d as _, Type::INT4),
                (&id as _, Type::INT4),
                (&name as _, Type::TEXT),
                (&amount as _, Type::NUMERIC),
                (&i.history as _, Type::INT8),
                (&now as _, Type::TIMESTAMP),
            ];
            connection.query(sql, &arguments).await
        }
        Input::OrderStatus(i) => {
            let (id, name) = customer(&i.customer);
            let arguments = [
                (&i.w as _, Type::INT4),
                (&i.d as _, Type::INT4),
                (&id as _, Type::INT4),
                (&name as _, Type::TEXT),
            ];
            connection.query("CALL order_status($1, $2, $3, $4)", &arguments).await
        }
        Input::Delivery(i) => {
            let now = now();
            let arguments =
                [(&i.w as _, Type::INT4), (&i.carrier as _, Type::INT4), (&now as _, Type::TIMESTAMP)];
            connection.query("CALL delivery($1, $2, $3)", &arguments).await
        }
        Input::StockLevel(i) => {
            let arguments =
                [(&i.w as _, Type::INT4), (&i.d as _, Type::INT4), (&i.threshold as _, Type::INT4)];
            connection.query("CALL stock_level($1, $2, $3)", &arguments).await
        }
    };
    let rolled_back = matches!(input, Input::NewOrder(i) if i.rollback);
    match result {
        Ok(_) if rolled_back => Err(Failure::Wrong("an order with an unknown item was accepted".into())),
        Ok(rows) => Ok(Attempt::Committed { rows: rows.len() as u64 }),
        Err(error) if rolled_back && error.code() == Some(&SqlState::from_code(UNKNOWN_ITEM)) => {
            Ok(Attempt::RolledBack)
        }
        Err(error) => Err(error.into()),
    }
}
