//! The time-out for a peer's answer: from measured round trips, with back-off.
//!
//! IN: measured round trips, time-outs that have expired. OUT: how long to wait before a message is sent
//! again. KEEPS: the time-out is never shorter than the mean round trip, and doubles each time that the
//! peer stays silent, up to [`MOST_NS`].
//!
//! The estimate is that of RFC 6298: a mean and a mean deviation. It has no fixed minimum, but adds at least half
//! the mean, since a node that falls behind for a moment delays everything that it answers. An answer repeats the
//! time at which its question was sent, so that the answer to a repeated question gives the right round trip.

use crate::Time;
use crate::time::{MS, SECOND};

/// A silent peer is waited for no longer than this, unless its round trips are longer.
pub const MOST_NS: u64 = 2 * SECOND;
/// The least round trip is the one of the last one to two of these.
const LEAST_OF_NS: u64 = 30 * SECOND;
/// A round trip that is longer than the least by more than its half and this has waited in a queue.
const JITTER_NS: u64 = 10 * MS;

#[derive(Clone, Debug)]
pub struct Patience {
    /// What is waited before anything is measured.
    nominal_ns: u64,
    /// An answer may be delayed on purpose by this much.
    slack_ns: u64,
    /// `None`: nothing is measured.
    mean_ns: Option<u64>,
    deviation_ns: u64,
    /// The least round trip of this stretch of time and of the one before; when this one began.
    least_ns: (u64, u64),
    least_since: Time,
    silences: u32,
}

impl Patience {
    pub fn new(nominal_ns: u64, slack_ns: u64) -> Patience {
        Patience {
            nominal_ns,
            slack_ns,
            mean_ns: None,
            deviation_ns: 0,
            least_ns: (u64::MAX, u64::MAX),
            least_since: Time::ZERO,
            silences: 0,
        }
    }

    /// An answer came to what was sent at `sent_at`. A time that has not come yet is no measurement.
    pub fn measured(&mut self, now: Time, sent_at: Time) {
        self.silences = 0;
        if sent_at > now || sent_at == Time::ZERO {
            return;
        }
        let sample_ns = now.since(sent_at);
        match &mut self.mean_ns {
            None => (self.mean_ns, self.deviation_ns) = (Some(sample_ns), sample_ns / 2),
            Some(mean_ns) => {
                let error_ns = mean_ns.abs_diff(sample_ns);
                self.deviation_ns = (3 * self.deviation_ns + error_ns) / 4;
                *mean_ns = (7 * *mean_ns + sample_ns) / 8;
            }
        }
        if now > self.least_since + LEAST_OF_NS {
            self.least_ns = (u64::MAX, self.least_ns.0);
            self.least_since = now;
        }
        self.least_ns.0 = self.least_ns.0.min(sample_ns);
    }

    /// A message of the peer has arrived.
    pub fn heard(&mut self) {
        self.silences = 0;
    }

    /// The peer was silent for as long as was to be waited.
    pub fn silent(&mut self) {
        self.silences = self.silences.saturating_add(1);
    }

    /// How often that was so since the peer was heard last.
    pub fn silences(&self) -> u32 {
        self.silences
    }

    /// How long to wait from now on.
    pub fn ns(&self) -> u64 {
        let once_ns = match self.mean_ns {
            None => self.nominal_ns,
            Some(mean_ns) => mean_ns + (4 * self.deviation_ns).max(mean_ns / 2) + self.slack_ns,
        };
        let doubled_ns = once_ns.saturating_mul(1 << self.silences.min(16));
        doubled_ns.min(MOST_NS.max(once_ns))
    }

    /// What a round trip takes.
    pub fn mean_ns(&self) -> u64 {
        self.mean_ns.unwrap_or(self.nominal_ns)
    }

    /// Whether answers take much longer than they could: a node or a link on the path is overloaded.
    pub fn is_queueing(&self) -> bool {
        let least_ns = self.least_ns.0.min(self.least_ns.1);
        self.mean_ns.is_some_and(|mean_ns| mean_ns > (least_ns + least_ns / 2).saturating_add(JITTER_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_follows_what_is_measured() {
        let mut patience = Patience::new(300 * MS, 4 * MS);
        assert_eq!(patience.ns(), 300 * MS);
        let mut now = Time::from_ms(1000);
        let mut measure = |patience: &mut Patience, trip_ns: u64| {
            now = now + trip_ns;
            patience.measured(now, now - trip_ns);
        };
        (0..100).for_each(|_| measure(&mut patience, 100 * MS));
        assert!((150 * MS..160 * MS).contains(&patience.ns()), "{}", patience.ns());
        assert!(!patience.is_queueing());
        // A peer that has more and more to do is waited for before anything is sent to it again.
        for n in 1..40 {
            let trip_ns = (100 + 10 * n) * MS;
            assert!(patience.ns() > trip_ns, "{} after {n}", patience.ns());
            measure(&mut patience, trip_ns);
        }
        assert!(patience.is_queueing());
        (0..60).for_each(|_| measure(&mut patience, 100 * MS));
        assert!(patience.ns() < 170 * MS && !patience.is_queueing());
    }

    #[test]
    fn a_silent_peer_is_waited_for_longer_each_time() {
        let mut patience = Patience::new(20 * MS, 0);
        let waited: Vec<u64> = (0..9)
            .map(|_| {
                patience.silent();
                patience.ns() / MS
            })
            .collect();
        assert_eq!(waited, [40, 80, 160, 320, 640, 1280, 2000, 2000, 2000]);
        patience.heard();
        assert_eq!(patience.ns(), 20 * MS);
        // A time from a clock that was ahead is no measurement.
        patience.measured(Time::from_ms(5), Time::from_ms(6));
        assert_eq!(patience.ns(), 20 * MS);
    }
}
