//! `pg_advisory_lock` and its kind: what a session has, how often, and until when.

mod holders;

use super::Session;
use super::timeouts::for_lock;
use crate::advisory_locks::{LockKey, Locker};
use crate::gateway::Gateway;
use analytics::activity::AdvisoryLock;
use base::databases::MERIDIAN;
use base::error::{SqlResult, SqlState};
use base::{Datum, SqlError};
use node::request::{Reply, Request};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// One of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdvisoryCall {
    action: Action,
    is_shared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Lock { waits: bool, of_transaction: bool },
    Unlock,
    UnlockAll,
}

impl AdvisoryCall {
    pub fn named(name: &str) -> Option<AdvisoryCall> {
        if name == "pg_advisory_unlock_all" {
            return Some(AdvisoryCall { action: Action::UnlockAll, is_shared: false });
        }
        let (bare, is_shared) = match name.strip_suffix("_shared") {
            Some(bare) => (bare, true),
            None => (name, false),
        };
        let action = match bare {
            "pg_advisory_lock" => Action::Lock { waits: true, of_transaction: false },
            "pg_try_advisory_lock" => Action::Lock { waits: false, of_transaction: false },
            "pg_advisory_xact_lock" => Action::Lock { waits: true, of_transaction: true },
            "pg_try_advisory_xact_lock" => Action::Lock { waits: false, of_transaction: true },
            "pg_advisory_unlock" => Action::Unlock,
            _ => return None,
        };
        Some(AdvisoryCall { action, is_shared })
    }

    /// Types of so many arguments: one number, or two smaller ones.
    pub fn arguments(self, count: usize) -> Option<&'static [&'static str]> {
        match (self.action, count) {
            (Action::UnlockAll, 0) => Some(&[]),
            (Action::UnlockAll, _) => None,
            (_, 1) => Some(&["bigint"]),
            (_, 2) => Some(&["integer", "integer"]),
            _ => None,
        }
    }

    /// Whether it answers yes or no.
    pub fn tells(self) -> bool {
        matches!(self.action, Action::Unlock | Action::Lock { waits: false, .. })
    }
}

/// How often a session has locked a key.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    exclusive: u32,
    shared: u32,
    exclusive_of_transaction: u32,
    shared_of_transaction: u32,
}

impl Counts {
    fn is_exclusive(&self) -> bool {
        self.exclusive + self.exclusive_of_transaction > 0
    }
    fn is_shared(&self) -> bool {
        self.shared + self.shared_of_transaction > 0
    }
    fn of(&mut self, is_shared: bool, of_transaction: bool) -> &mut u32 {
        match (is_shared, of_transaction) {
            (false, false) => &mut self.exclusive,
            (true, false) => &mut self.shared,
            (false, true) => &mut self.exclusive_of_transaction,
            (true, true) => &mut self.shared_of_transaction,
        }
    }
}

/// What a session has; dropped, it has nothing.
pub(super) struct Held {
    gateway: Arc<Gateway>,
    /// `None`: it has never locked anything.
    locker: Option<Locker>,
    keys: BTreeMap<LockKey, Counts>,
    /// What it had when the statement under way began to be executed as a transaction of its own.
    before: BTreeMap<LockKey, Counts>,
}

impl Held {
    pub fn new(gateway: &Arc<Gateway>) -> Held {
        Held { gateway: gateway.clone(), locker: None, keys: BTreeMap::new(), before: BTreeMap::new() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(locker) = self.locker {
            self.gateway.advisory.leave(locker);
        }
    }
}

impl Session {
    /// Carries a call out.
    pub(super) async fn advise(&mut self, call: AdvisoryCall, arguments: &[Datum]) -> SqlResult<Datum> {
        let key = match arguments {
            [Datum::Int(key)] => LockKey(format!("8:{key}")),
            [Datum::Int(class), Datum::Int(key)] => LockKey(format!("4:{class}:{key}")),
            _ => LockKey(String::new()),
        };
        // Keys are a database's.
        let key = match self.database.id {
            MERIDIAN => key,
            other => LockKey(format!("{}:{}", other.0, key.0)),
        };
        let done = self.carry_out_advisory(call, key).await;
        self.show_advisory();
        done
    }

    async fn carry_out_advisory(&mut self, call: AdvisoryCall, key: LockKey) -> SqlResult<Datum> {
        match call.action {
            Action::Lock { waits, of_transaction } => {
                let is_taken = self.lock_advisory(key, call.is_shared, of_transaction, waits).await?;
                Ok(if waits { Datum::text("") } else { Datum::Bool(is_taken) })
            }
            Action::Unlock => self.unlock_advisory(key, call.is_shared).await.map(Datum::Bool),
            Action::UnlockAll => {
                self.release_advisory(|counts| (counts.exclusive, counts.shared) = (0, 0)).await?;
                Ok(Datum::text(""))
            }
        }
    }

