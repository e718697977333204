//! MERGE and WITH that writes: alone they never meet a conflict that their client sees, with each engine and from every
//! region; and both take parameters.

use crate::server::{Server, failure, rows, run, value};

/// Clients, two a region, and how often each of them says each statement.
const CLIENTS: usize = 6;
const ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_all_regions_all_count() {
    for server in Server::with_each_engine(&[]) {
        all_count(server).await;
    }
}

async fn all_count(server: Server) {
    let first = server.session(0).await;
    run(
        &first,
        "create table counts (k int primary key, n int not null);
         create table jobs (id int primary key, round int);
         create table done (id int primary key, by_client int);
         insert into jobs select id, 0 from generate_series(1, 30) id",
    )
    .await;
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let client = server.session(n % 3).await;
        clients.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let counted = "merge into counts c using (values (1), (2)) v (k) on c.k = v.k
                    when matched then update set n = c.n + 1 when not matched then insert values (v.k, 1)";
                assert_eq!(client.execute(counted, &[]).await.unwrap_or_else(|e| panic!("{e:?}")), 2);
                let taken = format!(
                    "with taken as (delete from jobs where id = (select min(id) from jobs) returning id)
                     insert into done select id, {n} from taken returning id"
                );
                let taken = rows(&client, &taken).await.unwrap_or_else(|e| panic!("{taken}: {e:?}"));
                assert_eq!(taken.len(), 1, "{taken:?}");
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let all = CLIENTS * ROUNDS;
    assert_eq!(
        rows(&first, "select n from counts order by k").await.unwrap(),
        [all.to_string(), all.to_string()]
    );
    let taken = "select (select count(*) from jobs), count(*), count(distinct id) from done";
    assert_eq!(rows(&first, taken).await.unwrap(), [format!("0|{all}|{all}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_that_their_places_want() {
    let server = Server::start();
    let client = server.session(0).await;
    run(
        &client,
        "create table t (k int primary key, s varchar(5), at date); insert into t values (1, 'a', null)",
    )
    .await;
    for (k, s, changed) in [(1, "a", 1), (1, "a", 0), (2, "b", 1)] {
        let new = format!("{s}!");
        let sql = format!(
            "merge into t using (values ({k})) s (k) on t.k = s.k when matched and t.s = $1 then update set s = $2
             when not matched then insert values (s.k, $2)"
        );
        assert_eq!(client.execute(&sql, &[&s, &new]).await.unwrap(), changed, "{k} {s}");
    }
    assert_eq!(rows(&client, "select k, s from t order by k").await.unwrap(), ["1|a!", "2|b!"]);
    assert_eq!(failure(&client, "merge into t using (values (3)) s (k) on t.k = s.k when not matched then insert values (k, 'too long')").await.0, "22001");

    let with = client
        .prepare(
            "with gone as (delete from t where k = $1 returning k, s), new as (insert into t values ($2, $3) returning s)
             select gone.k, gone.s, new.s as other, $4::text as given from gone, new",
        )
        .await
        .unwrap();
    let types: Vec<&str> = with.params().iter().map(|t| t.name()).collect();
    assert_eq!(types, ["int4", "int4", "text", "text"]);
    let columns: Vec<(&str, &str)> = with.columns().iter().map(|c| (c.name(), c.type_().name())).collect();
    assert_eq!(columns, [("k", "int4"), ("s", "varchar"), ("other", "varchar"), ("given", "text")]);
    let none: Option<&str> = None;
    for k in 1..4i32 {
        let row = client.query_one(&with, &[&k, &(k + 2), &"new", &none]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, Option<&str>>(3)), (k, None));
    }
    assert_eq!(value(&client, "select count(*) from t").await, "2");
    // A change of the table is seen by what was prepared before.
    run(&client, "alter table t add column more int default 5").await;
    let row = client.query_one(&with, &[&4i32, &6i32, &"x", &"y"]).await.unwrap();
    assert_eq!(row.get::<_, &str>(3), "y");
    let plan = rows(&client, "explain with g as (delete from t where k = 1 returning k) select * from g")
        .await
        .unwrap();
    assert!(plan[0].starts_with("WITH in one transaction") && plan[1].contains("Delete t"), "{plan:?}");
    let plan =
        rows(&client, "explain merge into t using t s on t.k = s.k when matched then delete").await.unwrap();
    assert!(plan[0].starts_with("Merge into t"), "{plan:?}");
}
