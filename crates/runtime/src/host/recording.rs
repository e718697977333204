//! What a node records, and what waits for it.
//!
//! KEEPS: what is sent leaves in its order, once every record emitted before it is stable; so does a reply of a step that
//! recorded something. Nothing else waits: a reply is made of what the node relies on already.

use super::{Host, Running};
use crate::clock::Clock;
use crate::disk_error::DiskError;
use crate::record_log::RecordLog;
use crate::room::Room;
use base::process::{Process, Record, Recorded};
use base::{NodeId, RequestId, Time};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

/// Records of this life, and what waits for them.
pub(super) struct Recording<P: Process> {
    sender: mpsc::Sender<Record>,
    emitted: u64,
    stable: u64,
    held: VecDeque<(u64, Held<P>)>,
}

/// See the module.
pub(super) enum Held<P: Process> {
    Send { to: NodeId, message: P::Message },
    SendAll { to: Vec<NodeId>, message: P::Message },
    Reply { id: RequestId, reply: P::Reply },
}

impl<P: Process> Recording<P> {
    fn new(sender: mpsc::Sender<Record>) -> Recording<P> {
        Recording { sender, emitted: 0, stable: 0, held: VecDeque::new() }
    }
    pub fn record(&mut self, record: Record) {
        self.emitted += 1;
        // A writer that has failed has stopped the node.
        _ = self.sender.send(record);
    }
    pub fn emitted(&self) -> u64 {
        self.emitted
    }
    /// Something recorded is not stable.
    pub fn is_behind(&self) -> bool {
        self.stable < self.emitted
    }
    pub fn hold(&mut self, held: Held<P>) {
        self.held.push_back((self.emitted, held));
    }
    /// What may leave now, first in, first out.
    pub fn pop(&mut self) -> Option<Held<P>> {
        self.held.pop_front_if(|(needed, _)| *needed <= self.stable).map(|(_, held)| held)
    }
}

/// The threads that write what a node records.
pub(super) struct Writers<P: Process> {
    /// Starts them; `None`: the node records nothing, or they have been started.
    begin: Option<Begin<P>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// Of the disk that they write to.
    room: Option<Arc<Room>>,
}

type Begin<P> = Box<dyn FnOnce(&Arc<Host<P>>) + Send>;

impl<P: Process> Default for Writers<P> {
    fn default() -> Self {
        Writers { begin: None, threads: Vec::new(), room: None }
    }
}

impl<P: Process> Running<P> {
    /// Whoever is told of what follows would rely on it.
    pub fn record(&mut self, record: Record) {
        self.recording.as_mut().expect("this host keeps records").record(record);
    }
    pub fn reply(&mut self, id: RequestId, reply: P::Reply) {
        if let Some(sender) = self.pending.remove(&id) {
            // The client may have gone meanwhile.
            _ = sender.send(reply);
        }
    }
}

impl<P: Process + Send + 'static> Host<P> {
    /// The room that its disk has, while it has none: nothing should be asked of the node that writes.
    pub fn full_disk(&self) -> Option<Arc<Room>> {
        self.writers.lock().room.as_ref().filter(|room| room.is_full()).cloned()
    }
    /// A thread that writes for this node.
    pub(crate) fn add_writer(&self, writer: std::thread::JoinHandle<()>) {
        self.writers.lock().threads.push(writer);
    }
    /// Waits until nothing is written any more, after the node was stopped.
    pub fn join_writers(&self) {
        let writers = std::mem::take(&mut self.writers.lock().threads);
        // One that failed has said so.
        writers.into_iter().for_each(|writer| _ = writer.join());
    }
    /// Starts the threads that write, if the node records anything.
    pub(super) fn start_recording(self: &Arc<Self>) {
        let begin = self.writers.lock().begin.take();
        if let Some(begin) = begin {
            begin(self);
        }
    }
    /// A message to another node leaves, now or once what was recorded is stable.
    pub(super) fn send(&self, running: &mut Running<P>, now: Time, to: NodeId, message: P::Message) {
        match &mut running.recording {
            Some(recording) if recording.is_behind() => recording.hold(Held::Send { to, message }),
            _ => self.send_now(running, now, to, message),
        }
    }
    /// The same for a message to several nodes, this one not counted: links that encode do it once, now or later.
    pub(super) fn send_all(&self, running: &mut Running<P>, now: Time, to: Vec<NodeId>, message: P::Message) {
        match &mut running.recording {
            Some(recording) if recording.is_behind() => recording.hold(Held::SendAll { to, message }),
            _ => self.send_all_now(running, now, &to, message),
        }
    }
    fn send_now(&self, running: &Running<P>, now: Time, to: NodeId, message: P::Message) {
        let links = running.links.as_ref().expect("a started node has links");
        links.send(now, self.id, to, message);
    }
    fn send_all_now(&self, running: &Running<P>, now: Time, to: &[NodeId], message: P::Message) {
        let links = running.links.as_ref().expect("a started node has links");
        links.send_all(now, self.id, to, message);
    }
    /// A reply of a step that has recorded something.
    pub(super) fn reply_later(&self, running: &mut Running<P>, id: RequestId, reply: P::Reply) {
        running.recording.as_mut().expect("it has recorded something").hold(Held::Reply { id, reply });
    }
    /// So many records are stable: lets out what waited for that.
    pub(super) fn release(&self, running: &mut Running<P>, now: Time, records: u64) {
        running.recording.iter_mut().for_each(|recording| recording.stable = records);
        while let Some(held) = running.recording.as_mut().and_then(Recording::pop) {
            match held {
                Held::Send { to, message } => self.send_now(running, now, to, message),
                Held::SendAll { to, message } => self.send_all_now(running, now, &to, message),
                Held::Reply { id, reply } => running.reply(id, reply),
            }
        }
    }
}

