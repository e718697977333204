//! The rows of advisory locks: transactions of the gateway's own sessions that read and change who has a key.

use super::super::Session;
use super::super::internal::{is_missing, is_retried};
use crate::advisory_locks::{Holder, LockKey, Locker, MARGIN_US, Wish, parsed, written};
use crate::gateway::Gateway;
use base::error::{SqlResult, SqlState};
use base::{Datum, SqlError, Token};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A lock is certain for so long after it was taken or renewed.
const LEASE_US: i64 = 30_000_000;
const RENEW_EVERY: Duration = Duration::from_secs(6);
/// Attempts to change one row before the session is told that others change it all the time.
const ATTEMPTS_MAX: usize = 256;

/// Where the rows are.
const TABLE: &str = "pg_meridian.advisory_locks";
const MAKE_TABLE: &str = "CREATE TABLE IF NOT EXISTS pg_meridian.advisory_locks (key text PRIMARY KEY, holders text NOT NULL) \
                          WITH (home_by = 'key', home_map = 'hash')";

/// A lock that a session got.
pub(crate) struct Taken {
    /// What its reads have to come after.
    pub token: Token,
    /// Others had it when the session asked first.
    pub has_waited: bool,
}

/// How a row was found.
enum Found {
    Taken(Token),
    /// Others have it.
    Held(Vec<Holder>),
}

