//! Tables and rows into a world of nodes, through the engine like everything else, many partitions at a time.

use base::process::Process;
use base::schema::{Catalog, Location, SchemaAction, SchemaChange};
use base::time::SECOND;
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, Outcome, Statement, Submission, TxnProgram};
use base::{Datum, NodeId, PartitionId, Row, TableId, Time, Token};
use node::request::{Reply, Request};
use sim::world::World;
use sim::world::client::{Client, ClientEffects, ClientEvent};
use std::collections::BTreeMap;
use std::sync::Arc;
use workload::table::{Placement, TableSpec};

/// Rows of one transaction of the load.
const ROWS_MAX: usize = 1_000;

/// The change that makes these tables; `values` of the home column are placed.
pub fn schema<'a>(
    specs: impl Iterator<Item = &'a TableSpec>,
    placement: &Placement,
    values: u32,
    topology: &Topology,
) -> SchemaChange {
    let mut next_id = 1;
    let actions = specs.map(|spec| {
        let table = spec.describe(placement, values, topology, next_id);
        next_id += 1 + table.indexes.len() as u32;
        SchemaAction::CreateTable(table)
    });
    SchemaChange { database: Default::default(), base_version: 0, actions: actions.collect() }
}

/// Makes the tables everywhere.
pub fn create<P>(world: &mut World<P>, change: SchemaChange) -> Arc<Catalog>
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let mut catalog = Catalog::default();
    catalog.apply(&change).expect("the schema fits an empty catalog");
    let mut access = AccessSet::default();
    for partition in world.topology().partition_ids() {
        access.add(partition, Granule::Partition, AccessMode::Write);
    }
    run(world, [(NodeId(0), vec![submission(TxnProgram::Schema(change), access)])].into());
    Arc::new(catalog)
}

/// Loads rows, each with the name of its table, through the nodes where they live, and lets every copy catch
/// up. Rows that live everywhere should come first.
pub fn fill<P>(
    world: &mut World<P>,
    catalog: &Catalog,
    rows: impl Iterator<Item = (&'static str, Vec<Datum>)>,
) where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let topology = world.topology().clone();
    let mut open: BTreeMap<Option<PartitionId>, Batch> = BTreeMap::new();
    let mut ready: BTreeMap<NodeId, Vec<Submission>> = BTreeMap::new();
    let mut flush = |home: Option<PartitionId>, batch: Batch| {
        let gateway = home.map_or(NodeId(0), |partition| topology.node_of(partition));
        ready.entry(gateway).or_default().push(batch.submission(catalog, home, &topology));
    };
    for (name, values) in rows {
        let table = catalog.require(name).expect("a table that was made");
        let home = match table.locate_row(&values, &topology) {
            Location::One(partition) => Some(partition),
            Location::Everywhere => None,
        };
        let batch = open.entry(home).or_default();
        batch.tables.entry(table.id).or_default().push(Row::of(&values));
        batch.count += 1;
        if batch.count >= ROWS_MAX {
            flush(home, std::mem::take(batch));
        }
    }
    open.into_iter().filter(|(_, batch)| batch.count > 0).for_each(|(home, batch)| flush(home, batch));
    run(world, ready);
    world.run_until(world.now() + SECOND);
}

#[derive(Default)]
struct Batch {
    tables: BTreeMap<TableId, Vec<Row>>,
    count: usize,
}

impl Batch {
    fn submission(self, catalog: &Catalog, home: Option<PartitionId>, topology: &Topology) -> Submission {
        let mut access = AccessSet::default();
        let homes = home.map_or_else(|| topology.partition_ids().collect(), |partition| vec![partition]);
        for partition in homes {
            // Nothing else runs yet; naming every key would cost more than the rows.
            access.add(partition, Granule::Partition, AccessMode::Write);
        }
        let insert = |(table, rows): (TableId, Vec<Row>)| Statement::Insert {
            table,
            schema_version: catalog.table(table).expect("a table that was made").version,
            rows,
            on_conflict: OnConflict::Fail,
            returning: None,
        };
        submission(TxnProgram::Statements(self.tables.into_iter().map(insert).collect()), access)
    }
}

/// A transaction without a session before it.
pub fn submission(program: TxnProgram, mut access: AccessSet) -> Submission {
    access.normalize();
    let token = Token::default();
    Submission {
        program: Arc::new(program),
        access: Arc::new(access),
        token,
        request: None,
        isolation: Default::default(),
    }
}

/// Submits each gateway's transactions one after another, all gateways side by side; panics unless all commit.
pub fn run<P>(world: &mut World<P>, work: BTreeMap<NodeId, Vec<Submission>>)
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    for (gateway, submissions) in work {
        let region = world.topology().region_of(gateway);
        world.client_in(region, Loader { gateway, left: submissions.into_iter(), is_done: false });
    }
    let limit = world.now() + 600 * SECOND;
    world.run_to_rest(limit).unwrap_or_else(|stuck| panic!("loading: {stuck}"));
}

/// Submits transactions one after another.
struct Loader {
    gateway: NodeId,
    left: std::vec::IntoIter<Submission>,
    is_done: bool,
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Loader {
    fn step(&mut self, _: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        if let ClientEvent::Reply { reply: Reply::Submitted(answer), .. } = event {
            let outcome = answer.map(|answer| answer.outcome);
            if let Ok(Outcome::Aborted(error)) | Err(error) = outcome {
                panic!("loading: {error}");
            }
        }
        match self.left.next() {
            Some(submission) => _ = out.ask(self.gateway, Request::Submit(submission)),
            None => self.is_done = true,
        }
    }
    fn is_done(&self) -> bool {
        self.is_done
    }
}