impl<P: Recorded + Send + 'static> Host<P> {
    /// A host whose node records into this log.
    pub fn with_records(id: NodeId, process: P, clock: Clock, log: RecordLog) -> Arc<Host<P>> {
        let host = Host::new(id, process, clock);
        let room = log.room().clone();
        let begin = |host: &Arc<Host<P>>| {
            let sender = log.start(host);
            host.running.lock().recording = Some(Recording::new(sender));
        };
        *host.writers.lock() =
            Writers { begin: Some(Box::new(begin)), threads: Vec::new(), room: Some(room) };
        host
    }

    /// Does something with the node between two steps; it is told how many records the node has emitted. `None`: the node
    /// has stopped.
    pub(crate) fn with_process<T>(&self, act: impl FnOnce(&mut P, u64) -> T) -> Option<T> {
        let mut running = self.running.lock();
        let result = (!self.is_gone()).then(|| {
            let emitted = running.recording.as_ref().map_or(0, Recording::emitted);
            act(&mut running.process, emitted)
        });
        self.let_go(running);
        result
    }

    /// Runs a thread's work; the node stops if that fails.
    pub(crate) fn stops_unless(&self, work: impl FnOnce() -> Result<(), DiskError>) {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(node = %self.id, "stopped: {error}");
                self.fail();
            }
            // The panic itself is in the log already.
            Err(_) => self.fail(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DataDir;
    use crate::data_dir::tests::Scratch;
    use crate::host::Links;
    use base::process::{CheckpointBlock, CheckpointEnded, Effects, Event, Unreadable};
    use parking_lot::Mutex;
    use std::time::{Duration, Instant};

    /// Records each request, and tells nodes 0, 1 and 2 of it.
    struct Teller;

    impl Process for Teller {
        type Message = u64;
        type Timer = ();
        type Request = u64;
        type Reply = ();
        type Computed = ();
        fn step(&mut self, _: Time, event: Event<Self>, out: &mut Effects<Self>) {
            if let Event::Request { request, .. } = event {
                out.record(Record { owner: 1, kind: 1, version: 1, payload: request.to_le_bytes().to_vec() });
                out.send_all(vec![NodeId(0), NodeId(1), NodeId(2)], request);
                out.send(NodeId(2), request);
            }
        }
    }

    impl Recorded for Teller {
        fn begin_checkpoint(&mut self) {}
        fn next_block(&mut self) -> Result<Option<CheckpointBlock>, CheckpointEnded> {
            Ok(None)
        }
        fn end_checkpoint(&mut self) {}
        fn restore(&mut self, _: CheckpointBlock) -> Result<(), Unreadable> {
            Ok(())
        }
        fn replay(&mut self, _: Record) -> Result<(), Unreadable> {
            Ok(())
        }
        fn recovered(&mut self) -> Result<Time, Unreadable> {
            Ok(Time::ZERO)
        }
    }

    /// What was handed to the links, call by call.
    #[derive(Default)]
    struct Sent(Mutex<Vec<(Vec<NodeId>, u64)>>);

    impl Links<Teller> for Sent {
        fn send(&self, _: Time, _: NodeId, to: NodeId, message: u64) {
            self.0.lock().push((vec![to], message));
        }
        fn send_all(&self, _: Time, from: NodeId, to: &[NodeId], message: u64) {
            self.0.lock().push((to.iter().copied().filter(|to| *to != from).collect(), message));
        }
    }

    fn start(scratch: &Scratch) -> (Arc<Host<Teller>>, Arc<Sent>) {
        let directory = DataDir::open(&scratch.0, &[]).unwrap();
        let recovered = directory.records(NodeId(0), 1 << 20, |_| Teller).unwrap();
        let host = Host::with_records(NodeId(0), recovered.process, Clock::new(), recovered.log);
        (host, Arc::new(Sent::default()))
    }
    fn wait_until(what: impl Fn() -> bool) {
        let begin = Instant::now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it happens");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_message_to_several_nodes_is_held_back_and_leaves_as_one() {
        let scratch = Scratch::new();
        let (host, sent) = start(&scratch);
        let driver = host.start(sent.clone());
        (1..=3).for_each(|request| host.tell(request));
        wait_until(|| sent.0.lock().len() == 6);
        host.stop();
        driver.join().unwrap();
        host.join_writers();
        let others = vec![NodeId(1), NodeId(2)];
        let expected = (1..=3).flat_map(|n| [(others.clone(), n), (vec![NodeId(2)], n)]);
        assert_eq!(*sent.0.lock(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_message_whose_record_is_not_written_does_not_leave() {
        let scratch = Scratch::new();
        let (host, sent) = start(&scratch);
        std::fs::remove_dir(scratch.0.join("node-0/log")).unwrap();
        let driver = host.start(sent.clone());
        host.tell(1);
        wait_until(|| host.is_gone());
        host.stop();
        driver.join().unwrap();
        host.join_writers();
        assert_eq!(*sent.0.lock(), []);
    }
}
