//! The thread that writes and syncs a node's log.
//!
//! KEEPS: a node whose log has failed, in whatever way, does nothing more, and every client that waits is told.

use super::{Disk, Host};
use base::Time;
use base::process::{Event, Process};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};

impl<P: Process + Send + 'static> Host<P> {
    /// Starts the thread that writes, if there is a log.
    pub(super) fn start_writing(self: &Arc<Self>) {
        let mut disk = self.disk.lock();
        *disk = match std::mem::replace(&mut *disk, Disk::None) {
            Disk::Waiting(log) => {
                let (sender, records) = mpsc::channel();
                let host = self.clone();
                std::thread::Builder::new()
                    .name(format!("node-{}-log", self.id.0))
                    .spawn(move || {
                        let safe = |token| host.deliver(Time::ZERO, Event::Persisted(token));
                        match catch_unwind(AssertUnwindSafe(|| log.serve(records, safe))) {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => {
                                tracing::error!(node = %host.id, "stopped: {error}");
                                host.fail();
                            }
                            // The panic itself is in the log already.
                            Err(_) => host.fail(),
                        }
                    })
                    .expect("a thread can be started");
                Disk::Served(sender)
            }
            other => other,
        };
    }

    /// The node can do nothing more; every waiting client is told.
    pub(super) fn fail(&self) {
        self.failed.store(true, Relaxed);
        let mut running = self.running.lock();
        running.pending.clear();
        // Others may have left work behind while this thread had the node.
        self.let_go(running);
    }
}
