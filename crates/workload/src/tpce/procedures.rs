//! The six transactions as stored procedures.

use super::*;
use crate::whole_rows::{Change, Stored, Touch, Values, WholeRows};
use base::error::{SqlError, SqlResult, SqlState};
use base::txn::procedure::Procedures;

pub fn register(procedures: &mut Procedures) {
    procedures.register(Stored(TradeOrder));
    procedures.register(Stored(TradeResult));
    procedures.register(Stored(TradeUpdate));
    procedures.register(Stored(MarketFeed));
    procedures.register(Stored(DataMaintenance));
    procedures.register(Stored(TradeCleanup));
}

fn one(rows: &[Values]) -> &Values {
    rows.first().expect("checked where it lives")
}

fn must_exist(what: &str, rows: &[Values]) -> SqlResult<()> {
    match rows {
        [] => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("{what} does not exist"))),
        _ => Ok(()),
    }
}

/// `CALL trade_order(account, trade, symbol, broker, quantity, buys, limit, bid, now)`: reads the account, its
/// broker, the security and its last price; a limit order leaves a request with the security.
pub struct TradeOrder;

impl WholeRows for TradeOrder {
    fn name(&self) -> &'static str {
        "trade_order"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["account", "trade", "symbol", "broker", "quantity", "buys", "limited", "bid", "now"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        let [ca, t, symbol, broker, .., limited, _, _] = args else { unreachable!("nine arguments") };
        let began = if *limited == 1 { PENDING } else { SUBMITTED };
        let mut touches = vec![
            Touch::read(&ACCOUNT, &[*ca]),
            Touch::read(&BROKER, &[*broker]),
            Touch::read(&SECURITY, &[*symbol]),
            Touch::read(&LAST_TRADE, &[*symbol]),
            Touch::write(&TRADE, &[*ca, *t]),
            Touch::write(&TRADE_HISTORY, &[*ca, *t, began]),
        ];
        if *limited == 1 {
            touches.push(Touch::write(&TRADE_REQUEST, &[*symbol, *t]));
        }
        touches
    }
    fn check(&self, _: &[i64], nth: usize, rows: &[Values]) -> SqlResult<()> {
        match nth {
            0 => must_exist("the account", rows),
            1 => must_exist("the broker", rows),
            2 | 3 => must_exist("the security", rows),
            4 if !rows.is_empty() => {
                Err(SqlError::new(SqlState::UNIQUE_VIOLATION, "the account has a trade of this number"))
            }
            _ => Ok(()),
        }
    }
    fn changes(&self, args: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let [ca, t, symbol, _, quantity, buys, limited, bid, now] = *args else { unreachable!() };
        let price = if limited == 1 { bid } else { one(&rows[3])[last_trade::LT_PRICE] };
        let status = if limited == 1 { PENDING } else { SUBMITTED };
        let mut changes = vec![
            Change::Put(&TRADE, vec![ca, t, symbol, quantity, buys, status, price, 0, 0]),
            Change::Put(&TRADE_HISTORY, vec![ca, t, status, now]),
        ];
        if limited == 1 {
            changes.push(Change::Put(&TRADE_REQUEST, vec![symbol, t, ca, bid, quantity]));
        }
        changes
    }
}

/// `CALL trade_result(account, trade, symbol, broker, now)`: completes a trade, moves money and holding, pays
/// the broker. A request that the market has not triggered meanwhile is taken off the security.
pub struct TradeResult;

