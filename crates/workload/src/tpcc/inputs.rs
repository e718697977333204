//! What the terminals ask for (clauses 2.4.1 to 2.8.1) and in which mix (5.2.3).

use super::{DISTRICTS, Tpcc};
use crate::random::{last_name, nurand};
use base::Datum;
use base::decimal::Decimal;
use base::rng::Rng;

/// The constants of clause 2.1.6. The shift of last names differs from the one used while loading
/// by 83, which the clause allows (65..=119 without 96 and 112).
const C_LAST_RUN: i64 = 174;
const C_ID: i64 = 407;
const C_ITEM: i64 = 5501;

/// The five transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The name of its stored procedure.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }
}

/// Weights of the five transactions and how often they leave their warehouse.
#[derive(Clone, PartialEq, Debug)]
pub struct Mix {
    /// In the order of [`Kind::ALL`].
    pub weights: [u32; 5],
    /// Chance that one order line is supplied by another warehouse: 0.01, which makes about a tenth of
    /// all orders cross warehouses.
    pub remote_line: f64,
    /// Chance that a payment comes from a customer of another warehouse: 0.15.
    pub remote_payment: f64,
    /// Chance that an order names an unknown item and is rolled back: 0.01.
    pub unknown_item: f64,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { weights: [45, 43, 4, 4, 4], remote_line: 0.01, remote_payment: 0.15, unknown_item: 0.01 }
    }
}

impl Mix {
    /// Only this kind of transaction.
    pub fn only(kind: Kind) -> Mix {
        let mut weights = [0; 5];
        weights[kind as usize] = 1;
        Mix { weights, ..Mix::default() }
    }
}

/// How a transaction names its customer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    Id(i32),
    /// The middle one of those with this last name, by first name, rounded up.
    LastName(String),
}

