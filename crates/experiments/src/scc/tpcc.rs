//! TPC-C's transactions that only read, statement by statement, and terminals that write.

use super::session::{Ask, Fact, Found, Script, key_of, rows_in};
use base::key::KeyRange;
use base::schema::{Catalog, Table};
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{RowRead, StatementResult, TxnProgram};
use base::{Datum, Key, Row, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use workload::tpcc::inputs::{Input, NewOrder, OrderStatus, StockLevel, Who};
use workload::tpcc::tables::{customer, district, order_line, orders};
use workload::tpcc::{Inputs, Table as Known, UNKNOWN_ITEM};

/// Orders that StockLevel looks back at (clause 2.8.2.2).
const ORDERS: i64 = 20;

/// The next order's number of a district.
fn next_order(w: i32, d: i32) -> Fact {
    ("d_next_o_id", [w.into(), d.into(), 0])
}
/// The number of a customer's last order.
fn last_order(w: i32, d: i32, c: i64) -> Fact {
    ("o_id", [w.into(), d.into(), c])
}

// ---- who reads ----------------------------------------------------------------------------------------

/// OrderStatus and StockLevel, as a terminal asks for them.
pub struct Reading {
    catalog: Arc<Catalog>,
    inputs: Inputs,
    doing: Doing,
}

/// The statement that is under way.
enum Doing {
    Nothing,
    Customer(OrderStatus),
    LastOrder(OrderStatus, i64),
    District(StockLevel),
    RecentLines(StockLevel),
    /// The last of each: lines of an order, or stocks.
    Rest,
}

impl Reading {
    pub fn new(catalog: &Arc<Catalog>, inputs: Inputs) -> Reading {
        Reading { catalog: catalog.clone(), inputs, doing: Doing::Nothing }
    }
    fn table(&self, known: Known) -> &Table {
        self.catalog.require(known.spec().name).expect("a table that was made")
    }
    fn point(&self, known: Known, of: &[i64]) -> RowRead {
        rows_in(self.table(known).id, None, KeyRange::point(key_of(of)))
    }
    fn prefix(&self, known: Known, of: &[i64]) -> RowRead {
        rows_in(self.table(known).id, None, KeyRange::prefix(key_of(of)))
    }
    /// Rows whose entries in this table's only index begin so.
    fn indexed(&self, known: Known, range: KeyRange) -> RowRead {
        let table = self.table(known);
        rows_in(table.id, Some(table.indexes[0].id), range)
    }
    fn customer(&self, asked: &OrderStatus) -> RowRead {
        let (w, d) = (i64::from(asked.w), i64::from(asked.d));
        match &asked.customer {
            Who::Id(c) => self.point(Known::Customer, &[w, d, i64::from(*c)]),
            Who::LastName(name) => {
                let entries = [Datum::Int(w), Datum::Int(d), Datum::text(name)];
                self.indexed(Known::Customer, KeyRange::prefix(Key::of(&entries)))
            }
        }
    }
}

impl Script for Reading {
    fn begin(&mut self, _: Time) -> Ask {
        let (reads, doing) = match self.inputs.next_input() {
            Input::OrderStatus(asked) => (self.customer(&asked), Doing::Customer(asked)),
            Input::StockLevel(asked) => {
                let read = self.point(Known::District, &[asked.w.into(), asked.d.into()]);
                (read, Doing::District(asked))
            }
            other => panic!("{:?} writes", other.kind()),
        };
        self.doing = doing;
        Ask::Read(vec![reads])
    }
    fn read(&mut self, reads: Vec<Vec<(Key, Row)>>) -> Found {
        let rows = &reads[0];
        let ints = |row: &Row, column| row.get(column).int();
        match std::mem::replace(&mut self.doing, Doing::Rest) {
            Doing::Customer(asked) => {
                // Of several of one name the middle one, rounded up; a shrunk database lacks some names.
                let Some((_, row)) = rows.get(rows.len().div_ceil(2).saturating_sub(1)) else {
                    return Found::last(Vec::new());
                };
                let c = ints(row, customer::C_ID);
                let range = KeyRange::prefix(key_of(&[asked.w.into(), asked.d.into(), c]));
                let newest =
                    RowRead { descending: true, limit: Some(1), ..self.indexed(Known::Orders, range) };
                self.doing = Doing::LastOrder(asked, c);
                Found { shown: Vec::new(), next: Some(Ask::Read(vec![newest])) }
            }
            Doing::LastOrder(asked, c) => {
                let (_, row) = rows.first().expect("every customer has an order");
                let order = ints(row, orders::O_ID);
                let lines = self.prefix(Known::OrderLine, &[asked.w.into(), asked.d.into(), order]);
                let shown = vec![(last_order(asked.w, asked.d, c), order)];
                Found { shown, next: Some(Ask::Read(vec![lines])) }
            }
            Doing::District(asked) => {
                let (_, row) = rows.first().expect("the district is there");
                let next = ints(row, district::D_NEXT_O_ID);
                let (w, d) = (i64::from(asked.w), i64::from(asked.d));
                let (low, high) = (key_of(&[w, d, next - ORDERS]), Some(key_of(&[w, d, next])));
                let recent = rows_in(self.table(Known::OrderLine).id, None, KeyRange { low, high });
                let shown = vec![(next_order(asked.w, asked.d), next)];
                self.doing = Doing::RecentLines(asked);
                Found { shown, next: Some(Ask::Read(vec![recent])) }
            }
            Doing::RecentLines(asked) => {
                let items: BTreeSet<i64> =
                    rows.iter().map(|(_, row)| ints(row, order_line::OL_I_ID)).collect();
                let stock = |item: i64| self.point(Known::Stock, &[asked.w.into(), item]);
                let stocks: Vec<RowRead> = items.into_iter().map(stock).collect();
                Found { shown: Vec::new(), next: Some(Ask::Read(stocks)) }
            }
            Doing::Rest | Doing::Nothing => Found::last(Vec::new()),
        }
    }
    fn committed(&mut self, _: &[StatementResult]) -> Vec<(Fact, i64)> {
        unreachable!("it writes nothing")
    }
}

// ---- who writes ---------------------------------------------------------------------------------------

/// Calls of stored procedures, as a terminal asks for them.
pub struct Writing {
    pub catalog: Arc<Catalog>,
    pub topology: Arc<Topology>,
    pub procedures: Arc<Procedures>,
    pub inputs: Inputs,
    pub doing: Option<NewOrder>,
}

impl Script for Writing {
    fn begin(&mut self, now: Time) -> Ask {
        let input = self.inputs.next_input();
        let (name, args) = input.call((now.0 / 1000) as i64);
        self.doing = match input {
            Input::NewOrder(order) => Some(order),
            _ => None,
        };
        let procedure = self.procedures.get(name).expect("a registered procedure");
        let access = procedure.declare(&args, &self.catalog, &self.topology);
        let access = access.unwrap_or_else(|e| panic!("{name} cannot be declared: {e}"));
        Ask::Write(TxnProgram::Procedure { name: name.into(), args }, access)
    }
    fn read(&mut self, _: Vec<Vec<(Key, Row)>>) -> Found {
        unreachable!("it reads nothing")
    }
    /// An order has the number that the procedure answers, and the district the next one.
    fn committed(&mut self, results: &[StatementResult]) -> Vec<(Fact, i64)> {
        let Some(NewOrder { w, d, c, .. }) = self.doing.take() else { return Vec::new() };
        let row = results.iter().flat_map(|result| &result.rows).next().expect("an order has a number");
        let order = row.get(0).int();
        vec![(next_order(w, d), order + 1), (last_order(w, d, c.into()), order)]
    }
    fn may_fail(&self, state: &str) -> bool {
        state == UNKNOWN_ITEM
    }
}
