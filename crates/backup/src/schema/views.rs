//! Views, materialized views and functions that give rows of a table: each after what it reads.

use super::{OURS, options_of};
use crate::{quoted, texts};
use anyhow::bail;
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

/// Statements that make views and functions of rows, and those that fill materialized views once they have their indexes.
pub(super) struct Readers {
    pub made: Vec<String>,
    pub filled: Vec<String>,
}

/// What makes one of them, by its object id.
type Definitions = BTreeMap<u64, String>;

/// `of_rows`: functions by their object id.
pub(super) async fn readers(client: &Client, of_rows: Definitions) -> anyhow::Result<Readers> {
    let sql = format!(
        "SELECT c.oid, c.relkind, n.nspname, c.relname, pg_catalog.pg_get_viewdef(c.oid), c.relispopulated, c.reloptions \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('v', 'm') AND {OURS}"
    );
    let (mut definitions, mut to_fill) = (of_rows, BTreeMap::new());
    for row in texts(client, &sql).await? {
        let [Some(oid), Some(kind), Some(schema), Some(name), Some(query), is_filled, options] = &row[..]
        else {
            bail!("a view has no definition")
        };
        let oid: u64 = oid.parse()?;
        let name = format!("{}.{}", quoted(schema), quoted(name));
        let query = query.trim().trim_end_matches(';');
        if kind == "v" {
            let options = options_of(&name, options.as_deref())?;
            let options = if options.is_empty() { String::new() } else { format!(" {options}") };
            definitions.insert(oid, format!("CREATE VIEW {name}{options} AS {query}"));
            continue;
        }
        // Where its rows live is not declared: where it is made.
        definitions.insert(oid, format!("CREATE MATERIALIZED VIEW {name} AS {query} WITH NO DATA"));
        if is_filled.as_deref() == Some("t") {
            to_fill.insert(oid, format!("REFRESH MATERIALIZED VIEW {name}"));
        }
    }
    let order = in_order(&definitions, &needs(client).await?);
    let filled = order.iter().filter_map(|oid| to_fill.remove(oid)).collect();
    let made = order.iter().filter_map(|oid| definitions.remove(oid)).collect();
    Ok(Readers { made, filled })
}

/// What each object needs.
async fn needs(client: &Client) -> anyhow::Result<BTreeMap<u64, BTreeSet<u64>>> {
    let sql = "SELECT objid, refobjid FROM pg_catalog.pg_depend WHERE deptype = 'n'";
    let mut needs: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for row in texts(client, sql).await? {
        let [Some(object), Some(needed)] = &row[..] else { bail!("a dependency names no object") };
        needs.entry(object.parse()?).or_default().insert(needed.parse()?);
    }
    Ok(needs)
}

/// Objects in the order in which they were made, but each behind those that it needs: a view may have been replaced by
/// one that reads a later view.
fn in_order(all: &Definitions, needs: &BTreeMap<u64, BTreeSet<u64>>) -> Vec<u64> {
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    // Objects that wait for what they need, innermost last; a chain of views may be long.
    for &first in all.keys() {
        let mut waiting = vec![first];
        while let Some(&object) = waiting.last() {
            seen.insert(object);
            let needed = needs.get(&object).into_iter().flatten();
            match needed.copied().find(|needed| all.contains_key(needed) && !seen.contains(needed)) {
                Some(needed) => waiting.push(needed),
                None => {
                    waiting.pop();
                    if !order.contains(&object) {
                        order.push(object);
                    }
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_comes_first_and_the_rest_as_it_was_made() {
        let all: Definitions = [1, 2, 3, 4].map(|oid| (oid, String::new())).into();
        let needs = [(1, [4, 99].into()), (4, [3].into()), (2, [1].into())].into();
        assert_eq!(in_order(&all, &needs), [3, 4, 1, 2]);
    }
}
