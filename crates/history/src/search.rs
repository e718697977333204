//! Cycles: whether there is one, and a short one for people to read.
//!
//! Deterministic: vertices and edges are visited in the order in which the graph holds them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::graph::{Class, Edge, Graph};
use crate::op::KeyId;

/// A cycle: each edge with the vertex it leaves. Steps through auxiliary vertices included.
pub(crate) type Cycle = Vec<(u32, Edge)>;

/// Relaxed edges after which the search for a shorter cycle ends.
const EFFORT_MAX: usize = 4_000_000;

/// Steps are free; among cycles of one length, values read are easier to follow than clocks.
fn cost(class: Class) -> u32 {
    match class {
        Class::Step => 0,
        Class::WriteRead | Class::ReadWrite => 100,
        Class::WriteWrite => 101,
        Class::Session => 102,
        Class::Token => 103,
        Class::RealTime => 104,
    }
}

/// A shortest cycle (as far as the effort reaches) over edges that `usable` lets pass.
pub(crate) fn cycle(graph: &Graph, usable: impl Fn(u32, &Edge) -> bool) -> Option<Cycle> {
    let components = cyclic_components(graph, &usable);
    let smallest = components.into_iter().min_by_key(Vec::len)?;
    let mut inside = vec![false; graph.len()];
    for &vertex in &smallest {
        inside[vertex as usize] = true;
    }
    let within = |from: u32, edge: &Edge| inside[edge.to as usize] && usable(from, edge);
    let mut best: Option<(u32, Cycle)> = None;
    let mut effort = 0;
    for &start in smallest.iter().filter(|&&vertex| graph.is_op(vertex)) {
        let limit = best.as_ref().map_or(u32::MAX, |best| best.0);
        if let Some(found) = shortest_from(graph, start, limit, within, &mut effort) {
            best = Some(found);
        }
        if effort > EFFORT_MAX && best.is_some() {
            break;
        }
    }
    Some(best.expect("a cyclic component has a cycle through an operation").1)
}

/// The cheapest cycle through `start` that costs less than `limit`.
fn shortest_from(
    graph: &Graph,
    start: u32,
    limit: u32,
    usable: impl Fn(u32, &Edge) -> bool,
    effort: &mut usize,
) -> Option<(u32, Cycle)> {
    let mut reached: BTreeMap<u32, (u32, u32, Edge)> = BTreeMap::new();
    let mut open = BinaryHeap::from([Reverse((0, start))]);
    while let Some(Reverse((paid, vertex))) = open.pop() {
        if paid >= limit {
            return None;
        }
        if vertex == start && paid > 0 {
            let mut cycle = Vec::new();
            let mut at = start;
            loop {
                let (_, from, edge) = reached[&at];
                cycle.push((from, edge));
                at = from;
                if at == start {
                    cycle.reverse();
                    return Some((paid, cycle));
                }
            }
        }
        if vertex != start && reached[&vertex].0 < paid {
            continue;
        }
        for &edge in graph.out(vertex) {
            *effort += 1;
            if !usable(vertex, &edge) {
                continue;
            }
            let total = paid + cost(edge.class);
            if reached.get(&edge.to).is_none_or(|known| total < known.0) {
                reached.insert(edge.to, (total, vertex, edge));
                open.push(Reverse((total, edge.to)));
            }
        }
    }
    None
}

/// How the rest of a cycle may go on after an operation's own anti-dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Over every usable edge.
    Everything,
    /// Along later versions of the key, then over reads-from, sessions and tokens.
    Causal,
    /// Along later versions of the key, then by one read back to the operation.
    OneRead,
}

/// A vertex, and the key whose later versions are being followed.
type State = (u32, Option<KeyId>);

