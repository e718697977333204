//! The initial population: TPC-C's, with TPC-H's columns and dates.
//!
//! KEEPS: each row depends on the seed and its own key alone; what is not a key is drawn independently of the keys and of
//! other tables, apart from the dates of one order and its lines, which follow each other.

use super::tables::{LOADED, Table};
use super::{DAY_US, FIRST_ENTRY_US, SUPPLIERS, Vodka, supplier_of};
use crate::random::{a_string, n_string};
use crate::tpcc::load::Rows;
use crate::tpcc::{self, DISTRICTS, Tpcc};
use base::Datum;
use base::decimal::Decimal;
use base::rng::Rng;

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// TPC-H's nations by key, each with its region (clause 4.2.3).
const NATIONS: [(&str, i64); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];
pub const SHIP_MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
pub const SHIP_INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
pub const RETURN_FLAGS: [&str; 3] = ["R", "A", "N"];
const CONTAINERS: [&str; 5] = ["SM", "LG", "MED", "JUMBO", "WRAP"];
const CONTAINER_KINDS: [&str; 8] = ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"];
const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];
/// Words of item names; the queries ask for `green` and `forest`.
const COLOURS: [&str; 24] = [
    "almond", "azure", "beige", "black", "blue", "brown", "coral", "cream", "cyan", "dark", "forest", "gold",
    "green", "grey", "honey", "ivory", "khaki", "lemon", "linen", "navy", "olive", "pink", "rose", "white",
];
/// Words of comments on orders; Q13 asks for `special` before `requests`.
const WORDS: [&str; 16] = [
    "quickly",
    "special",
    "pending",
    "final",
    "express",
    "regular",
    "packages",
    "requests",
    "accounts",
    "deposits",
    "ideas",
    "theories",
    "sleep",
    "wake",
    "furiously",
    "carefully",
];

/// A comment on an order. About one in 27 has `special` somewhere before `requests`, whenever it is written.
pub fn comment(rng: &mut Rng) -> String {
    let words: Vec<&str> = (0..5).map(|_| *rng.pick(&WORDS)).collect();
    words.join(" ")
}

/// `days` whole days, drawn.
pub fn days(rng: &mut Rng, low: i64, high: i64) -> i64 {
    rng.between(low, high) * DAY_US
}

impl Vodka {
    /// The rows of one warehouse; tables that belong to none ignore it.
    pub fn rows(&self, table: Table, w: i32) -> Rows {
        let rng = Rng::new(self.tpcc.seed).fork_nth(table.spec().name, w as u64);
        let nth = move |n: i64| rng.fork_nth("", n as u64);
        let base = |table: tpcc::Table| self.tpcc.rows(table, w).zip(0..);
        match table {
            Table::Region => {
                Box::new(REGIONS.iter().zip(0..).map(|(name, n)| vec![Datum::Int(n), (*name).into()]))
            }
            Table::Nation => Box::new(
                NATIONS
                    .iter()
                    .zip(0..)
                    .map(|((name, region), n)| vec![Datum::Int(n), (*name).into(), Datum::Int(*region)]),
            ),
            Table::Supplier => Box::new((1..=SUPPLIERS).map(move |n| supplier(n, &mut nth(n)))),
            Table::Item => Box::new(base(tpcc::Table::Item).map(move |(row, n)| item(row, &mut nth(n)))),
            Table::Warehouse => Box::new(self.tpcc.rows(tpcc::Table::Warehouse, w)),
            Table::History => Box::new(self.tpcc.rows(tpcc::Table::History, w)),
            Table::NewOrder => Box::new(self.tpcc.rows(tpcc::Table::NewOrder, w)),
            Table::District => Box::new(base(tpcc::Table::District).map(move |(mut row, n)| {
                row.push(nation(&mut nth(n)));
                row
            })),
            Table::Customer => {
                Box::new(base(tpcc::Table::Customer).map(move |(row, n)| customer(row, &mut nth(n))))
            }
            Table::Stock => {
                Box::new(base(tpcc::Table::Stock).map(move |(row, n)| stock(row, w, &mut nth(n))))
            }
            Table::Orders => {
                let orders = self.clone().orders(w);
                Box::new(orders.map(|order| order.row()))
            }
            Table::OrderLine => {
                let (orders, items) = (self.clone().orders(w), self.tpcc.items);
                Box::new(orders.flat_map(move |order| order.lines(items)))
            }
        }
    }