    async fn lock_advisory(
        &mut self,
        key: LockKey,
        is_shared: bool,
        of_transaction: bool,
        waits: bool,
    ) -> SqlResult<bool> {
        let gateway = self.gateway.clone();
        let locker = *self.advisory.locker.get_or_insert_with(|| Locker(gateway.next_lock_owner()));
        let known = self.advisory.keys.get(&key).copied().unwrap_or_default();
        let has_enough = known.is_exclusive() || known.is_shared() && is_shared;
        if !has_enough {
            let taking = gateway.take_advisory(locker, &key, is_shared, waits);
            let taken = for_lock(self.settings.timeouts.lock_ms, taking).await?;
            let Some(taken) = taken else { return Ok(false) };
            *self.advisory.keys.entry(key.clone()).or_default().of(is_shared, of_transaction) += 1;
            self.saw(&taken.token);
            if taken.has_waited {
                self.sees_what_others_left().await?;
            }
            return Ok(true);
        }
        *self.advisory.keys.entry(key).or_default().of(is_shared, of_transaction) += 1;
        Ok(true)
    }

    /// What was done under a lock is seen by who has waited for it. A block goes on at a new cut, as after a wait for a row; one
    /// that only reads has one cut.
    async fn sees_what_others_left(&mut self) -> SqlResult<()> {
        let Some(open) = &self.transaction else { return Ok(()) };
        let is_snapshot = open.reading.level == base::txn::Isolation::Snapshot;
        if open.pin.is_none() || is_snapshot || open.stays_at_its_cut() {
            return Ok(());
        }
        let request = Request::Pin { consistency: self.level(), token: self.token.clone() };
        let Reply::Pinned(newer) = self.read_from_node(request).await? else {
            return Err(super::wrong_reply());
        };
        let (pin, cut) = newer?;
        let open = self.open();
        open.cut = open.cut.max(cut);
        // The first cut keeps versions alive.
        self.cluster().tell(Request::Unpin(pin));
        Ok(())
    }

    /// What the session has seen.
    pub(crate) fn seen(&self) -> &base::Token {
        &self.token
    }

    async fn unlock_advisory(&mut self, key: LockKey, is_shared: bool) -> SqlResult<bool> {
        let count = self.advisory.keys.get_mut(&key).map(|counts| counts.of(is_shared, false));
        let Some(count) = count.filter(|count| **count > 0) else {
            let mode = if is_shared { "ShareLock" } else { "ExclusiveLock" };
            self.notice("WARNING", SqlState(*b"01000"), format!("you don't own a lock of type {mode}"));
            return Ok(false);
        };
        *count -= 1;
        let is_only = *count == 0;
        if is_only {
            self.settle_key(&key, !is_shared).await?;
        }
        Ok(true)
    }

    /// Tells the row what is left of a key that was given up in one mode.
    async fn settle_key(&mut self, key: &LockKey, was_exclusive: bool) -> SqlResult<()> {
        let Some(counts) = self.advisory.keys.get(key).copied() else { return Ok(()) };
        let (gateway, locker) = (self.gateway.clone(), self.advisory.locker);
        let Some(locker) = locker else { return Ok(()) };
        if counts.is_exclusive() || counts.is_shared() && !was_exclusive {
            return Ok(());
        }
        if !counts.is_shared() {
            self.advisory.keys.remove(key);
        }
        gateway.give_up_advisory(locker, key, counts.is_shared()).await
    }

    /// Takes locks away from every key.
    async fn release_advisory(&mut self, change: impl Fn(&mut Counts)) -> SqlResult<()> {
        let mut changed = Vec::new();
        for (key, counts) in &mut self.advisory.keys {
            let was_exclusive = counts.is_exclusive();
            change(counts);
            changed.push((key.clone(), was_exclusive));
        }
        for (key, was_exclusive) in changed {
            self.settle_key(&key, was_exclusive).await?;
        }
        Ok(())
    }

    /// A statement is executed as a transaction of its own.
    pub(super) fn mark_advisory(&mut self) {
        self.advisory.before.clone_from(&self.advisory.keys);
    }

