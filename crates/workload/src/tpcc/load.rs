//! The initial population (clause 4.3.3.1).
//!
//! KEEPS: each row depends on the seed and its own key alone (orders and their lines on the same
//! stream), so any table of any warehouse can be made separately, in any order, any number of times.

use super::{DISTRICTS, Table, Tpcc};
use crate::random::{a_string, last_name, n_string, nurand, zip};
use base::Datum;
use base::decimal::Decimal;
use base::rng::Rng;

/// The constant of clause 2.1.6 that shifts last names while loading; see [`super::inputs`].
const C_LAST_LOAD: i64 = 91;

/// Rows of one table.
pub type Rows = Box<dyn Iterator<Item = Vec<Datum>> + Send>;

impl Tpcc {
    /// The rows of one warehouse in this table; `item` belongs to no warehouse and ignores it.
    pub fn rows(&self, table: Table, warehouse: i32) -> Rows {
        let rng = Rng::new(self.seed).fork_nth(table.spec().name, warehouse as u64);
        let sizes = self.clone();
        match table {
            Table::Item => Box::new((1..=self.items).map(move |i| item(i, rng.fork_nth("", i as u64)))),
            Table::Warehouse => Box::new(std::iter::once(self.warehouse(warehouse, rng))),
            Table::Stock => {
                Box::new((1..=self.items).map(move |i| stock(warehouse, i, rng.fork_nth("", i as u64))))
            }
            _ => Box::new((1..=DISTRICTS).flat_map(move |d| {
                sizes.clone().rows_of_district(table, warehouse, d, rng.fork_nth("", d as u64))
            })),
        }
    }

    /// One row by itself, of a table whose rows go by a warehouse and a number (`stock`), by a number (`item`), or by
    /// a warehouse, a district and a number (`customer`): as [`Tpcc::rows`] makes it. `None` if there is no such row.
    pub fn row(&self, table: Table, key: &[i64]) -> Option<Vec<Datum>> {
        let within = |n: i64, most: i32| (1..=i64::from(most)).contains(&n).then_some(n as i32);
        let stream = |w: i32| Rng::new(self.seed).fork_nth(table.spec().name, w as u64);
        match (table, key) {
            (Table::Item, [i]) => Some(item(within(*i, self.items)?, stream(1).fork_nth("", *i as u64))),
            (Table::Stock, [w, i]) => {
                let (w, i) = (within(*w, self.warehouses)?, within(*i, self.items)?);
                Some(stock(w, i, stream(w).fork_nth("", i as u64)))
            }
            (Table::Customer, [w, d, c]) => {
                let (w, d) = (within(*w, self.warehouses)?, within(*d, DISTRICTS)?);
                let c = within(*c, self.customers)?;
                Some(self.customer(w, d, c, stream(w).fork_nth("", d as u64).fork_nth("", c as u64)))
            }
            _ => None,
        }
    }

    fn rows_of_district(self, table: Table, w: i32, d: i32, mut rng: Rng) -> Rows {
        let customers = 1..=self.customers;
        match table {
            Table::District => Box::new(std::iter::once(self.district(w, d, rng))),
            Table::Customer => {
                Box::new(customers.map(move |c| self.customer(w, d, c, rng.fork_nth("", c as u64))))
            }
            Table::History => Box::new(customers.map(move |c| self.history(w, d, c, &mut rng))),
            Table::Orders => Box::new(self.orders(w, d).map(move |order| order.row(w, d))),
            Table::NewOrder => {
                Box::new((self.first_undelivered()..=self.customers).map(move |o| ints([w, d, o])))
            }
            Table::OrderLine => Box::new(self.orders(w, d).flat_map(move |order| self.lines(w, d, order))),
            Table::Item | Table::Warehouse | Table::Stock => unreachable!("{table:?} has no districts"),
        }
    }

    /// How many rows [`Tpcc::rows`] makes; for `order_line` the expected number.
    pub fn rows_count(&self, table: Table) -> u64 {
        let per_district = i64::from(match table {
            Table::Item | Table::Stock => return self.items as u64,
            Table::Warehouse => return 1,
            Table::District => 1,
            Table::Customer | Table::History | Table::Orders => self.customers,
            Table::NewOrder => self.customers + 1 - self.first_undelivered(),
            Table::OrderLine => self.customers * 10,
        });
        per_district as u64 * DISTRICTS as u64
    }

    fn warehouse(&self, w: i32, mut rng: Rng) -> Vec<Datum> {
        let mut row = vec![int(w), a_string(&mut rng, 6, 10).into()];
        row.extend(address(&mut rng));
        row.push(tax(&mut rng));
        // What all customers of all districts have paid so far.
        row.push(cents(i64::from(DISTRICTS) * i64::from(self.customers) * 1000));
        row
    }

