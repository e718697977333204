//! The last look at the tables: at one cut every region has the same rows, by their keys and through the index, and every
//! node's columns equal them.

use super::super::columns::rows_of;
use super::super::script_client::ScriptClient;
use super::builder::has_single_entries;
use super::tables::{Scope, Tables};
use super::{Holder, check_unique};
use crate::world::World;
use base::cut::Consistency;
use base::key::KeyRange;
use base::process::Process;
use base::schema::Index;
use base::time::SECOND;
use base::txn::RowRead;
use base::{Key, NodeId, PartitionId, Rank, Row, TableId, Token};
use node::request::{OpenSnapshot, ReadRows, Reply, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Creates the tables; answers what holds them.
pub fn set_up<P>(world: &mut World<P>, tables: &Arc<Tables>, token: Token) -> Token
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let (client, replies) = ScriptClient::<P>::once(NodeId(0), Request::Submit(tables.create(token.clone())));
    world.client(client);
    let limit = world.now() + 30 * SECOND;
    world.run_to_rest(limit).unwrap_or_else(|stuck| panic!("the tables of badges are not created: {stuck}"));
    let settled = world.now() + SECOND;
    world.run_until(settled);
    let replies = replies.borrow();
    let Some(Reply::Submitted(Ok(created))) = replies.first() else {
        panic!("the tables of badges are refused")
    };
    assert!(created.outcome.is_committed(), "{:?}", created.outcome);
    let mut token = token;
    token.join(&created.token);
    token
}

/// An error names what differs, and where. `token` is everything that was answered.
pub fn look<P>(world: &mut World<P>, tables: &Arc<Tables>, token: Token) -> Result<(), String>
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let (asked, nodes) = (tables.clone(), readers(tables));
    let (client, replies) = ScriptClient::<P>::new(move |replies: &[Reply]| {
        let Some(first) = replies.first() else {
            let pin = Request::Pin { consistency: Consistency::Regular, token: token.clone() };
            return Some((nodes[0], pin));
        };
        let Reply::Pinned(Ok((pin, at))) = first else { panic!("the last look at badges is refused a pin") };
        // Whatever is at the cut is executed here.
        let Some(known) = replies.get(1) else { return Some((nodes[0], Request::Catalog)) };
        let questions = questions(&asked, &nodes, built(known).map(|index| index.id), *at);
        let (nth, count) = (replies.len() - 2, questions.len());
        match questions.into_iter().nth(nth) {
            None if nth == count => Some((nodes[0], Request::Unpin(*pin))),
            question => question,
        }
    });
    world.client(client);
    let limit = world.now() + 10 * SECOND;
    world.run_to_rest(limit).map_err(|stuck| format!("the last look at badges: {stuck}"))?;
    check(tables, &replies.borrow())
}

/// Nodes that run partitions: one of these is in every region.
fn readers(tables: &Tables) -> Vec<NodeId> {
    let topology = &tables.topology;
    topology.node_ids().filter(|node| topology.partitions_at(*node).next().is_some()).collect()
}
/// Nodes with columns, each with its partitions.
fn analysts(tables: &Tables) -> Vec<(NodeId, BTreeSet<PartitionId>)> {
    let topology = &tables.topology;
    let kept = |node: NodeId| topology.nodes[usize::from(node.0)].subscribes.iter().copied().collect();
    let all = topology.node_ids().map(|node| (node, kept(node)));
    all.filter(|(_, kept): &(_, BTreeSet<_>)| !kept.is_empty()).collect()
}

/// A second index over the rows of shelves, if there is one that is read.
fn built(known: &Reply) -> Option<&Index> {
    let Reply::Catalog(catalog) = known else { panic!("a node does not tell its catalog") };
    let second = catalog.table(Scope::Shelf.table())?.indexes.get(1)?;
    (!second.form.is_building).then_some(second)
}

