//! What waits to be written to one peer: bounded, first in, first out.
//!
//! KEEPS: nothing waits while there is no connection, and no more bytes than [`QUEUE_BYTES_MAX`] while there is one, a
//! single greater message excepted. What is sent before the first connection counts as never sent. What finds no room is lost, as on any link: whoever sent it sends it again when it
//! is not acknowledged (`base::process`).

use super::frame::FrameKind;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::Notify;

/// Bytes that wait for one peer at most: what a slow peer or a slow way costs.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    arrived: Notify,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    is_open: bool,
    /// There was a connection once.
    was_open: bool,
    bytes: usize,
    messages: VecDeque<(FrameKind, Bytes)>,
}

impl Queue {
    /// A connection is there: messages are taken.
    pub fn open(&self) {
        let mut inner = self.inner.lock();
        *inner = Inner { is_open: true, was_open: true, ..Inner::default() };
    }
    /// The connection is gone, and with it what waited.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        self.dropped.fetch_add(inner.messages.len() as u64, Relaxed);
        *inner = Inner { was_open: inner.was_open, ..Inner::default() };
    }
    /// Whether a message that is sent now has a way.
    pub fn is_open(&self) -> bool {
        self.inner.lock().is_open
    }
    /// A message is lost before it got here.
    pub fn note_dropped(&self) {
        if self.inner.lock().was_open {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
    /// Messages that were lost here.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }
    /// False: it is lost.
    pub fn push(&self, kind: FrameKind, message: Bytes) -> bool {
        let mut inner = self.inner.lock();
        let has_room = inner.bytes == 0 || inner.bytes + message.len() <= QUEUE_BYTES_MAX;
        if !inner.is_open || !has_room {
            drop(inner);
            self.note_dropped();
            return false;
        }
        inner.bytes += message.len();
        inner.messages.push_back((kind, message));
        drop(inner);
        self.arrived.notify_one();
        true
    }
    /// Waits for messages and takes those that came first, up to about so many bytes.
    pub async fn take(&self, bytes_max: usize, into: &mut Vec<(FrameKind, Bytes)>) {
        loop {
            {
                let mut inner = self.inner.lock();
                let mut taken = 0;
                while taken < bytes_max
                    && let Some(message) = inner.messages.pop_front()
                {
                    taken += message.1.len();
                    into.push(message);
                }
                inner.bytes -= taken;
            }
            if !into.is_empty() {
                return;
            }
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_keep_their_order_and_only_so_many_bytes_wait() {
        let queue = Queue::default();
        assert!(!queue.push(FrameKind::Message, Bytes::from_static(b"nobody is there")));
        queue.open();
        assert!(
            queue.push(FrameKind::Message, Bytes::from_static(b"one"))
                && queue.push(FrameKind::Message, Bytes::from_static(b"two"))
        );
        let big = Bytes::from(vec![0; QUEUE_BYTES_MAX]);
        assert!(!queue.push(FrameKind::Message, big.clone()), "no room");
        let mut taken = Vec::new();
        queue.take(4, &mut taken).await;
        let taken: Vec<&[u8]> = taken.iter().map(|(_, message)| &message[..]).collect();
        assert_eq!(taken, [&b"one"[..], &b"two"[..]]);
        assert!(
            queue.push(FrameKind::Message, big.clone()) && !queue.push(FrameKind::Message, big),
            "one of any size goes alone"
        );
        queue.close();
        assert_eq!((queue.dropped(), queue.bytes(), queue.is_open()), (3, 0, false));
        queue.note_dropped();
        assert_eq!(queue.dropped(), 4);
    }
}
