//! The process's clock: physical time at the start, monotonic from then on; and what a node's clock shows, which
//! may be led away from it.
//!
//! KEEPS: readings never run backwards. A clock that is led away is slewed, never stepped.

use base::Time;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How fast a clock goes astray and comes back: a nanosecond in so many.
const SLEW: i64 = 4;

/// The closest of so many readings counts.
const READINGS: usize = 8;

/// ns since 1970 that never run backwards. All nodes of one process share it, so between them ε = 0, unless some
/// are led astray ([`Clock::lead_astray`]).
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    origin_ns: u64,
    astray: Arc<Astray>,
}

/// How far a clock is from the one it was made of.
#[derive(Debug, Default)]
struct Astray {
    /// Most clocks never are; they do not look further.
    ever: AtomicBool,
    way: Mutex<Option<Way>>,
}

/// From one offset to another, in ns, beginning at an instant.
#[derive(Clone, Copy, Debug)]
struct Way {
    since: Instant,
    from_ns: i64,
    to_ns: i64,
}

impl Way {
    fn offset_ns(&self, now: Instant) -> i64 {
        let gone_ns = now.saturating_duration_since(self.since).as_nanos() as i64 / SLEW;
        let left_ns = self.to_ns - self.from_ns;
        self.from_ns + left_ns.signum() * gone_ns.min(left_ns.abs())
    }
}

impl Clock {
    /// Reads the time of day, between two readings of the monotonic clock that lie close together: a thread that is
    /// interrupted between them would set the clock wrong by that long, for the life of the process.
    pub fn new() -> Clock {
        let reading = || {
            let before = Instant::now();
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let took = before.elapsed();
            (took, before + took / 2, since_epoch.as_nanos() as u64)
        };
        let closest = (0..READINGS).map(|_| reading()).min_by_key(|(took, ..)| *took);
        let (_, origin, origin_ns) = closest.expect("there are readings");
        Clock { origin, origin_ns, astray: Arc::default() }
    }
    /// One that shows more than `least` from its beginning: waits until it does, or, if that would take longer than
    /// `patience`, is ahead of the machine's clock from now on.
    pub fn after(least: Time, patience: Duration) -> Clock {
        let mut clock = Clock::new();
        let lacking = Duration::from_nanos((least.0 + 1).saturating_sub(clock.now().0));
        match lacking <= patience {
            true => std::thread::sleep(lacking),
            false => {
                tracing::warn!(
                    "the machine's clock was set back by {lacking:?}; nodes go on where they were"
                );
                clock.origin_ns += lacking.as_nanos() as u64;
            }
        }
        clock
    }
    /// One that shows the same, and can be led astray by itself.
    pub fn another(&self) -> Clock {
        Clock { astray: Arc::default(), ..self.clone() }
    }
    pub fn now(&self) -> Time {
        let now = Instant::now();
        let shown_ns = self.origin_ns + now.saturating_duration_since(self.origin).as_nanos() as u64;
        Time(shown_ns.saturating_add_signed(self.offset_at(now)))
    }
    /// The instant at which this clock will show `time`, if it is not led elsewhere meanwhile.
    pub fn instant(&self, time: Time) -> Instant {
        let shown_ns = time.0.saturating_add_signed(-self.offset_ns());
        self.origin + Duration::from_nanos(shown_ns.saturating_sub(self.origin_ns))
    }
    /// How far it is from what it was made of, in ns.
    pub fn offset_ns(&self) -> i64 {
        self.offset_at(Instant::now())
    }
    /// From now on it goes to that offset, and stays there. 0: back.
    pub fn lead_astray(&self, offset_ns: i64) {
        let now = Instant::now();
        let mut way = self.astray.way.lock();
        let from_ns = way.map_or(0, |way| way.offset_ns(now));
        *way = Some(Way { since: now, from_ns, to_ns: offset_ns });
        self.astray.ever.store(true, Relaxed);
    }
    fn offset_at(&self, now: Instant) -> i64 {
        if !self.astray.ever.load(Relaxed) {
            return 0;
        }
        self.astray.way.lock().map_or(0, |way| way.offset_ns(now))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_more_than_it_may_have_shown_before() {
        let now = Clock::new().now();
        for ahead_ms in [0, 20, 60_000] {
            let least = now + ahead_ms * 1_000_000;
            assert!(Clock::after(least, Duration::from_millis(100)).now() > least, "{ahead_ms} ms");
        }
    }

    #[test]
    fn a_clock_goes_astray_and_back_and_never_backwards() {
        let now = Instant::now();
        let at = |way: &Way, ms: u64| way.offset_ns(now + Duration::from_millis(ms)) / 1_000_000;
        let there = Way { since: now, from_ns: 0, to_ns: -50_000_000 };
        assert_eq!([0, 100, 200, 500].map(|ms| at(&there, ms)), [0, -25, -50, -50]);
        let back = Way { since: now, from_ns: -50_000_000, to_ns: 0 };
        assert_eq!([0, 100, 300].map(|ms| at(&back, ms)), [-50, -25, 0]);
        let (one, other) = (Clock::new(), Clock::new().another());
        one.lead_astray(-1_000_000_000);
        let mut last = one.now();
        for _ in 0..1000 {
            let shown = one.now();
            assert!(last <= shown);
            last = shown;
        }
        assert_eq!(other.offset_ns(), 0);
    }
}
