//! One node's host: a lock around the state machine, an inbox ordered by due time, a driver thread.
//!
//! A client's request is stepped on the client's own thread, under the lock; when the answer needs no
//! other node it is there before the lock is released, without a thread switch. Who finds the node taken
//! leaves its request with whoever has it and goes on with other clients: a thread that sleeps for a
//! step of some microseconds takes longer to wake up than the step takes. Everything that happens later
//! (messages, timers) is stepped by the driver.
//!
//! KEEPS: `now` is read after the event is taken; timers that are due already run before the lock is
//! released; a request gets one reply or [`Gone`]. A request that was left is stepped: who leaves one
//! tries the lock afterwards, and who had it looks for more after letting it go. A node that panics
//! stops: its host answers `Gone` from then on, it never guesses.
//!
//! What a node publishes is read without asking it: a watcher ([`Host::watch`]) looks at the node after each step and
//! hands out what it saw, so that who wants to know waits for no step.
//!
//! A halted node may be replaced by one that knows nothing; what was meant for the former one is dropped.
//!
//! A halted node stands still until it is resumed. Messages that reach it meanwhile are lost, and so are those
//! that had come and were not stepped; its clients are told. To the others it is a machine that lost its power
//! and comes back with what its disk has: a durable node's state is what it stepped, no more and no less.

mod inbox;
mod links;
mod recording;
mod vanishing;

use crate::clock::Clock;
use base::process::{Computation, Effect, Effects, Event, Process, Published};
use base::{NodeId, RequestId, Time};
use inbox::{Due, Inbox};
pub use links::Links;
use parking_lot::{Condvar, Mutex, MutexGuard};
use recording::{Recording, Writers};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use tokio::sync::oneshot;
use vanishing::Vanishing;

/// The node has stopped or stands still; nothing is known about requests that were under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the node has stopped")
    }
}
impl std::error::Error for Gone {}

/// Niceness of background threads: a third of the weight of threads at 0 when they compete, so that what
/// they do is done in the end, however busy the clients are.
const BACKGROUND_NICENESS: i32 = 5;

/// Requests of others that a client steps before it goes on with its own reply.
const LEFT_AT_ONCE_MAX: usize = 64;

/// A node and what drives it.
pub struct Host<P: Process> {
    id: NodeId,
    clock: Clock,
    running: Mutex<Running<P>>,
    /// Requests that found the node taken.
    left: Mutex<VecDeque<Left<P>>>,
    inbox: Mutex<Inbox<P>>,
    /// Counts nodes that this host has had; written while the inbox is locked.
    life: AtomicU32,
    wake: Condvar,
    failed: AtomicBool,
    stopping: AtomicBool,
    /// Written while the node is locked, so that nothing is stepped once it is set.
    halted: AtomicBool,
    next_request: AtomicU64,
    /// Where long computations go; `None` before the start and after the end.
    workbench: Mutex<Option<mpsc::Sender<(u32, Computation<P>)>>>,
    /// The threads that write records.
    writers: Mutex<Writers<P>>,
    shown: Shown<P>,
}

/// What others see of the node without waiting for it.
struct Shown<P: Process> {
    watcher: OnceLock<Watcher<P>>,
    /// For whoever can reach this process's memory.
    published: Mutex<Option<Arc<dyn Published<P::Message>>>>,
}

/// Looks at a node between two steps; must be quick.
type Watcher<P> = Box<dyn Fn(&P) + Send + Sync>;

struct Running<P: Process> {
    process: P,
    pending: BTreeMap<RequestId, oneshot::Sender<P::Reply>>,
    links: Option<Arc<dyn Links<P>>>,
    effects: Effects<P>,
    /// Of a node that records what it has to remember.
    recording: Option<Recording<P>>,
}

/// A request that waits to be stepped, and who waits for its reply.
struct Left<P: Process> {
    id: RequestId,
    request: P::Request,
    sender: oneshot::Sender<P::Reply>,
}