    fn district(&self, w: i32, d: i32, mut rng: Rng) -> Vec<Datum> {
        let mut row = vec![int(w), int(d), a_string(&mut rng, 6, 10).into()];
        row.extend(address(&mut rng));
        row.extend([tax(&mut rng), cents(i64::from(self.customers) * 1000), int(self.customers + 1)]);
        row
    }

    fn customer(&self, w: i32, d: i32, c: i32, mut rng: Rng) -> Vec<Datum> {
        let rng = &mut rng;
        let name = if c <= 1000 { i64::from(c - 1) } else { nurand(rng, 255, C_LAST_LOAD, 0, 999) };
        let mut row = vec![int(w), int(d), int(c), a_string(rng, 8, 16).into(), "OE".into()];
        row.push(last_name(name).into());
        row.extend(address(rng));
        row.extend([n_string(rng, 16, 16).into(), Datum::Timestamp(self.loaded_at_us)]);
        row.push(if rng.chance(0.1) { "BC" } else { "GC" }.into());
        let discount = Decimal::new(i128::from(rng.between(0, 5000)), 4);
        row.extend([cents(5_000_000), discount.into(), cents(-1000), cents(1000), int(1), int(0)]);
        row.push(a_string(rng, 300, 500).into());
        row
    }

    fn history(&self, w: i32, d: i32, c: i32, rng: &mut Rng) -> Vec<Datum> {
        let id = Datum::Int(i64::from(d - 1) * i64::from(self.customers) + i64::from(c));
        let data = a_string(rng, 12, 24).into();
        let paid_at = Datum::Timestamp(self.loaded_at_us);
        vec![int(w), id, int(d), int(w), int(d), int(c), paid_at, cents(1000), data]
    }

    /// The orders of a district: every customer has one, in random order.
    fn orders(&self, w: i32, d: i32) -> impl Iterator<Item = Order> + Send + use<> {
        let rng = Rng::new(self.seed).fork_nth("orders", w as u64).fork_nth("", d as u64);
        let mut customers: Vec<i32> = (1..=self.customers).collect();
        rng.fork("customers").shuffle(&mut customers);
        let (undelivered, entered_at_us) = (self.first_undelivered(), self.loaded_at_us);
        customers.into_iter().zip(1..).map(move |(customer, id)| {
            let mut rng = rng.fork_nth("", id as u64);
            let carrier = (id < undelivered).then(|| rng.between(1, 10) as i32);
            let lines = rng.between(5, 15) as i32;
            Order { id, customer, carrier, lines, entered_at_us, rng }
        })
    }

    fn lines(&self, w: i32, d: i32, mut order: Order) -> impl Iterator<Item = Vec<Datum>> + Send + use<> {
        let items = i64::from(self.items);
        (1..=order.lines).map(move |number| {
            let rng = &mut order.rng;
            let i = rng.between(1, items) as i32;
            let (delivered_at, amount) = match order.carrier {
                Some(_) => (Datum::Timestamp(order.entered_at_us), 0),
                None => (Datum::Null, rng.between(1, 999_999)),
            };
            let mut row = ints([w, d, order.id, number, i, w]);
            row.extend([delivered_at, int(5), cents(amount), a_string(rng, 24, 24).into()]);
            row
        })
    }
}

/// An order of the initial population, and the stream its lines are drawn from.
struct Order {
    id: i32,
    customer: i32,
    carrier: Option<i32>,
    lines: i32,
    entered_at_us: i64,
    rng: Rng,
}

impl Order {
    fn row(&self, w: i32, d: i32) -> Vec<Datum> {
        let carrier = self.carrier.map_or(Datum::Null, int);
        let entered_at = Datum::Timestamp(self.entered_at_us);
        vec![int(w), int(d), int(self.id), int(self.customer), entered_at, carrier, int(self.lines), int(1)]
    }
}

fn item(i: i32, mut rng: Rng) -> Vec<Datum> {
    let rng = &mut rng;
    let image = Datum::Int(rng.between(1, 10_000));
    vec![int(i), image, a_string(rng, 14, 24).into(), cents(rng.between(100, 10_000)), data(rng)]
}

fn stock(w: i32, i: i32, mut rng: Rng) -> Vec<Datum> {
    let rng = &mut rng;
    let mut row = vec![int(w), int(i), Datum::Int(rng.between(10, 100))];
    row.extend((0..DISTRICTS).map(|_| Datum::from(a_string(rng, 24, 24))));
    row.extend([int(0), int(0), int(0), data(rng)]);
    row
}

