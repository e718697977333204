//! The search that decides whether a transaction may execute: is its whole closure final, and if so,
//! what are its strongly connected components?
//!
//! Tarjan's algorithm with an explicit stack, over final vertices that are not emitted yet. Edges point
//! to dependencies, so components come out dependencies first.

use super::vertex::{Ref, State, Vertices};
use base::TxnId;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What searches and walks note at a vertex.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// Roots to search again when this vertex becomes final.
    watchers: SmallVec<[Ref; 2]>,
    /// The vertex that this root watches.
    blocked_on: Option<Ref>,
    /// The last walk that came here.
    walk: u64,
    // Tarjan's, during one search.
    index: u32,
    low: u32,
    is_stacked: bool,
}

impl Searched {
    /// Roots that were to be searched again once this vertex is final.
    pub fn into_watchers(self) -> SmallVec<[Ref; 2]> {
        self.watchers
    }
}

impl<X> Vertices<X> {
    /// `root` is searched again when `vertex` becomes final.
    pub fn watch(&mut self, vertex: Ref, root: Ref) {
        self.live_mut(vertex).searched.watchers.push(root);
    }
    /// The same, and until then nobody has to walk on from `root`.
    pub fn block(&mut self, root: Ref, vertex: Ref) {
        self.watch(vertex, root);
        self.live_mut(root).searched.blocked_on = Some(vertex);
    }
    /// `root` is searched now.
    pub fn unblock(&mut self, root: Ref) {
        self.live_mut(root).searched.blocked_on = None;
    }
    /// Roots to search again, because this vertex is final or has its place.
    pub fn take_watchers(&mut self, at: Ref) -> SmallVec<[Ref; 2]> {
        std::mem::take(&mut self.live_mut(at).searched.watchers)
    }
    /// Starts a walk over the graph.
    pub fn begin_walk(&mut self) -> u64 {
        self.walks += 1;
        self.walks
    }
    /// Whether this walk comes here for the first time.
    pub fn first_visit(&mut self, at: Ref, walk: u64) -> bool {
        std::mem::replace(&mut self.live_mut(at).searched.walk, walk) != walk
    }
}

/// [`Searched`] as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchedImage {
    watchers: Vec<TxnId>,
    blocked_on: Option<TxnId>,
}

impl SearchedImage {
    pub fn of(searched: &Searched, id_of: &impl Fn(Ref) -> Option<TxnId>) -> SearchedImage {
        let watchers = searched.watchers.iter().filter_map(|at| id_of(*at)).collect();
        SearchedImage { watchers, blocked_on: searched.blocked_on.and_then(id_of) }
    }
    pub fn restored(self, at_of: &impl Fn(TxnId) -> Ref) -> Searched {
        let watchers = self.watchers.into_iter().map(at_of).collect();
        Searched { watchers, blocked_on: self.blocked_on.map(at_of), ..Searched::default() }
    }
}

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
    let walk = graph.begin_walk();
    let mut found = Search::default();
    let mut stack: Vec<Ref> = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut count = 0u32;
    enter(graph, root, walk, &mut count, &mut stack, &mut frames);
    while let Some(frame) = frames.last_mut() {
        let at = frame.at;
        let dependency = graph.live(at).deps.get(frame.next).copied();
        frame.next += 1;
        let Some(to) = dependency else {
            frames.pop();
            let low = leave(graph, at, &mut stack, &mut found);
            if let Some(parent) = frames.last() {
                let parent = &mut graph.live_mut(parent.at).searched;
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
            if graph.first_visit(to, walk) {
                found.blockers.push(to);
            }
            continue;
        }
        if vertex.searched.walk == walk {
            if vertex.searched.is_stacked {
                let index = vertex.searched.index;
                let from = &mut graph.live_mut(at).searched;
                from.low = from.low.min(index);
            }
            continue;
        }
        // A root that is blocked already says by what: no need to walk there again.
        if let Some(blocker) = vertex.searched.blocked_on
            && graph.get(blocker).is_some_and(|b| b.state < State::Final)
        {
            if graph.first_visit(blocker, walk) {
                found.blockers.push(blocker);
            }
            continue;
        }
        enter(graph, to, walk, &mut count, &mut stack, &mut frames);
    }
    if !found.blockers.is_empty() {
        found.components.clear();
    }
    found
}

fn enter<X>(
    graph: &mut Vertices<X>,
    at: Ref,
    walk: u64,
    count: &mut u32,
    stack: &mut Vec<Ref>,
    frames: &mut Vec<Frame>,
) {
    let vertex = graph.live_mut(at);
    assert_eq!(vertex.state, State::Final, "{} is searched once it is final", vertex.id);
    let searched = &mut vertex.searched;
    (searched.walk, searched.index, searched.low, searched.is_stacked) = (walk, *count, *count, true);
    *count += 1;
    stack.push(at);
    frames.push(Frame { at, next: 0 });
}

fn leave<X>(graph: &mut Vertices<X>, at: Ref, stack: &mut Vec<Ref>, found: &mut Search) -> u32 {
    let &Searched { low, index, .. } = &graph.live(at).searched;
    if low == index {
        let mut component = SmallVec::new();
        loop {
            let member = stack.pop().expect("the component's root is on the stack");
            graph.live_mut(member).searched.is_stacked = false;
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
