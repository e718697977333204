//! What the terminals ask for: TPC-C's five transactions with TPC-H's columns, and ReceiveGoods.
//!
//! KEEPS: TPC-C's part of an input comes from the same stream as in TPC-C; everything else from a stream of its own, one
//! draw per line, so that lines of one order stay as independent of each other as loaded ones.

use super::load::{RETURN_FLAGS, SHIP_INSTRUCTIONS, SHIP_MODES, comment};
use super::{DAY_US, Vodka};
use crate::tpcc::{self, DISTRICTS};
use base::rng::Rng;

/// Lines of an order at most.
pub const LINES_MAX: usize = 15;

/// The six transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
    ReceiveGoods,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::NewOrder,
        Kind::Payment,
        Kind::OrderStatus,
        Kind::Delivery,
        Kind::StockLevel,
        Kind::ReceiveGoods,
    ];
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
            Kind::ReceiveGoods => "receive_goods",
        }
    }
}

/// Weights of the six transactions, and how often they leave their warehouse.
#[derive(Clone, PartialEq, Debug)]
pub struct Mix {
    /// In the order of [`Kind::ALL`].
    pub weights: [u32; 6],
    /// Chance that a line is supplied by another warehouse.
    pub remote_line: f64,
    /// Chance that a payment comes from a customer of another warehouse.
    pub remote_payment: f64,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { weights: [44, 42, 4, 4, 4, 2], remote_line: 0.01, remote_payment: 0.15 }
    }
}

/// What a line of a new order has beside TPC-C's columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineTerms {
    /// 1 to 50 as in TPC-H, in place of TPC-C's 1 to 10: queries filter on it, and loaded lines have the same range.
    pub quantity: i32,
    /// From the order's date to the promised one.
    pub commit_after_us: i64,
    /// Hundredths.
    pub discount_percent: i64,
    pub tax_percent: i64,
}

/// How one line leaves the warehouse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shipment {
    /// From the order's date to the shipment's.
    pub after_us: i64,
    pub mode: &'static str,
    pub instruction: &'static str,
}

/// How one line arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// From the shipment to the receipt.
    pub after_us: i64,
    pub flag: &'static str,
}

/// One transaction. What is drawn for each line is drawn for as many as an order can have.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    NewOrder {
        order: tpcc::inputs::NewOrder,
        terms: [LineTerms; LINES_MAX],
        comment: String,
    },
    Payment(tpcc::inputs::Payment),
    OrderStatus(tpcc::inputs::OrderStatus),
    /// One element per district.
    Delivery {
        w: i32,
        carrier: i32,
        shipments: Vec<[Shipment; LINES_MAX]>,
    },
    StockLevel(tpcc::inputs::StockLevel),
    /// One element per district.
    ReceiveGoods {
        w: i32,
        receipts: Vec<([Receipt; LINES_MAX], String)>,
    },
}

impl Input {
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder { .. } => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery { .. } => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
            Input::ReceiveGoods { .. } => Kind::ReceiveGoods,
        }
    }
}

/// The endless list of one terminal's transactions.
#[derive(Clone, Debug)]
pub struct Inputs {
    base: tpcc::Inputs,
    weights: [u32; 6],
    rng: Rng,
}