/// A cycle that uses the anti-dependencies of one operation, the first of `owners` that has one.
/// The usable edges alone must be acyclic; `hint` is a guess at each operation's place in their order.
pub(crate) fn own_cycle(
    graph: &Graph,
    owners: impl Iterator<Item = u32>,
    usable: impl Fn(u32, &Edge) -> bool,
    through: Through,
    hint: impl Fn(u32) -> u64,
) -> Option<Cycle> {
    let place = topological(graph, &usable, hint);
    // What stands behind the last predecessor of an operation cannot lead back to it.
    let mut last_predecessor = vec![0; graph.len()];
    for vertex in 0..graph.len() as u32 {
        for edge in graph.out(vertex).iter().filter(|edge| usable(vertex, edge)) {
            let last = &mut last_predecessor[edge.to as usize];
            *last = place[vertex as usize].max(*last);
        }
    }
    for owner in owners {
        let limit = last_predecessor[owner as usize];
        let fits = |edge: &Edge| edge.to == owner || place[edge.to as usize] <= limit;
        // Breadth first; each state with the one it was reached from.
        let mut reached: BTreeMap<State, (State, Edge)> = BTreeMap::new();
        let mut open = VecDeque::new();
        for &edge in graph.out(owner) {
            let follows = (through != Through::Everything).then_some(edge.key);
            if edge.class == Class::ReadWrite && fits(&edge) {
                reached.insert((edge.to, follows), ((owner, None), edge));
                open.push_back((edge.to, follows));
            }
        }
        while let Some(state @ (vertex, follows)) = open.pop_front() {
            if vertex == owner {
                let mut cycle = Vec::new();
                let mut at = state;
                loop {
                    let (from, edge) = reached[&at];
                    cycle.push((from.0, edge));
                    at = from;
                    if at.0 == owner {
                        cycle.reverse();
                        return Some(cycle);
                    }
                }
            }
            for &edge in graph.out(vertex) {
                let next = match (through, edge.class) {
                    (Through::Everything, _) if usable(vertex, &edge) => None,
                    (Through::Everything, _) => continue,
                    (_, Class::Step) => follows,
                    (_, Class::WriteWrite) if follows == Some(edge.key) && edge.to != owner => follows,
                    (Through::Causal, Class::WriteRead | Class::Session | Class::Token) => None,
                    (Through::OneRead, Class::WriteRead) if edge.to == owner => None,
                    _ => continue,
                };
                if fits(&edge) && !reached.contains_key(&(edge.to, next)) {
                    reached.insert((edge.to, next), (state, edge));
                    open.push_back((edge.to, next));
                }
            }
        }
    }
    None
}

/// Each vertex's place in a topological order that takes smaller hints first.
fn topological(graph: &Graph, usable: impl Fn(u32, &Edge) -> bool, hint: impl Fn(u32) -> u64) -> Vec<u32> {
    let priority = |vertex: u32| if graph.is_op(vertex) { hint(vertex) } else { 0 };
    let mut waits_for = vec![0_u32; graph.len()];
    for vertex in 0..graph.len() as u32 {
        for edge in graph.out(vertex).iter().filter(|edge| usable(vertex, edge)) {
            waits_for[edge.to as usize] += 1;
        }
    }
    let free = (0..graph.len() as u32).filter(|&vertex| waits_for[vertex as usize] == 0);
    let mut open: BinaryHeap<Reverse<(u64, u32)>> =
        free.map(|vertex| Reverse((priority(vertex), vertex))).collect();
    let mut place = vec![u32::MAX; graph.len()];
    let mut count = 0;
    while let Some(Reverse((_, vertex))) = open.pop() {
        place[vertex as usize] = count;
        count += 1;
        for edge in graph.out(vertex).iter().filter(|edge| usable(vertex, edge)) {
            let waits_for = &mut waits_for[edge.to as usize];
            *waits_for -= 1;
            if *waits_for == 0 {
                open.push(Reverse((priority(edge.to), edge.to)));
            }
        }
    }
    assert!(count as usize == graph.len(), "only an acyclic graph has a topological order");
    place
}

/// Strongly connected components of more than one vertex (Tarjan, without recursion).
fn cyclic_components(graph: &Graph, usable: impl Fn(u32, &Edge) -> bool) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let mut components = Vec::new();
    let mut number = vec![NEW; graph.len()];
    let mut low = vec![NEW; graph.len()];
    let mut on_stack = vec![false; graph.len()];
    let mut stack: Vec<u32> = Vec::new();
    // A vertex and how many of its edges have been followed.
    let mut calls: Vec<(u32, usize)> = Vec::new();
    let mut count = 0;
    for root in 0..graph.len() as u32 {
        if number[root as usize] == NEW {
            calls.push((root, 0));
        }
        while let Some((vertex, followed)) = calls.pop() {
            let v = vertex as usize;
            if followed == 0 && number[v] == NEW {
                (number[v], low[v]) = (count, count);
                count += 1;
                stack.push(vertex);
                on_stack[v] = true;
            }
            if let Some(edge) = graph.out(vertex).get(followed) {
                let to = edge.to as usize;
                if !usable(vertex, edge) {
                    calls.push((vertex, followed + 1));
                } else if number[to] == NEW {
                    // Comes back to this edge when its target is done, and takes the branch below.
                    calls.push((vertex, followed));
                    calls.push((edge.to, 0));
                } else {
                    if on_stack[to] {
                        low[v] = low[v].min(low[to]);
                    }
                    calls.push((vertex, followed + 1));
                }
                continue;
            }
            if low[v] == number[v] {
                let start = stack.iter().rposition(|&w| w == vertex).expect("a root is on the stack");
                let component = stack.split_off(start);
                for &member in &component {
                    on_stack[member as usize] = false;
                }
                if component.len() > 1 {
                    components.push(component);
                }
            }
        }
    }
    components
}
