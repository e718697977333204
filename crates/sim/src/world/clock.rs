//! A machine's clock: true time plus an error that wanders within ±ε.
//!
//! KEEPS: |reading − true time| ≤ ε, unless a fault leads it astray; a later reading is never smaller. The error is slewed along
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
    /// Somewhere within this, wandering slowly: better than the bound that the nodes rely on.
    Kept { ns: u64 },
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
    /// Beyond that error, from an instant on: so much then, and so many ns more with each ms. Beyond all bounds.
    astray: Option<(Time, i64, i64)>,
}

impl Clock {
    pub fn new(model: ClockModel, bound_ns: u64, rng: Rng) -> Clock {
        let bound_ns = match model {
            ClockModel::Perfect => 0,
            ClockModel::Kept { ns } => ns as i64,
            _ => bound_ns as i64,
        };
        let mut clock =
            Clock { model, bound_ns, rng, from: (Time::ZERO, 0), to: (Time::ZERO, 0), astray: None };
        clock.to.1 = clock.draw();
        clock
    }
    /// What the clock shows at a true time.
    pub fn read(&mut self, now: Time) -> Time {
        let error = self.error(now) + self.astray_ns(now);
        Time((now.0 as i64 + error) as u64)
    }
    /// From now on the clock gains (or loses) this many ns with each ms, whatever its bound.
    pub fn stray(&mut self, now: Time, ns_per_ms: i64) {
        assert!(ns_per_ms.abs() <= MS as i64 / 2, "a clock goes forward");
        self.astray = Some((now, self.astray_ns(now), ns_per_ms));
    }
    /// From now on it comes back, as fast as slewing allows, and stays.
    pub fn mend(&mut self, now: Time) {
        let off_ns = self.astray_ns(now);
        self.astray = (off_ns != 0).then_some((now, off_ns, -off_ns.signum() * MS as i64 / 5));
    }
    fn astray_ns(&self, now: Time) -> i64 {
        let Some((since, ns, per_ms)) = self.astray else { return 0 };
        let gone = (i128::from(now.since(since)) * i128::from(per_ms) / i128::from(MS)) as i64;
        // One that comes back does not go beyond.
        if ns != 0 && ns.signum() != per_ms.signum() && gone.abs() >= ns.abs() { 0 } else { ns + gone }
    }
    fn error(&mut self, now: Time) -> i64 {
        if self.bound_ns == 0 {
            return 0;
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
        error
    }
    fn draw(&mut self) -> i64 {
        match self.model {
            ClockModel::Perfect => 0,
            ClockModel::Wander | ClockModel::Kept { .. } => self.rng.between(-self.bound_ns, self.bound_ns),
            ClockModel::Extremes => *self.rng.pick(&[-self.bound_ns, self.bound_ns]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_strays_leaves_its_bound_comes_back_and_never_turns_back() {
        for ns_per_ms in [50_000, -50_000] {
            let mut clock = Clock::new(ClockModel::Kept { ns: MS }, 100 * MS, Rng::new(7));
            let (mut last, mut widest) = (Time::ZERO, 0);
            for step in 0..50_000u64 {
                let now = Time(10_000 * MS + step * MS / 10);
                match step {
                    5_000 => clock.stray(now, ns_per_ms),
                    20_000 => clock.mend(now),
                    _ => {}
                }
                let shown = clock.read(now);
                assert!(last <= shown);
                last = shown;
                let off_ns = shown.0.abs_diff(now.0);
                widest = off_ns.max(widest);
                assert!(off_ns <= MS || (5_000..25_000).contains(&step), "{step}: {off_ns}");
            }
            // For a second and a half, 50 ms each second.
            assert!((74 * MS..=76 * MS).contains(&widest), "{widest}");
        }
    }

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
