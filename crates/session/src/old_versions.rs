//! Snapshots of open transactions, and how long they are kept.
//!
//! An open transaction reads at its cut: no node forgets a version that this cut may see. Who leaves one open
//! would make every node keep all that is written since. IN: the snapshots of all gateways of a process, what
//! nodes say of their memory. OUT: snapshots that are given up, the oldest first. KEEPS: a transaction whose
//! snapshot was given up reads nothing at it any more (72000), and commits nothing that rests on it; a snapshot
//! is given up for memory only if it is the one that holds collection back.

use crate::gateway::Gateway;
use analytics::HeldSnapshot;
use node::request::{Reply, Request, Status};
use std::sync::Arc;
use std::time::Duration;

/// How much open transactions may hold back.
#[derive(Clone, Copy, Debug)]
pub struct OldVersions {
    /// Versions that a node keeps for them, in bytes.
    pub bytes_max: u64,
    pub age_max: Duration,
}

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(250);

/// A younger snapshot is never given up for memory, and so long after one was given up none is: nodes need a
/// while to collect what it held back.
const PATIENCE: Duration = Duration::from_secs(2);

impl Gateway {
    /// The node may forget what only this snapshot sees.
    fn give_up(&self, snapshot: &HeldSnapshot) {
        snapshot.give_up();
        self.cluster.tell(Request::Unpin(snapshot.pin));
    }

    async fn status(&self) -> Option<Box<Status>> {
        match self.cluster.request(Request::Status).await {
            Ok(Reply::Status(status)) => Some(status),
            _ => None,
        }
    }
}

/// Gives up snapshots that are too old, as long as it is polled. `gateways` are all there are: what one
/// region's transaction holds back fills every region's memory.
pub async fn limit_old_versions(gateways: Vec<Arc<Gateway>>, limits: OldVersions) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last_given_up = None;
    loop {
        ticks.tick().await;
        let mut oldest: Option<(&Arc<Gateway>, Arc<HeldSnapshot>, Duration)> = None;
        for gateway in &gateways {
            let now = gateway.cluster.now();
            for held in gateway.node.snapshots.all().into_iter().filter(|held| !held.is_too_old()) {
                let age = Duration::from_nanos(now.since(held.since));
                if age > limits.age_max {
                    gateway.give_up(&held);
                } else if oldest.as_ref().is_none_or(|(_, other, _)| held.rank < other.rank) {
                    oldest = Some((gateway, held, age));
                }
            }
        }
        let now = tokio::time::Instant::now();
        let is_waiting = last_given_up.is_some_and(|at| now.duration_since(at) < PATIENCE);
        // Nodes are asked only while somebody holds them back: a durable one writes questions down.
        let Some((gateway, held, _)) = oldest.filter(|(.., age)| *age > PATIENCE && !is_waiting) else {
            continue;
        };
        for other in &gateways {
            let Some(status) = other.status().await else { continue };
            // What was collected reaches the snapshot, and there is nothing below it any more.
            let is_behind_it = held.rank.previous() <= status.collected_below && !status.is_collecting;
            if status.old_version_bytes > limits.bytes_max && is_behind_it && !held.is_too_old() {
                gateway.give_up(&held);
                last_given_up = Some(now);
            }
        }
    }
}
