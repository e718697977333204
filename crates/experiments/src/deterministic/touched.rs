//! TPC-C's orders over rows that are made when they are first touched: a warehouse has its hundred thousand items and
//! three thousand customers in each district, and memory holds those that somebody has ordered.
//!
//! KEEPS: what a transaction sees and writes is what it would be had everything been loaded; each row depends on the
//! seed and its key alone.

use crate::populate;
use base::error::SqlResult;
use base::key::KeyRange;
use base::process::Process;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::AccessSet;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, Procedures, RowAccess, RowView};
use base::{DataType, Datum, Key, Row, TableId};
use node::request::{Reply, Request};
use sim::world::World;
use std::collections::BTreeMap;
use std::sync::Arc;
use workload::table::Placement;
use workload::tpcc::inputs::NewOrder as Lines;
use workload::tpcc::procedures::new_order::NewOrder;
use workload::tpcc::{Table, Tpcc};

/// Procedures of a database whose items, stocks and customers are made when they are touched.
pub fn procedures(tpcc: &Tpcc) -> Procedures {
    let mut procedures = Procedures::default();
    procedures.register(OrderTouching { tpcc: tpcc.clone() });
    procedures
}

/// Creates the tables and loads warehouses and districts; nothing has been ordered yet.
pub fn load<P>(world: &mut World<P>, tpcc: &Tpcc, placement: &Placement) -> Arc<Catalog>
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let topology = world.topology().clone();
    let specs = Table::ALL.iter().map(|table| table.spec());
    let catalog =
        populate::create(world, populate::schema(specs, placement, tpcc.warehouses as u32, &topology));
    let loaded = [Table::Warehouse, Table::District];
    let of = |table: Table, w| tpcc.rows(table, w).map(move |values| (table.spec().name, values));
    let rows = (1..=tpcc.warehouses).flat_map(|w| loaded.into_iter().flat_map(move |table| of(table, w)));
    populate::fill(world, &catalog, rows);
    catalog
}

/// `new_order` as it is, over rows that may have to be made.
struct OrderTouching {
    tpcc: Tpcc,
}

/// What one order may touch of the tables that are not loaded, by table and key.
struct Made<'a> {
    tpcc: &'a Tpcc,
    rows: BTreeMap<(TableId, Key), (Table, Vec<i64>)>,
}

impl Made<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        let (known, ids) = self.rows.get(&(table, key.clone()))?;
        self.tpcc.row(*known, ids).map(|values| Row::of(&values))
    }
}

impl OrderTouching {
    /// Nothing for arguments that the procedure will refuse.
    fn made(&self, args: &[Datum], catalog: &Catalog) -> Made<'_> {
        let mut rows = BTreeMap::new();
        let mut add = |table: Table, ids: Vec<i64>| {
            let id = catalog.require(table.spec().name).expect("a table of TPC-C").id;
            let key = Key::of(&ids.iter().copied().map(Datum::Int).collect::<Vec<_>>());
            rows.insert((id, key), (table, ids));
        };
        if let [Datum::Int(w), Datum::Int(d), Datum::Int(c), Datum::Text(text), ..] = args {
            add(Table::Customer, vec![*w, *d, *c]);
            for line in Lines::parse_lines(text).unwrap_or_default() {
                add(Table::Stock, vec![line.supply_w.into(), line.item.into()]);
                add(Table::Item, vec![line.item.into()]);
            }
        }
        Made { tpcc: &self.tpcc, rows }
    }
}

/// Rows that are there, and behind them those that nobody has written.
struct Reading<'a> {
    rows: &'a dyn RowView,
    made: Made<'a>,
}

struct Writing<'a> {
    rows: &'a mut dyn RowAccess,
    made: Made<'a>,
}

macro_rules! view {
    ($name:ident) => {
        impl RowView for $name<'_> {
            fn get(&self, table: TableId, key: &Key) -> Option<Row> {
                self.rows.get(table, key).or_else(|| self.made.get(table, key))
            }
            fn scan(
                &self,
                table: TableId,
                range: &KeyRange,
                descending: bool,
                visit: &mut dyn FnMut(&Key, &Row) -> bool,
            ) {
                self.rows.scan(table, range, descending, visit)
            }
            fn scan_index(
                &self,
                index: TableId,
                range: &KeyRange,
                descending: bool,
                visit: &mut dyn FnMut(&Key, &Row) -> bool,
            ) {
                self.rows.scan_index(index, range, descending, visit)
            }
        }
    };
}
view!(Reading);
view!(Writing);

impl RowAccess for Writing<'_> {
    fn write(&mut self, table: TableId, key: Key, row: Option<Row>) {
        self.rows.write(table, key, row)
    }
}

impl Procedure for OrderTouching {
    fn name(&self) -> &'static str {
        NewOrder.name()
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        NewOrder.arguments()
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        NewOrder.columns()
    }
    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        NewOrder.declare(args, catalog, topology)
    }
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        NewOrder.gather(args, context, &Reading { rows, made: self.made(args, context.catalog) })
    }
    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        let made = self.made(args, context.catalog);
        NewOrder.apply(args, context, exchange, &mut Writing { rows, made })
    }
}
