//! Statements of a role that may read table `a` (k, x), columns `k` and `x` of `b` (k, x, secret), and insert into `a`.

use super::*;
use base::roles::{ROOT, Rights, Role, RoleChange, RoleId};
use base::schema::{Column, Identity, Placement, SchemaAction, SchemaChange};
use base::{DataType, Datum, RegionId, TableId};

fn table(id: u32, name: &str, columns: &[&str]) -> Table {
    let column = |name: &&str| Column {
        name: (*name).into(),
        data_type: DataType::Integer,
        not_null: false,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    Table {
        id: TableId(id),
        schema: "public".into(),
        name: name.into(),
        version: 0,
        columns: columns.iter().map(column).collect(),
        primary_key: vec![0],
        primary_key_name: format!("{name}_pkey"),
        indexes: Vec::new(),
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::Home(RegionId(0)),
    }
}

const ANN: RoleId = RoleId(20_000);

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    let root = catalog.roles.roles[&ROOT].clone();
    let ann = Role { id: ANN, name: "ann".into(), is_superuser: false, ..root };
    let grant =
        |object, held| RoleChange::SetRights(object, ANN, Rights { held, grantable: Privileges::NONE });
    let mut actions = vec![
        SchemaAction::CreateTable(table(1, "a", &["k", "x"])),
        SchemaAction::CreateTable(table(2, "b", &["k", "x", "secret"])),
        SchemaAction::CreateTable(table(3, "c", &["k", "x"])),
    ];
    let changes = [
        RoleChange::Put(ann),
        grant(Object::Relation(TableId(1)), Privileges::SELECT | Privileges::INSERT),
        grant(Object::Column(TableId(2), 0), Privileges::SELECT | Privileges::INSERT),
        grant(Object::Column(TableId(2), 1), Privileges::SELECT | Privileges::UPDATE),
    ];
    actions.extend(changes.map(SchemaAction::Roles));
    catalog.apply(&SchemaChange { database: Default::default(), base_version: 0, actions }).unwrap();
    catalog
}

/// What is denied; empty if nothing is.
fn asked(sql: &str) -> String {
    let catalog = catalog();
    let standing = catalog.roles.standing(ANN);
    let path = ["public".to_string()];
    let check = Check { catalog: &catalog, search_path: &path, database: "meridian", standing: &standing };
    let statement = crate::parse::parse(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}")).remove(0);
    match check.statement(&statement) {
        Ok(()) => String::new(),
        Err(error) => {
            assert!([*b"42501", *b"0A000"].contains(&error.state.0), "{sql}: {error:?}");
            error.message.trim_start_matches("permission denied for ").into()
        }
    }
}

#[test]
fn what_is_read_and_written_needs_its_privilege() {
    for sql in [
        "SELECT * FROM a",
        "SELECT count(*) FROM b",
        "SELECT k, b.x FROM b WHERE x > 1 ORDER BY k",
        "SELECT q.x FROM b AS q",
        "SELECT a.k FROM a JOIN b USING (k)",
        "SELECT (SELECT max(x) FROM b WHERE b.k = a.k) FROM a",
        "WITH c AS (SELECT 1 AS k) SELECT * FROM c",
        "WITH RECURSIVE c AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM c WHERE k < 3) SELECT * FROM c",
        "INSERT INTO a VALUES (1, 2) RETURNING x",
        "INSERT INTO b (k) VALUES (1)",
        "INSERT INTO a SELECT k, x FROM b",
        "INSERT INTO b (k) WITH q AS (SELECT 1 AS secret) SELECT secret FROM q",
        "UPDATE b SET x = 1",
        "INSERT INTO b (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET x = excluded.k",
        "UPDATE b SET x = x + 1 WHERE k = 3",
        "COPY a TO STDOUT",
        "COPY b (k, x) TO STDOUT",
        "SELECT * FROM pg_class",
        "EXPLAIN SELECT * FROM a",
        "SELECT * FROM (SELECT k FROM b) AS secret",
    ] {
        assert_eq!(asked(sql), "", "{sql}");
    }
    for (sql, wanted) in [
        ("SELECT * FROM b", "table b"),
        ("SELECT secret FROM b", "table b"),
        ("SELECT k FROM b WHERE secret = 1", "table b"),
        ("SELECT k FROM b ORDER BY secret", "table b"),
        ("SELECT q.* FROM b q", "table b"),
        ("SELECT b FROM b", "table b"),
        ("SELECT z FROM b AS q (k, x, z)", "table b"),
        ("SELECT j.secret FROM (a JOIN b USING (k)) AS j", "table b"),
        ("SELECT count(b.*) FROM b", "table b"),
        ("SELECT a.k FROM a NATURAL JOIN b", "table b"),
        ("SELECT (SELECT secret) FROM b", "table b"),
        ("SELECT (SELECT secret FROM (SELECT 1 AS y) q) FROM b", "table b"),
        ("SELECT 1 FROM a WHERE EXISTS (SELECT 1 FROM c)", "table c"),
        ("SELECT * FROM c", "table c"),
        ("SELECT count(*) FROM public.c", "table c"),
        ("WITH c AS (SELECT * FROM c) SELECT * FROM c", "table c"),
        ("WITH q AS (SELECT * FROM c), c AS (SELECT 1) SELECT * FROM q", "table c"),
        ("SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) q, c", "table c"),
        ("WITH c AS (SELECT 1) SELECT * FROM public.c", "table c"),
        ("SELECT * FROM a UNION SELECT * FROM c", "table c"),
        ("SELECT k FROM a FOR UPDATE", "table a"),
        ("INSERT INTO b VALUES (1, 2, 3)", "table b"),
        ("INSERT INTO b (k, secret) VALUES (1, 2)", "table b"),
        ("INSERT INTO b (k) VALUES (1) RETURNING secret", "table b"),
        ("INSERT INTO b (k) VALUES (1) ON CONFLICT (secret) DO NOTHING", "table b"),
        ("INSERT INTO a VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET x = 1", "table a"),
        ("INSERT INTO a SELECT k, x FROM c", "table c"),
        ("INSERT INTO b (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET x = excluded.secret", "table b"),
        ("UPDATE a SET x = 1", "table a"),
        ("UPDATE b SET secret = 1", "table b"),
        ("UPDATE b SET x = 1 WHERE secret = 1", "table b"),
        ("UPDATE b SET x = c.x FROM c WHERE c.k = b.k", "table c"),
        ("DELETE FROM a", "table a"),
        ("TRUNCATE a", "table a"),
        ("COPY b TO STDOUT", "table b"),
        ("COPY c FROM STDIN", "table c"),
        ("EXPLAIN ANALYZE SELECT * FROM c", "table c"),
        ("PREPARE p AS DELETE FROM a", "table a"),
        ("DECLARE q CURSOR FOR SELECT * FROM c", "table c"),
        ("CREATE TABLE d AS SELECT * FROM c", "table c"),
        ("WITH q AS (SELECT 1) INSERT INTO c SELECT 1, 2", "table c"),
        ("CALL payment(1)", "procedure payment"),
        ("SELECT rolpassword FROM pg_authid", "table pg_authid"),
    ] {
        assert_eq!(asked(sql), wanted, "{sql}");
    }
}
