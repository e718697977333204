//! The process's clock: physical time at the start, monotonic from then on.

use base::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// ns since 1970 that never run backwards. All nodes of one process share it, so between them ε = 0.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    origin_ns: u64,
}

impl Clock {
    pub fn new() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { origin: Instant::now(), origin_ns: since_epoch.as_nanos() as u64 }
    }
    pub fn now(&self) -> Time {
        Time(self.origin_ns + self.origin.elapsed().as_nanos() as u64)
    }
    /// The instant at which this clock will show `time`.
    pub fn instant(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.0.saturating_sub(self.origin_ns))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
