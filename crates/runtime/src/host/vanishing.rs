//! Clients that stop waiting before their answer is there.

use super::Host;
use base::process::{Event, Process};
use base::{RequestId, Time};
use std::sync::Arc;

/// Tells the node when a client stops waiting.
pub(super) struct Vanishing<'a, P: Process + Send + 'static> {
    pub host: &'a Arc<Host<P>>,
    pub id: RequestId,
    pub answered: bool,
}

impl<P: Process + Send + 'static> Vanishing<'_, P> {
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl<P: Process + Send + 'static> Drop for Vanishing<'_, P> {
    fn drop(&mut self) {
        if !self.answered {
            let mut running = self.host.running.lock();
            let mut left = self.host.left.lock();
            let stepped = left.iter().all(|request| request.id != self.id);
            left.retain(|request| request.id != self.id);
            drop(left);
            if stepped {
                running.pending.remove(&self.id);
                let vanished = Event::Vanished { id: self.id };
                if self.host.is_halted() {
                    self.host.deliver(Time::ZERO, vanished);
                } else {
                    self.host.step(&mut running, vanished, None);
                }
            }
            self.host.let_go(running);
        }
    }
}
