//! Statements over views `cheap` (id, called, twice) of table `t` and `counted` (k, n), as statements over `t`.

use super::*;
use base::roles::ROOT;
use base::schema::{SchemaAction, SchemaChange};
use base::{DataType, NodeId};

fn shape(id: u32, name: &str, columns: &[&str]) -> base::schema::Table {
    let typed = columns.iter().map(|column| ((*column).to_string(), DataType::Integer)).collect();
    View::shape(TableId(id), "public".into(), name.into(), typed)
}

fn view(id: u32, name: &str, columns: &[&str], of: u32, definition: &str) -> SchemaAction {
    SchemaAction::PutView(View {
        type_oids: columns.iter().map(|_| 23).collect(),
        shape: shape(id, name, columns).into(),
        definition: definition.into(),
        uses: [(TableId(of), vec![0])].into(),
        check_option: Default::default(),
        partition: None,
        security: Default::default(),
    })
}

fn catalog() -> Catalog {
    let table =
        base::schema::Table { primary_key: vec![0], ..shape(1, "t", &["id", "name", "price", "extra"]) };
    let actions = vec![
        SchemaAction::CreateTable(table),
        view(
            2,
            "cheap",
            &["id", "called", "twice"],
            1,
            "SELECT id, name AS called, price * 2 AS twice FROM public.t WHERE price < 10",
        ),
        view(3, "counted", &["k", "n"], 1, "SELECT id AS k, count(*) AS n FROM public.t GROUP BY id"),
        view(4, "above", &["a"], 2, "SELECT called AS a FROM public.cheap"),
    ];
    let mut catalog = Catalog::default();
    catalog.apply(&SchemaChange { database: Default::default(), base_version: 0, actions }).unwrap();
    catalog
}

fn expanded(sql: &str) -> SqlResult<String> {
    let catalog = catalog();
    let standing = catalog.roles.standing(ROOT);
    let path = ["public".to_string()];
    let check = Check { catalog: &catalog, search_path: &path, database: "meridian", standing: &standing };
    let statement = crate::parse::parse(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}")).remove(0);
    let generators = Generators::new(NodeId(0), 1, 0);
    let expanded = expand(&check, &generators, &statement)?;
    Ok(expanded.map_or_else(|| "no view".into(), |expanded| expanded.statement.to_string()))
}

#[test]
fn a_statement_over_one_simple_view_is_one_over_its_table() {
    for (sql, wanted) in [
        (
            "SELECT id, called FROM cheap WHERE id = 5",
            "SELECT cheap.id, cheap.name AS called FROM public.t AS cheap WHERE (cheap.price < 10) AND (cheap.id = 5)",
        ),
        (
            "SELECT * FROM cheap c ORDER BY called",
            "SELECT c.id AS id, c.name AS called, (c.price * 2) AS twice FROM public.t c WHERE c.price < 10 ORDER BY called",
        ),
        ("SELECT a FROM above", "SELECT above.name AS a FROM public.t AS above WHERE above.price < 10"),
        (
            "UPDATE cheap SET called = 'x' WHERE id = 1 RETURNING twice",
            "UPDATE public.t AS cheap SET name = 'x' WHERE (cheap.price < 10) AND (cheap.id = 1) RETURNING (cheap.price * 2) AS twice",
        ),
        (
            "DELETE FROM cheap WHERE called = 'x'",
            "DELETE FROM public.t AS cheap WHERE (cheap.price < 10) AND (cheap.name = 'x')",
        ),
        ("INSERT INTO cheap VALUES (1, 'x')", "INSERT INTO public.t AS cheap (id, name) VALUES (1, 'x')"),
    ] {
        assert_eq!(expanded(sql).unwrap(), wanted, "{sql}");
    }
}

#[test]
fn other_views_are_subqueries_and_what_hides_a_view_is_left() {
    let cheap = "(SELECT id, name AS called, price * 2 AS twice FROM public.t WHERE price < 10)";
    for (sql, wanted) in [
        ("SELECT id FROM t", "no view".to_string()),
        ("WITH cheap AS (SELECT 1 AS id) SELECT id FROM cheap", "no view".into()),
        (
            "WITH cheap AS (SELECT id FROM cheap) SELECT id FROM cheap",
            format!("WITH cheap AS (SELECT id FROM {cheap} AS cheap) SELECT id FROM cheap"),
        ),
        (
            "SELECT c.id FROM cheap c JOIN t ON t.id = c.id",
            format!("SELECT c.id FROM {cheap} c JOIN t ON t.id = c.id"),
        ),
        // The view does not show it, whatever its table has.
        ("SELECT extra FROM cheap", format!("SELECT extra FROM {cheap} AS cheap")),
        (
            "SELECT n FROM counted",
            "SELECT n FROM (SELECT id AS k, count(*) AS n FROM public.t GROUP BY id) AS counted".into(),
        ),
    ] {
        assert_eq!(expanded(sql).unwrap(), wanted, "{sql}");
    }
}

#[test]
fn writes_that_mean_nothing_are_refused() {
    for (sql, state) in [
        ("DELETE FROM counted", "55000"),
        ("INSERT INTO counted VALUES (1, 2)", "55000"),
        ("UPDATE cheap SET twice = 4", "0A000"),
        ("INSERT INTO cheap (nope) VALUES (1)", "42703"),
        ("UPDATE cheap SET called = 'x' WHERE id IN (SELECT id FROM t)", "0A000"),
        ("DELETE FROM cheap USING t WHERE t.id = cheap.id", "0A000"),
    ] {
        assert_eq!(expanded(sql).unwrap_err().state.as_str(), state, "{sql}");
    }
}