    /// How many rows [`Vodka::rows`] makes; for `order_line` the expected number.
    pub fn rows_count(&self, table: Table) -> u64 {
        let of = |table| self.tpcc.rows_count(table);
        match table {
            Table::Region => REGIONS.len() as u64,
            Table::Nation => NATIONS.len() as u64,
            Table::Supplier => SUPPLIERS as u64,
            Table::Item => of(tpcc::Table::Item),
            Table::Warehouse => of(tpcc::Table::Warehouse),
            Table::District => of(tpcc::Table::District),
            Table::Customer => of(tpcc::Table::Customer),
            Table::History => of(tpcc::Table::History),
            Table::Orders => of(tpcc::Table::Orders),
            Table::NewOrder => of(tpcc::Table::NewOrder),
            Table::OrderLine => of(tpcc::Table::OrderLine),
            Table::Stock => of(tpcc::Table::Stock),
        }
    }

    /// Notes what is to be loaded.
    pub fn note_begin(&self) -> String {
        let Tpcc { warehouses, items, customers, seed, loaded_at_us } = &self.tpcc;
        let table = LOADED.name;
        format!(
            "INSERT INTO {table} VALUES ({warehouses}, {items}, {customers}, {}, {loaded_at_us}, false)",
            *seed as i64
        )
    }
    /// Notes that all of it is.
    pub fn note_end() -> String {
        format!("UPDATE {} SET is_complete = true", LOADED.name)
    }

    fn orders(self, w: i32) -> impl Iterator<Item = Order> + Send {
        let first_undelivered = self.tpcc.first_undelivered();
        let customers = self.tpcc.customers;
        let rng = Rng::new(self.tpcc.seed).fork_nth("vodka orders", w as u64);
        (1..=DISTRICTS).flat_map(move |d| {
            let rng = rng.fork_nth("", d as u64);
            let mut ids: Vec<i32> = (1..=customers).collect();
            rng.fork("customers").shuffle(&mut ids);
            ids.into_iter().zip(1..).map(move |(customer, id)| {
                let mut rng = rng.fork_nth("", id as u64);
                let entry_us = FIRST_ENTRY_US + days(&mut rng, 0, 2405);
                let lines = rng.between(5, 15) as i32;
                Order { w, d, id, customer, entry_us, lines, received: id < first_undelivered, rng }
            })
        })
    }
}

/// An order of the initial population, and the stream that the rest of it is drawn from.
struct Order {
    w: i32,
    d: i32,
    id: i32,
    customer: i32,
    entry_us: i64,
    lines: i32,
    /// Delivered and received; the others are neither.
    received: bool,
    rng: Rng,
}

impl Order {
    fn row(&self) -> Vec<Datum> {
        let mut rng = self.rng.fork("order");
        let carrier = if self.received { Datum::Int(rng.between(1, 5)) } else { Datum::Null };
        let entry = Datum::Timestamp(self.entry_us);
        let (w, d, id, customer) = (int(self.w), int(self.d), int(self.id), int(self.customer));
        let comment = comment(&mut rng).into();
        vec![w, d, id, customer, entry, carrier, int(self.lines), int(1), comment, int(0), int(0)]
    }

