//! The search that decides whether a transaction may execute: is its whole closure final, and if so,
//! what are its strongly connected components?
//!
//! Tarjan's algorithm with an explicit stack, over final vertices that are not emitted yet. Edges point
//! to dependencies, so components come out dependencies first.

use super::vertex::{Ref, State, Vertices};
use smallvec::SmallVec;

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Vertices of the closure that are not final. If there are any, there are no components.
    pub blockers: Vec<Ref>,
    /// Components, dependencies first; members by transaction id.
    pub components: Vec<SmallVec<[Ref; 1]>>,
}

struct Frame {
    at: Ref,
    next: usize,
}

/// Searches from `root`, which is final and not emitted.
pub fn search<X>(graph: &mut Vertices<X>, root: Ref) -> Search {
    graph.visits += 1;
    let visit = graph.visits;
    let mut found = Search::default();
    let mut stack: Vec<Ref> = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut count = 0u32;
    enter(graph, root, visit, &mut count, &mut stack, &mut frames);
    while let Some(frame) = frames.last_mut() {
        let at = frame.at;
        let dependency = graph.live(at).deps.get(frame.next).copied();
        frame.next += 1;
        let Some(to) = dependency else {
            frames.pop();
            let low = leave(graph, at, &mut stack, &mut found);
            if let Some(parent) = frames.last() {
                let parent = graph.live_mut(parent.at);
                parent.low = parent.low.min(low);
            }
            continue;
        };
        // Collected: below the watermark, so executed everywhere it takes part.
        let Some(vertex) = graph.get(to) else { continue };
        if vertex.state >= State::Emitted {
            continue;
        }
        if vertex.state < State::Final {
            if graph.first_visit(to, visit) {
                found.blockers.push(to);
            }
            continue;
        }
        if vertex.visit == visit {
            if vertex.stacked {
                let index = vertex.index;
                let from = graph.live_mut(at);
                from.low = from.low.min(index);
            }
            continue;
        }
        // A root that is blocked already says by what: no need to walk there again.
        if let Some(blocker) = vertex.blocked_on
            && graph.get(blocker).is_some_and(|b| b.state < State::Final)
        {
            if graph.first_visit(blocker, visit) {
                found.blockers.push(blocker);
            }
            continue;
        }
        enter(graph, to, visit, &mut count, &mut stack, &mut frames);
    }
    if !found.blockers.is_empty() {
        found.components.clear();
    }
    found
}

fn enter<X>(
    graph: &mut Vertices<X>,
    at: Ref,
    visit: u64,
    count: &mut u32,
    stack: &mut Vec<Ref>,
    frames: &mut Vec<Frame>,
) {
    let vertex = graph.live_mut(at);
    assert_eq!(vertex.state, State::Final, "{} is searched once it is final", vertex.id);
    vertex.visit = visit;
    vertex.index = *count;
    vertex.low = *count;
    vertex.stacked = true;
    *count += 1;
    stack.push(at);
    frames.push(Frame { at, next: 0 });
}

fn leave<X>(graph: &mut Vertices<X>, at: Ref, stack: &mut Vec<Ref>, found: &mut Search) -> u32 {
    let vertex = graph.live(at);
    let low = vertex.low;
    if low == vertex.index {
        let mut component = SmallVec::new();
        loop {
            let member = stack.pop().expect("the component's root is on the stack");
            graph.live_mut(member).stacked = false;
            component.push(member);
            if member == at {
                break;
            }
        }
        component.sort_unstable_by_key(|member| graph.live(*member).id);
        found.components.push(component);
    }
    low
}
