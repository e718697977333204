//! Types of what a query computes: a value that is chosen among several has their type, and a client is told so.

use crate::server::*;
use tokio_postgres::types::Type;

const ROWS: &str = "INSERT INTO p (id, o, j, us) VALUES \
    ('00000000-0000-0000-0000-000000000001', NULL, '{\"a\":1}', '{00000000-0000-0000-0000-000000000003}'), \
    ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001', NULL, NULL)";

/// What chooses among values of type uuid was text to clients, so a driver gave a text where it gives an identifier.
#[tokio::test(flavor = "multi_thread")]
async fn what_chooses_among_uuids_is_one() {
    let server = Server::start();
    let client = server.session(0).await;
    run(&client, "CREATE TABLE p (id UUID PRIMARY KEY, o UUID, j JSON, us UUID[], n INT)").await;
    run(&client, ROWS).await;
    for (sql, wanted) in [
        ("SELECT coalesce(o, id) FROM p", Type::UUID),
        ("SELECT coalesce(o, '00000000-0000-0000-0000-00000000000A') FROM p", Type::UUID),
        ("SELECT CASE WHEN o IS NULL THEN id ELSE o END FROM p", Type::UUID),
        ("SELECT greatest(id, o) FROM p", Type::UUID),
        ("SELECT first_value(id) OVER (ORDER BY id) FROM p", Type::UUID),
        ("SELECT lag(id) OVER (ORDER BY id) FROM p", Type::UUID),
        ("SELECT mode() WITHIN GROUP (ORDER BY id) FROM p", Type::UUID),
        ("SELECT id FROM p a FULL JOIN p b USING (id)", Type::UUID),
        ("SELECT (SELECT coalesce(o, id) FROM p LIMIT 1)", Type::UUID),
        ("SELECT x FROM (SELECT coalesce(o, id) x FROM p) q GROUP BY x", Type::UUID),
        ("SELECT coalesce(o, id) FROM p GROUP BY 1", Type::UUID),
        ("SELECT DISTINCT ON (coalesce(o, id)) coalesce(o, id) FROM p", Type::UUID),
        ("SELECT unnest(us) FROM p", Type::UUID),
        ("SELECT unnest(array[id, o]) FROM p", Type::UUID),
        ("SELECT array_agg(id) FROM p", Type::UUID_ARRAY),
        ("SELECT array_agg(DISTINCT coalesce(o, id)) FROM p", Type::UUID_ARRAY),
        ("SELECT array_agg(id), avg(n) FROM p", Type::UUID_ARRAY),
        ("SELECT id FROM p UNION ALL SELECT CASE WHEN o IS NULL THEN id END FROM p", Type::UUID),
        ("SELECT array(SELECT id FROM p ORDER BY id)", Type::UUID_ARRAY),
        ("SELECT array[id, o] FROM p", Type::UUID_ARRAY),
        ("SELECT us || id FROM p", Type::UUID_ARRAY),
        ("SELECT coalesce(j, '{\"b\":2}') FROM p", Type::JSON),
        ("SELECT array_agg(j) FROM p", Type::JSON_ARRAY),
        ("SELECT array[array[1::int], array[2::int]]", Type::INT4_ARRAY),
    ] {
        let prepared = client.prepare(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert_eq!(*prepared.columns()[0].type_(), wanted, "{sql}");
        // In binary, which has a form for each type.
        client.query(&prepared, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    for (sql, wanted) in [
        (
            "SELECT x FROM (SELECT coalesce(o, id) x FROM p) q WHERE x = '00000000-0000-0000-0000-000000000002'",
            "",
        ),
        ("SELECT count(*) FROM p WHERE id IN (SELECT coalesce(o, id) FROM p)", "1"),
        // What another value beside it makes of the plan changes nothing.
        (
            "SELECT count(*) FROM (SELECT CASE WHEN o IS NULL THEN id ELSE o END k, avg(n) FROM p GROUP BY 1) q \
             WHERE k = '00000000-0000-0000-0000-000000000001'",
            "1",
        ),
        (
            "WITH RECURSIVE r (x, n) AS (SELECT CASE WHEN o IS NULL THEN id ELSE o END, 1 FROM p \
             UNION ALL SELECT x, n + 1 FROM r WHERE n < 3) SELECT count(*), count(DISTINCT x) FROM r",
            "6|1",
        ),
        (
            "WITH RECURSIVE r (x, n) AS (SELECT id, 1 FROM p WHERE o IS NULL \
             UNION ALL SELECT CASE WHEN n > 0 THEN x END, n + 1 FROM r WHERE n < 3) SELECT count(x) FROM r",
            "3",
        ),
        ("SELECT count(*) FROM p a JOIN p b ON coalesce(a.o, a.id) = b.id", "2"),
        (
            "SELECT array_agg(id ORDER BY id) FROM p",
            "{00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000002}",
        ),
        ("SELECT array[array[1, 2], array[3, NULL]]", "{{1,2},{3,NULL}}"),
    ] {
        assert_eq!(rows(&client, sql).await.unwrap().join("\n"), wanted, "{sql}");
    }
    for sql in ["SELECT coalesce(o, id) || 1 FROM p", "SELECT length(coalesce(o, id)) FROM p"] {
        let error = client.simple_query(sql).await.unwrap_err();
        assert_eq!(state(&error), "42883", "{sql}");
    }
    let error = client.simple_query("SELECT array[id, 'none'] FROM p").await.unwrap_err();
    assert_eq!(state(&error), "22P02");
    // A table and a view keep the type.
    run(&client, "CREATE TABLE made AS SELECT coalesce(o, id) AS k, array_agg(id) AS ids FROM p GROUP BY 1")
        .await;
    run(&client, "CREATE VIEW seen AS SELECT coalesce(o, id) AS k, array_agg(id) AS ids FROM p GROUP BY 1")
        .await;
    for relation in ["made", "seen"] {
        let prepared = client.prepare(&format!("SELECT k, ids FROM {relation}")).await.unwrap();
        let types: Vec<Type> = prepared.columns().iter().map(|c| c.type_().clone()).collect();
        assert_eq!(types, [Type::UUID, Type::UUID_ARRAY], "{relation}");
    }
    // A table has no arrays of several dimensions, and a cursor gives them as a query does.
    let error =
        client.simple_query("CREATE TABLE several AS SELECT array[array['a'], array['b']] AS a").await;
    assert_eq!(state(&error.unwrap_err()), "0A000");
    run(&client, "BEGIN; DECLARE c CURSOR FOR SELECT array[array[1, 2], array[3, 4]]").await;
    assert_eq!(value(&client, "FETCH c").await, "{{1,2},{3,4}}");
    run(&client, "COMMIT").await;
    let error = client.simple_query("SELECT make_time(100000000000000, 0, 0)").await.unwrap_err();
    assert_eq!(state(&error), "22008");
}
