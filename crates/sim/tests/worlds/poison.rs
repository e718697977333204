//! A transaction whose execution panics ends as an abort under every engine, and every node goes on.

use base::error::SqlState;
use base::time::SECOND;
use base::topology::Topology;
use base::txn::{Outcome, Submission, TxnProgram};
use base::wan::Wan;
use base::{Datum, NodeId, Token};
use node::request::{Reply, Request};
use sim::cluster::layout::{Item, Kind, Layout, Target};
use sim::cluster::procedure::AppendAll;
use sim::cluster::run::{Subject, set_up, world};
use sim::cluster::script_client::ScriptClient;
use sim::world::{Setup, World};
use std::sync::Arc;
use txn::any::EngineKind;

/// Two lists of two regions.
fn targets(layout: &Layout) -> [Target; 2] {
    [NodeId(0), NodeId(1)].map(|node| {
        let mut shelves = layout.shelves.iter();
        let is_there = |partition| layout.topology.node_of(partition) == node;
        let &(shelf, _) =
            shelves.find(|(_, partition)| is_there(*partition)).expect("every node has a shelf");
        Target::row(Item { kind: Kind::List, shelf, key: 0 })
    })
}

/// An append that panics at each of its participants: a number is missing.
fn poisoned(mut append: Submission) -> Submission {
    let TxnProgram::Procedure { name, args } = &*append.program else { panic!("a call") };
    let mut args = args.clone();
    args[1] = Datum::Null;
    append.program = Arc::new(TxnProgram::Procedure { name: name.clone(), args });
    append
}

fn outcome(world: &mut World<Subject>, at: NodeId, submission: Submission) -> Outcome {
    let (client, replies) = ScriptClient::<Subject>::once(at, Request::Submit(submission));
    world.client(client);
    let limit = world.now() + 30 * SECOND;
    world.run_to_rest(limit).unwrap_or_else(|stuck| panic!("it is not answered: {stuck}"));
    let replies = replies.borrow();
    match replies.last() {
        Some(Reply::Submitted(Ok(answer))) => answer.outcome.clone(),
        _ => panic!("it is refused"),
    }
}

#[test]
fn a_panic_aborts_its_transaction_everywhere_and_no_node_stops() {
    for engine in EngineKind::ALL {
        let wan = Wan::preset("perseus3").expect("a preset").truncated(3);
        let topology = engine.layout(Topology::one_node_per_region(wan, 1));
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 1));
        let mut world = world(Setup::calm(topology, 1), engine.options(), node::Options::default());
        set_up(&mut world, &layout);
        let targets = targets(&layout);
        for round in 0..3 {
            let at = NodeId(round);
            let append = AppendAll::call(&layout, &targets, 100 + u64::from(round), 10, Token::default());
            match outcome(&mut world, at, poisoned(append.clone())) {
                Outcome::Aborted(error) => {
                    assert_eq!(error.state, SqlState::INTERNAL_ERROR, "{engine:?}: {error}")
                }
                Outcome::Committed { .. } => panic!("{engine:?}: a panic committed"),
            }
            // Nothing of it is there, and the same rows can be written at once.
            let Outcome::Committed { results } = outcome(&mut world, at, append) else {
                panic!("{engine:?}: the next one aborts")
            };
            let told = format!("{:?}", results[0].rows[0]);
            assert_eq!(told.matches("10").count(), 2 * round as usize, "{engine:?}: {told}");
        }
    }
}
