//! Futures that have kept their thread busy for long let others go first.
//!
//! A thread that serves many connections has the priority of all. While it polls a future that has computed for long, it
//! has less: threads that wake up for a moment are not kept waiting, and what is left of a core is the future's.
//! KEEPS: between two polls a thread competes like all others. Where the system lets nobody raise a priority again, only
//! the length of slices changes: who wakes up has its turn at once, and shares are equal.
//!
//! Futures that have computed for long have their turns on half of the cores, one after the other: a future that is short
//! finds a thread that polls none of them. KEEPS: a future has a turn while it is polled, and no longer; who waits longest
//! is next. A poll that waits for another thread gives its turn up ([`give_up_turn`]), so that nobody's turn is kept by who
//! does not compute.
//!
//! One worker thread of a runtime at a time polls the system for events of all connections and timers, and then runs the tasks that they
//! wake. While it computes nobody polls, though other workers may be idle. [`let_another_poll_events`] wakes one of them.

use crate::threads::{LONG_SLICE, SLICE, compete};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most statements need less.
const LONG: Duration = Duration::from_millis(20);

/// Polls of a future that has taken this long are announced, so that another thread polls for events meanwhile.
const NOTICEABLE: Duration = Duration::from_millis(1);

/// A tenth of the weight of others. The least would be a seventieth, but others may wait for what the future has locked.
const NICENESS: i32 = 10;

/// A future that gives way once its polls have taken [`LONG`] together.
pub struct GivesWay<F> {
    work: F,
    taken: Duration,
    turns: Turns,
}

impl<F: Future + Unpin> GivesWay<F> {
    pub fn new(work: F) -> GivesWay<F> {
        GivesWay::among(turns_of_process(), work)
    }

    fn among(turns: &Arc<Semaphore>, work: F) -> GivesWay<F> {
        GivesWay { work, taken: Duration::ZERO, turns: Turns { all: turns.clone(), next: None } }
    }
}

impl<F: Future + Unpin> Future for GivesWay<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.taken >= NOTICEABLE {
            let_another_poll_events();
        }
        if self.taken >= LONG {
            let _turn = ready!(self.turns.poll_next(context));
            let _lowered = Lowered::begin();
            return Pin::new(&mut self.work).poll(context);
        }
        let began = Instant::now();
        let polled = Pin::new(&mut self.work).poll(context);
        self.taken += began.elapsed();
        polled
    }
}

/// Turns of all futures of this process that compute for long.
fn turns_of_process() -> &'static Arc<Semaphore> {
    static TURNS: OnceLock<Arc<Semaphore>> = OnceLock::new();
    TURNS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Arc::new(Semaphore::new((cores / 2).max(1)))
    })
}

/// The turns of one future.
struct Turns {
    all: Arc<Semaphore>,
    /// The one that is waited for.
    next: Option<Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>>,
}

impl Turns {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        if self.next.is_none()
            && let Ok(permit) = self.all.clone().try_acquire_owned()
        {
            return Poll::Ready(Turn::begin(permit));
        }
        let all = self.all.clone();
        let next = self.next.get_or_insert_with(|| {
            Box::pin(async { all.acquire_owned().await.expect("nobody closes these turns") })
        });
        let permit = ready!(next.as_mut().poll(context));
        self.next = None;
        Poll::Ready(Turn::begin(permit))
    }
}

thread_local! {
    /// The turn that the calling thread has.
    static TURN: RefCell<Option<OwnedSemaphorePermit>> = const { RefCell::new(None) };
}

/// The calling thread has a turn until this is dropped, or it gives the turn up before.
struct Turn;

impl Turn {
    fn begin(permit: OwnedSemaphorePermit) -> Turn {
        TURN.set(Some(permit));
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        give_up_turn();
    }
}

/// Ends the calling thread's turn before its poll ends, because the thread is going to wait for another one. The next long
/// statement may then compute.
pub fn give_up_turn() {
    drop(TURN.take());
}

/// The calling thread, if it serves connections, is going to compute for a while: an idle one is woken up, finds
/// that nobody polls for events, and does so.
pub fn let_another_poll_events() {
    let Ok(handle) = Handle::try_current() else { return };
    if handle.runtime_flavor() != RuntimeFlavor::MultiThread {
        return;
    }
    // A thread keeps the last task that it spawns for itself; for one before that it wakes another thread.
    for _ in 0..2 {
        handle.spawn(std::future::ready(()));
    }
}

/// The calling thread competes with less weight until this is dropped.
struct Lowered;

impl Lowered {
    fn begin() -> Lowered {
        let lower_by = if may_raise() { NICENESS } else { 0 };
        compete(ordinary() + lower_by, LONG_SLICE);
        Lowered
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        compete_like_all();
    }
}

/// The calling thread competes like those that serve nodes and connections, whichever thread has started it.
pub fn compete_like_all() {
    compete(ordinary(), SLICE);
}