impl WholeRows for TradeResult {
    fn name(&self) -> &'static str {
        "trade_result"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["account", "trade", "symbol", "broker", "now"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        let [ca, t, symbol, broker, _] = *args else { unreachable!("five arguments") };
        vec![
            Touch::write(&TRADE, &[ca, t]),
            Touch::write(&HOLDING_SUMMARY, &[ca, symbol]),
            Touch::write(&ACCOUNT, &[ca]),
            Touch::write(&BROKER, &[broker]),
            Touch::write(&TRADE_HISTORY, &[ca, t, COMPLETED]),
            Touch::write(&SETTLEMENT, &[ca, t]),
            Touch::write(&TRADE_REQUEST, &[symbol, t]),
        ]
    }
    fn check(&self, _: &[i64], nth: usize, rows: &[Values]) -> SqlResult<()> {
        match (nth, rows) {
            (0, [trade]) if trade[trade::T_STATUS] == COMPLETED => {
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the trade is completed already"))
            }
            (0, rows) => must_exist("the trade", rows),
            (2, rows) => must_exist("the account", rows),
            (3, rows) => must_exist("the broker", rows),
            _ => Ok(()),
        }
    }
    fn changes(&self, args: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let [ca, t, symbol, _, now] = *args else { unreachable!("five arguments") };
        use trade::*;
        let mut trade = one(&rows[0]).clone();
        let amount = trade[T_QTY] * trade[T_PRICE];
        let sign = if trade[T_IS_BUY] == 1 { 1 } else { -1 };
        let commission = amount / 100;
        trade[T_STATUS] = COMPLETED;
        trade[T_COMM] = commission;
        let held = rows[1].first().map_or(0, |row| row[holding_summary::HS_QTY]);
        let holding = vec![ca, symbol, held + sign * trade[T_QTY]];
        let mut account = one(&rows[2]).clone();
        account[customer_account::CA_BAL] -= sign * amount;
        let mut broker = one(&rows[3]).clone();
        broker[broker::B_NUM_TRADES] += 1;
        broker[broker::B_COMM_TOTAL] += commission;
        let mut changes = vec![
            Change::Put(&TRADE, trade),
            Change::Put(&HOLDING_SUMMARY, holding),
            Change::Put(&ACCOUNT, account),
            Change::Put(&BROKER, broker),
            Change::Put(&TRADE_HISTORY, vec![ca, t, COMPLETED, now]),
            Change::Put(&SETTLEMENT, vec![ca, t, -sign * amount]),
        ];
        if !rows[6].is_empty() {
            changes.push(Change::Delete(&TRADE_REQUEST, vec![symbol, t]));
        }
        changes
    }
}

/// `CALL trade_update(account, 'trade,trade,…')`: changes how some trades of an account were executed.
pub struct TradeUpdate;

impl WholeRows for TradeUpdate {
    fn name(&self) -> &'static str {
        "trade_update"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["account", "trade_list"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        args[1..].iter().map(|trade| Touch::write(&TRADE, &[args[0], *trade])).collect()
    }
    fn changes(&self, _: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let updated = rows.iter().flatten().map(|row| {
            let mut row = row.clone();
            row[trade::T_EXEC] += 1;
            Change::Put(&TRADE, row)
        });
        updated.collect()
    }
}

/// `CALL market_feed('symbol,price,volume,…')`: new prices; requests that they meet are triggered.
pub struct MarketFeed;

impl WholeRows for MarketFeed {
    fn name(&self) -> &'static str {
        "market_feed"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["tick_list"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        let of =
            |tick: &[i64]| [Touch::write(&LAST_TRADE, &tick[..1]), Touch::write(&TRADE_REQUEST, &tick[..1])];
        args.chunks_exact(3).flat_map(of).collect()
    }
    fn changes(&self, args: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let mut changes = Vec::new();
        for (tick, rows) in args.chunks_exact(3).zip(rows.chunks_exact(2)) {
            let [symbol, price, volume] = *tick else { unreachable!("chunks of three") };
            for row in &rows[0] {
                let mut row = row.clone();
                row[last_trade::LT_PRICE] = price;
                row[last_trade::LT_VOL] += volume;
                changes.push(Change::Put(&LAST_TRADE, row));
            }
            let met = rows[1].iter().filter(|request| request[trade_request::TR_BID] >= price);
            changes.extend(met.map(|request| {
                Change::Delete(&TRADE_REQUEST, vec![symbol, request[trade_request::TR_T_ID]])
            }));
        }
        changes
    }
}

/// `CALL data_maintenance(symbol)`: changes a security's description.
pub struct DataMaintenance;

impl WholeRows for DataMaintenance {
    fn name(&self) -> &'static str {
        "data_maintenance"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["symbol"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        vec![Touch::write(&SECURITY, args)]
    }
    fn changes(&self, _: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let described = rows[0].iter().map(|row| {
            let mut row = row.clone();
            row[security::S_VERSION] += 1;
            Change::Put(&SECURITY, row)
        });
        described.collect()
    }
}

/// `CALL trade_cleanup(symbol)`: drops every request of a security.
pub struct TradeCleanup;

impl WholeRows for TradeCleanup {
    fn name(&self) -> &'static str {
        "trade_cleanup"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["symbol"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        vec![Touch::write(&TRADE_REQUEST, args)]
    }
    fn changes(&self, _: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let keys = rows[0].iter().map(|request| request[..2].to_vec());
        keys.map(|key| Change::Delete(&TRADE_REQUEST, key)).collect()
    }
}
