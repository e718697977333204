//! Snapshots of open transactions: `meridian.snapshots`, and what ends those that are given up.

use base::{Rank, SqlError, SqlState, Time};
use node::request::PinId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// An open transaction's snapshot.
#[derive(Debug)]
pub struct HeldSnapshot {
    pub pin: PinId,
    pub rank: Rank,
    /// Since when, by the node's clock.
    pub since: Time,
    pub user: String,
    pub application: String,
    is_too_old: AtomicBool,
}

impl HeldSnapshot {
    /// Its transaction reads nothing at it any more.
    pub fn give_up(&self) {
        self.is_too_old.store(true, Ordering::Release);
    }
    pub fn is_too_old(&self) -> bool {
        self.is_too_old.load(Ordering::Acquire)
    }
}

/// Those of one gateway, the oldest first.
#[derive(Debug, Default)]
pub struct Snapshots(Mutex<BTreeMap<(Rank, PinId), Arc<HeldSnapshot>>>);

impl Snapshots {
    /// A transaction has a snapshot until the answer is dropped.
    pub fn hold(
        self: &Arc<Snapshots>,
        (pin, rank): (PinId, Rank),
        since: Time,
        user: &str,
        application: String,
    ) -> SnapshotGuard {
        let user = user.to_string();
        let held = HeldSnapshot { pin, rank, since, user, application, is_too_old: AtomicBool::new(false) };
        let held = Arc::new(held);
        self.0.lock().expect("no panic while noting").insert((rank, pin), held.clone());
        SnapshotGuard { held, all: self.clone() }
    }

    pub fn all(&self) -> Vec<Arc<HeldSnapshot>> {
        self.0.lock().expect("no panic while listing").values().cloned().collect()
    }
}

/// Notes that a snapshot is held, until it is dropped.
#[derive(Debug)]
pub struct SnapshotGuard {
    held: Arc<HeldSnapshot>,
    all: Arc<Snapshots>,
}

impl SnapshotGuard {
    /// Errors: the snapshot was given up (72000).
    pub fn check(&self) -> Result<(), SqlError> {
        match self.held.is_too_old() {
            false => Ok(()),
            true => Err(SqlError::new(SqlState::SNAPSHOT_TOO_OLD, "snapshot too old")
                .detail(
                    "The transaction was open for so long that the versions it may read were given up, for \
                     their age or their memory.",
                )
                .hint(
                    "Run the transaction again. The limits are --old-versions-mib and --old-versions-age.",
                )),
        }
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().expect("no panic while forgetting");
        all.remove(&(self.held.rank, self.held.pin));
    }
}
