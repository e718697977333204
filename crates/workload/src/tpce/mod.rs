//! HTAPBench-E (PERSEUS §V-A): the six read-write transactions of TPC-E, and two global queries.
//!
//! Access patterns are TPC-E's: an order joins an account's rows with a security's, a result an account's with
//! its broker's, a market feed prices with the requests they trigger. What does not matter for ordering is left
//! out: names and addresses, taxes, watch lists, most columns. Accounts, brokers and securities each have a
//! home, so that orders and results usually span data centres. All columns are integers; money is in cents.
//!
//! KEEPS, at every cut ([`violations`]): an account's balance is its initial one and its settlements; a broker's
//! counters are those of the completed trades of its accounts; a holding is the initial one and what was bought
//! and sold; a trade has a history for every state it went through.

pub mod procedures;

use crate::table::{Home, TableSpec, columns};
use base::Datum;
use base::rng::Rng;
use std::collections::{BTreeMap, VecDeque};

columns!(customer_account { CA_ID: BIGINT, CA_B_ID: BIGINT, CA_BAL: BIGINT });
columns!(broker { B_ID: BIGINT, B_NUM_TRADES: BIGINT, B_COMM_TOTAL: BIGINT });
columns!(security { S_SYMB: BIGINT, S_CLASS: BIGINT, S_NUM_OUT: BIGINT, S_VERSION: BIGINT });
columns!(last_trade { LT_S_SYMB: BIGINT, LT_PRICE: BIGINT, LT_OPEN_PRICE: BIGINT, LT_VOL: BIGINT });
columns!(trade_request {
    TR_S_SYMB: BIGINT,
    TR_T_ID: BIGINT,
    TR_CA_ID: BIGINT,
    TR_BID: BIGINT,
    TR_QTY: BIGINT
});
columns!(trade {
    T_CA_ID: BIGINT,
    T_ID: BIGINT,
    T_S_SYMB: BIGINT,
    T_QTY: BIGINT,
    T_IS_BUY: BIGINT,
    T_STATUS: BIGINT,
    T_PRICE: BIGINT,
    T_COMM: BIGINT,
    T_EXEC: BIGINT,
});
columns!(trade_history { TH_CA_ID: BIGINT, TH_T_ID: BIGINT, TH_STATUS: BIGINT, TH_DTS: BIGINT });
columns!(holding_summary { HS_CA_ID: BIGINT, HS_S_SYMB: BIGINT, HS_QTY: BIGINT });
columns!(settlement { SE_CA_ID: BIGINT, SE_T_ID: BIGINT, SE_AMT: BIGINT });

macro_rules! table {
    ($name:ident = $module:ident, $($key:literal),+) => {
        pub const $name: TableSpec = TableSpec {
            name: stringify!($module),
            columns: $module::COLUMNS,
            primary_key: &[$($key),+],
            nullable: &[],
            indexes: &[],
            home: Home::By(first(&[$($key),+])),
        };
    };
}

