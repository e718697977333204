//! TPC-C's NewOrder through [`Node::step`]: how many a second one core carries, without sockets or
//! threads, and how much memory rows and columns take beside their plain encoding.
//!
//! `cargo run --release -p node --example new_order -- [warehouses] [transactions]`
//!
//! Three kinds of a run over the same inputs: the store alone (no ordering, no graph, no record), and, for each
//! engine, the node without a column copy and the node with one. The node's clock is virtual; what is measured is this
//! thread's CPU time inside `step`. Merges of columns are a host's background work and are timed apart.

mod common;

use base::process::Event;
use base::time::{SECOND, US};
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{AccessSet, Outcome, Submission, Transaction, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, Place, Rank, Time, Token, TxnId};
use common::host::Host;
use common::{P, cpu_ns};
use mimalloc::MiMalloc;
use node::{Node, Options, Reply, Request};
use rowstore::Store;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use txn::any::{AnyEngine, EngineKind};
use workload::tpcc::{Input, Inputs, Kind, Mix, Tpcc};

/// Counts what is allocated, as asked for, and how often.
struct Counting;
static BYTES: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call on to the allocator of the `meridian` command unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        unsafe { MiMalloc.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Where transactions go.
trait Target {
    fn run(&mut self, program: TxnProgram, access: AccessSet) -> Outcome;
    fn store(&self) -> &Store;
    /// ns of background work so far.
    fn background_ns(&self) -> u64 {
        0
    }
    /// Lets everything in the background come to rest.
    fn settle(&mut self) {}
    /// Bytes of column copies, by their own account.
    fn column_bytes(&self) -> u64 {
        0
    }
}

/// The store without a node.
struct Bare {
    store: Store,
    sequence: u64,
}

impl Target for Bare {
    fn run(&mut self, program: TxnProgram, access: AccessSet) -> Outcome {
        self.sequence += 1;
        let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence: self.sequence };
        let transaction = Transaction {
            id,
            program: Arc::new(program),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        };
        let outcome = self.store.execute(&transaction, Place::new(Rank(self.sequence), id)).0;
        // As a node does it: a little at a time, a moment behind.
        self.store.collect(Rank(self.sequence.saturating_sub(1_000)), 64);
        outcome
    }
    fn store(&self) -> &Store {
        &self.store
    }
}

/// One node, and what its background work takes.
struct Alone {
    host: Host<AnyEngine>,
    background_ns: u64,
    begun: Instant,
}

/// Virtual time between two transactions: 10,000 a second.
const PACE_NS: u64 = 100 * US;

impl Alone {
    fn new(node: Node<AnyEngine>) -> Alone {
        Alone { host: Host::new(node, Time(SECOND)), background_ns: 0, begun: Instant::now() }
    }

    fn pass(&mut self, ns: u64) {
        let (begun, background_ns) = (self.begun, &mut self.background_ns);
        self.host.pass(self.host.now + ns, |host| {
            while let Some(work) = host.work.pop() {
                let begin = cpu_ns(begun);
                let computed = work();
                *background_ns += cpu_ns(begun) - begin;
                host.step(Event::Computed(computed));
            }
        });
        assert!(self.host.sent.is_empty(), "there is no other node");
    }
}

impl Target for Alone {
    fn run(&mut self, program: TxnProgram, access: AccessSet) -> Outcome {
        let submission = Submission {
            program: Arc::new(program),
            access: Arc::new(access),
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        };
        self.host.request(Request::Submit(submission));
        self.pass(PACE_NS);
        match self.host.replies.pop() {
            Some((_, Reply::Submitted(Ok(submitted)))) => submitted.outcome,
            Some(_) => panic!("a submission was refused"),
            None => panic!("alone on its node, a transaction is answered at once"),
        }
    }
    fn store(&self) -> &Store {
        self.host.node.store(P)
    }
    fn background_ns(&self) -> u64 {
        self.background_ns
    }
    fn settle(&mut self) {
        self.pass(3 * SECOND);
    }
    fn column_bytes(&self) -> u64 {
        self.host.node.columns().status().bytes as u64
    }
}

/// Creates and fills the tables; answers plain bytes of the rows.
fn load(target: &mut dyn Target, tpcc: &Tpcc, topology: &Topology) -> u64 {
    common::load(tpcc, topology, &mut |program, access| {
        let outcome = target.run(program, access);
        assert!(outcome.is_committed(), "{outcome:?}");
        target.store().catalog().clone()
    });
    target.settle();
    target.store().counters().bytes
}