    fn lines(self, items: i32) -> impl Iterator<Item = Vec<Datum>> + Send {
        let rng = self.rng.fork("lines");
        (1..=self.lines).map(move |number| {
            let rng = &mut rng.fork_nth("", number as u64);
            let item = rng.between(1, i64::from(items)) as i32;
            let ship_us = self.entry_us + days(rng, 1, 121);
            let commit_us = self.entry_us + days(rng, 30, 90);
            let receipt_us = ship_us + days(rng, 1, 30);
            let if_received = |datum: Datum| if self.received { datum } else { Datum::Null };
            let quantity = rng.between(1, 50);
            vec![
                int(self.w),
                int(self.d),
                int(self.id),
                int(number),
                int(item),
                int(self.w),
                if_received(Datum::Timestamp(ship_us)),
                if_received(Datum::Timestamp(receipt_us)),
                Datum::Timestamp(commit_us),
                Datum::Int(quantity),
                // At a price as items have it.
                cents(quantity * rng.between(100, 10_000)),
                cents(rng.between(0, 10)),
                cents(rng.between(0, 8)),
                if_received((*rng.pick(&RETURN_FLAGS)).into()),
                if_received((*rng.pick(&SHIP_MODES)).into()),
                if_received((*rng.pick(&SHIP_INSTRUCTIONS)).into()),
                int(supplier_of(self.w, item)),
                a_string(rng, 24, 24).into(),
                int(0),
                Datum::Timestamp(if self.received { receipt_us } else { self.entry_us }),
            ]
        })
    }
}

fn supplier(n: i64, rng: &mut Rng) -> Vec<Datum> {
    let mut remark = a_string(rng, 25, 70);
    // Five in ten thousand are complained about, as in TPC-H; Q16 leaves them out.
    if n % 2000 == 1 {
        remark.push_str("Customer Complaints");
    }
    vec![
        Datum::Int(n),
        format!("Supplier#{n:09}").into(),
        a_string(rng, 10, 40).into(),
        nation(rng),
        n_string(rng, 15, 15).into(),
        cents(rng.between(-99_999, 999_999)),
        remark.into(),
    ]
}

fn item(mut row: Vec<Datum>, rng: &mut Rng) -> Vec<Datum> {
    let mut name: Vec<&str> = COLOURS.to_vec();
    rng.shuffle(&mut name);
    row[super::tables::item::I_NAME] = name[..5].join(" ").into();
    let (m, n) = (rng.between(1, 5), rng.between(1, 5));
    let container = format!("{} {}", rng.pick(&CONTAINERS), rng.pick(&CONTAINER_KINDS));
    let kind: Vec<&str> = TYPES.iter().map(|words| *rng.pick(words)).collect();
    row.extend([
        container.into(),
        Datum::Int(rng.between(1, 50)),
        format!("Brand#{m}{n}").into(),
        kind.join(" ").into(),
        format!("Manufacturer#{m}").into(),
    ]);
    row
}

fn customer(mut row: Vec<Datum>, rng: &mut Rng) -> Vec<Datum> {
    use tpcc::tables::customer::{C_BALANCE, C_PHONE};
    row[C_BALANCE] = cents(rng.between(-99_999, 999_999));
    let nation_key = rng.between(0, 24);
    // TPC-H: a phone number begins with the nation's key + 10.
    row[C_PHONE] = format!("{}{}", nation_key + 10, n_string(rng, 14, 14)).into();
    row.extend([Datum::Int(nation_key), (*rng.pick(&SEGMENTS)).into(), int(0)]);
    row
}

fn stock(mut row: Vec<Datum>, w: i32, rng: &mut Rng) -> Vec<Datum> {
    use tpcc::tables::stock::{S_I_ID, S_QUANTITY};
    row[S_QUANTITY] = Datum::Int(rng.between(1, 9999));
    let suppkey = supplier_of(w, row[S_I_ID].int() as i32);
    row.extend([cents(rng.between(100, 100_000)), int(suppkey), int(0)]);
    row
}

