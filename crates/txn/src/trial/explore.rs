//! Every order in which messages can arrive.

use std::collections::BTreeSet;

/// Where a small world has come to, messages under way included.
pub trait Explored: Clone {
    /// Equal for worlds that go on alike.
    fn key(&self) -> Vec<u64>;
    /// So many messages are under way.
    fn flying(&self) -> usize;
    /// One of them arrives.
    fn deliver(&mut self, nth: usize);
    /// The first of those whose order with others is of no interest.
    fn at_once(&self) -> Option<usize>;
    /// Looks at a world in which nothing is under way any more.
    fn judge(self);
}

/// Explores all schedules, or the first `limit` states; answers how many there were.
pub fn explore<S: Explored>(start: S, limit: usize) -> usize {
    let mut known = BTreeSet::from([start.key()]);
    let mut todo = vec![start];
    while let Some(state) = todo.pop() {
        if state.flying() == 0 {
            state.judge();
            continue;
        }
        for nth in 0..state.flying() {
            let mut next = state.clone();
            next.deliver(nth);
            while let Some(nth) = next.at_once() {
                next.deliver(nth);
            }
            if known.len() < limit && known.insert(next.key()) {
                todo.push(next);
            }
        }
    }
    known.len()
}