    /// It is executed again: what this execution has locked is given up.
    pub(super) fn give_up_since_mark(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let has_none = self.advisory.keys.is_empty();
        Box::pin(async move {
            if has_none {
                return;
            }
            let mut changed = Vec::new();
            let Held { keys, before, .. } = &mut self.advisory;
            for (key, counts) in keys {
                let before = before.get(key).copied().unwrap_or_default();
                let was_exclusive = counts.is_exclusive();
                counts.exclusive = counts.exclusive.min(before.exclusive);
                counts.shared = counts.shared.min(before.shared);
                changed.push((key.clone(), was_exclusive));
            }
            for (key, was_exclusive) in changed {
                // What cannot be given up now the gateway gives up later.
                let _ = self.settle_key(&key, was_exclusive).await;
            }
            self.show_advisory();
        })
    }

    /// Locks of a transaction end with it.
    pub(super) fn end_transaction_locks(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let has_none = self.advisory.keys.is_empty();
        Box::pin(async move {
            if has_none {
                return;
            }
            let end = |counts: &mut Counts| {
                (counts.exclusive_of_transaction, counts.shared_of_transaction) = (0, 0);
            };
            // What cannot be given up now the gateway gives up later.
            let _ = self.release_advisory(end).await;
            self.show_advisory();
        })
    }

    /// Locks of a transaction that is this statement alone.
    pub(super) async fn end_lone_locks(&mut self) {
        if self.transaction.is_none() {
            self.end_transaction_locks().await;
        }
    }

    pub(super) async fn release_all_advisory(&mut self) {
        if !self.advisory.keys.is_empty() {
            let _ = self.release_advisory(|counts| *counts = Counts::default()).await;
        }
    }

    /// Says which locks the session has.
    pub(super) fn show_advisory(&self) {
        let database = match self.database.id {
            MERIDIAN => String::new(),
            other => format!("{}:", other.0),
        };
        let keys = self.advisory.keys.iter();
        *self.activity.locks() = keys.flat_map(|(key, counts)| shown(&database, key, counts)).collect();
    }

    /// Errors: 55000 once, where the session's locks may be others' by now.
    pub(super) fn check_advisory(&mut self) -> SqlResult<()> {
        let Some(locker) = self.advisory.locker.filter(|_| !self.advisory.keys.is_empty()) else {
            return Ok(());
        };
        let is_certain = self
            .gateway
            .advisory
            .certain_until_us(locker)
            .is_some_and(|until_us| self.gateway.now_us() < until_us);
        if is_certain {
            return Ok(());
        }
        self.advisory.keys.clear();
        self.show_advisory();
        self.gateway.advisory.leave(locker);
        Err(SqlError::new(SqlState(*b"55000"), "the session's advisory locks have ended")
            .detail("They could not be renewed in time, so others may have them.")
            .hint("Roll back, look at what they were to protect, and lock again."))
    }
}

/// Locks of a key of a database, whose keys begin with its name.
fn shown(database: &str, key: &LockKey, counts: &Counts) -> Vec<AdvisoryLock> {
    let bare = key.0.strip_prefix(database).unwrap_or(&key.0);
    let parts: Vec<i64> = bare.split(':').filter_map(|part| part.parse().ok()).collect();
    let (class, object, numbers) = match parts.as_slice() {
        [8, key] => ((*key >> 32) as u32, *key as u32, 1),
        [_, class, key] => (*class as u32, *key as u32, 2),
        _ => return Vec::new(),
    };
    let modes = [(counts.is_exclusive(), false), (counts.is_shared(), true)];
    let held = modes.into_iter().filter(|(is_held, _)| *is_held);
    held.map(|(_, is_shared)| AdvisoryLock { class, object, numbers, is_shared }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_postgresql_shows_them() {
        let counts = Counts { exclusive: 1, shared: 2, ..Counts::default() };
        let numbers = |database: &str, key: &str| {
            let locks = shown(database, &LockKey(key.into()), &counts);
            assert_eq!(locks.iter().map(|lock| lock.is_shared).collect::<Vec<_>>(), [false, true]);
            (locks[0].class, locks[0].object, locks[0].numbers)
        };
        assert_eq!(numbers("", "8:-5"), (u32::MAX, u32::MAX - 4, 1));
        assert_eq!(numbers("", "8:4294967299"), (1, 3, 1));
        assert_eq!(numbers("16384:", "16384:4:7:-9"), (7, u32::MAX - 8, 2));
    }

    #[test]
    fn functions_are_known_by_their_names() {
        let named = |name| AdvisoryCall::named(name).unwrap();
        assert!(named("pg_try_advisory_xact_lock_shared").tells());
        assert!(!named("pg_advisory_xact_lock").tells() && named("pg_advisory_unlock_shared").tells());
        assert_eq!(named("pg_advisory_lock").arguments(2).unwrap().len(), 2);
        assert!(named("pg_advisory_unlock_all").arguments(1).is_none());
        assert!(AdvisoryCall::named("pg_advisory_unlock_all_shared").is_none());
    }
}