fn nation(rng: &mut Rng) -> Datum {
    Datum::Int(rng.between(0, NATIONS.len() as i64 - 1))
}

fn cents(cents: i64) -> Datum {
    Decimal::new(i128::from(cents), 2).into()
}

fn int(i: i32) -> Datum {
    Datum::Int(i64::from(i))
}

#[cfg(test)]
mod tests {
    use super::super::tables::{order_line::*, orders::*};
    use super::*;
    use crate::tpcc::Tpcc;
    use std::collections::{BTreeMap, BTreeSet};

    fn small() -> Vodka {
        Vodka::new(Tpcc::new(2).shrunk(100))
    }

    #[test]
    fn rows_fit_their_columns_their_keys_are_unique_and_their_number_is_announced() {
        let vodka = small();
        for table in Table::ALL {
            let spec = table.spec();
            let key: Vec<usize> = spec.primary_key.iter().map(|c| spec.column(c)).collect();
            let mut keys = BTreeSet::new();
            let rows: Vec<_> = vodka.rows(table, 2).collect();
            let expected = vodka.rows_count(table);
            assert!(
                (rows.len() as u64).abs_diff(expected)
                    <= if table == Table::OrderLine { expected / 5 } else { 0 }
            );
            for row in &rows {
                assert_eq!(row.len(), spec.columns.len(), "{}", spec.name);
                for (value, (name, data_type)) in row.iter().zip(spec.columns) {
                    let nullable = spec.nullable.contains(&name.to_ascii_lowercase().as_str());
                    assert!(nullable || !value.is_null(), "{name} is null");
                    assert_eq!(data_type.coerce(value.clone()).as_ref(), Ok(value), "{name}");
                }
                assert!(keys.insert(key.iter().map(|&c| row[c].int()).collect::<Vec<_>>()), "{row:?}");
            }
            assert!(rows.iter().cloned().eq(vodka.rows(table, 2)), "the same again: {table:?}");
        }
    }

    #[test]
    fn a_lines_dates_follow_each_other_and_its_supplier_has_the_item() {
        let vodka = small();
        let stock: BTreeMap<i64, i64> = vodka
            .rows(Table::Stock, 1)
            .map(|row| (row[1].int(), row[Table::Stock.spec().column("s_suppkey")].int()))
            .collect();
        let orders: BTreeMap<(i64, i64), Vec<Datum>> =
            vodka.rows(Table::Orders, 1).map(|row| ((row[O_D_ID].int(), row[O_ID].int()), row)).collect();
        let at = |datum: &Datum| match datum {
            Datum::Timestamp(us) => Some(*us),
            _ => None,
        };
        let mut received = 0;
        for line in vodka.rows(Table::OrderLine, 1) {
            let order = &orders[&(line[OL_D_ID].int(), line[OL_O_ID].int())];
            let entry = at(&order[O_ENTRY_D]).unwrap();
            assert!(entry <= super::super::CLOCK_START_US);
            assert_eq!(line[OL_SUPPKEY].int(), stock[&line[OL_I_ID].int()]);
            assert_eq!(line[OL_DELIVERY_D].is_null(), order[O_CARRIER_ID].is_null());
            assert_eq!(line[OL_RETURNFLAG].is_null(), line[OL_RECEIPTDATE].is_null());
            if let (Some(ship), Some(receipt)) = (at(&line[OL_DELIVERY_D]), at(&line[OL_RECEIPTDATE])) {
                assert!(entry < ship && ship < receipt);
                received += 1;
            }
        }
        assert!(received > 1000);
    }

    #[test]
    fn q13s_words_have_a_stable_rate() {
        let mut rng = Rng::new(5);
        let hits = (0..20_000)
            .filter(|_| {
                let text = comment(&mut rng);
                text.find("special").is_some_and(|at| text[at..].contains("requests"))
            })
            .count();
        assert!((600..800).contains(&hits), "{hits}");
    }
}
