//! Blocks that only read, or do from some statement on: what they see and what COMMIT asks.

use crate::server::{Server, failure, run, state, until_done, value};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_becomes_read_only_is_validated_for_what_it_wrote() {
    for server in Server::with_all_engines() {
        let (a, b) = (server.session(0).await, server.session(1).await);
        run(&a, "create table p (id int primary key); insert into p values (1), (2)").await;
        let child = "create table c (id int primary key, pid int references p deferrable initially deferred)";
        run(&a, child).await;
        until_done(&b, "select id from c").await;
        run(&a, "begin; insert into c values (1, 1)").await;
        run(&b, "delete from p where id = 1").await;
        run(&a, "set transaction read only").await;
        let refused = failure(&a, "commit").await;
        assert!(["40001", "23503"].contains(&refused.0.as_str()), "{refused:?}");
        assert_eq!(value(&b, "select count(*) from c").await, "0");

        run(&a, "create table t (id int primary key, v int); insert into t values (1, 0), (2, 0)").await;
        until_done(&b, "select id from t").await;
        for (client, id) in [(&a, 1), (&b, 2)] {
            run(client, &format!("begin; update t set v = 1 where id = {id}")).await;
            run(client, "set transaction read only").await;
            assert_eq!(value(client, &format!("select v from t where id = 3 - {id}")).await, "0");
        }
        let ended = [a.batch_execute("commit").await, b.batch_execute("commit").await];
        assert!(ended.iter().any(Result::is_err), "write skew");
        ended.iter().filter_map(|end| end.as_ref().err()).for_each(|error| assert_eq!(state(error), "40001"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_block_reads_at_one_cut() {
    for server in Server::with_all_engines() {
        let (a, b) = (server.session(0).await, server.session(1).await);
        run(&a, "create table k (id int primary key, v int); insert into k values (1, 0), (2, 0)").await;
        until_done(&b, "select id from k").await;
        run(&b, "select pg_advisory_lock(6)").await;
        run(&a, "begin read only").await;
        assert_eq!(value(&a, "select v from k where id = 1").await, "0");
        run(&b, "update k set v = 1").await;
        run(&a, "select pg_advisory_lock(5)").await;
        assert_eq!(value(&a, "select sum(v) from k").await, "0", "nobody had the lock");
        let wait = async {
            run(&a, "select pg_advisory_lock(6)").await;
            value(&a, "select v from k where id = 2").await
        };
        let leave = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            run(&b, "select pg_advisory_unlock(6)").await;
        };
        assert_eq!(tokio::join!(wait, leave).0, "0", "after a wait");
        run(&a, "lock table k in share mode").await;
        assert_eq!(value(&a, "select v from k where id = 1").await, "0", "after LOCK TABLE");
        run(&a, "commit; select pg_advisory_unlock_all()").await;
        // A block that may write goes on at its cut if it had not to wait.
        run(&a, "begin").await;
        assert_eq!(value(&a, "select v from k where id = 1").await, "1");
        run(&b, "update k set v = 2").await;
        run(&a, "select pg_advisory_lock(5)").await;
        assert_eq!(value(&a, "select v from k where id = 1").await, "1");
        run(&a, "commit").await;
    }
}