impl Gateway {
    /// Locks a key for a session. `None`: others have it, and it is not to wait. Errors: 40P01 where sessions of this gateway
    /// wait in a circle; those of transactions.
    pub(crate) async fn take_advisory(
        self: &Arc<Self>,
        locker: Locker,
        key: &LockKey,
        is_shared: bool,
        waits: bool,
    ) -> SqlResult<Option<Taken>> {
        let locks = &self.advisory;
        let is_again = locks.state().held.contains_key(&(locker, key.clone()));
        let mut wish = Wish { locks, locker, key: key.clone(), is_again, is_settled: false };
        let mut pause = Duration::from_millis(2);
        let mut has_waited = false;
        loop {
            let freed = locks.freed.notified();
            match self.change_holders(key, locker, Some(is_shared)).await? {
                Found::Taken(token) => {
                    wish.is_settled = true;
                    return Ok(Some(Taken { token, has_waited }));
                }
                Found::Held(_) if !waits => {
                    wish.is_settled = true;
                    return Ok(None);
                }
                Found::Held(others) => {
                    let here = others.iter().filter(|h| h.node == self.cluster.node().0).map(|h| h.locker);
                    let mut state = locks.state();
                    state.waits.insert(locker, here.collect());
                    if state.is_circle(locker) {
                        drop(state);
                        wish.is_settled = true;
                        return Err(SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                            .detail("Sessions wait in a circle for advisory locks that they have."));
                    }
                }
            }
            has_waited = true;
            // Who gives a key up elsewhere tells nobody.
            let _ = tokio::time::timeout(pause, freed).await;
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// Gives a session's key up; it may keep it with others (`keeps_shared`).
    pub(crate) async fn give_up_advisory(
        self: &Arc<Self>,
        locker: Locker,
        key: &LockKey,
        keeps_shared: bool,
    ) -> SqlResult<()> {
        let changed = self.change_holders(key, locker, keeps_shared.then_some(true)).await;
        let mut state = self.advisory.state();
        let name = (locker, key.clone());
        if !keeps_shared {
            state.held.remove(&name);
            if changed.is_err() {
                state.left.insert(name);
                self.advisory.left.notify_one();
            }
        }
        drop(state);
        self.advisory.freed.notify_waiters();
        changed.map(|_| ())
    }

    /// Renews what sessions here have, and gives up what those had that are gone, without end. Somebody has to run this for
    /// each gateway; without, advisory locks end with their time.
    pub async fn keep_advisory_locks(self: Arc<Self>) {
        loop {
            let _ = tokio::time::timeout(RENEW_EVERY, self.advisory.left.notified()).await;
            let left = std::mem::take(&mut self.advisory.state().left);
            for (locker, key) in left {
                if self.change_holders(&key, locker, None).await.is_err() {
                    self.advisory.state().left.insert((locker, key));
                }
            }
            self.advisory.freed.notify_waiters();
            let soon = self.now_us() + LEASE_US - RENEW_EVERY.as_micros() as i64 / 2;
            let due: BTreeSet<LockKey> = {
                let state = self.advisory.state();
                let due = state.held.iter().filter(|(_, until_us)| **until_us < soon);
                due.map(|((_, key), _)| key.clone()).collect()
            };
            for key in due {
                // What cannot be renewed is tried again; its session is told once that is too late.
                let _ = self.renew_holders(&key).await;
            }
        }
    }

    /// Adds a session to a key's holders (`Some`), or takes it away.
    async fn change_holders(
        self: &Arc<Self>,
        key: &LockKey,
        locker: Locker,
        wanted: Option<bool>,
    ) -> SqlResult<Found> {
        let node = self.cluster.node().0;
        let until_us = self.now_us() + LEASE_US;
        let is_me = |holder: &Holder| holder.node == node && holder.locker == locker;
        let mut others = Vec::new();
        let name = (locker, key.clone());
        let was_held = self.advisory.state().held.contains_key(&name);
        if wanted.is_some() && !was_held {
            // Before it is known: should the session's end come first, the row has to follow.
            self.advisory.state().held.insert(name.clone(), until_us);
        }
        let result = self
            .with_holders(key, |holders| {
                let now_us = self.now_us();
                holders.retain(|holder| holder.until_us + MARGIN_US > now_us);
                others = holders.iter().filter(|holder| !is_me(holder)).copied().collect();
                let Some(is_shared) = wanted else {
                    holders.retain(|holder| !is_me(holder));
                    return true;
                };
                if others.iter().any(|other| !(is_shared && other.is_shared)) {
                    return false;
                }
                holders.retain(|holder| !is_me(holder));
                holders.push(Holder { node, locker, is_shared, until_us });
                true
            })
            .await;
        if wanted.is_some() {
            let mut state = self.advisory.state();
            match result {
                Ok((true, _)) => _ = state.held.insert(name, until_us),
                Ok((false, _)) if !was_held => _ = state.held.remove(&name),
                _ => {}
            }
        }
        result.map(|(is_taken, token)| if is_taken { Found::Taken(token) } else { Found::Held(others) })
    }

    async fn renew_holders(self: &Arc<Self>, key: &LockKey) -> SqlResult<()> {
        let node = self.cluster.node().0;
        let until_us = self.now_us() + LEASE_US;
        let mut renewed = Vec::new();
        self.with_holders(key, |holders| {
            renewed.clear();
            for holder in holders.iter_mut().filter(|holder| holder.node == node) {
                if self.advisory.state().held.contains_key(&(holder.locker, key.clone())) {
                    holder.until_us = until_us;
                    renewed.push(holder.locker);
                }
            }
            !renewed.is_empty()
        })
        .await?;
        let mut state = self.advisory.state();
        for locker in renewed {
            if let Some(known) = state.held.get_mut(&(locker, key.clone())) {
                *known = until_us;
            }
        }
        Ok(())
    }

    /// Reads a key's holders and writes what has become of them, if that is said to be wanted, as one transaction. Answers whether
    /// it was, and what has been seen.
    async fn with_holders(
        self: &Arc<Self>,
        key: &LockKey,
        mut change: impl FnMut(&mut Vec<Holder>) -> bool,
    ) -> SqlResult<(bool, Token)> {
        for attempt in 0..ATTEMPTS_MAX {
            let mut session = Session::internal(self.clone());
            let changed = match self.change_row(&mut session, key, &mut change).await {
                Err(error) if is_missing(&error) => {
                    let mut session = Session::internal(self.clone());
                    session.make_system_schema().await?;
                    session.said(MAKE_TABLE.into()).await.map(|_| None)
                }
                changed => changed.map(Some),
            };
            match changed {
                Ok(Some(is_wanted)) => return Ok((is_wanted, session.seen().clone())),
                Ok(None) => {}
                Err(error) if is_retried(&error) => {
                    self.pause_after(attempt).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(SqlError::new(
            SqlState::SERIALIZATION_FAILURE,
            "an advisory lock's row was changed by others each time",
        ))
    }

    /// One attempt. What is not wanted is not written, and a session that is dropped rolls back.
    async fn change_row(
        self: &Arc<Self>,
        session: &mut Session,
        key: &LockKey,
        change: &mut impl FnMut(&mut Vec<Holder>) -> bool,
    ) -> SqlResult<bool> {
        let row = session.said(format!("BEGIN; SELECT holders FROM {TABLE} WHERE key = '{}'", key.0)).await?;
        let text = row.first().and_then(|row| match row.first() {
            Some(Datum::Text(text)) => Some(text.to_string()),
            _ => None,
        });
        let mut holders = parsed(text.as_deref().unwrap_or_default());
        if !change(&mut holders) {
            return Ok(false);
        }
        let write = match (text, holders.is_empty()) {
            (None, true) => return Ok(true),
            (Some(_), true) => format!("DELETE FROM {TABLE} WHERE key = '{}'", key.0),
            (Some(_), false) => {
                format!("UPDATE {TABLE} SET holders = '{}' WHERE key = '{}'", written(&holders), key.0)
            }
            (None, false) => format!("INSERT INTO {TABLE} VALUES ('{}', '{}')", key.0, written(&holders)),
        };
        session.said(write).await?;
        session.said("COMMIT".into()).await.map(|_| true)
    }
}