const fn first(key: &[&'static str]) -> &'static str {
    key[0]
}

table!(ACCOUNT = customer_account, "ca_id");
table!(BROKER = broker, "b_id");
table!(SECURITY = security, "s_symb");
table!(LAST_TRADE = last_trade, "lt_s_symb");
table!(TRADE_REQUEST = trade_request, "tr_s_symb", "tr_t_id");
table!(TRADE = trade, "t_ca_id", "t_id");
table!(TRADE_HISTORY = trade_history, "th_ca_id", "th_t_id", "th_status");
table!(HOLDING_SUMMARY = holding_summary, "hs_ca_id", "hs_s_symb");
table!(SETTLEMENT = settlement, "se_ca_id", "se_t_id");

pub const TABLES: [TableSpec; 9] =
    [ACCOUNT, BROKER, SECURITY, LAST_TRADE, TRADE_REQUEST, TRADE, TRADE_HISTORY, HOLDING_SUMMARY, SETTLEMENT];

/// Broker Report: how much each broker's accounts have traded, and what is still open.
pub const BROKER_REPORT: &str = "SELECT b_id, b_num_trades, b_comm_total, count(*), sum(t_qty * t_price) \
FROM broker JOIN customer_account ON ca_b_id = b_id JOIN trade ON t_ca_id = ca_id \
GROUP BY b_id, b_num_trades, b_comm_total ORDER BY b_comm_total DESC";
/// The tables that Broker Report reads.
pub const BROKER_REPORT_TABLES: [&str; 3] = ["broker", "customer_account", "trade"];
/// Market Monitor: what all customers hold, at the last prices.
pub const MARKET_MONITOR: &str = "SELECT s_class, sum(hs_qty * lt_price), sum(hs_qty * lt_open_price) \
FROM holding_summary JOIN last_trade ON lt_s_symb = hs_s_symb JOIN security ON s_symb = hs_s_symb \
GROUP BY s_class ORDER BY s_class";
/// The tables that Market Monitor reads.
pub const MARKET_MONITOR_TABLES: [&str; 3] = ["holding_summary", "last_trade", "security"];

/// An account's balance at first.
pub const BALANCE: i64 = 100_000_000;
/// States of a trade.
pub const PENDING: i64 = 0;
pub const SUBMITTED: i64 = 1;
pub const COMPLETED: i64 = 2;

/// Sizes of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tpce {
    pub accounts: i64,
    pub brokers: i64,
    pub securities: i64,
    /// Securities that an account holds at first.
    pub holdings: i64,
}

impl Tpce {
    pub fn broker_of(&self, account: i64) -> i64 {
        account % self.brokers + 1
    }
    fn initial_quantity(&self, account: i64, symbol: i64) -> i64 {
        let first = account * 7 % self.securities;
        let place = (symbol - 1 - first).rem_euclid(self.securities);
        if place < self.holdings.min(self.securities) { 100 } else { 0 }
    }
    /// Every row, with the name of its table.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Vec<Datum>)> + use<> {
        let row = |table: &TableSpec, values: &[i64]| {
            (table.name, values.iter().map(|value| Datum::Int(*value)).collect::<Vec<_>>())
        };
        let sizes = self.clone();
        let brokers = (1..=self.brokers).map(move |b| row(&BROKER, &[b, 0, 0]));
        let securities = (1..=self.securities).flat_map(move |s| {
            let price = 2_000 + s * 37 % 1_000;
            [row(&SECURITY, &[s, s % 10, 1_000_000, 0]), row(&LAST_TRADE, &[s, price, price, 0])]
        });
        let accounts = (1..=self.accounts).flat_map(move |ca| {
            let account = row(&ACCOUNT, &[ca, sizes.broker_of(ca), BALANCE]);
            let sizes = sizes.clone();
            let held = (0..sizes.holdings.min(sizes.securities)).map(move |n| {
                let symbol = (ca * 7 + n) % sizes.securities + 1;
                row(&HOLDING_SUMMARY, &[ca, symbol, sizes.initial_quantity(ca, symbol)])
            });
            std::iter::once(account).chain(held)
        });
        brokers.chain(securities).chain(accounts)
    }
}

/// The six transactions, with TPC-E's weights among those that write.
const MIX: [(Kind, u64); 6] = [
    (Kind::TradeOrder, 101),
    (Kind::TradeResult, 100),
    (Kind::TradeUpdate, 20),
    (Kind::MarketFeed, 10),
    (Kind::DataMaintenance, 2),
    (Kind::TradeCleanup, 1),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    TradeOrder,
    TradeResult,
    TradeUpdate,
    MarketFeed,
    DataMaintenance,
    TradeCleanup,
}

/// The endless list of one client's transactions. A result follows an order of the same client.
#[derive(Debug)]
pub struct Inputs {
    tpce: Tpce,
    account: i64,
    rng: Rng,
    next_trade: i64,
    trade_step: i64,
    open: VecDeque<i64>,
    recent: VecDeque<i64>,
}