impl Inputs {
    /// The `terminal`-th (from 0) of `terminals`; see [`tpcc::Inputs::new`].
    pub fn new(vodka: &Vodka, mix: &Mix, terminal: u32, terminals: u32, history_base: i64) -> Inputs {
        let of_tpcc = tpcc::Mix {
            remote_line: mix.remote_line,
            remote_payment: mix.remote_payment,
            ..tpcc::Mix::default()
        };
        Inputs {
            base: tpcc::Inputs::new(&vodka.tpcc, of_tpcc, terminal, terminals, history_base),
            weights: mix.weights,
            rng: Rng::new(vodka.tpcc.seed).fork_nth("vodka terminal", u64::from(terminal)),
        }
    }
    pub fn warehouse(&self) -> i32 {
        self.base.w
    }
    /// What the terminal asks for next.
    pub fn next_input(&mut self) -> Input {
        let total: u32 = self.weights.iter().sum();
        let mut draw = self.rng.below(u64::from(total)) as u32;
        for (kind, weight) in Kind::ALL.into_iter().zip(self.weights) {
            if draw < weight {
                return self.input(kind);
            }
            draw -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
    /// The next transaction of this kind.
    pub fn input(&mut self, kind: Kind) -> Input {
        let of_tpcc = match kind {
            Kind::NewOrder => tpcc::Kind::NewOrder,
            Kind::Payment => tpcc::Kind::Payment,
            Kind::OrderStatus => tpcc::Kind::OrderStatus,
            Kind::Delivery => tpcc::Kind::Delivery,
            Kind::StockLevel => tpcc::Kind::StockLevel,
            Kind::ReceiveGoods => return self.receive_goods(),
        };
        match self.base.input(of_tpcc) {
            tpcc::Input::NewOrder(order) => {
                let terms = std::array::from_fn(|_| self.terms());
                Input::NewOrder { order, terms, comment: comment(&mut self.rng) }
            }
            tpcc::Input::Payment(payment) => Input::Payment(payment),
            tpcc::Input::OrderStatus(status) => Input::OrderStatus(status),
            tpcc::Input::Delivery(delivery) => {
                let shipments = (0..DISTRICTS).map(|_| std::array::from_fn(|_| self.shipment())).collect();
                Input::Delivery { w: delivery.w, carrier: self.rng.between(1, 5) as i32, shipments }
            }
            tpcc::Input::StockLevel(level) => Input::StockLevel(level),
        }
    }
    fn receive_goods(&mut self) -> Input {
        let receipts = (0..DISTRICTS).map(|_| {
            let lines = std::array::from_fn(|_| self.receipt());
            (lines, comment(&mut self.rng))
        });
        let receipts = receipts.collect();
        Input::ReceiveGoods { w: self.base.w, receipts }
    }
    fn terms(&mut self) -> LineTerms {
        LineTerms {
            quantity: self.rng.between(1, 50) as i32,
            commit_after_us: self.rng.between(30, 90) * DAY_US,
            discount_percent: self.rng.between(0, 10),
            tax_percent: self.rng.between(0, 8),
        }
    }
    fn shipment(&mut self) -> Shipment {
        Shipment {
            after_us: self.rng.between(1, 121) * DAY_US,
            mode: *self.rng.pick(&SHIP_MODES),
            instruction: *self.rng.pick(&SHIP_INSTRUCTIONS),
        }
    }
    fn receipt(&mut self) -> Receipt {
        Receipt { after_us: self.rng.between(1, 30) * DAY_US, flag: *self.rng.pick(&RETURN_FLAGS) }
    }
}

/// Which order of each district is received next. A terminal that receives goods owns its warehouse's pointers, and
/// moves them only when the transaction has committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivePointers {
    /// Per district, from 1: the oldest order that may not have been received.
    next: [i32; DISTRICTS as usize],
}

impl ReceivePointers {
    pub fn new(next: [i32; DISTRICTS as usize]) -> ReceivePointers {
        ReceivePointers { next }
    }
    /// The order to receive in a district, numbered from 1.
    pub fn order(&self, district: i32) -> i32 {
        self.next[(district - 1) as usize]
    }
    /// Moves past the orders that a committed transaction has received, given by district and order.
    pub fn committed(&mut self, received: &[(i32, i32)]) {
        for (district, order) in received {
            let next = &mut self.next[(district - 1) as usize];
            *next = (*next).max(order + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::Tpcc;

    fn inputs(mix: &Mix, warehouses: i32) -> Inputs {
        Inputs::new(&Vodka::new(Tpcc::new(warehouses).shrunk(100)), mix, 0, 4, 0)
    }

    #[test]
    fn two_runs_of_one_seed_ask_for_the_same() {
        let (mut a, mut b) = (inputs(&Mix::default(), 4), inputs(&Mix::default(), 4));
        assert!((0..500).all(|_| a.next_input() == b.next_input()));
        let mut other = Vodka::new(Tpcc::new(4).shrunk(100));
        other.tpcc.seed = 2;
        let mut c = Inputs::new(&other, &Mix::default(), 0, 4, 0);
        assert!((0..50).any(|_| a.next_input() != c.next_input()));
    }

    #[test]
    fn the_mix_is_what_it_says() {
        let mut inputs = inputs(&Mix::default(), 1);
        let mut counts = [0u32; 6];
        (0..20_000).for_each(|_| counts[inputs.next_input().kind() as usize] += 1);
        for (count, weight) in counts.iter().zip(Mix::default().weights) {
            assert!(count.abs_diff(weight * 200) < 30 + weight * 10, "{counts:?}");
        }
    }

    #[test]
    fn remote_lines_come_in_the_share_that_was_asked_for() {
        for (chance, low, high) in [(0.0, 0.0, 0.0), (0.01, 0.07, 0.12), (1.0, 1.0, 1.0)] {
            let mut inputs = inputs(&Mix { remote_line: chance, ..Mix::default() }, 8);
            let orders = 2000;
            let remote = (0..orders)
                .filter(|_| {
                    let Input::NewOrder { order, .. } = inputs.input(Kind::NewOrder) else { unreachable!() };
                    order.lines.iter().any(|line| line.supply_w != order.w)
                })
                .count();
            let share = remote as f64 / f64::from(orders);
            assert!(low <= share && share <= high, "{chance}: {share}");
        }
    }

    #[test]
    fn pointers_move_when_a_transaction_has_committed_and_only_where_it_received() {
        let mut pointers = ReceivePointers::new([2101; 10]);
        let before = pointers.clone();
        // Aborted: nothing is told to the pointers.
        assert_eq!((pointers.order(3), &pointers), (2101, &before));
        pointers.committed(&[(3, 2101), (10, 2101)]);
        assert_eq!((pointers.order(3), pointers.order(10), pointers.order(4)), (2102, 2102, 2101));
        // An older answer that arrives late moves nothing back.
        pointers.committed(&[(3, 2100)]);
        assert_eq!(pointers.order(3), 2102);
    }
}
