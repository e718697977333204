//! Advisory locks of a whole cluster: who has which key, as rows that transactions change.
//!
//! IN: keys that sessions want to lock, their ends. OUT: locks, or that somebody else has them.
//! KEEPS: of two sessions of the cluster never both have a key that one of them has for itself alone.
//!
//! A key's row names who has it, each with the moment until which that is certain. It is read and written by one transaction,
//! which is validated like any other: that there is one serial order is what makes the locks exclude each other, whatever engine
//! orders, and wherever the sessions are. A gateway renews what its sessions have; one that is gone does not, and its locks
//! end with their time. A session whose gateway could not renew its locks in time is told before it does anything more.
//!
//! Clocks of two gateways may differ by [`MARGIN_US`]: for so long before a lock's end its session does not rely on it any more, and for so
//! long after it nobody else takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

pub(crate) const MARGIN_US: i64 = 2_000_000;

/// What is locked, as its row is called: `8:1` of one number, `4:1:2` of two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockKey(pub String);

/// A session that locks; never used again by its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Locker(pub u64);

/// A holder in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub node: u16,
    pub locker: Locker,
    pub is_shared: bool,
    pub until_us: i64,
}

/// What a gateway's sessions have and wait for.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<State>,
    /// A session here has given a key up.
    pub freed: Notify,
    /// There are keys whose session is gone.
    pub left: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    /// Until when each is certain.
    pub held: BTreeMap<(Locker, LockKey), i64>,
    /// Whom each waiting session waits for, as far as they are here.
    pub waits: BTreeMap<Locker, BTreeSet<Locker>>,
    pub left: BTreeSet<(Locker, LockKey)>,
}

impl AdvisoryLocks {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while advisory locks are looked at")
    }

    /// Until when a session's locks are certain; `None`: it has none.
    pub fn certain_until_us(&self, locker: Locker) -> Option<i64> {
        let state = self.state();
        let of_it = state.held.iter().filter(|((l, _), _)| *l == locker);
        of_it.map(|(_, until_us)| *until_us - MARGIN_US).min()
    }

    /// Forgets what a session has; the rows follow.
    pub fn leave(&self, locker: Locker) {
        let mut state = self.state();
        let keys: Vec<_> = state.held.keys().filter(|(l, _)| *l == locker).cloned().collect();
        state.waits.remove(&locker);
        if keys.is_empty() {
            return;
        }
        for key in keys {
            state.held.remove(&key);
            state.left.insert(key);
        }
        self.left.notify_one();
    }
}

impl State {
    /// Whether a session waits, directly or through others, for itself.
    pub fn is_circle(&self, locker: Locker) -> bool {
        let mut reached = BTreeSet::new();
        let mut next: Vec<Locker> = self.waits.get(&locker).into_iter().flatten().copied().collect();
        while let Some(other) = next.pop() {
            if other == locker {
                return true;
            }
            if reached.insert(other) {
                next.extend(self.waits.get(&other).into_iter().flatten());
            }
        }
        false
    }
}

/// A wish that may be given up at any moment.
pub(crate) struct Wish<'a> {
    pub locks: &'a AdvisoryLocks,
    pub locker: Locker,
    pub key: LockKey,
    /// The session had the key before.
    pub is_again: bool,
    pub is_settled: bool,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        state.waits.remove(&self.locker);
        if self.is_settled || self.is_again {
            return;
        }
        // It may have been granted without the session's knowing it.
        let name = (self.locker, self.key.clone());
        state.held.remove(&name);
        state.left.insert(name);
        self.locks.left.notify_one();
    }
}

/// What `written` wrote; nothing else is ever in a row.
pub(crate) fn parsed(text: &str) -> Vec<Holder> {
    let holder = |entry: &str| {
        let mut parts = entry.split('.');
        let node = parts.next()?.parse().ok()?;
        let locker = Locker(parts.next()?.parse().ok()?);
        let is_shared = parts.next()? == "s";
        let until_us = parts.next()?.parse().ok()?;
        Some(Holder { node, locker, is_shared, until_us })
    };
    text.split(' ').filter_map(holder).collect()
}

pub(crate) fn written(holders: &[Holder]) -> String {
    let mut text = String::new();
    for holder in holders {
        let mode = if holder.is_shared { 's' } else { 'x' };
        let blank = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{blank}{}.{}.{mode}.{}", holder.node, holder.locker.0, holder.until_us);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_read_as_they_were_written() {
        let holders = [
            Holder { node: 3, locker: Locker(7), is_shared: true, until_us: -5 },
            Holder { node: 0, locker: Locker(u64::MAX), is_shared: false, until_us: 9 },
        ];
        assert_eq!(written(&holders), "3.7.s.-5 0.18446744073709551615.x.9");
        assert_eq!(parsed(&written(&holders)), holders);
        assert_eq!(parsed(""), []);
    }

    #[test]
    fn circles_are_found() {
        let mut state = State::default();
        let [a, b, c] = [1, 2, 3].map(Locker);
        state.waits.insert(a, BTreeSet::from([b]));
        state.waits.insert(b, BTreeSet::from([c]));
        assert!(!state.is_circle(a) && !state.is_circle(b));
        state.waits.insert(c, BTreeSet::from([a]));
        assert!(state.is_circle(a) && state.is_circle(c));
        state.waits.remove(&b);
        assert!(!state.is_circle(a));
    }
}
