//! The last look at a cluster: at one cut, every column copy equals the rows.
//!
//! One client pins a cut at the first gateway, reads every shelf there from the row stores, and then every
//! shelf from the columns of every node that has them.

use super::columns::rows_of;
use super::layout::{Content, Item, Kind, Layout, Target, read_row, table_of};
use super::script_client::ScriptClient;
use base::cut::Consistency;
use base::process::Process;
use base::{NodeId, PartitionId, Rank, Token};
use node::request::{OpenSnapshot, ReadRows, Reply, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What the last look found.
#[derive(Debug)]
pub struct LastLook {
    pub at: Rank,
    /// All rows at the cut, from the row stores.
    pub rows: BTreeMap<Item, Content>,
    /// The same from each node's columns, with the partitions that it keeps.
    pub columns: Vec<(NodeId, BTreeSet<PartitionId>, BTreeMap<Item, Content>)>,
    /// Where shelves lie.
    pub shelves: BTreeMap<i64, PartitionId>,
}

impl LastLook {
    /// An error names the first copy that differs, and where.
    pub fn check(&self) -> Result<(), String> {
        for (node, kept, columns) in &self.columns {
            let rows = self.rows.iter().filter(|(item, _)| kept.contains(&self.shelves[&item.shelf]));
            let different = { rows }.find(|(item, content)| columns.get(item) != Some(content));
            if let Some((item, content)) = different {
                let found = columns.get(item);
                let at = self.at;
                return Err(format!(
                    "columns of {node} at {at}: {item:?} is {found:?}, the row is {content:?}"
                ));
            }
            if let Some(extra) = columns.keys().find(|item| !self.rows.contains_key(item)) {
                return Err(format!("columns of {node} at {}: {extra:?} has no row", self.at));
            }
        }
        Ok(())
    }
}

/// The client, and where its replies will be. `token` is everything that was answered.
pub fn client<P>(
    layout: Arc<Layout>,
    gateway: NodeId,
    token: Token,
) -> (ScriptClient<P>, Rc<RefCell<Vec<Reply>>>)
where
    P: Process<Request = Request, Reply = Reply>,
{
    let analysts = analysts(&layout);
    ScriptClient::new(move |replies: &[Reply]| {
        let Some(first) = replies.first() else {
            let pin = Request::Pin { consistency: Consistency::Regular, token: token.clone() };
            return Some((gateway, pin));
        };
        let Reply::Pinned(Ok((pin, at))) = first else { panic!("the last look is refused a pin") };
        let (at, token, consistency) = (*at, Token::at(*at), Consistency::Regular);
        let nth = replies.len() - 1;
        if nth == 0 {
            let reads = shelves(&layout).map(|t| layout.row_read(&t)).collect();
            return Some((gateway, Request::ReadRows(ReadRows { at: Some(at), consistency, token, reads })));
        }
        match analysts.get(nth - 1) {
            Some(&(node, ref partitions)) => {
                let tables =
                    [Kind::List, Kind::Register].map(|kind| (table_of(kind), partitions.clone())).into();
                Some((
                    node,
                    Request::OpenSnapshot(OpenSnapshot {
                        at: Some(at),
                        consistency,
                        token,
                        tables,
                        wanted: BTreeMap::new(),
                    }),
                ))
            }
            None if nth == analysts.len() + 1 => Some((gateway, Request::Unpin(*pin))),
            None => None,
        }
    })
}

/// Reads the replies of [`client`].
pub fn look(layout: &Layout, replies: &[Reply]) -> LastLook {
    let mut replies = replies.iter();
    let Some(Reply::Pinned(Ok((_, at)))) = replies.next() else { panic!("no pin") };
    let rows = match replies.next() {
        Some(Reply::Rows(Ok(rows))) => rows,
        Some(Reply::Rows(Err(error))) => panic!("rows at the last cut are refused: {error}"),
        _ => panic!("no rows at the last cut"),
    };
    let all = shelves(layout).zip(&rows.reads);
    let rows = all.flat_map(|(t, rows)| rows.iter().map(move |(_, row)| read_row(t.kind, &row.to_vec())));
    let rows = rows.collect();
    let columns = analysts(layout).into_iter().map(|(node, kept)| {
        let snapshot = match replies.next() {
            Some(Reply::Snapshot(Ok(snapshot))) => snapshot,
            Some(Reply::Snapshot(Err(error))) => panic!("{node} has no columns at the last cut: {error}"),
            _ => panic!("{node} has no columns at the last cut"),
        };
        let items = [Kind::List, Kind::Register].into_iter().flat_map(|kind| {
            let rows = rows_of(&snapshot.tables[&table_of(kind)]);
            rows.into_iter().map(move |values| read_row(kind, &values)).collect::<Vec<_>>()
        });
        let (mut copy, mut count) = (BTreeMap::new(), 0);
        items.for_each(|(item, content)| {
            count += 1;
            copy.insert(item, content);
        });
        assert_eq!(copy.len(), count, "columns of {node} show a row twice at {at}");
        (node, kept, copy)
    });
    let columns = columns.collect();
    LastLook { at: *at, rows, columns, shelves: layout.shelves.iter().copied().collect() }
}

fn shelves(layout: &Layout) -> impl Iterator<Item = Target> + '_ {
    let kinds = [Kind::List, Kind::Register].into_iter();
    kinds.flat_map(|kind| layout.shelves.iter().map(move |&(shelf, _)| Target::shelf(kind, shelf)))
}
/// Nodes with columns, each with its partitions.
fn analysts(layout: &Layout) -> Vec<(NodeId, BTreeSet<PartitionId>)> {
    let topology = &layout.topology;
    let kept = |node: NodeId| topology.nodes[node.0 as usize].subscribes.iter().copied().collect();
    let all = topology.node_ids().map(|node| (node, kept(node)));
    all.filter(|(_, kept): &(_, BTreeSet<_>)| !kept.is_empty()).collect()
}
