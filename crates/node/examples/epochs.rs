//! How many row writes of other members one core merges with engine `geogauss`, with real rows.
//!
//! `cargo run --release -p node --example epochs -- [epochs] [transactions of a member in an epoch]`
//!
//! A member whose own clients rest takes the write sets of two others, two rows of 100 bytes each out of 200,000, in epochs
//! of 10 ms. What is measured is CPU time of this thread, by what it is for: decoding messages; everything that a member
//! does for a write set that came (arrival, counts, both passes of the merge, decisions and their digest, rows and
//! the stream); giving up old versions. The bound is what the rows alone take: the same write sets installed into the same rows,
//! in the same order, with nothing decided. Both run in this process, one after the other.

#[allow(dead_code, reason = "of what measurements share it needs a part")]
mod common;

use base::codec;
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::{Catalog, Column, Identity, Placement, SchemaAction, SchemaChange, Table};
use base::time::{MS, US};
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{AccessMode, AccessSet, Gathered, Granule, Isolation, ReadGranule, Transaction, TxnProgram};
use base::wan::Wan;
use base::write_set::{RowState, WriteSet};
use base::{DataType, Datum, Key, NodeId, PartitionId, Place, Rank, RegionId, Row, TableId, Time, TxnId};
use common::{P, cpu_ns};
use mimalloc::MiMalloc;
use rowstore::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use txn::engine::{Applied, Engine, EngineEffect, Executor};
use txn::geogauss::message::{Body, Epoch, Payload, Progress, Seat, Segment};
use txn::geogauss::{Geogauss, Message, Options};

/// As in the `meridian` command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const ROWS: u64 = 200_000;
const ROWS_WRITTEN: usize = 2;
const EPOCH_NS: u64 = 10 * MS;
/// Transactions have read so many epochs before they are merged.
const LAG: u64 = 4;
/// The first epoch with transactions.
const FIRST: u64 = 101;
const TABLE: TableId = TableId(1);

