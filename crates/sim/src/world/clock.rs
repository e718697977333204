//! A machine's clock: true time plus an error that wanders within ±ε.
//!
//! KEEPS: |reading − true time| ≤ ε; a later reading is never smaller. The error is slewed along
//! straight lines, never stepped.

use base::Time;
use base::rng::Rng;
use base::time::MS;

/// How clocks err, within the topology's bound ε.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockModel {
    /// Somewhere within the bound, wandering slowly.
    #[default]
    Wander,
    /// At one end of the bound or the other, and back as fast as slewing allows.
    Extremes,
    /// Right, whatever the bound.
    Perfect,
}

/// One machine's clock. Read with true times that do not decrease.
#[derive(Clone, Debug)]
pub struct Clock {
    model: ClockModel,
    bound_ns: i64,
    rng: Rng,
    /// The error goes from `from` to `to` along a straight line.
    from: (Time, i64),
    to: (Time, i64),
}

impl Clock {
    pub fn new(model: ClockModel, bound_ns: u64, rng: Rng) -> Clock {
        let bound_ns = if model == ClockModel::Perfect { 0 } else { bound_ns as i64 };
        let mut clock = Clock { model, bound_ns, rng, from: (Time::ZERO, 0), to: (Time::ZERO, 0) };
        clock.to.1 = clock.draw();
        clock
    }
    /// What the clock shows at a true time.
    pub fn read(&mut self, now: Time) -> Time {
        if self.bound_ns == 0 {
            return now;
        }
        while self.to.0 <= now {
            // At most a twentieth of real speed, so that readings go forward.
            let least_ns = 40 * self.bound_ns as u64 + 20 * MS;
            let next = (self.to.0 + least_ns + self.rng.below(5 * least_ns), self.draw());
            self.from = std::mem::replace(&mut self.to, next);
        }
        let span = i128::from(self.to.0.since(self.from.0));
        let done = i128::from(now.since(self.from.0));
        let error = self.from.1 + (i128::from(self.to.1 - self.from.1) * done / span) as i64;
        assert!(-self.bound_ns <= error && error <= self.bound_ns, "a clock left its bound");
        Time((now.0 as i64 + error) as u64)
    }
    fn draw(&mut self) -> i64 {
        match self.model {
            ClockModel::Perfect => 0,
            ClockModel::Wander => self.rng.between(-self.bound_ns, self.bound_ns),
            ClockModel::Extremes => *self.rng.pick(&[-self.bound_ns, self.bound_ns]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_stays_in_its_bound_and_never_turns_back() {
        for model in [ClockModel::Wander, ClockModel::Extremes, ClockModel::Perfect] {
            let mut clock = Clock::new(model, 3 * MS, Rng::new(7));
            let (mut last, mut widest) = (Time::ZERO, 0);
            for step in 0..20_000u64 {
                let now = Time(10_000 * MS + step * 100_003);
                let shown = clock.read(now);
                assert!(last <= shown, "{model:?}");
                widest = widest.max(shown.0.abs_diff(now.0));
                last = shown;
            }
            match model {
                ClockModel::Perfect => assert_eq!(widest, 0),
                _ => assert!(MS < widest && widest <= 3 * MS, "{model:?} strays by {widest} ns"),
            }
        }
    }
}
