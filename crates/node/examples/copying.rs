//! What a step costs that makes, or takes, a part of a copy of a database: CPU time of the real code, and how it grows with
//! the database.
//!
//! `cargo run --release -p node --example copying -- [warehouses…]`
//!
//! A region that has lost its memory takes a copy in blocks (`txn::caerus`, `donor`): the donor makes a quarter of
//! those that are on their way in a step, and the other takes one in a step. Columns of a partition are filled from its rows in pieces
//! (`node/src/node/copying.rs`).

mod common;

use base::time::{MS, US};
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{AccessSet, Transaction, TxnProgram};
use base::wan::Wan;
use base::{LogPosition, NodeId, Place, Rank, TxnId};
use colstore::ColumnStore;
use common::{P, cpu_ns, load};
use mimalloc::MiMalloc;
use rowstore::{CopyPlan, Store};
use std::sync::Arc;
use std::time::Instant;
use workload::tpcc::Tpcc;

/// As in the `meridian` command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Blocks that a donor makes in a step at most, as in `txn::caerus`: a piece of a window, and the one after it.
const PIECE: usize = 8 + 1;

fn main() {
    let warehouses: Vec<i32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let start = Instant::now();
    for warehouses in if warehouses.is_empty() { vec![1, 4, 10] } else { warehouses } {
        let topology =
            Arc::new(Topology::one_node_per_region(Wan::preset("local").expect("a preset").truncated(1), 1));
        let store = filled(warehouses, &topology);
        let rows_bytes = store.counters().live_bytes;
        let mut other = Store::new(P, topology, Arc::new(Procedures::default()));
        let (mut made_ns, mut taken_ns, mut all_ns, mut blocks) = (Vec::new(), Vec::new(), 0, 0);
        let mut plan: CopyPlan = store.begin_copy();
        let mut is_over = false;
        while !is_over {
            let mut piece = Vec::new();
            let begun = cpu_ns(start);
            while piece.len() < PIECE && !is_over {
                match store.copy_more(&mut plan, &|_| false).expect("the catalog stays") {
                    Some(block) => piece.push(block),
                    None => is_over = true,
                }
            }
            made_ns.push(cpu_ns(start) - begun);
            all_ns += made_ns.last().expect("just pushed");
            blocks += piece.len();
            for block in piece {
                let begun = cpu_ns(start);
                other.restore(&block).expect("a block of the other");
                taken_ns.push(cpu_ns(start) - begun);
            }
        }
        let last_ns = taken_ns.pop().expect("there are blocks");
        assert_eq!(other.counters().rows, store.counters().rows);
        let (piece_ns, fill_ns, pieces) = fill(&store, start);
        let longest = |all: &[u64]| all.iter().max().copied().unwrap_or(0);
        println!(
            "{warehouses} warehouses, {:.2} GB of rows: {blocks} blocks in {:.1} s; longest step of the donor {:.2} ms, of \
             the other {} µs, its last one {} µs; columns: {pieces} pieces in {:.1} s, the longest {} µs to read and {} µs \
             to fill",
            rows_bytes as f64 / 1e9,
            all_ns as f64 / 1e9,
            longest(&made_ns) as f64 / MS as f64,
            longest(&taken_ns) / US,
            last_ns / US,
            (piece_ns.iter().sum::<u64>() + fill_ns.iter().sum::<u64>()) as f64 / 1e9,
            longest(&piece_ns) / US,
            longest(&fill_ns) / US,
        );
    }
}

/// Fills columns from rows in pieces as large as a step of a node: ns to read each and to fill columns with it, and how
/// many there were.
fn fill(store: &Store, start: Instant) -> (Vec<u64>, Vec<u64>, usize) {
    let keys_a_step = node::Options::default().steps.keys;
    let mut columns = ColumnStore::new([P], Arc::default());
    let mut copy = store.begin_rows();
    columns.begin_copy(P, LogPosition(1), Rank(1), copy.catalog());
    let (mut read_ns, mut fill_ns, mut rows_filled) = (Vec::new(), Vec::new(), 0);
    loop {
        let begun = cpu_ns(start);
        let piece = store.more_rows(&mut copy, keys_a_step, &|_| false).expect("the catalog stays");
        let read_until = cpu_ns(start);
        let Some((table, rows)) = piece else { break };
        columns.copy_rows(P, table, &rows);
        read_ns.push(read_until - begun);
        fill_ns.push(cpu_ns(start) - read_until);
        rows_filled += rows.len() as u64;
        // Background work of a host.
        columns.merge_step(65_536, Rank::ZERO);
    }
    assert_eq!(rows_filled, store.counters().rows);
    let pieces = read_ns.len();
    (read_ns, fill_ns, pieces)
}

fn filled(warehouses: i32, topology: &Arc<Topology>) -> Store {
    let mut store = Store::new(P, topology.clone(), Arc::new(workload::procedures()));
    let mut sequence = 0;
    load(&Tpcc::new(warehouses), topology, &mut |program: TxnProgram, access: AccessSet| {
        sequence += 1;
        let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence };
        let transaction = Transaction {
            id,
            program: Arc::new(program),
            access: Arc::new(access),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        };
        let outcome = store.execute(&transaction, Place::new(Rank(sequence), id)).0;
        assert!(outcome.is_committed(), "{outcome:?}");
        store.catalog().clone()
    });
    store
}
