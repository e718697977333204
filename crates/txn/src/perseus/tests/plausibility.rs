//! What no correct node says: it changes nothing, nobody fails because of it, and it is counted.

use super::judge::judge;
use super::{Options, World, access};
use crate::engine::Engine;
use crate::graph::participants::Participants;
use crate::perseus::message::{Ballot, Decision, Dependency, Fragment, Known, Message, Payload, Report};
use base::time::MS;
use base::txn::{Transaction, TxnProgram};
use base::{NodeId, PartitionId, Rank, Time, TxnId};
use std::sync::Arc;

fn refused(world: &World, node: usize) -> u64 {
    world.nodes[node].report().refused_messages.values().sum()
}

fn latency_ms(world: &World, txn: TxnId) -> u64 {
    world.answers[&txn].0.since(world.submitted[&txn].0) / MS
}

/// A transaction waits for a row that a gateway writes whose clock is a minute ahead, as long as for any other.
#[test]
fn a_rank_from_the_future_is_inherited_by_nobody() {
    let mut world = World::with_gateways(1, 2, Options::default());
    world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(1000);
    world.skews[4] = 60_000 * MS as i64;
    world.submit(4, access("w0.1 w1.1"));
    world.run_for_ms(2000);
    assert!(refused(&world, 0) > 0 && refused(&world, 1) > 0);
    // It is found out, and its clock is right again.
    world.skews[4] = 0;
    let next = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(20_000);
    assert!(latency_ms(&world, next) < 1000, "{} ms", latency_ms(&world, next));
}

#[test]
fn whatever_is_out_of_range_changes_nothing() {
    let mut world = World::new(1, 3, 1, MS, Options::default());
    world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(1000);
    let far = world.clock(NodeId(0)).rank() + 3_600_000 * MS;
    let nowhere = PartitionId(40);
    let txn = TxnId { coordinator: NodeId(1), incarnation: 1, sequence: 99 };
    let of = |wish: &str, min_rank: Rank| Payload {
        transaction: Transaction {
            id: txn,
            program: Arc::new(TxnProgram::Statements(Vec::new())),
            access: Arc::new(access(wish)),
            min_rank,
            after: Rank::ZERO,
            homes: None,
        },
        request: None,
    };
    let pre_accept =
        |payload, expected| Message::PreAccept { payload, ballot: Ballot::FIRST, expected, sent_at: Time(1) };
    let dependency = || Dependency { txn, participants: Participants::of([nowhere].into_iter()) };
    let decision = |cts| Decision { dependencies: Vec::new(), cts, noop: false };
    let fragment = |rank| Fragment {
        txn,
        participants: Participants::of([PartitionId(0)].into_iter()),
        dependencies: Vec::new(),
        cts: Rank(7),
        noop: false,
        rank,
        inherited: Rank::ZERO,
        complete: true,
        lost: Rank::ZERO,
        dominates: Rank::ZERO,
        after: Rank::ZERO,
    };
    let ballot = Ballot { round: 1, node: NodeId(1) };
    let (here, participants) = (Rank::ZERO, || Participants::of([nowhere].into_iter()));
    let messages = vec![
        pre_accept(of("w0.7", far), here),
        pre_accept(of("w0.7", here), far),
        pre_accept(of("w1.7", here), here),
        pre_accept(of("w0.7 w40.1", here), here),
        Message::PreAcceptOk {
            txn,
            ballot: Ballot::FIRST,
            dependencies: Vec::new(),
            pts: far,
            fragments: Vec::new(),
            delay_ns: 0,
            sent_at: Time(1),
        },
        Message::Commit { txn, decision: decision(far), fragments: Vec::new() },
        Message::Commit { txn, decision: decision(Rank(7)), fragments: vec![fragment(Some(far))] },
        Message::Commit {
            txn,
            decision: Decision { dependencies: vec![dependency()], ..decision(Rank(7)) },
            fragments: Vec::new(),
        },
        Message::Recover { txn, participants: participants(), ballot, payload_wanted: false },
        Message::RecoverOk { txn, ballot, report: Report::Unknown { pts: far, claimed: false } },
        Message::Accept { txn, participants: participants(), ballot, decision: decision(Rank(7)) },
        Message::Inquire { vertices: vec![dependency()], watermark: Rank(7) },
        Message::InquireReply { known: vec![Known::Final(fragment(Some(far)))], watermark: Rank(7) },
        Message::Progress { done: far, floors: Vec::new() },
        Message::Watermark { rank: far, floors: Vec::new(), delays_ns: Vec::new() },
        Message::Timestamp { txn, rank: far },
    ];
    let count = messages.len() as u64;
    for message in messages {
        let (clock, mut out) = (world.clock(NodeId(0)), Vec::new());
        let (said, before) = (format!("{message:?}"), refused(&world, 0));
        world.nodes[0].message(clock, NodeId(1), message, &mut world.rows[0], &mut out);
        assert_eq!(refused(&world, 0), before + 1, "{said}");
        assert!(out.is_empty(), "{said}");
    }
    assert_eq!(refused(&world, 0), count);
    let after = world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(2000);
    assert!(latency_ms(&world, after) < 1000);
    judge(&world);
}
