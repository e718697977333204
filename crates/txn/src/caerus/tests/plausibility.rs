//! What no correct node says: it changes nothing, nobody fails because of it, and it is counted.

use super::judge::judge;
use super::{World, access};
use crate::caerus::SequenceId;
use crate::caerus::message::{Append, Message, Tail};
use crate::caerus::{Mutant, Options};
use crate::engine::Engine;
use crate::log;
use base::time::MS;
use base::topology::Topology;
use base::txn::{Transaction, TxnProgram};
use base::wan::Wan;
use base::{NodeId, Rank, Time, TxnId};
use std::sync::Arc;

/// Three regions 100 ms from each other, clocks within 1 ms.
fn world(copies_elsewhere: usize, mutant: Option<Mutant>) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c"], MS, 100 * MS);
    let mut topology = Topology::one_node_per_region(wan, 1).replicated();
    topology.clock_bound_ns = MS;
    World::with(1, topology, Options { copies_elsewhere, mutant, ..Options::default() })
}

/// What node 0 has refused, altogether.
fn refused(world: &World) -> u64 {
    world.nodes[0].report().refused_messages.values().sum()
}

/// How long a transaction of region a waits, in ms, on a row that region b ordered while its clock was a minute ahead.
fn behind_a_bad_stamp_ms(mutant: Option<Mutant>) -> Option<f64> {
    let mut world = world(1, mutant);
    world.run_for_ms(1000);
    world.skews[1] = 60_000 * MS as i64;
    world.submit(1, "w1.1");
    world.run_for_ms(300);
    // It is found out, and cut off from then on: another region orders for it.
    world.cut_off(1);
    world.run_for_ms(4000);
    let next = world.submit(0, "w1.1");
    world.run_for_ms(20_000);
    assert!(mutant.is_some() || refused(&world) > 0);
    world.has_ended(&next).then(|| world.latency_ms(next))
}

#[test]
fn a_stamp_from_the_future_is_inherited_by_nobody() {
    assert!(behind_a_bad_stamp_ms(None).is_some_and(|ms| ms < 400.0));
    assert_eq!(behind_a_bad_stamp_ms(Some(Mutant::TrustStamps)), None, "its rank is a minute ahead");
}

#[test]
fn whatever_is_out_of_range_changes_nothing() {
    let mut world = world(1, None);
    world.submit(0, "w0.1 w1.1");
    world.run_for_ms(1000);
    let far = world.clock(NodeId(0)).rank() + 3_600_000 * MS;
    let sequence = SequenceId(1);
    // Terms that region b leads in.
    let (term, endless) = (4, u64::MAX - u64::MAX % 3 - 2);
    let said = || log::Append { term: 1, ..log::Append::default() };
    let append = |said| Message::Append(Append { sequence, said, ..Append::default() });
    let transaction = Transaction {
        id: TxnId { coordinator: NodeId(1), incarnation: 1, sequence: 99 },
        program: Arc::new(TxnProgram::Statements(Vec::new())),
        access: Arc::new(access("w0.7")),
        min_rank: far,
        after: Rank::ZERO,
        homes: None,
    };
    let granted = Default::default();
    let entry = |stamp| crate::caerus::message::Entry {
        transaction: Transaction { min_rank: Rank::ZERO, ..transaction.clone() },
        request: None,
        stamp,
        collected: Rank::ZERO,
    };
    let messages = vec![
        append(log::Append { term: endless, ..said() }),
        Message::Append(Append { sequence: SequenceId(40), said: said(), ..Append::default() }),
        append(log::Append { first: u64::MAX, entries: vec![entry(Rank(7))], ..said() }),
        append(log::Append { first: 1 << 50, entries: vec![entry(Rank(7))], ..said() }),
        append(log::Append { first: 1, entries: vec![entry(far)], ..said() }),
        // At or below what the sequence has told.
        append(log::Append { first: 1, entries: vec![entry(Rank(7))], ..said() }),
        append(log::Append { first: 1, closed: far, ..said() }),
        Message::Suspect { sequence, term: endless },
        Message::Overtaken { sequence, term: endless },
        Message::Leads { sequence, term: endless },
        Message::Elect { sequence, term, merged: u64::MAX, accepted: 1, end: u64::MAX },
        Message::Promise {
            sequence,
            term,
            tail: Tail { accepted: 1, end: 0, granted, entries: vec![entry(Rank(7))] },
            lives: Default::default(),
        },
        Message::Submit {
            sequence: SequenceId(0),
            term: 0,
            incarnation: 1,
            first: 0,
            transactions: vec![(transaction.clone(), None)],
            sent_at: Time(1),
        },
        Message::AppendAck {
            sequence: SequenceId(0),
            term: 0,
            next: u64::MAX,
            merged: u64::MAX,
            gap: false,
            granted,
            echo: Time(0),
            lives: Default::default(),
            probe: 0,
        },
    ];
    let count = messages.len() as u64;
    for message in messages {
        let (clock, mut out) = (world.clock(NodeId(0)), Vec::new());
        let said = format!("{message:?}");
        let before = refused(&world);
        world.nodes[0].message(clock, NodeId(1), message, &mut world.rows[0], &mut out);
        assert_eq!(refused(&world), before + 1, "{said}");
        world.effects(NodeId(0), out);
    }
    assert_eq!(refused(&world), count);
    assert!(world.nodes[0].report().refused_messages.keys().all(|(from, _)| *from == NodeId(1)));
    world.nodes[0].refused_messages.clear();
    let after = world.submit(0, "w0.1 w1.1");
    world.run_for_ms(2000);
    assert!(world.has_ended(&after));
    judge(&world);
    world.check_empty();
}
