//! The sixth transaction of the benchmark of freshness: it receives what was delivered, once, whole or not at all.

use crate::server::{Server, run, value};
use bench::statements::{Attempt, Connection};
use clap::{Args, FromArgMatches};
use std::collections::BTreeMap;
use vodka::prepare::pointers;
use vodka::transactions::{self, Now, Outcome};
use workload::tpcc::Tpcc;
use workload::vodka::Vodka;
use workload::vodka::inputs::{Inputs, Kind, Mix, ReceivePointers};

/// Everything that the transaction may change.
const STATE: &str = "select count(ol_receiptdate) || ' ' || count(ol_returnflag) || ' ' || sum(ver) || ' ' || \
    (select sum(ver) from vodka_orders) from vodka_order_line";

struct Terminal {
    connection: Connection,
    inputs: Inputs,
}

impl Terminal {
    async fn run(&mut self, kind: Kind, at: &ReceivePointers) -> Outcome {
        let now = Now { wall_us: 800_000_000_000_000, bench_us: 800_000_000_000_000 };
        transactions::run(&mut self.connection, &self.inputs.input(kind), now, at, false).await
    }
}

fn received(outcome: &Outcome) -> u64 {
    match outcome.result {
        Ok(Attempt::Committed { rows }) => rows,
        _ => panic!("it commits"),
    }
}

#[tokio::test]
async fn goods_are_received_once_and_whole_and_only_what_was_delivered() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let url = format!("postgres://tester@127.0.0.1:{}/meridian", server.ports[0]);
    let command = vodka::VodkaArgs::augment_args(clap::Command::new("vodka").no_binary_name(true));
    let given = command.try_get_matches_from(["--tp", &url, "--shrink", "100", "--load-only"]).unwrap();
    vodka::run(vodka::VodkaArgs::from_arg_matches(&given).unwrap()).await.unwrap();
    let (client, other) = (server.session(0).await, server.session(0).await);
    let vodka = Vodka::new(Tpcc::new(1).shrunk(100));
    let first = BTreeMap::from_iter(pointers(&client, &vodka).await.unwrap()).remove(&1).unwrap();
    let mut next = first.into_inner();
    let mut terminal = Terminal {
        inputs: Inputs::new(&vodka, &Mix::default(), 0, 1, 0),
        connection: Connection::new(server.session(0).await),
    };

    // The oldest orders that were not received were not delivered either.
    let loaded = value(&client, STATE).await;
    let outcome = terminal.run(Kind::ReceiveGoods, &next).await;
    assert_eq!((received(&outcome), outcome.deeds.received.len()), (0, 0));
    assert_eq!(value(&client, STATE).await, loaded);

    // It fails in the fifth district: the four before it are as they were.
    let outcome = terminal.run(Kind::Delivery, &next).await;
    assert!(matches!(outcome.result, Ok(Attempt::Committed { .. })));
    let delivered = value(&client, STATE).await;
    let impatient = server.session(0).await;
    run(&impatient, "set lock_timeout = '200ms'").await;
    terminal.connection = Connection::new(impatient);
    let order = next.order(5);
    run(&other, &format!("begin; select * from vodka_order_line where ol_w_id = 1 and ol_d_id = 5 and ol_o_id = {order} for update")).await;
    let before = next.clone();
    let outcome = terminal.run(Kind::ReceiveGoods, &next).await;
    assert!(outcome.result.is_err() && !outcome.in_doubt);
    run(&other, "rollback").await;
    assert_eq!(value(&client, STATE).await, delivered);
    assert_eq!(next, before);

    // Its repetition receives them all, and a third one finds nothing.
    let outcome = terminal.run(Kind::ReceiveGoods, &next).await;
    assert_eq!((received(&outcome), outcome.deeds.received.len()), (10, 10));
    next.committed(&outcome.deeds.received);
    let partly = "select count(*) from (select 1 from vodka_order_line group by ol_w_id, ol_d_id, ol_o_id \
        having count(ol_receiptdate) not in (0, count(*))) o";
    assert_eq!(value(&client, partly).await, "0");
    let done = value(&client, STATE).await;
    assert!((1..=10).all(|d| next.order(d) == before.order(d) + 1) && done != delivered);
    assert_eq!(received(&terminal.run(Kind::ReceiveGoods, &next).await), 0);
    assert_eq!(value(&client, STATE).await, done);
}
