//! What a client sees of a query's shape beside its rows: names of columns, and queries that never end.

use crate::server::{Server, failure, rows, run, value};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_postgresqls_names_and_endless_queries_end() {
    let server = Server::start_with(&["--query-memory-mib", "64"], 3);
    let client = server.session(0).await;
    run(
        &client,
        "create table a (id int primary key, k int, x text); insert into a values (1, 10, 'a1'), (2, 20, 'a2');
         create table b (id int primary key, k int, y text); insert into b values (1, 10, 'b1'), (5, 50, 'b5')",
    )
    .await;
    for (sql, names) in [
        ("select * from a join b using (k)", "k id x id y"),
        ("select * from a natural full join b", "id k x y"),
        ("select * from (a join b using (id)) as j (p, q)", "p q x k y"),
        ("select * from (select a.id, b.id from a join b on a.id = b.id) s", "id id"),
        ("select s.* from (select * from a join b on a.id = b.id) s", "id k x id k y"),
        ("select * from (select count(*), max(id), id + 1 as n from a group by id) s", "count max n"),
        ("select 1 as a, 2 as a", "a a"),
        ("select sum(id) as s, sum(k) as s from a", "s s"),
        ("with w (p) as (select 1, 2) select * from w", "p ?column?"),
        ("select v.* from (values (1, 2)) v (p)", "p column2"),
        (
            "select id, exists (select 1 from b where b.id = a.id), id in (select id from b) from a",
            "id exists ?column?",
        ),
    ] {
        let prepared = client.prepare(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let shown: Vec<&str> = prepared.columns().iter().map(|c| c.name()).collect();
        assert_eq!(shown.join(" "), names, "{sql}");
    }
    // Endless recursion ends with what is asked for, with the timeout, or when its memory does.
    let endless = "with recursive r (n) as (select 1 union all select n + 1 from r)";
    assert_eq!(rows(&client, &format!("{endless} select n from r limit 3")).await.unwrap(), ["1", "2", "3"]);
    run(&client, "set statement_timeout = 500").await;
    for tail in
        ["select count(*) from r", "select n from r where n < 0", "select a.id from a join r on r.n = -a.id"]
    {
        let start = Instant::now();
        assert_eq!(failure(&client, &format!("{endless} {tail}")).await.0, "57014", "{tail}");
        assert!(start.elapsed() < Duration::from_secs(5), "{tail}: {:?}", start.elapsed());
    }
    run(&client, "set statement_timeout = 0").await;
    let swelling = "with recursive r (n) as (select 1 union all select n from r, generate_series(1, 100) g)
                    select count(*) from r";
    assert_eq!(failure(&client, swelling).await.0, "53200");
    assert_eq!(value(&client, "select count(*) from a").await, "2");
}
