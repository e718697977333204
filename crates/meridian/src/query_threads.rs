//! Threads that run analytical queries, and nothing else.
//!
//! A query computes for as long as it likes; on the threads that serve connections it would hold up every
//! transaction. Here it has threads of its own, niced, so that the system takes them off a core as soon as
//! a node or a connection has work.

use anyhow::Context;
use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime of all analytical queries of a process. Dropping it ends queries at their next batch.
pub struct QueryThreads {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// Niceness of analytical threads: about a tenth of the weight of threads at 0 when they compete.
const NICENESS: i32 = 10;

impl QueryThreads {
    /// One thread per core. Errors: no more threads to be had.
    pub fn start() -> anyhow::Result<QueryThreads> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, |n| n.get()))
            .thread_name("query")
            .on_thread_start(|| runtime::give_way(NICENESS))
            .enable_all()
            .build()
            .context("start the threads of analytical queries")?;
        Ok(QueryThreads { runtime: Some(runtime) })
    }

    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("there until it is dropped").handle()
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime may not wait for its threads inside another one.
            runtime.shutdown_background();
        }
    }
}