/// One line of an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line {
    pub supply_w: i32,
    pub item: i32,
    pub quantity: i32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewOrder {
    pub w: i32,
    pub d: i32,
    pub c: i32,
    /// By warehouse and item, so that lock-based servers do not deadlock on stock; an unknown item
    /// comes last, as clause 2.4.1.5 wants it.
    pub lines: Vec<Line>,
    /// The last item is unknown: the order must be rolled back.
    pub rollback: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payment {
    pub w: i32,
    pub d: i32,
    pub c_w: i32,
    pub c_d: i32,
    pub customer: Who,
    pub amount_cents: i64,
    /// Key of the history row, unique at the database.
    pub history: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderStatus {
    pub w: i32,
    pub d: i32,
    pub customer: Who,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    pub w: i32,
    pub carrier: i32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StockLevel {
    pub w: i32,
    pub d: i32,
    pub threshold: i32,
}

/// What one transaction is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }
    /// Name and arguments of the stored procedure that does it; `now_us` is the client's clock in µs since
    /// 2000-01-01.
    pub fn call(&self, now_us: i64) -> (&'static str, Vec<Datum>) {
        let now = Datum::Timestamp(now_us);
        let args = match self {
            Input::NewOrder(i) => vec![int(i.w), int(i.d), int(i.c), i.lines_text().into(), now],
            Input::Payment(i) => {
                let [c, c_last] = i.customer.args();
                let place = [i.w, i.d, i.c_w, i.c_d].map(int);
                place.into_iter().chain([c, c_last, i.amount().into(), Datum::Int(i.history), now]).collect()
            }
            Input::OrderStatus(i) => {
                let [c, c_last] = i.customer.args();
                vec![int(i.w), int(i.d), c, c_last]
            }
            Input::Delivery(i) => vec![int(i.w), int(i.carrier), now],
            Input::StockLevel(i) => vec![int(i.w), int(i.d), int(i.threshold)],
        };
        (self.kind().name(), args)
    }
    /// The warehouses it touches beside its own.
    pub fn remote_warehouses(&self) -> Vec<i32> {
        let (home, mut others) = match self {
            Input::NewOrder(n) => (n.w, n.lines.iter().map(|line| line.supply_w).collect()),
            Input::Payment(p) => (p.w, vec![p.c_w]),
            Input::OrderStatus(_) | Input::Delivery(_) | Input::StockLevel(_) => return vec![],
        };
        others.retain(|&w| w != home);
        others.sort_unstable();
        others.dedup();
        others
    }
}

impl Who {
    /// The procedures' two arguments: number and last name, one of them null.
    fn args(&self) -> [Datum; 2] {
        match self {
            Who::Id(id) => [int(*id), Datum::Null],
            Who::LastName(name) => [Datum::Null, Datum::text(name)],
        }
    }
}

fn int(i: i32) -> Datum {
    Datum::Int(i64::from(i))
}

impl NewOrder {
    /// The lines as the stored procedure takes them: `item:supply_w:quantity,…`.
    pub fn lines_text(&self) -> String {
        let lines: Vec<String> =
            self.lines.iter().map(|l| format!("{}:{}:{}", l.item, l.supply_w, l.quantity)).collect();
        lines.join(",")
    }
    /// Reads [`NewOrder::lines_text`] back; `None` if it is something else.
    pub fn parse_lines(text: &str) -> Option<Vec<Line>> {
        let line = |text: &str| {
            let mut numbers = text.split(':').map(|n| n.trim().parse::<i32>().ok());
            let line =
                Line { item: numbers.next()??, supply_w: numbers.next()??, quantity: numbers.next()?? };
            numbers.next().is_none().then_some(line)
        };
        text.split(',').map(line).collect()
    }
}

impl Payment {
    pub fn amount(&self) -> Decimal {
        Decimal::new(i128::from(self.amount_cents), 2)
    }
}

/// The endless list of one terminal's transactions.
#[derive(Clone, Debug)]
pub struct Inputs {
    tpcc: Tpcc,
    mix: Mix,
    rng: Rng,
    /// The terminal's warehouse, and the district whose stock level it asks for.
    pub w: i32,
    pub d: i32,
    history: i64,
    history_step: i64,
    others: Others,
}

/// Where remote lines and payments go.
#[derive(Clone, Debug)]
enum Others {
    /// To any warehouse but the terminal's own.
    All,
    /// To one of these, which the terminal's own is not among.
    These(Vec<i32>),
}

impl Inputs {
    /// The `terminal`-th (from 0) of `terminals`. History keys are `history_base + terminal`, and from
    /// there in steps of `terminals`: two runs need bases that lie far enough apart, such as the µs of
    /// their start.
    pub fn new(tpcc: &Tpcc, mix: Mix, terminal: u32, terminals: u32, history_base: i64) -> Inputs {
        assert!(terminal < terminals, "terminal {terminal} of {terminals}");
        let w = terminal as i32 % tpcc.warehouses + 1;
        Inputs {
            mix,
            rng: Rng::new(tpcc.seed).fork_nth("terminal", u64::from(terminal)),
            w,
            d: terminal as i32 / tpcc.warehouses % DISTRICTS + 1,
            history: history_base + i64::from(terminal),
            history_step: i64::from(terminals),
            others: Others::All,
            tpcc: tpcc.clone(),
        }
    }
    /// Moves the terminal to this warehouse.
    pub fn at(mut self, w: i32) -> Inputs {
        self.move_to(w);
        self
    }
    fn move_to(&mut self, w: i32) {
        assert!(1 <= w && w <= self.tpcc.warehouses, "there is no warehouse {w}");
        self.w = w;
        self.others = Others::All;
    }
    /// Moves the terminal to a warehouse drawn at random, for a single terminal that is to touch them all.
    pub fn at_random_warehouse(&mut self) -> &mut Inputs {
        let w = self.rng.between(1, i64::from(self.tpcc.warehouses)) as i32;
        self.move_to(w);
        self
    }
    /// Remote lines and payments go to these warehouses only, say those of one far region.
    pub fn remote_to(mut self, warehouses: &[i32]) -> Inputs {
        self.others = Others::These(warehouses.iter().copied().filter(|&w| w != self.w).collect());
        self
    }
    /// What the terminal asks for next.
    pub fn next_input(&mut self) -> Input {
        let total: u32 = self.mix.weights.iter().sum();
        let mut draw = self.rng.below(u64::from(total)) as u32;
        for (kind, weight) in Kind::ALL.into_iter().zip(self.mix.weights) {
            if draw < weight {
                return self.input(kind);
            }
            draw -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
    /// The next transaction of this kind.
    pub fn input(&mut self, kind: Kind) -> Input {
        match kind {
            Kind::NewOrder => Input::NewOrder(self.new_order()),
            Kind::Payment => Input::Payment(self.payment()),
            Kind::OrderStatus => {
                let (w, d) = (self.w, self.district());
                Input::OrderStatus(OrderStatus { w, d, customer: self.who() })
            }
            Kind::Delivery => {
                Input::Delivery(Delivery { w: self.w, carrier: self.rng.between(1, 10) as i32 })
            }
            Kind::StockLevel => {
                let threshold = self.rng.between(10, 20) as i32;
                Input::StockLevel(StockLevel { w: self.w, d: self.d, threshold })
            }
        }
    }

    fn new_order(&mut self) -> NewOrder {
        let (w, d, c) = (self.w, self.district(), self.customer());
        let rollback = self.rng.chance(self.mix.unknown_item);
        let count = self.rng.between(5, 15) as usize;
        let mut lines: Vec<Line> = (0..count).map(|_| self.line()).collect();
        lines.sort_unstable();
        if rollback {
            let last = lines.last_mut().expect("at least five lines");
            *last = Line { supply_w: w, item: self.tpcc.items + 1, quantity: last.quantity };
        }
        NewOrder { w, d, c, lines, rollback }
    }
    fn line(&mut self) -> Line {
        let item = nurand(&mut self.rng, 8191, C_ITEM, 1, i64::from(self.tpcc.items)) as i32;
        let supply_w = self.other_warehouse(self.mix.remote_line);
        Line { supply_w, item, quantity: self.rng.between(1, 10) as i32 }
    }
    fn payment(&mut self) -> Payment {
        let (w, d) = (self.w, self.district());
        let c_w = self.other_warehouse(self.mix.remote_payment);
        let c_d = if c_w == w { d } else { self.district() };
        let history = self.history;
        self.history += self.history_step;
        let customer = self.who();
        Payment { w, d, c_w, c_d, customer, amount_cents: self.rng.between(100, 500_000), history }
    }
    fn other_warehouse(&mut self, chance: f64) -> i32 {
        if !self.rng.chance(chance) {
            return self.w;
        }
        match &self.others {
            Others::All if self.tpcc.warehouses > 1 => {
                let other = self.rng.between(1, i64::from(self.tpcc.warehouses) - 1) as i32;
                if other < self.w { other } else { other + 1 }
            }
            Others::These(others) if !others.is_empty() => *self.rng.pick(others),
            _ => self.w,
        }
    }
    fn district(&mut self) -> i32 {
        self.rng.between(1, i64::from(DISTRICTS)) as i32
    }
    fn customer(&mut self) -> i32 {
        nurand(&mut self.rng, 1023, C_ID, 1, i64::from(self.tpcc.customers)) as i32
    }
    fn who(&mut self) -> Who {
        if !self.rng.chance(0.6) {
            return Who::Id(self.customer());
        }
        // A shrunk database has only the first names.
        let names = i64::from(self.tpcc.customers.min(1000));
        Who::LastName(last_name(nurand(&mut self.rng, 255, C_LAST_RUN, 0, names - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn many(mix: Mix, count: usize) -> Vec<Input> {
        let mut inputs = Inputs::new(&Tpcc::new(3), mix, 4, 30, 1_000_000);
        (0..count).map(|_| inputs.next_input()).collect()
    }

    #[test]
    fn the_mix_and_the_remote_shares_are_the_standards() {
        let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
        let (mut remote_orders, mut remote_payments, mut rollbacks) = (0, 0, 0);
        for input in many(Mix::default(), 20_000) {
            *kinds.entry(input.kind()).or_default() += 1;
            let remote = !input.remote_warehouses().is_empty();
            match &input {
                Input::NewOrder(n) => {
                    remote_orders += usize::from(remote);
                    rollbacks += usize::from(n.rollback);
                    assert_eq!(n.rollback, n.lines.last().unwrap().item > 100_000);
                    assert!((5..=15).contains(&n.lines.len()));
                    assert_eq!(NewOrder::parse_lines(&n.lines_text()).as_ref(), Some(&n.lines));
                }
                Input::Payment(p) => {
                    remote_payments += usize::from(remote);
                    assert!(remote || p.c_d == p.d);
                }
                _ => assert!(!remote),
            }
        }
        let share = |n: usize, of: Kind| n as f64 / kinds[&of] as f64;
        assert!((8_700..9_300).contains(&kinds[&Kind::NewOrder]), "{kinds:?}");
        assert!((700..900).contains(&kinds[&Kind::Delivery]), "{kinds:?}");
        // 1 − 0.99^10 on average.
        assert!((0.08..0.11).contains(&share(remote_orders, Kind::NewOrder)));
        assert!((0.14..0.16).contains(&share(remote_payments, Kind::Payment)));
        assert!((0.006..0.014).contains(&share(rollbacks, Kind::NewOrder)), "{rollbacks}");
    }

    #[test]
    fn history_keys_never_repeat_between_terminals() {
        let mut keys = BTreeSet::new();
        for terminal in 0..7 {
            let mut inputs = Inputs::new(&Tpcc::new(3), Mix::only(Kind::Payment), terminal, 7, 500);
            for _ in 0..50 {
                let Input::Payment(p) = inputs.next_input() else { panic!("only payments were asked for") };
                assert!(keys.insert(p.history));
            }
        }
        assert_eq!((keys.first(), keys.last()), (Some(&500), Some(&(500 + 50 * 7 - 1))));
    }

    #[test]
    fn a_single_warehouse_has_no_remote_work_and_a_region_can_be_named() {
        let all_remote = Mix { remote_line: 1.0, remote_payment: 1.0, ..Mix::default() };
        let mut alone = Inputs::new(&Tpcc::new(1), all_remote.clone(), 0, 1, 0);
        assert!((0..200).all(|_| alone.next_input().remote_warehouses().is_empty()));
        let mut far = Inputs::new(&Tpcc::new(6), all_remote, 0, 1, 0).at(2).remote_to(&[2, 5]);
        for _ in 0..200 {
            let input = far.next_input();
            assert!(input.remote_warehouses().iter().all(|&w| w == 5), "{input:?}");
        }
    }

    #[test]
    fn lines_that_are_not_lines_are_refused() {
        for text in ["", "1:2", "1:2:3:4", "a:1:1", "1:1:1,", "99999999999:1:1"] {
            assert_eq!(NewOrder::parse_lines(text), None, "{text:?}");
        }
    }
}
