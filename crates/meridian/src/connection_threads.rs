//! Threads that serve one region's connections.
//!
//! Regions of one process share cores, as machines of one host would, and nothing else: a region whose threads are all
//! taken delays no connection of another one.

use anyhow::Context;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// The threads of one region. Dropping them ends its connections.
pub struct ConnectionThreads {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// Connections of which one computes aside, each on a thread of its own (`tokio::task::block_in_place`).
const ASIDE_MAX: usize = 2048;

/// How long such a thread waits for the next computation.
const STAND_IN_KEPT: Duration = Duration::from_millis(500);

impl ConnectionThreads {
    /// One thread per core. Errors: no more threads to be had.
    pub fn start(region: &str) -> anyhow::Result<ConnectionThreads> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, |n| n.get()))
            .max_blocking_threads(ASIDE_MAX)
            .thread_name(format!("clients-{region}"))
            .thread_stack_size(runtime::STACK_BYTES)
            // A thread that another one stood in for ends soon, and its stack with it.
            .thread_keep_alive(STAND_IN_KEPT)
            // One that gives way may have started it.
            .on_thread_start(runtime::compete_like_all)
            .on_thread_park(crate::freed_memory::collect_now_and_then)
            .enable_all()
            .build()
            .with_context(|| format!("start the threads of region {region}"))?;
        Ok(ConnectionThreads { runtime: Some(runtime) })
    }

    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until it is dropped").handle()
    }
}

impl Drop for ConnectionThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime may not wait for its threads inside another one.
            runtime.shutdown_background();
        }
    }
}
