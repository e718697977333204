//! Futures that have kept their thread busy for long let others go first.
//!
//! A thread that serves many connections has the priority of all. While it polls a future that has computed for long, it
//! has less: threads that wake up for a moment are not kept waiting, and what is left of a core is the future's.
//! KEEPS: between two polls a thread competes like all others. Where the system lets nobody raise a priority again, only
//! the length of slices changes: who wakes up has its turn at once, and shares are equal.

use crate::threads::{SLICE, compete};
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Most statements need less.
const LONG: Duration = Duration::from_millis(20);

/// A tenth of the weight of others. The least would be a seventieth, but others may wait for what the future has locked.
const NICENESS: i32 = 10;

/// Who has shorter slices and wakes up does not wait for the end of one like this.
const LONG_SLICE: Duration = Duration::from_millis(5);

/// A future that gives way once its polls have taken [`LONG`] together.
pub struct GivesWay<F> {
    work: F,
    taken: Duration,
}

impl<F: Future + Unpin> GivesWay<F> {
    pub fn new(work: F) -> GivesWay<F> {
        GivesWay { work, taken: Duration::ZERO }
    }
}

impl<F: Future + Unpin> Future for GivesWay<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.taken >= LONG {
            let _lowered = Lowered::begin();
            return Pin::new(&mut self.work).poll(context);
        }
        let began = Instant::now();
        let polled = Pin::new(&mut self.work).poll(context);
        self.taken += began.elapsed();
        polled
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
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Nobody>) {}
    }

    /// The niceness that its polls see, of which each takes as long as told.
    fn seen(takes: &[Duration]) -> Vec<Option<i32>> {
        let mut seen = Vec::new();
        let mut takes = takes.iter();
        let mut work = GivesWay::new(std::future::poll_fn(|_| {
            seen.push(niceness_of_this());
            let Some(takes) = takes.next() else { return Poll::Ready(()) };
            std::thread::sleep(*takes);
            Poll::Pending
        }));
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