fn table() -> Table {
    let column = |name: &str, data_type| Column {
        name: name.into(),
        data_type,
        not_null: true,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    Table {
        id: TABLE,
        schema: "public".into(),
        name: "usertable".into(),
        version: 1,
        columns: vec![column("k", DataType::BigInt), column("v", DataType::Text)],
        primary_key: vec![0],
        primary_key_name: "usertable_pkey".into(),
        indexes: Vec::new(),
        checks: Default::default(),
        foreign: Default::default(),
        domains: Default::default(),
        placement: Placement::Home(RegionId(0)),
    }
}

fn key(n: u64) -> Key {
    Key::of(&[Datum::Int(n as i64)])
}
fn row(n: u64, letter: u8) -> Row {
    Row::of(&[Datum::Int(n as i64), Datum::text(String::from(letter as char).repeat(100))])
}
fn name(node: u16, sequence: u64) -> TxnId {
    TxnId { coordinator: NodeId(node), incarnation: 1, sequence }
}
fn rank(epoch: u64) -> Rank {
    Rank(epoch * EPOCH_NS)
}

/// The rows of one partition, as a node's executor has them.
struct Rows(Store);

impl Executor for Rows {
    fn gather(&mut self, _: PartitionId, transaction: &Transaction) -> Gathered {
        self.0.gather(transaction)
    }
    fn apply(
        &mut self,
        _: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        self.0.apply(transaction, place, exchange)
    }
    fn install(
        &mut self,
        _: PartitionId,
        place: Place,
        writes: &BTreeMap<PartitionId, WriteSet>,
    ) -> Result<Applied, base::SqlError> {
        self.0.install_writes(place, writes)
    }
    fn is_unchanged(&self, read: &ReadGranule) -> bool {
        self.0.is_unchanged(read)
    }
    fn has_row(&self, _: PartitionId, table: TableId, key: &Key) -> bool {
        self.0.has_row(table, key)
    }
}

fn filled(topology: &Arc<Topology>) -> Store {
    let mut store = Store::new(P, topology.clone(), Arc::new(Procedures::default()));
    let mut access = AccessSet::default();
    access.add(P, Granule::Partition, AccessMode::Write);
    let actions = vec![SchemaAction::CreateTable(table())];
    let program = TxnProgram::Schema(SchemaChange { base_version: Catalog::default().version, actions });
    let transaction = Transaction {
        id: name(0, 1),
        program: Arc::new(program),
        access: Arc::new(access),
        min_rank: Rank::ZERO,
        after: Rank::ZERO,
        homes: None,
    };
    let Gathered::Values(values) = store.gather(&transaction) else { panic!("the table is created") };
    let exchange = BTreeMap::from([(P, Gathered::Values(values))]);
    store.apply(&transaction, Place::new(Rank(1), transaction.id), &exchange);
    for n in 0..ROWS {
        let version = store.catalog().require("usertable").expect("created").version;
        let writes = BTreeMap::from([(P, write_set(&[n], b'a', version))]);
        store.install_writes(Place::new(Rank(2 + n), name(0, 2 + n)), &writes).expect("it fits");
    }
    store
}

fn write_set(keys: &[u64], letter: u8, schema_version: u64) -> WriteSet {
    let state = |n: &u64| RowState { table: TABLE, schema_version, key: key(*n), row: Some(row(*n, letter)) };
    WriteSet { rows: keys.iter().map(state).collect(), ..WriteSet::default() }
}

/// What two members send of one epoch, encoded.
fn messages(
    rng: &mut Rng,
    (epoch, transactions): (u64, usize),
    (level, version): (Isolation, u64),
    named: &mut u64,
) -> Vec<(NodeId, Vec<u8>)> {
    let mut all = Vec::new();
    for node in 0..2 {
        let of = Seat { node: NodeId(node), since: 0 };
        for number in 0..transactions {
            *named += 1;
            let keys: Vec<u64> = (0..ROWS_WRITTEN).map(|_| rng.below(ROWS)).collect();
            let set = write_set(&keys, b'a' + (*named % 26) as u8, version);
            let read = |n: &u64| ReadGranule {
                partition: P,
                table: TABLE,
                range: KeyRange::point(key(*n)),
                columns: None,
                at: rank(epoch - LAG),
            };
            let reads =
                if level == Isolation::ReadCommitted { Vec::new() } else { keys.iter().map(read).collect() };
            let present: BTreeSet<_> = keys.iter().map(|n| (P, TABLE, key(*n))).collect();
            let payload = Payload {
                txn: name(node, *named),
                start: Epoch(epoch),
                clock: *named,
                level,
                snapshot: rank(epoch - LAG),
                read_at: rank(epoch - LAG),
                request: None,
                body: Body::Writes { reads, writes: BTreeMap::from([(P, set)]), present },
            };
            let payload = Arc::new(payload);
            let message = Message::WriteSet { of, epoch: Epoch(epoch), number: number as u32, payload };
            all.push((of.node, codec::encode(&message)));
        }
        all.push((of.node, codec::encode(&end(of, epoch, epoch, transactions as u32))));
    }
    all
}

fn end(of: Seat, first: u64, last: u64, count: u32) -> Message {
    let seats = (0..3).map(|node| Seat { node: NodeId(node), since: 0 });
    let progress = Progress {
        seat: Some(of),
        incarnation: 1,
        have: seats.map(|seat| (seat, Epoch(last))).collect(),
        published: Epoch(last.saturating_sub(LAG)),
        ..Progress::default()
    };
    let floor = rank(last.saturating_sub(2 * LAG));
    let segment = Segment { first: Epoch(first), last: Epoch(last), count, floor };
    Message::EndOfEpoch { of, segment, progress, is_busy: true }
}

#[derive(Default)]
struct Spent {
    decoding_ns: u64,
    merging_ns: u64,
    collecting_ns: u64,
    writes: u64,
    lost: u64,
    /// What committed, in its order.
    installed: Vec<(Place, BTreeMap<PartitionId, WriteSet>)>,
}

fn merge(epochs: u64, transactions: usize, level: Isolation, topology: &Arc<Topology>) -> Spent {
    let start = Instant::now();
    let mut rows = Rows(filled(topology));
    let version = rows.0.catalog().require("usertable").expect("created").version;
    let mut member = Geogauss::new(topology.clone(), NodeId(2), 1, Options::default());
    let (mut rng, mut named, mut spent, mut out) = (Rng::new(7), ROWS + 10, Spent::default(), Vec::new());
    let mut sets: BTreeMap<TxnId, BTreeMap<PartitionId, WriteSet>> = BTreeMap::new();
    let mut committed_before = 0;
    member.start(Time(rank(FIRST - 1).0), &mut out);
    for node in 0..2 {
        let of = Seat { node: NodeId(node), since: 0 };
        member.message(Time(rank(FIRST - 1).0 + US), of.node, end(of, 1, FIRST - 1, 0), &mut rows, &mut out);
    }
    for epoch in FIRST..FIRST + epochs {
        let encoded = messages(&mut rng, (epoch, transactions), (level, version), &mut named);
        let begun = cpu_ns(start);
        let decoded: Vec<(NodeId, Message)> = encoded
            .iter()
            .map(|(from, bytes)| (*from, codec::decode(bytes).expect("just encoded")))
            .collect();
        spent.decoding_ns += cpu_ns(start) - begun;
        sets.clear();
        for (_, message) in &decoded {
            if let Message::WriteSet { payload, .. } = message
                && let Body::Writes { writes, .. } = &payload.body
            {
                sets.insert(payload.txn, writes.clone());
            }
        }
        out.clear();
        let now = Time(rank(epoch).0 + US);
        let begun = cpu_ns(start);
        member.wake(now, &mut rows, &mut out);
        for (from, message) in decoded {
            member.message(now, from, message, &mut rows, &mut out);
        }
        spent.merging_ns += cpu_ns(start) - begun;
        let mut below = None;
        for effect in &out {
            match effect {
                EngineEffect::Stream { item: base::order::StreamItem::Record(record), .. } => {
                    spent.writes += record.writes.len() as u64;
                    spent.installed.push((Place::new(record.rank, record.txn), sets[&record.txn].clone()));
                }
                EngineEffect::Collected { below: rank } => below = Some(*rank),
                _ => {}
            }
        }
        let committed = spent.installed.len() - committed_before;
        committed_before = spent.installed.len();
        spent.lost += (2 * transactions - committed) as u64;
        let begun = cpu_ns(start);
        if let Some(below) = below {
            while rows.0.collected_below() < below {
                rows.0.collect(below, usize::MAX);
            }
        }
        spent.collecting_ns += cpu_ns(start) - begun;
    }
    spent
}

/// The same write sets installed, and nothing else.
fn install(spent: &Spent, topology: &Arc<Topology>) -> u64 {
    let start = Instant::now();
    let mut store = filled(topology);
    let mut last = Rank::ZERO;
    let mut installing_ns = 0;
    for chunk in spent.installed.chunk_by(|a, b| a.0.rank == b.0.rank) {
        let begun = cpu_ns(start);
        for (place, writes) in chunk {
            store.install_writes(*place, writes).expect("it fits");
        }
        installing_ns += cpu_ns(start) - begun;
        let below = Rank(chunk[0].0.rank.0.saturating_sub(2 * LAG * EPOCH_NS));
        while below > last && store.collected_below() < below {
            store.collect(below, usize::MAX);
        }
        last = below;
    }
    installing_ns
}

fn main() {
    let mut words = std::env::args().skip(1);
    let epochs = words.next().and_then(|word| word.parse().ok()).unwrap_or(200);
    let transactions = words.next().and_then(|word| word.parse().ok()).unwrap_or(1_000);
    let wan = Wan::preset("china3").expect("a preset");
    let topology = Arc::new(Topology::one_node_per_region(wan, 1).replicated());
    println!(
        "{epochs} epochs, {transactions} transactions of each of two members in each, {ROWS_WRITTEN} rows a transaction"
    );
    for level in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let spent = merge(epochs, transactions, level, &topology);
        let bound_ns = install(&spent, &topology);
        let a_second = |ns: u64| spent.writes as f64 / (ns.max(1) as f64 / 1e9);
        println!(
            "{:<14} {:>9.0} row writes/s merged, {:>9.0} with decoding, {:>9.0} with old versions given up too; bound (rows alone) \
             {:>9.0}; lost {:.1} %",
            level.name(),
            a_second(spent.merging_ns),
            a_second(spent.merging_ns + spent.decoding_ns),
            a_second(spent.merging_ns + spent.decoding_ns + spent.collecting_ns),
            a_second(bound_ns),
            100.0 * spent.lost as f64 / (epochs as usize * 2 * transactions) as f64,
        );
    }
}
