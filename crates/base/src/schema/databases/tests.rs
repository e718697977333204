//! Names of several databases in one catalog.

use super::*;
use crate::databases::POSTGRES;
use crate::roles::{RoleChange, RoleId};
use crate::schema::Origin;
use crate::schema::{Placement, SchemaAction, SchemaChange, Sequence, SequenceLimits, Table};
use crate::views::View;
use crate::{DataType, RegionId};

const SHOP: DatabaseId = DatabaseId(20_000);

fn change(catalog: &mut Catalog, database: DatabaseId, actions: Vec<SchemaAction>) -> SqlResult<()> {
    catalog.apply(&SchemaChange { database, base_version: catalog.version, actions })
}

fn table(id: u32, schema: &str, name: &str, column: &str) -> SchemaAction {
    let columns = vec![(column.to_string(), DataType::Integer)];
    let shape = View::shape(TableId(id), schema.into(), name.into(), columns);
    SchemaAction::CreateTable(Table {
        placement: Placement::Home(RegionId(0)),
        primary_key: vec![0],
        ..shape
    })
}

fn sequence(id: u32, name: &str) -> SchemaAction {
    SchemaAction::CreateSequence(Sequence {
        id: TableId(id),
        schema: "public".into(),
        name: name.into(),
        start: 1,
        increment: 1,
        limits: SequenceLimits::declared(DataType::BigInt, 1),
        owner: None,
        origin: Origin::declared(1),
    })
}

fn shop() -> SchemaAction {
    SchemaAction::PutDatabase(Database {
        id: SHOP,
        name: "shop".into(),
        is_template: false,
        allows_connections: true,
        connections_max: None,
    })
}

fn two() -> Catalog {
    let mut catalog = Catalog::default();
    change(&mut catalog, MERIDIAN, vec![shop()]).unwrap();
    change(&mut catalog, MERIDIAN, vec![table(1, "public", "t", "a")]).unwrap();
    change(&mut catalog, SHOP, vec![SchemaAction::CreateSchema("s".into()), table(2, "public", "t", "b")])
        .unwrap();
    change(&mut catalog, SHOP, vec![table(3, "s", "u", "c"), sequence(4, "q")]).unwrap();
    catalog
}

#[test]
fn one_name_means_two_tables_in_two_databases() {
    let catalog = two();
    let column = |of: DatabaseId| {
        let part = catalog.within(of).unwrap();
        part.table_named("public", "t").map(|table| table.columns[0].name.clone())
    };
    assert_eq!(
        (column(MERIDIAN), column(SHOP), column(POSTGRES)),
        (Some("a".into()), Some("b".into()), None)
    );
    assert_eq!(catalog.tables.len(), 3, "the cluster knows all by their ids");
    assert_eq!(catalog.schemas, ["public"]);
    assert_eq!(catalog.within(SHOP).unwrap().schemas, ["public", "s"]);
    assert!(catalog.within(MERIDIAN).unwrap().sequences.is_empty());
    assert_eq!(
        change(&mut catalog.clone(), SHOP, vec![table(9, "public", "t", "x")]).unwrap_err().state.0,
        *b"42P07"
    );
}

#[test]
fn a_database_has_all_of_a_catalog_in_which_others_have_nothing() {
    assert!(Catalog::default().within(MERIDIAN).is_none());
    let part = two().within(SHOP).unwrap();
    assert!(part.within(SHOP).is_none(), "a part is its own part");
    assert_eq!(part.database(), SHOP);
}

#[test]
fn owners_and_comments_of_schemas_are_kept_apart() {
    let mut catalog = two();
    let ann = RoleId(20_001);
    let role = crate::roles::Role {
        id: ann,
        name: "ann".into(),
        ..Roles::default().roles[&crate::roles::ROOT].clone()
    };
    let public = || Object::Schema("public".into());
    let said = |text: &str| SchemaAction::Comment(Commented::Object(public()), Some(text.into()));
    let owner = SchemaAction::Roles(RoleChange::SetOwner(public(), ann));
    change(&mut catalog, MERIDIAN, vec![SchemaAction::Roles(RoleChange::Put(role)), said("main")]).unwrap();
    change(&mut catalog, SHOP, vec![owner, said("shop")]).unwrap();
    for (database, owner, text) in [(MERIDIAN, crate::roles::ROOT, "main"), (SHOP, ann, "shop")] {
        let part = catalog.within(database).unwrap();
        assert_eq!(part.roles.owner_of(&public()), owner);
        assert_eq!(part.comments.of(&Commented::Object(public())), Some(text));
        assert_eq!(part.comments.0.len(), 1);
    }
    assert_eq!(catalog.comments.0.len(), 2);
}

#[test]
fn what_is_dropped_leaves_nothing_behind() {
    let mut catalog = two();
    let only = vec![SchemaAction::DropDatabase(SHOP)];
    assert_eq!(change(&mut catalog, SHOP, only.clone()), Err(stale_schema()), "it is not empty");
    assert_eq!(change(&mut catalog, MERIDIAN, only), Err(stale_schema()));
    let drop = |id| SchemaAction::DropTable(TableId(id));
    let schema = |name: &str| SchemaAction::DropSchema(name.into());
    let all = vec![
        drop(2),
        drop(3),
        SchemaAction::DropSequence(TableId(4)),
        schema("s"),
        schema("public"),
        SchemaAction::DropDatabase(SHOP),
    ];
    change(&mut catalog, SHOP, all).unwrap();
    let with_one = {
        let mut c = Catalog::default();
        change(&mut c, MERIDIAN, vec![table(1, "public", "t", "a")]).unwrap();
        c
    };
    assert_eq!((&catalog.databases, &catalog.roles), (&with_one.databases, &with_one.roles));
    assert_eq!(catalog.tables.len(), 1);
    assert!(change(&mut catalog, SHOP, vec![SchemaAction::CreateSchema("s".into())]).is_err());
    assert!(catalog.within(SHOP).is_some_and(|part| part.schemas.is_empty() && part.tables.is_empty()));
}

#[test]
fn names_of_databases_are_taken_once() {
    let mut catalog = two();
    let other =
        Database { id: DatabaseId(20_007), ..catalog.databases.named("shop").unwrap().as_ref().clone() };
    let refused = change(&mut catalog, MERIDIAN, vec![SchemaAction::PutDatabase(other)]).unwrap_err();
    assert_eq!(refused.state.0, *b"42P04");
}