impl<P: Process + Send + 'static> Host<P> {
    /// A host whose node keeps nothing on a disk; see [`Host::with_records`].
    pub fn new(id: NodeId, process: P, clock: Clock) -> Arc<Host<P>> {
        let published = process.published();
        Arc::new(Host {
            id,
            clock,
            running: Mutex::new(Running {
                process,
                pending: BTreeMap::new(),
                links: None,
                effects: Effects::new(),
                recording: None,
            }),
            left: Mutex::new(VecDeque::new()),
            inbox: Mutex::default(),
            life: AtomicU32::new(0),
            wake: Condvar::new(),
            failed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            next_request: AtomicU64::new(1),
            workbench: Mutex::new(None),
            writers: Mutex::default(),
            shown: Shown { watcher: OnceLock::new(), published: Mutex::new(published) },
        })
    }

    /// Has `watcher` look at the node now and after each step, before anybody is told what came of the step. There is
    /// one: later ones are ignored.
    pub fn watch(&self, watcher: impl Fn(&P) + Send + Sync + 'static) {
        let running = self.running.lock();
        self.shown.watcher.get_or_init(|| Box::new(watcher))(&running.process);
        self.let_go(running);
    }

    pub fn id(&self) -> NodeId {
        self.id
    }
    pub fn now(&self) -> Time {
        self.clock.now()
    }
    /// How far its clock is from that of its process, in ns.
    pub fn clock_offset_ns(&self) -> i64 {
        self.clock.offset_ns()
    }
    /// Leads its clock astray, slowly; 0 leads it back.
    pub fn lead_clock_astray(&self, offset_ns: i64) {
        self.clock.lead_astray(offset_ns);
        // It is waited for by the way it went before.
        let _inbox = self.inbox.lock();
        self.wake.notify_all();
    }
    /// Whether it has stopped for good.
    pub fn is_gone(&self) -> bool {
        self.failed.load(Relaxed) || self.stopping.load(Relaxed)
    }
    pub fn is_halted(&self) -> bool {
        self.halted.load(Relaxed)
    }

    /// Lets the node stand still; when this returns, nothing is being stepped.
    pub fn halt(&self) {
        let mut running = self.running.lock();
        self.halted.store(true, Relaxed);
        self.inbox.lock().due.retain(|due| !matches!(due.event, Event::Message { .. }));
        self.left.lock().clear();
        running.pending.clear();
        self.let_go(running);
    }

    /// Lets a halted node go on. What had become due meanwhile happens now.
    pub fn resume(&self) {
        self.halted.store(false, Relaxed);
        let _inbox = self.inbox.lock();
        self.wake.notify_all();
    }

    /// Puts another node into the place of a halted one, and lets it begin.
    pub fn begin_again(&self, process: P) {
        assert!(self.is_halted(), "only a halted node is replaced");
        let mut running = self.running.lock();
        {
            let mut inbox = self.inbox.lock();
            self.life.fetch_add(1, Relaxed);
            inbox.due.clear();
        }
        *self.shown.published.lock() = process.published();
        running.process = process;
        running.effects = Effects::new();
        running.pending.clear();
        self.halted.store(false, Relaxed);
        self.step(&mut running, Event::Start, None);
        self.let_go(running);
    }

    /// Starts the node and its driver thread. `links` is where its messages go.
    pub fn start(self: &Arc<Self>, links: Arc<dyn Links<P>>) -> std::thread::JoinHandle<()> {
        let (workbench, work) = mpsc::channel();
        *self.workbench.lock() = Some(workbench);
        let labourer = self.clone();
        std::thread::Builder::new()
            .name(format!("node-{}-background", self.id.0))
            .stack_size(crate::STACK_BYTES)
            .spawn(move || labourer.labour(work))
            .expect("a thread can be started");
        self.start_recording();
        {
            let mut running = self.running.lock();
            running.links = Some(links);
            self.step(&mut running, Event::Start, None);
            self.let_go(running);
        }
        let host = self.clone();
        std::thread::Builder::new()
            .name(format!("node-{}", self.id.0))
            .stack_size(crate::STACK_BYTES)
            .spawn(move || host.drive())
            .expect("a thread can be started")
    }

    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        *self.workbench.lock() = None;
        let inbox = self.inbox.lock();
        self.wake.notify_all();
        drop(inbox);
    }

    /// Events that wait for the driver, timers included.
    pub fn backlog(&self) -> usize {
        self.inbox.lock().due.len()
    }

    /// Puts an event into the inbox, to be stepped at `at`.
    pub fn deliver(&self, at: Time, event: Event<P>) {
        self.deliver_to(None, at, event);
    }

    /// The same, unless it is meant for a node that has been replaced.
    fn deliver_to(&self, life: Option<u32>, at: Time, event: Event<P>) {
        let mut inbox = self.inbox.lock();
        let is_over = life.is_some_and(|life| life != self.life.load(Relaxed));
        if is_over || self.is_halted() && matches!(event, Event::Message { .. }) {
            return;
        }
        let earliest = inbox.due.peek().is_none_or(|first| at < first.at);
        inbox.sequence += 1;
        let sequence = inbox.sequence;
        inbox.due.push(Due { at, sequence, event });
        if earliest {
            self.wake.notify_one();
        }
    }

    /// Asks the node. Dropping the future tells the node that nobody waits any more.
    pub async fn request(self: &Arc<Self>, request: P::Request) -> Result<P::Reply, Gone> {
        if self.is_gone() || self.is_halted() {
            return Err(Gone);
        }
        let id = RequestId(self.next_request.fetch_add(1, Relaxed));
        let receiver = if let Some(mut running) = self.running.try_lock() {
            if let Some(reply) = self.step(&mut running, Event::Request { id, request }, Some(id)) {
                self.let_go(running);
                return Ok(reply);
            }
            let (sender, receiver) = oneshot::channel();
            if !self.is_gone() && !self.is_halted() {
                running.pending.insert(id, sender);
            }
            self.let_go(running);
            receiver
        } else {
            let (sender, receiver) = oneshot::channel();
            self.left.lock().push_back(Left { id, request, sender });
            if let Some(running) = self.running.try_lock() {
                self.let_go(running);
            }
            receiver
        };
        let guard = Vanishing { host: self, id, answered: false };
        let reply = receiver.await.map_err(|_| Gone)?;
        guard.answered();
        Ok(reply)
    }

    /// Tells the node something whose reply nobody waits for. A halted node hears it when it goes on.
    pub fn tell(&self, request: P::Request) {
        let id = RequestId(self.next_request.fetch_add(1, Relaxed));
        self.deliver(Time::ZERO, Event::Request { id, request });
    }

    /// Steps what was left meanwhile, then releases the node. After a while the driver takes over, so that
    /// no client works for all others for ever.
    fn let_go<'a>(&'a self, mut running: MutexGuard<'a, Running<P>>) {
        for _ in 0..LEFT_AT_ONCE_MAX {
            if !self.step_one_left(&mut running) {
                drop(running);
                // Somebody may have found the node taken after the look. Whoever has it now will look again.
                if self.left.lock().is_empty() {
                    return;
                }
                let Some(again) = self.running.try_lock() else { return };
                running = again;
            }
        }
        drop(running);
        let _inbox = self.inbox.lock();
        self.wake.notify_one();
    }

    /// Steps the request that was left first; false if there was none.
    fn step_one_left(&self, running: &mut Running<P>) -> bool {
        let Some(Left { id, request, sender }) = self.take_left() else { return false };
        match self.step(running, Event::Request { id, request }, Some(id)) {
            // The client may have gone meanwhile.
            Some(reply) => _ = sender.send(reply),
            None if self.is_gone() || self.is_halted() => drop(sender),
            None => _ = running.pending.insert(id, sender),
        }
        true
    }

    fn take_left(&self) -> Option<Left<P>> {
        self.left.lock().pop_front()
    }

    /// Runs `look` on the node between two steps.
    pub fn inspect<T>(&self, look: impl FnOnce(&P) -> T) -> T {
        let running = self.running.lock();
        let seen = look(&running.process);
        self.let_go(running);
        seen
    }

    /// Steps an event and what follows from it at once; answers the reply to `own`, if it came.
    fn step(&self, running: &mut Running<P>, event: Event<P>, own: Option<RequestId>) -> Option<P::Reply> {
        if self.failed.load(Relaxed) || self.is_halted() {
            return None;
        }
        let stepped = catch_unwind(AssertUnwindSafe(|| self.step_all(running, event, own)));
        stepped.unwrap_or_else(|_| {
            // An invariant is broken. Dropping the senders tells every waiting client.
            self.failed.store(true, Relaxed);
            running.pending.clear();
            tracing::error!(node = %self.id, "failed an invariant and stopped");
            None
        })
    }

    fn step_all(
        &self,
        running: &mut Running<P>,
        event: Event<P>,
        own: Option<RequestId>,
    ) -> Option<P::Reply> {
        let mut own_reply = None;
        let mut next = VecDeque::from([event]);
        let mut effects = std::mem::take(&mut running.effects);
        while let Some(event) = next.pop_front() {
            let now = self.clock.now();
            if let Event::Stable { records } = &event {
                self.release(running, now, *records);
            }
            let mut has_recorded = false;
            running.process.step(now, event, &mut effects);
            if let Some(watcher) = self.shown.watcher.get() {
                watcher(&running.process);
            }
            for effect in effects.drain() {
                match effect {
                    Effect::Send { to, message } if to == self.id => {
                        next.push_back(Event::Message { from: self.id, message });
                    }
                    Effect::Send { to, message } => self.send(running, now, to, message),
                    Effect::Load { of, message } => {
                        match running.links.as_ref().and_then(|links| links.load(self.id, of, &message)) {
                            Some(message) => next.push_back(Event::Message { from: of, message }),
                            None => self.send(running, now, of, message),
                        }
                    }
                    Effect::SendAll { to, message } => {
                        for _ in to.iter().filter(|to| **to == self.id) {
                            next.push_back(Event::Message { from: self.id, message: message.clone() });
                        }
                        self.send_all(running, now, to, message);
                    }
                    Effect::Timer { at, timer } if at <= self.clock.now() => {
                        next.push_back(Event::Timer(timer))
                    }
                    Effect::Timer { at, timer } => self.deliver(at, Event::Timer(timer)),
                    Effect::GiveWay { timer } => self.deliver(now, Event::Timer(timer)),
                    Effect::Reply { id, reply } if has_recorded => self.reply_later(running, id, reply),
                    Effect::Reply { id, reply } if Some(id) == own => own_reply = Some(reply),
                    Effect::Reply { id, reply } => running.reply(id, reply),
                    Effect::Compute(work) => self.compute(work),
                    Effect::Record(record) => {
                        has_recorded = true;
                        running.record(record);
                    }
                    // Acknowledging would be a lie.
                    Effect::Persist { .. } => panic!("hosts keep records, and no logs of inputs"),
                }
            }
        }
        running.effects = effects;
        own_reply
    }

    /// The node can do nothing more; every waiting client is told.
    fn fail(&self) {
        self.failed.store(true, Relaxed);
        let mut running = self.running.lock();
        running.pending.clear();
        // Others may have left work behind while this thread had the node.
        self.let_go(running);
    }

    /// Hands work to the background thread; its result comes back through the inbox.
    fn compute(&self, work: Computation<P>) {
        if let Some(workbench) = self.workbench.lock().as_ref() {
            // A host that stops throws work away.
            _ = workbench.send((self.life.load(Relaxed), work));
        }
    }

    /// The background thread: computes until the host is gone.
    fn labour(self: Arc<Self>, work: mpsc::Receiver<(u32, Computation<P>)>) {
        crate::give_way(BACKGROUND_NICENESS);
        for (life, job) in work {
            match catch_unwind(AssertUnwindSafe(job)) {
                Ok(computed) => self.deliver_to(Some(life), Time::ZERO, Event::Computed(computed)),
                Err(_) => return self.fail(),
            }
        }
    }

    /// The driver thread: steps what is due, sleeps until something is.
    fn drive(self: Arc<Self>) {
        let mut batch = Vec::new();
        let mut life;
        while !self.stopping.load(Relaxed) {
            {
                let mut inbox = self.inbox.lock();
                if self.is_halted() {
                    self.wake.wait(&mut inbox);
                    continue;
                }
                life = self.life.load(Relaxed);
                let now = self.clock.now();
                while inbox.due.peek().is_some_and(|first| first.at <= now) && batch.len() < 64 {
                    batch.push(inbox.due.pop().expect("was peeked").event);
                }
                if batch.is_empty() && self.left.lock().is_empty() {
                    match inbox.due.peek().map(|first| first.at) {
                        Some(at) => {
                            self.wake.wait_until(&mut inbox, self.clock.instant(at));
                        }
                        None => self.wake.wait(&mut inbox),
                    }
                    continue;
                }
            }
            let mut running = self.running.lock();
            for event in batch.drain(..) {
                if self.is_halted() || life != self.life.load(Relaxed) {
                    // Halted since it was taken: back into the inbox.
                    self.deliver_to(Some(life), Time::ZERO, event);
                } else {
                    self.step(&mut running, event, None);
                    // A client waits for one step of the others', not for all that are due.
                    for _ in 0..LEFT_AT_ONCE_MAX {
                        if !self.step_one_left(&mut running) {
                            break;
                        }
                    }
                }
            }
            self.let_go(running);
        }
        // Waiting clients learn that the node is gone, and the log that nothing comes any more.
        let mut running = self.running.lock();
        running.recording = None;
        running.pending.clear();
        self.let_go(running);
    }
}