impl Inputs {
    /// The `client`-th (from 0) of `clients`; it trades for one account.
    pub fn new(tpce: &Tpce, client: i64, clients: i64, rng: Rng) -> Inputs {
        Inputs {
            tpce: tpce.clone(),
            account: client % tpce.accounts + 1,
            rng,
            next_trade: client,
            trade_step: clients,
            open: VecDeque::new(),
            recent: VecDeque::new(),
        }
    }
    /// The account it trades for.
    pub fn account(&self) -> i64 {
        self.account
    }
    /// Name and arguments of the next call; `now_us` is the client's clock.
    pub fn next_call(&mut self, now_us: i64) -> (&'static str, Vec<Datum>) {
        let total: u64 = MIX.iter().map(|(_, weight)| weight).sum();
        let mut draw = self.rng.below(total);
        let kind = MIX.iter().find_map(|(kind, weight)| {
            let found = draw < *weight;
            draw = draw.saturating_sub(*weight);
            found.then_some(*kind)
        });
        self.call(kind.expect("the draw is below the sum of the weights"), now_us)
    }
    fn symbol(&mut self) -> i64 {
        self.rng.between(1, self.tpce.securities)
    }
    fn call(&mut self, kind: Kind, now_us: i64) -> (&'static str, Vec<Datum>) {
        let ca = self.account;
        let broker = self.tpce.broker_of(ca);
        let (name, args, list) = match kind {
            Kind::TradeResult if !self.open.is_empty() => {
                let trade = self.open.pop_front().expect("just seen");
                self.recent.push_back(trade);
                self.recent.truncate(8);
                // The symbol is a function of the trade's number, so that it need not be looked up.
                let symbol = self.symbol_of(trade);
                ("trade_result", vec![ca, trade, symbol, broker, now_us], vec![])
            }
            Kind::TradeUpdate if !self.recent.is_empty() => {
                ("trade_update", vec![ca], self.recent.iter().take(3).copied().collect())
            }
            Kind::MarketFeed => {
                let mut symbols: Vec<i64> = (0..5).map(|_| self.symbol()).collect();
                symbols.sort_unstable();
                symbols.dedup();
                let price = |rng: &mut Rng| rng.between(1_900, 3_100);
                let ticks = symbols.into_iter().flat_map(|symbol| [symbol, price(&mut self.rng), 100]);
                ("market_feed", vec![], ticks.collect())
            }
            Kind::DataMaintenance => ("data_maintenance", vec![self.symbol()], vec![]),
            Kind::TradeCleanup => ("trade_cleanup", vec![self.symbol()], vec![]),
            Kind::TradeOrder | Kind::TradeResult | Kind::TradeUpdate => {
                let trade = self.next_trade;
                self.next_trade += self.trade_step;
                self.open.push_back(trade);
                let (quantity, buys) = (self.rng.between(1, 8) * 100, i64::from(self.rng.chance(0.5)));
                let (limit, bid) = (i64::from(self.rng.chance(0.4)), self.rng.between(1_900, 3_100));
                let symbol = self.symbol_of(trade);
                ("trade_order", vec![ca, trade, symbol, broker, quantity, buys, limit, bid, now_us], vec![])
            }
        };
        let mut args: Vec<Datum> = args.into_iter().map(Datum::Int).collect();
        if !list.is_empty() {
            let words: Vec<String> = list.iter().map(i64::to_string).collect();
            args.push(words.join(",").into());
        }
        (name, args)
    }
    fn symbol_of(&self, trade: i64) -> i64 {
        (trade * 31 + self.account * 17) % self.tpce.securities + 1
    }
}

