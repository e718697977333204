//! Where a host's messages go: a host drives its node, and knows nothing of the way to the others.

use super::Host;
use base::process::Process;
use base::{NodeId, Time};

/// Where a host's messages go.
pub trait Links<P: Process>: Send + Sync {
    fn send(&self, now: Time, from: NodeId, to: NodeId, message: P::Message);
    /// The same message to each of these but the sender. Links that encode do it once.
    fn send_all(&self, now: Time, from: NodeId, to: &[NodeId], message: P::Message) {
        to.iter().filter(|to| **to != from).for_each(|to| self.send(now, from, *to, message.clone()));
    }
    /// What another node has published answers this; `None`: its memory cannot be reached, or does not say it.
    fn load(&self, _by: NodeId, _of: NodeId, _message: &P::Message) -> Option<P::Message> {
        None
    }
}

impl<P: Process + Send + 'static> Host<P> {
    /// What a running node has published answers this.
    pub fn load(&self, message: &P::Message) -> Option<P::Message> {
        if self.is_gone() || self.is_halted() {
            return None;
        }
        let published = self.shown.published.lock().clone();
        published.and_then(|published| published.answer(message))
    }
}
