//! Partitions of partitioned tables, which have no rows, columns or keys but those of their tables.

use super::OURS;
use crate::{quoted, texts};
use anyhow::bail;
use tokio_postgres::Client;

struct Partition {
    oid: String,
    /// Object id of what it is a partition of.
    parent: String,
    made: String,
}

/// Statements that make partitions of tables that are there, each behind the one that makes what it is of.
pub(super) async fn partitions(client: &Client) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT c.oid, i.inhparent, n.nspname, c.relname, pn.nspname, p.relname, \
         pg_catalog.pg_get_expr(c.relpartbound, c.oid), pg_catalog.pg_get_partkeydef(c.oid) \
         FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_class p ON p.oid = i.inhparent \
         JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace WHERE c.relispartition AND {OURS} ORDER BY 3, 4"
    );
    let mut found = Vec::new();
    for row in texts(client, &sql).await? {
        let [
            Some(oid),
            Some(parent),
            Some(schema),
            Some(name),
            Some(parent_schema),
            Some(parent_name),
            Some(bound),
            division,
        ] = &row[..]
        else {
            bail!("a partition has no name")
        };
        let name = format!("{}.{}", quoted(schema), quoted(name));
        let of = format!("{}.{}", quoted(parent_schema), quoted(parent_name));
        let mut made = format!("CREATE TABLE {name} PARTITION OF {of} {bound}");
        if let Some(division) = division {
            made.push_str(&format!(" PARTITION BY {division}"));
        }
        found.push(Partition { oid: oid.clone(), parent: parent.clone(), made });
    }
    in_order(found)
}

/// Statements that add the foreign keys which single partitions have of their own.
pub(super) async fn own_keys(client: &Client) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT n.nspname, c.relname, f.conname, pg_catalog.pg_get_constraintdef(f.oid) \
         FROM pg_catalog.pg_constraint f JOIN pg_catalog.pg_class c ON c.oid = f.conrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relispartition AND f.contype = 'f' AND {OURS} ORDER BY 1, 2, 3"
    );
    let mut made = Vec::new();
    for row in texts(client, &sql).await? {
        let [Some(schema), Some(name), Some(key), Some(definition)] = &row[..] else {
            bail!("a foreign key has no name")
        };
        let (name, key) = (format!("{}.{}", quoted(schema), quoted(name)), quoted(key));
        made.push(format!("ALTER TABLE {name} ADD CONSTRAINT {key} {definition}"));
    }
    Ok(made)
}

/// Statements in their order, each behind that of its parent.
fn in_order(mut waiting: Vec<Partition>) -> anyhow::Result<Vec<String>> {
    let mut made = Vec::new();
    while !waiting.is_empty() {
        let parents: Vec<String> = waiting.iter().map(|partition| partition.oid.clone()).collect();
        let (later, next): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|partition| parents.contains(&partition.parent));
        if next.is_empty() {
            bail!("there are partitions of each other");
        }
        made.extend(next.into_iter().map(|partition| partition.made));
        waiting = later;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_come_behind_what_they_are_of() {
        let partition = |(oid, parent): (&str, &str)| Partition {
            oid: oid.into(),
            parent: parent.into(),
            made: format!("{oid} of {parent}"),
        };
        let all = [("3", "2"), ("2", "1"), ("4", "1")].map(partition);
        assert_eq!(in_order(all.into()).unwrap(), ["2 of 1", "4 of 1", "3 of 2"]);
    }
}
