//! Questions of this process to a replica's, beside the messages of their nodes: reads that a session passes on.
//!
//! KEEPS: a call is answered once, or fails: at once when the connection by which it was sent is lost; an answer that nobody
//! waits for is thrown away.

use base::NodeId;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::oneshot;

/// A call's number, before its body and its answer's.
const NUMBER_BYTES: usize = 8;

#[derive(Debug, Default)]
pub struct Calls {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, (NodeId, oneshot::Sender<Bytes>)>>,
}

/// Forgets a call when its caller goes away.
pub struct Waiting<'a> {
    calls: &'a Calls,
    number: u64,
    answer: oneshot::Receiver<Bytes>,
}

impl Calls {
    /// Numbers a call to this peer: what to send, and who waits.
    pub fn begin(&self, to: NodeId, body: &[u8]) -> (Bytes, Waiting<'_>) {
        let number = self.next.fetch_add(1, Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(number, (to, sender));
        (numbered(number, body), Waiting { calls: self, number, answer })
    }
    /// Its answer has come, of the peer that was asked.
    pub fn answered(&self, from: NodeId, body: Bytes) {
        let Some((number, body)) = number_of(body) else { return };
        let mut waiting = self.waiting.lock();
        if waiting.get(&number).is_some_and(|(asked, _)| *asked == from)
            && let Some((_, sender)) = waiting.remove(&number)
        {
            _ = sender.send(body);
        }
    }
    /// The connection to a peer is lost.
    pub fn fail(&self, to: NodeId) {
        self.waiting.lock().retain(|_, (asked, _)| *asked != to);
    }
}

impl Waiting<'_> {
    /// `None`: it is not answered.
    pub async fn answer(mut self) -> Option<Bytes> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.calls.waiting.lock().remove(&self.number);
    }
}

pub fn numbered(number: u64, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(NUMBER_BYTES + body.len());
    bytes.put_u64_le(number);
    bytes.extend_from_slice(body);
    bytes.freeze()
}

/// A body and its number; `None`: it has none.
pub fn number_of(mut body: Bytes) -> Option<(u64, Bytes)> {
    (body.len() >= NUMBER_BYTES).then(|| (body.get_u64_le(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_gets_its_own_answer_of_whom_it_asked_or_fails() {
        let calls = Calls::default();
        let (one, first) = calls.begin(NodeId(1), b"one");
        let (two, second) = calls.begin(NodeId(1), b"two");
        let (_, third) = calls.begin(NodeId(2), b"three");
        let answer = |sent: &Bytes, text: &[u8]| {
            let (number, _) = number_of(sent.clone()).unwrap();
            numbered(number, text)
        };
        calls.answered(NodeId(2), answer(&one, b"from somebody else"));
        calls.answered(NodeId(1), answer(&two, b"2"));
        calls.answered(NodeId(1), answer(&one, b"1"));
        calls.answered(NodeId(1), Bytes::from_static(b"short"));
        assert_eq!(first.answer().await.unwrap(), &b"1"[..]);
        assert_eq!(second.answer().await.unwrap(), &b"2"[..]);
        calls.fail(NodeId(2));
        assert_eq!(third.answer().await, None);
        assert!(calls.waiting.lock().is_empty());
    }
}