/// 26 to 50 letters, with `ORIGINAL` somewhere in a tenth of them.
fn data(rng: &mut Rng) -> Datum {
    let mut data = a_string(rng, 26, 50);
    if rng.chance(0.1) {
        let at = rng.below((data.len() - 7) as u64) as usize;
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data.into()
}

/// Two streets, city, state, zip.
fn address(rng: &mut Rng) -> [Datum; 5] {
    let mut place = || Datum::from(a_string(rng, 10, 20));
    let [street_1, street_2, city] = [place(), place(), place()];
    // CH-benCHmark takes the nation from the state's first character: any of the 62.
    [street_1, street_2, city, a_string(rng, 2, 2).into(), zip(rng).into()]
}

fn tax(rng: &mut Rng) -> Datum {
    Decimal::new(i128::from(rng.between(0, 2000)), 4).into()
}

fn cents(cents: i64) -> Datum {
    Decimal::new(i128::from(cents), 2).into()
}

fn int(i: i32) -> Datum {
    Datum::Int(i64::from(i))
}

fn ints<const N: usize>(values: [i32; N]) -> Vec<Datum> {
    values.into_iter().map(int).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tables::*;
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn small() -> Tpcc {
        Tpcc::new(2).shrunk(50)
    }

    #[test]
    fn rows_fit_their_columns_and_their_keys_are_unique() {
        let tpcc = small();
        for table in Table::ALL {
            let spec = table.spec();
            let key: Vec<usize> = spec.primary_key.iter().map(|c| spec.column(c)).collect();
            let mut keys = BTreeSet::new();
            let rows: Vec<_> = (1..=2).flat_map(|w| tpcc.rows(table, w)).collect();
            let rows = if table == Table::Item { &rows[..rows.len() / 2] } else { &rows[..] };
            for row in rows {
                assert_eq!(row.len(), spec.columns.len(), "{}", spec.name);
                for (value, (name, data_type)) in row.iter().zip(spec.columns) {
                    let nullable = spec.nullable.contains(&name.to_ascii_lowercase().as_str());
                    assert!(nullable || !value.is_null(), "{name} is null");
                    assert_eq!(data_type.coerce(value.clone()).as_ref(), Ok(value), "{name}");
                }
                assert!(keys.insert(key.iter().map(|&c| row[c].int()).collect::<Vec<_>>()), "{row:?}");
            }
        }
    }

    #[test]
    fn the_counts_are_those_announced() {
        let tpcc = small();
        for table in Table::ALL {
            let (made, announced) = (tpcc.rows(table, 1).count() as u64, tpcc.rows_count(table));
            match table {
                Table::OrderLine => assert!(made.abs_diff(announced) < announced / 10, "{made}, {announced}"),
                _ => assert_eq!(made, announced, "{table:?}"),
            }
        }
        assert_eq!(Tpcc::new(1).rows_count(Table::NewOrder), 9000);
    }

    #[test]
    fn a_table_of_a_warehouse_can_be_made_alone_and_again() {
        let tpcc = small();
        for table in Table::ALL {
            assert!(tpcc.rows(table, 2).eq(tpcc.rows(table, 2)), "{table:?}");
        }
        assert!(
            !tpcc
                .rows(Table::Stock, 1)
                .map(|r| r[2].clone())
                .eq(tpcc.rows(Table::Stock, 2).map(|r| r[2].clone()))
        );
    }

    #[test]
    fn a_row_made_by_itself_is_the_one_that_is_loaded() {
        let tpcc = small();
        for (table, ids) in [(Table::Item, 1), (Table::Stock, 2), (Table::Customer, 3)] {
            for loaded in tpcc.rows(table, if ids == 1 { 1 } else { 2 }) {
                let key: Vec<i64> = loaded[..ids].iter().map(Datum::int).collect();
                assert_eq!(tpcc.row(table, &key), Some(loaded), "{table:?} {key:?}");
            }
        }
        assert_eq!(tpcc.row(Table::Stock, &[1, i64::from(tpcc.items) + 1]), None);
        assert_eq!(tpcc.row(Table::Stock, &[3, 1]), None);
    }

    #[test]
    fn orders_and_lines_agree() {
        let tpcc = small();
        let mut lines: BTreeMap<(i64, i64), Vec<Vec<Datum>>> = BTreeMap::new();
        for row in tpcc.rows(Table::OrderLine, 1) {
            let key = (row[order_line::OL_D_ID].int(), row[order_line::OL_O_ID].int());
            lines.entry(key).or_default().push(row);
        }
        let mut customers = BTreeSet::new();
        for order in tpcc.rows(Table::Orders, 1) {
            let (d, o) = (order[orders::O_D_ID].int(), order[orders::O_ID].int());
            assert!(customers.insert((d, order[orders::O_C_ID].int())), "one order each");
            let lines = &lines[&(d, o)];
            assert_eq!(lines.len() as i64, order[orders::O_OL_CNT].int());
            let undelivered = order[orders::O_CARRIER_ID].is_null();
            assert_eq!(undelivered, o >= i64::from(tpcc.first_undelivered()));
            for line in lines {
                assert_eq!(line[order_line::OL_DELIVERY_D].is_null(), undelivered);
                assert_eq!(line[order_line::OL_AMOUNT] == cents(0), !undelivered);
            }
        }
        assert_eq!(customers.len(), 10 * tpcc.customers as usize);
    }
}