/// NewOrder after NewOrder; answers how many a second.
fn measure(
    name: &str,
    target: &mut dyn Target,
    procedures: &Procedures,
    tpcc: &Tpcc,
    topology: &Topology,
    transactions: u64,
) -> f64 {
    let begun = Instant::now();
    let warehouses = tpcc.warehouses as u32;
    let mut terminals: Vec<Inputs> =
        (0..warehouses).map(|n| Inputs::new(tpcc, Mix::only(Kind::NewOrder), n, warehouses, 0)).collect();
    let catalog = target.store().catalog().clone();
    let new_order = procedures.get("new_order").expect("registered");
    let terminal_count = terminals.len();
    let (mut count, mut spent_ns, mut allocations, mut background_ns) = (0, 0, 0, 0);
    while count < transactions {
        // Clients' work does not count.
        let calls: Vec<(Vec<Datum>, AccessSet)> = (0..500)
            .filter_map(|n| match terminals[n % terminal_count].next_input() {
                Input::NewOrder(n) if !n.rollback => {
                    let ints = [n.w, n.d, n.c].map(|i| Datum::Int(i64::from(i)));
                    let args: Vec<Datum> =
                        ints.into_iter().chain([Datum::text(n.lines_text()), Datum::Timestamp(1)]).collect();
                    let access = new_order.declare(&args, &catalog, topology).expect("its tables exist");
                    Some((args, access))
                }
                _ => None,
            })
            .collect();
        count += calls.len() as u64;
        let before = (cpu_ns(begun), CALLS.load(Ordering::Relaxed), target.background_ns());
        for (args, access) in calls {
            let outcome = target.run(TxnProgram::Procedure { name: "new_order".into(), args }, access);
            assert!(outcome.is_committed(), "{outcome:?}");
        }
        let background = target.background_ns() - before.2;
        spent_ns += cpu_ns(begun) - before.0 - background;
        background_ns += background;
        allocations += CALLS.load(Ordering::Relaxed) - before.1;
    }
    let rate = count as f64 * 1e9 / spent_ns as f64;
    println!(
        "{name:<28} {rate:>9.0} NewOrder/s {:>7.1} µs each {:>6.0} allocations each {:>7.1} µs of merges each",
        1e6 / rate,
        allocations as f64 / count as f64,
        background_ns as f64 / 1e3 / count as f64,
    );
    rate
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let warehouses = arguments.next().unwrap_or(2) as i32;
    let transactions = arguments.next().unwrap_or(50_000);
    let tpcc = Tpcc::new(warehouses);
    let mut alone = Topology::one_node_per_region(Wan::uniform("one", &["here"], 1, 1), 1);
    let copied = Arc::new(alone.clone());
    alone.nodes[0].subscribes.clear();
    let alone = Arc::new(alone);
    let mut procedures = Procedures::default();
    workload::tpcc::procedures::register(&mut procedures);
    let procedures = Arc::new(procedures);
    let node = |kind: EngineKind, topology: &Arc<Topology>| {
        let engine = AnyEngine::new(topology.clone(), NodeId(0), 1, kind.options());
        Alone::new(Node::new(NodeId(0), topology.clone(), procedures.clone(), engine, Options::default()))
    };
    println!("{warehouses} warehouses, {transactions} NewOrder, one core, no sockets");
    let held = || BYTES.load(Ordering::Relaxed);

    let before = held();
    let mut bare = Bare { store: Store::new(P, alone.clone(), procedures.clone()), sequence: 0 };
    let plain = load(&mut bare, &tpcc, &alone);
    println!(
        "rows with primary keys and secondary indexes: {:.1} MB held, {:.1} MB plain: {:.2} ×",
        (held() - before) as f64 / 1e6,
        plain as f64 / 1e6,
        (held() - before) as f64 / plain as f64
    );
    let store_rate = measure("store alone", &mut bare, &procedures, &tpcc, &alone, transactions);
    drop(bare);

    for kind in [EngineKind::Caerus, EngineKind::Perseus] {
        let mut host = node(kind, &alone);
        load(&mut host, &tpcc, &alone);
        let name = format!("{} without column copy", kind.name());
        let node_rate = measure(&name, &mut host, &procedures, &tpcc, &alone, transactions);
        drop(host);

        let mut host = node(kind, &copied);
        load(&mut host, &tpcc, &copied);
        let loaded = (host.column_bytes(), host.store().counters().bytes);
        let name = format!("{} with column copy", kind.name());
        let copy_rate = measure(&name, &mut host, &procedures, &tpcc, &copied, transactions);
        host.settle();
        println!(
            "columns by their own account: {:.1} MB after the load, {:.2} × plain; {:.1} MB at the end, {:.2} ×",
            loaded.0 as f64 / 1e6,
            loaded.0 as f64 / loaded.1 as f64,
            host.column_bytes() as f64 / 1e6,
            host.column_bytes() as f64 / host.store().counters().bytes as f64
        );
        println!(
            "{} / store alone: {:.2} without the copy, {:.2} with it",
            kind.name(),
            node_rate / store_rate,
            copy_rate / store_rate
        );
    }
}
