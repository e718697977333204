//! How many row writes of other members one core merges with engine `geogauss`, with real rows.
//!
//! `cargo run --release -p node --example epochs -- [epochs [transactions of a member in an epoch [level…]]]`
//!
//! Levels (`rc`, `si`, `rr`, `ser`) are run in the order in which they are named, each as often as it is.
//!
//! A member whose own clients rest takes the write sets of two others, two rows of 100 bytes each out of 200,000, in epochs
//! of 10 ms. What is measured is CPU time of this thread, by what it is for: decoding messages; everything that a member
//! does for a write set that came (arrival, counts, both passes of the merge, decisions and their digest, rows and
//! the stream); giving up old versions. The bound is what the rows alone take: the same write sets installed into the same rows,
//! in the same order, with nothing decided. Both run in this process, one after the other. The first tenth of the epochs is not
//! counted: it is the first use of its memory. Nothing is kept of an epoch but who committed; the bound takes the same messages anew.

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
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
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
    let program = TxnProgram::Schema(SchemaChange {
        database: Default::default(),
        base_version: Catalog::default().version,
        actions,
    });
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
    asked: u64,
    /// Who committed in each epoch, in their order.
    committed: Vec<Vec<Place>>,
}

fn merge(epochs: u64, transactions: usize, level: Isolation, topology: &Arc<Topology>) -> Spent {
    let start = Instant::now();
    let mut rows = Rows(filled(topology));
    let version = rows.0.catalog().require("usertable").expect("created").version;
    let mut member = Geogauss::new(topology.clone(), NodeId(2), 1, Options::default());
    let (mut rng, mut named, mut spent, mut out) = (Rng::new(7), ROWS + 10, Spent::default(), Vec::new());
    member.start(Time(rank(FIRST - 1).0), &mut out);
    for node in 0..2 {
        let of = Seat { node: NodeId(node), since: 0 };
        member.message(Time(rank(FIRST - 1).0 + US), of.node, end(of, 1, FIRST - 1, 0), &mut rows, &mut out);
    }
    for epoch in FIRST..FIRST + epochs {
        if epoch == FIRST + epochs / 10 {
            spent = Spent { committed: spent.committed, ..Spent::default() };
        }
        let encoded = messages(&mut rng, (epoch, transactions), (level, version), &mut named);
        let begun = cpu_ns(start);
        let decoded = decoded(&encoded);
        spent.decoding_ns += cpu_ns(start) - begun;
        out.clear();
        let now = Time(rank(epoch).0 + US);
        let begun = cpu_ns(start);
        member.wake(now, &mut rows, &mut out);
        for (from, message) in decoded {
            member.message(now, from, message, &mut rows, &mut out);
        }
        spent.merging_ns += cpu_ns(start) - begun;
        let (mut below, mut committed) = (None, Vec::new());
        for effect in &out {
            match effect {
                EngineEffect::Stream { item: base::order::StreamItem::Record(record), .. } => {
                    spent.writes += record.writes.len() as u64;
                    committed.push(Place::new(record.rank, record.txn));
                }
                EngineEffect::Collected { below: rank } => below = Some(*rank),
                _ => {}
            }
        }
        spent.lost += (2 * transactions - committed.len()) as u64;
        spent.asked += 2 * transactions as u64;
        spent.committed.push(committed);
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

fn decoded(encoded: &[(NodeId, Vec<u8>)]) -> Vec<(NodeId, Message)> {
    encoded.iter().map(|(from, bytes)| (*from, codec::decode(bytes).expect("just encoded"))).collect()
}

/// The same write sets installed, and nothing else.
fn install(spent: &Spent, transactions: usize, level: Isolation, topology: &Arc<Topology>) -> u64 {
    let start = Instant::now();
    let mut store = filled(topology);
    let version = store.catalog().require("usertable").expect("created").version;
    let (mut rng, mut named, mut installing_ns) = (Rng::new(7), ROWS + 10, 0);
    for (nth, committed) in spent.committed.iter().enumerate() {
        if nth == spent.committed.len() / 10 {
            installing_ns = 0;
        }
        let epoch = FIRST + nth as u64;
        let encoded = messages(&mut rng, (epoch, transactions), (level, version), &mut named);
        let decoded = decoded(&encoded);
        let writes = |message: &(NodeId, Message)| match &message.1 {
            Message::WriteSet { payload, .. } => match &payload.body {
                Body::Writes { writes, .. } => Some((payload.txn, writes.clone())),
                _ => None,
            },
            _ => None,
        };
        let writes: BTreeMap<TxnId, _> = decoded.iter().filter_map(writes).collect();
        let ordered: Vec<_> = committed.iter().map(|place| (*place, &writes[&place.txn])).collect();
        let begun = cpu_ns(start);
        for (place, writes) in ordered {
            store.install_writes(place, writes).expect("it fits");
        }
        installing_ns += cpu_ns(start) - begun;
        let below = rank(epoch.saturating_sub(2 * LAG));
        while store.collected_below() < below {
            store.collect(below, usize::MAX);
        }
    }
    installing_ns
}

fn level(word: &str) -> Isolation {
    let short = ["rc", "si", "rr", "ser"].into_iter().zip(Isolation::ALL);
    let found = short.clone().find(|(short, _)| *short == word).map(|(_, level)| level);
    found.unwrap_or_else(|| {
        panic!("{word:?} is no level; there is {:?}", short.map(|(short, _)| short).collect::<Vec<_>>())
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let epochs = words.next().and_then(|word| word.parse().ok()).unwrap_or(200);
    let transactions = words.next().and_then(|word| word.parse().ok()).unwrap_or(1_000);
    let named: Vec<Isolation> = words.map(|word| level(&word)).collect();
    let levels = match named.is_empty() {
        true => vec![Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable],
        false => named,
    };
    let wan = Wan::preset("china3").expect("a preset");
    let topology = Arc::new(Topology::one_node_per_region(wan, 1).replicated());
    println!(
        "{epochs} epochs, {transactions} transactions of each of two members in each, {ROWS_WRITTEN} rows a transaction"
    );
    for level in levels {
        let spent = merge(epochs, transactions, level, &topology);
        let bound_ns = install(&spent, transactions, level, &topology);
        let a_second = |ns: u64| spent.writes as f64 / (ns.max(1) as f64 / 1e9);
        println!(
            "{:<14} {:>9.0} row writes/s merged, {:>9.0} with decoding, {:>9.0} with old versions given up too; bound (rows alone) \
             {:>9.0}; lost {:.1} %",
            level.name(),
            a_second(spent.merging_ns),
            a_second(spent.merging_ns + spent.decoding_ns),
            a_second(spent.merging_ns + spent.decoding_ns + spent.collecting_ns),
            a_second(bound_ns),
            100.0 * spent.lost as f64 / spent.asked.max(1) as f64,
        );
    }
}
