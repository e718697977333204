//! Places for computations that take much memory: a bounded number go on at once, and the next one is who came first.
//!
//! IN: computations that wait. OUT: a [`Place`], given back when dropped. KEEPS: no more places are taken than there
//! are; a computation that stops waiting does not hold up the ones behind it.

use base::error::SqlResult;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A number of places, and who waits for one.
pub struct Places {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: usize,
    tickets: u64,
    waiting: VecDeque<u64>,
}

/// A place that is taken.
pub struct Place(Arc<Places>);

/// How often a computation that waits checks whether it has to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Places {
    pub fn new(count: usize) -> Arc<Places> {
        let state = State { free: count, tickets: 0, waiting: VecDeque::new() };
        Arc::new(Places { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Waits for a place. `check` is asked now and then whether to go on waiting.
    ///
    /// Errors: those of `check`.
    pub fn take(self: &Arc<Self>, check: impl Fn() -> SqlResult<()>) -> SqlResult<Place> {
        let mut state = self.state();
        let ticket = state.tickets;
        state.tickets += 1;
        state.waiting.push_back(ticket);
        loop {
            if state.free > 0 && state.waiting.front() == Some(&ticket) {
                state.waiting.pop_front();
                state.free -= 1;
                // There may be another place for the next one.
                self.changed.notify_all();
                return Ok(Place(self.clone()));
            }
            let woken = self.changed.wait_timeout(state, LOOK_EVERY);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            if let Err(error) = check() {
                state.waiting.retain(|waiting| *waiting != ticket);
                self.changed.notify_all();
                return Err(error);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.state().free += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{SqlError, SqlState};

    #[test]
    fn the_next_place_is_for_whoever_came_first_and_still_waits() {
        let places = Places::new(1);
        let first = places.take(|| Ok(())).unwrap();
        let canceled = || Err(SqlError::new(SqlState::QUERY_CANCELED, "canceled"));
        assert!(places.take(canceled).is_err(), "it is taken");
        let (came, comes) = std::sync::mpsc::channel();
        let mut threads = Vec::new();
        for n in 0..3 {
            let (places, came) = (places.clone(), came.clone());
            threads.push(std::thread::spawn({
                let places = places.clone();
                move || {
                    let _place = places.take(|| Ok(())).unwrap();
                    came.send(n).unwrap();
                }
            }));
            while places.state().waiting.len() <= n {
                std::thread::yield_now();
            }
        }
        assert!(comes.try_recv().is_err());
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(came);
        assert_eq!(comes.iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(places.state().free, 1);
    }
}
