//! Writes with expressions that only queries compute: alone they never meet a conflict that their client sees,
//! wherever and however often the same rows are written.

use crate::server::{Server, failure, rows, run, value};

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_all_regions_that_compute_from_the_same_row_all_count() {
    for server in Server::with_each_engine(&[]) {
        all_count(server).await;
    }
}

/// Clients, two a region, and how often each of them says each statement.
const CLIENTS: usize = 6;
const ROUNDS: usize = 4;

async fn all_count(server: Server) {
    let first = server.session(0).await;
    run(
        &first,
        "create table c (k int primary key, v text not null, w text not null, x text);
         create table copies (client int, round int, n int, primary key (client, round));
         insert into c values (1, '', '', ''), (2, '', '', '')",
    )
    .await;
    let statements = [
        // Evaluated where it is ordered.
        "update c set v = left(v || repeat('x', 1), 1000) where k = 1",
        "insert into c values (2, '', '') on conflict (k) do update set v = rpad(c.v, length(c.v) + 1, 'x')",
        // Computed by a query, over the row found by key or over all rows.
        "update c set w = regexp_replace(w, '$', 'x') where k = 1",
        "update c set w = regexp_replace(w, '$', 'x') where md5(k::text) = md5('2')",
        "update c set w = c.w || s.x from (select 'x' as x) s where c.k = 1",
        "update c set x = null where k = 2 and regexp_replace(w, 'x', 'y') = 'nothing'",
    ];
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let client = server.session(n % 3).await;
        clients.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                for sql in statements {
                    client.simple_query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
                }
                let copied = format!("insert into copies select {n}, {round}, length(w) from c where k = 1");
                client.simple_query(&copied).await.unwrap_or_else(|e| panic!("{copied}: {e:?}"));
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let all = CLIENTS * ROUNDS;
    let lengths = rows(&first, "select length(v), length(w) from c order by k").await.unwrap();
    assert_eq!(lengths, [format!("{all}|{}", 2 * all), format!("{all}|{all}")]);
    assert_eq!(value(&first, "select count(*) from copies").await, all.to_string());
    let canceled = {
        run(&first, "set statement_timeout = 300").await;
        failure(
            &first,
            "update c set w = (select repeat('x', 1) from generate_series(1, 1000000000) n where n < 0)",
        )
        .await
    };
    assert_eq!(canceled.0, "57014");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_cannot_compute_is_computed_by_a_query() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "create table t (k int primary key, s text, n numeric(10, 2), at timestamp)").await;
    run(
        &client,
        "insert into t values (1, to_hex(255), sqrt(16), timestamp '2020-01-31 10:00' + interval '1 month'),
             (2, md5('x'), 3, date_trunc('month', timestamp '2020-05-17 10:00'));
         insert into t (k, n) values (3, (select max(n) from t)), (4, 1)",
    )
    .await;
    let all = rows(&client, "select * from t order by k").await.unwrap();
    assert_eq!(
        all,
        [
            "1|ff|4.00|2020-02-29 10:00:00",
            "2|9dd4e461268c8034f5c8564e155c67a6|3.00|2020-05-01 00:00:00",
            "3|NULL|4.00|NULL",
            "4|NULL|1.00|NULL"
        ]
    );
    // With parameters, whose types follow from what they meet.
    let sql = "insert into t (k, s) values ($1, to_hex($2::int) || $3) returning s";
    let row = client.query_one(sql, &[&5i32, &255i32, &"z"]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "ffz");
    let changed = client
        .query_one("update t set s = regexp_replace(s, 'z', $2) where k = $1 returning k, s", &[&5i32, &"y"])
        .await
        .unwrap();
    assert_eq!((changed.get::<_, i32>(0), changed.get::<_, &str>(1)), (5, "ffy"));
    let pair = "update t set (s, n) = (select o.s, o.n from t o where o.k = 1) where k = 5 returning s, n";
    assert_eq!(rows(&client, pair).await.unwrap(), ["ff|4.00"]);
    for (sql, state) in [
        ("insert into t (k, s) values (6)", "42601"),
        ("insert into t (k, s) values (6, 'a'), (7)", "42601"),
        ("insert into t (k, s) select 6", "42601"),
        ("insert into t (k, n) values (6, to_hex(10))", "42804"),
        ("insert into t (k, s) values (6, no_such_function('x'))", "42883"),
        ("insert into t (k, s) values (6, repeat('x', 2000000000))", "54000"),
        ("insert into t (k, n) values (1, sqrt(4))", "23505"),
        ("update t set n = to_hex(10) where k = 1", "42804"),
        ("update t set s = regexp_replace(s, '(', '') where k = 1", "2201B"),
    ] {
        assert_eq!(failure(&client, sql).await.0, state, "{sql}");
    }
    assert_eq!(value(&client, "select count(*) from t").await, "5");
}
