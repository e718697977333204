//! The thread of the sessions that are measured while others attack.

use super::Run;
use crate::neighbour::{self, Errand};
use anyhow::Context;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The other sessions, on a thread of their own: making inputs takes time that is not the server's. How many of them
/// panicked.
pub(super) fn be(run: &Arc<Run>) -> anyhow::Result<u64> {
    let regions = run.target.with(|s| s.addresses.len()).unwrap_or(1);
    let places: Vec<usize> = if regions > 1 { vec![0, regions - 1] } else { vec![0] };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start a runtime")?.block_on(async {
        let mut tasks = JoinSet::new();
        for (&region, errand) in places.iter().flat_map(|r| Errand::ALL.map(|e| (r, e))) {
            let run = run.clone();
            tasks.spawn(async move {
                neighbour::live(&run.target, &run.ledger, region, errand, run.options.stall).await;
            });
        }
        neighbour::pulse(&run.target, &run.ledger).await;
        Ok(end_all(tasks).await)
    })
}

/// Ends tasks. How many of them had panicked.
pub(super) async fn end_all(mut tasks: JoinSet<()>) -> u64 {
    tasks.abort_all();
    let mut panicked = 0;
    while let Some(ended) = tasks.join_next().await {
        panicked += u64::from(ended.is_err_and(|error| error.is_panic()));
    }
    panicked
}