/// What does not hold of these rows, in words; `rows` answers a table's rows at one cut.
pub fn violations(tpce: &Tpce, rows: impl Fn(&str) -> Vec<Vec<Datum>>) -> Vec<String> {
    let table = |spec: &TableSpec| -> Vec<Vec<i64>> {
        rows(spec.name).iter().map(|row| row.iter().map(Datum::int).collect()).collect()
    };
    let mut wrong = Vec::new();
    let mut settled: BTreeMap<i64, i64> = BTreeMap::new();
    for row in table(&SETTLEMENT) {
        *settled.entry(row[settlement::SE_CA_ID]).or_default() += row[settlement::SE_AMT];
    }
    let mut brokers: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut held: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let histories: std::collections::BTreeSet<(i64, i64, i64)> =
        table(&TRADE_HISTORY).iter().map(|row| (row[0], row[1], row[2])).collect();
    use trade::*;
    for row in table(&TRADE) {
        let (ca, id) = (row[T_CA_ID], row[T_ID]);
        let began = if histories.contains(&(ca, id, PENDING)) { PENDING } else { SUBMITTED };
        if !histories.contains(&(ca, id, began)) {
            wrong.push(format!("trade ({ca}, {id}) has no beginning in its history"));
        }
        if row[T_STATUS] == COMPLETED {
            if !histories.contains(&(ca, id, COMPLETED)) {
                wrong.push(format!("trade ({ca}, {id}) is completed without a history"));
            }
            let (count, commission) = brokers.entry(tpce.broker_of(ca)).or_default();
            *count += 1;
            *commission += row[T_COMM];
            let sign = if row[T_IS_BUY] == 1 { 1 } else { -1 };
            *held.entry((ca, row[T_S_SYMB])).or_default() += sign * row[T_QTY];
        }
    }
    for row in table(&ACCOUNT) {
        let expected = BALANCE + settled.get(&row[0]).copied().unwrap_or(0);
        let found = row[customer_account::CA_BAL];
        if found != expected {
            wrong.push(format!("account {} has {found}, its settlements say {expected}", row[0]));
        }
    }
    for row in table(&BROKER) {
        let expected = brokers.get(&row[0]).copied().unwrap_or_default();
        let found = (row[broker::B_NUM_TRADES], row[broker::B_COMM_TOTAL]);
        if found != expected {
            wrong.push(format!("broker {} counts {found:?}, its trades say {expected:?}", row[0]));
        }
    }
    for row in table(&HOLDING_SUMMARY) {
        let key = (row[0], row[1]);
        let expected = tpce.initial_quantity(key.0, key.1) + held.remove(&key).unwrap_or(0);
        if row[2] != expected {
            wrong.push(format!("account {} holds {} of {}, not {expected}", key.0, row[2], key.1));
        }
    }
    wrong.extend(held.into_keys().map(|key| format!("holding {key:?} has no summary")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::table::Placement;
    use base::schema::{Catalog, SchemaAction, SchemaChange};
    use base::topology::Topology;
    use base::wan::Wan;

    fn loaded(tpce: &Tpce) -> Model {
        let topology = Topology::one_node_per_region(Wan::uniform("two", &["us", "eu"], 1, 100), 2);
        let mut catalog = Catalog::default();
        for spec in &TABLES {
            let table = spec.describe(&Placement::Hash, 1, &topology, catalog.next_id);
            let actions = vec![SchemaAction::CreateTable(table)];
            catalog
                .apply(&SchemaChange { database: Default::default(), base_version: catalog.version, actions })
                .unwrap();
        }
        let mut model = Model::new(catalog, topology);
        for (name, values) in tpce.rows() {
            let id = model.catalog.require(name).unwrap().id;
            model.insert(id, &values);
        }
        model
    }

    #[test]
    fn accounts_brokers_and_holdings_agree_with_the_trades() {
        let tpce = Tpce { accounts: 12, brokers: 3, securities: 9, holdings: 3 };
        let mut model = loaded(&tpce);
        assert_eq!(violations(&tpce, |name| model.rows(name)), [""; 0]);
        let procedures = crate::procedures();
        let mut clients: Vec<Inputs> =
            (0..12).map(|n| Inputs::new(&tpce, n, 12, Rng::new(n as u64))).collect();
        let (mut done, mut across): (BTreeMap<&str, usize>, usize) = (BTreeMap::new(), 0);
        for n in 0..3000 {
            let (name, args) = clients[n % 12].next_call(n as i64);
            let procedure = procedures.get(name).unwrap();
            let access = procedure.declare(&args, &model.catalog, &model.topology).unwrap();
            across += usize::from(access.by_partition.len() > 1);
            model.call(&**procedure, &args).unwrap_or_else(|e| panic!("{name}: {e}"));
            *done.entry(name).or_default() += 1;
        }
        assert_eq!(violations(&tpce, |name| model.rows(name)), [""; 0]);
        assert_eq!(done.len(), 6, "{done:?}");
        assert!(done["trade_result"] > 1000 && across > 1500, "{done:?}, {across} leave their partition");
        assert!(model.rows("trade").iter().any(|row| row[trade::T_EXEC].int() > 0), "trades are updated");
        assert!(model.rows("last_trade").iter().any(|row| row[3].int() > 0), "prices are fed");
        // The conditions bite.
        let doubled = |name: &str| {
            let mut rows = model.rows(name);
            if name == "settlement" {
                rows.truncate(rows.len() - 1);
            }
            rows
        };
        assert_eq!(violations(&tpce, doubled).len(), 1);
    }

    #[test]
    fn a_result_of_a_trade_that_nobody_ordered_is_refused() {
        let tpce = Tpce { accounts: 2, brokers: 1, securities: 2, holdings: 1 };
        let mut model = loaded(&tpce);
        let procedures = crate::procedures();
        let args: Vec<Datum> = [1, 77, 1, tpce.broker_of(1), 0].map(Datum::Int).to_vec();
        assert!(model.call(&**procedures.get("trade_result").unwrap(), &args).is_err());
        assert_eq!(violations(&tpce, |name| model.rows(name)), [""; 0]);
    }
}