/// The niceness that the process was started with.
fn ordinary() -> i32 {
    static NICENESS: OnceLock<i32> = OnceLock::new();
    *NICENESS.get_or_init(crate::threads::niceness_of_first_thread)
}

/// Whether this process may raise a priority that it has lowered: where it is privileged, or `LimitNICE` lets it.
fn may_raise() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let try_it = || {
            compete(ordinary() + 1, SLICE);
            compete(ordinary(), SLICE);
            niceness_of_this() == Some(ordinary())
        };
        std::thread::Builder::new().spawn(try_it).ok().and_then(|thread| thread.join().ok()).unwrap_or(false)
    })
}

#[cfg(target_os = "linux")]
fn niceness_of_this() -> Option<i32> {
    Some(crate::threads::niceness(crate::threads::current_thread()))
}

#[cfg(not(target_os = "linux"))]
fn niceness_of_this() -> Option<i32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    fn one_turn() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(1))
    }

    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Nobody>) {}
    }

    /// The niceness that its polls see, of which each takes as long as told.
    fn seen(takes: &[Duration]) -> Vec<Option<i32>> {
        let mut seen = Vec::new();
        let mut takes = takes.iter();
        let mut work = GivesWay::among(
            &one_turn(),
            std::future::poll_fn(|_| {
                seen.push(niceness_of_this());
                let Some(takes) = takes.next() else { return Poll::Ready(()) };
                std::thread::sleep(*takes);
                Poll::Pending
            }),
        );
        let waker = Waker::from(Arc::new(Nobody));
        while Pin::new(&mut work).poll(&mut Context::from_waker(&waker)).is_pending() {
            assert_eq!(niceness_of_this(), Some(ordinary()), "between two polls");
        }
        drop(work);
        seen
    }

    #[test]
    fn who_has_taken_long_gives_way_and_the_thread_is_as_before() {
        let lowered = Some(ordinary() + if may_raise() { NICENESS } else { 0 });
        assert_eq!(seen(&[LONG, Duration::ZERO]), [Some(ordinary()), lowered, lowered]);
        assert_eq!(niceness_of_this(), Some(ordinary()));
    }

    /// How long what is due in 20 ms takes, in five tries, where one of two threads computes for `work` from 10 ms on.
    fn heard_after(announces: bool, work: Duration) -> Vec<Duration> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let computing = runtime.spawn(async move {
            let mut heard = Vec::new();
            for _ in 0..5 {
                let began = Instant::now();
                let hearing = tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    began.elapsed()
                });
                // Both threads are idle then, and one of them polls for events.
                tokio::time::sleep(Duration::from_millis(10)).await;
                if announces {
                    let_another_poll_events();
                }
                std::thread::sleep(work);
                heard.push(hearing.await.unwrap());
            }
            heard
        });
        runtime.block_on(computing).unwrap()
    }

    #[test]
    fn another_thread_polls_for_events_while_one_computes() {
        let work = Duration::from_millis(400);
        // On a busy machine the other thread may be late by itself, though hardly each time.
        assert!(heard_after(true, work).iter().any(|after| *after < work / 2));
        // Should this hold no longer, nobody has to be woken any more.
        assert!(heard_after(false, work).iter().any(|after| *after > work / 2));
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_computes_for_long_waits_for_its_turn() {
        let (turns, woken) = (one_turn(), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let done = || std::future::ready(());
        let mut waits = long(&turns, done());
        let has_it = std::future::poll_fn(|_| {
            assert!(polled(&mut waits, &waker).is_pending(), "there is one turn");
            Poll::Ready(())
        });
        assert!(polled(&mut long(&turns, has_it), &waker).is_ready());
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the turn is over");
        assert!(polled(&mut waits, &waker).is_ready());

        let mut other = long(&turns, done());
        let gives_up = std::future::poll_fn(|_| {
            give_up_turn();
            polled(&mut other, &waker)
        });
        assert!(polled(&mut long(&turns, gives_up), &waker).is_ready());
        assert_eq!(turns.available_permits(), 1);
    }

    /// One that has computed for long already.
    fn long<F: Future + Unpin>(turns: &Arc<Semaphore>, work: F) -> GivesWay<F> {
        GivesWay { taken: LONG, ..GivesWay::among(turns, work) }
    }

    fn polled(work: &mut (impl Future<Output = ()> + Unpin), waker: &Waker) -> Poll<()> {
        Pin::new(work).poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn a_thread_that_was_started_by_one_that_gives_way_competes_like_all() {
        let lowered = Lowered::begin();
        let started = std::thread::spawn(|| {
            compete_like_all();
            niceness_of_this()
        });
        assert!(!may_raise() || started.join().unwrap() == Some(ordinary()));
        drop(lowered);
    }
}