/// Of every node with rows all of them, by their keys and through the indexes; of every node with columns these.
fn questions(tables: &Tables, nodes: &[NodeId], built: Option<TableId>, at: Rank) -> Vec<(NodeId, Request)> {
    let (consistency, token) = (Consistency::Regular, Token::at(at));
    let rows = nodes.iter().map(|node| {
        let reads = reads(tables, built).map(|(_, read)| read).collect();
        (*node, Request::ReadRows(ReadRows { at: Some(at), consistency, token: token.clone(), reads }))
    });
    let columns = analysts(tables).into_iter().map(|(node, kept)| {
        let tables = [Scope::Shelf, Scope::All].map(|scope| (scope.table(), kept.clone())).into();
        let wanted = BTreeMap::new();
        let open = OpenSnapshot { at: Some(at), consistency, token: token.clone(), tables, wanted };
        (node, Request::OpenSnapshot(open))
    });
    rows.chain(columns).collect()
}
fn reads(
    tables: &Tables,
    built: Option<TableId>,
) -> impl Iterator<Item = ((Scope, PartitionId), RowRead)> + '_ {
    let of = |scope: Scope, partition: PartitionId, index: Option<TableId>| {
        let (table, range, filter, limit, descending) = (scope.table(), KeyRange::all(), None, None, false);
        ((scope, partition), RowRead { partition, table, index, range, filter, limit, descending })
    };
    Scope::EVERY.into_iter().flat_map(move |scope| {
        let partitions = tables.partitions(scope).into_iter();
        let second = built.filter(|_| scope == Scope::Shelf);
        let ways = [None, Some(scope.index())].into_iter().chain(second.map(Some));
        partitions.flat_map(move |p| ways.clone().map(move |index| of(scope, p, index)))
    })
}

/// Rows of a table in a partition, in order.
type Found = BTreeMap<(Scope, PartitionId), Vec<Holder>>;

fn check(tables: &Tables, replies: &[Reply]) -> Result<(), String> {
    let second = built(&replies[1]);
    let built = second.map(|index| index.id);
    let mut replies = replies[2..].iter();
    let mut first: Option<Found> = None;
    for node in readers(tables) {
        let found = match replies.next() {
            Some(Reply::Rows(Ok(rows))) => rows_at(tables, built, node, &rows.reads)?,
            Some(Reply::Rows(Err(error))) => return Err(format!("badges at {node} are refused: {error}")),
            _ => return Err(format!("no badges of {node} at the last cut")),
        };
        let known = first.get_or_insert_with(|| found.clone());
        if *known != found {
            return Err(format!("rows of {node}: {found:?}, elsewhere {known:?}"));
        }
    }
    let known = first.expect("some node has rows");
    check_scopes(&known)?;
    let shelves = known.iter().filter(|((scope, _), _)| *scope == Scope::Shelf);
    let mut shelves = shelves.map(|(_, rows)| rows);
    if second.is_some_and(|index| !shelves.all(|rows| has_single_entries(index, rows))) {
        return Err(format!("two rows have one entry of an index: {known:?}"));
    }
    for (node, kept) in analysts(tables) {
        let snapshot = match replies.next() {
            Some(Reply::Snapshot(Ok(snapshot))) => snapshot,
            Some(Reply::Snapshot(Err(error))) => {
                return Err(format!("columns of badges at {node} are refused: {error}"));
            }
            _ => return Err(format!("{node} has no columns of badges at the last cut")),
        };
        for scope in [Scope::Shelf, Scope::All] {
            let columns = rows_of(&snapshot.tables[&scope.table()]);
            let columns = sorted(columns.iter().map(|values| Holder::of_values(values)));
            let rows = known.iter().filter(|((of, partition), _)| *of == scope && kept.contains(partition));
            let rows = sorted(rows.flat_map(|(_, rows)| rows.iter().cloned()));
            if columns != rows {
                return Err(format!("columns of {node}: {columns:?}, rows {rows:?}"));
            }
        }
    }
    Ok(())
}

/// One node's rows; an error if the index leads to others.
fn rows_at(
    tables: &Tables,
    built: Option<TableId>,
    node: NodeId,
    answers: &[Vec<(Key, Row)>],
) -> Result<Found, String> {
    let mut found = Found::new();
    for ((of, read), rows) in reads(tables, built).zip(answers) {
        let rows = sorted(rows.iter().map(|(_, row)| Holder::of_row(row)));
        let known = found.entry(of).or_insert_with(|| rows.clone());
        if *known != rows {
            return Err(format!("through index {:?} of {node}: {rows:?}, by keys {known:?}", read.index));
        }
    }
    Ok(found)
}

fn check_scopes(known: &Found) -> Result<(), String> {
    let of = |scope: Scope| known.iter().filter(move |((of, _), _)| *of == scope).map(|(_, rows)| rows);
    for scope in [Scope::Shelf, Scope::All] {
        check_unique(scope, &sorted(of(scope).flatten().cloned()));
    }
    let copies: BTreeSet<&Vec<Holder>> = of(Scope::Copied).collect();
    copies.iter().for_each(|rows| check_unique(Scope::Copied, rows));
    if copies.len() > 1 {
        return Err(format!("partitions differ in what all of them have: {copies:?}"));
    }
    Ok(())
}

fn sorted(rows: impl Iterator<Item = Holder>) -> Vec<Holder> {
    let mut rows: Vec<Holder> = rows.collect();
    rows.sort();
    rows
}
