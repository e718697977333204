//! A uniform sample of a stream of dates, sorted at all times, so that quantiles cost next to nothing.
//!
//! KEEPS: after n values every one of them is in the sample with the same chance, `capacity / n` (algorithm R); the sorted
//! view holds exactly the sample. With [`sample_size`] values the share of the stream below a quantile of the sample is
//! within δ of what was asked, with confidence ρ.

use base::rng::Rng;

/// Values that a sample needs for an error of at most `delta` with this confidence (Hoeffding): 3.8 million for 0.1 %
/// and 99.9 %.
pub fn sample_size(delta: f64, confidence: f64) -> usize {
    ((2f64.ln() - (1.0 - confidence).ln()) / (2.0 * delta * delta)).ceil() as usize
}

/// A sample of a stream.
#[derive(Clone, Debug)]
pub struct Reservoir {
    capacity: usize,
    seen: u64,
    /// By place, for replacement.
    places: Vec<i64>,
    sorted: Ranked,
    rng: Rng,
}

impl Reservoir {
    pub fn new(capacity: usize, rng: Rng) -> Reservoir {
        assert!(capacity > 0, "a sample holds at least one value");
        Reservoir { capacity, seen: 0, places: Vec::new(), sorted: Ranked::default(), rng }
    }
    /// Takes the first values of the stream at once.
    pub fn fill(&mut self, values: impl IntoIterator<Item = i64>) {
        assert_eq!(self.seen, 0, "the sample has begun");
        for value in values {
            if let Some(place) = self.place() {
                match place.cmp(&self.places.len()) {
                    std::cmp::Ordering::Less => self.places[place] = value,
                    _ => self.places.push(value),
                }
            }
        }
        self.sorted = Ranked::of(self.places.clone());
    }
    /// Takes the next value of the stream.
    pub fn add(&mut self, value: i64) {
        let Some(place) = self.place() else { return };
        if place < self.places.len() {
            let old = std::mem::replace(&mut self.places[place], value);
            self.sorted.remove(old);
        } else {
            self.places.push(value);
        }
        self.sorted.insert(value);
    }
    /// Where the next value goes; `None` if it is not sampled.
    fn place(&mut self) -> Option<usize> {
        self.seen += 1;
        if self.places.len() < self.capacity {
            return Some(self.places.len());
        }
        let place = self.rng.below(self.seen) as usize;
        (place < self.capacity).then_some(place)
    }
    /// Values of the stream so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }
    pub fn len(&self) -> usize {
        self.places.len()
    }
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// The parameter `x` with which `value < x` holds for a share of `alpha`.
    pub fn quantile(&self, alpha: f64) -> Option<i64> {
        let last = self.len().checked_sub(1)?;
        self.sorted.nth(((alpha * self.len() as f64).ceil() as usize).min(last))
    }
    /// The parameter `x` with which `value <= x` holds for a share of `alpha`.
    pub fn quantile_inclusive(&self, alpha: f64) -> Option<i64> {
        let last = self.len().checked_sub(1)?;
        self.sorted
            .nth((alpha * self.len() as f64).ceil().max(1.0) as usize - 1)
            .or_else(|| self.sorted.nth(last))
    }
    /// The share of the sample below a value.
    pub fn share_below(&self, value: i64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        self.sorted.rank(value) as f64 / self.len() as f64
    }
}

/// A multiset with ranks: runs of at most [`RUN_MAX`] sorted values, in order.
#[derive(Clone, Default, Debug)]
struct Ranked {
    runs: Vec<Vec<i64>>,
}

const RUN_MAX: usize = 2048;

impl Ranked {
    fn of(mut values: Vec<i64>) -> Ranked {
        values.sort_unstable();
        Ranked { runs: values.chunks(RUN_MAX / 2).map(<[i64]>::to_vec).collect() }
    }
    /// The first run whose last value is not below this one, or the last run.
    fn run_of(&self, value: i64) -> usize {
        let at = self.runs.partition_point(|run| *run.last().expect("runs are not empty") < value);
        at.min(self.runs.len().saturating_sub(1))
    }
    fn insert(&mut self, value: i64) {
        if self.runs.is_empty() {
            self.runs.push(vec![value]);
            return;
        }
        let n = self.run_of(value);
        let run = &mut self.runs[n];
        run.insert(run.partition_point(|v| *v < value), value);
        if run.len() > RUN_MAX {
            let upper = run.split_off(RUN_MAX / 2);
            self.runs.insert(n + 1, upper);
        }
    }
    fn remove(&mut self, value: i64) {
        let n = self.run_of(value);
        let run = &mut self.runs[n];
        let at = run.binary_search(&value).expect("a value is removed that was inserted");
        run.remove(at);
        if run.is_empty() {
            self.runs.remove(n);
        }
    }
    /// The n-th smallest, from 0.
    fn nth(&self, mut n: usize) -> Option<i64> {
        for run in &self.runs {
            if n < run.len() {
                return Some(run[n]);
            }
            n -= run.len();
        }
        None
    }
    /// How many are below.
    fn rank(&self, value: i64) -> usize {
        let full = self.runs.partition_point(|run| *run.last().expect("runs are not empty") < value);
        let before: usize = self.runs[..full].iter().map(Vec::len).sum();
        before + self.runs.get(full).map_or(0, |run| run.partition_point(|v| *v < value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_size_is_for_a_thousandth() {
        assert_eq!(sample_size(0.001, 0.999) / 10_000, 380);
    }

    #[test]
    fn the_sorted_view_is_the_sample() {
        let mut sample = Reservoir::new(3000, Rng::new(1));
        let mut rng = Rng::new(2);
        sample.fill((0..2500).map(|_| rng.between(0, 500)));
        for _ in 0..20_000 {
            sample.add(rng.between(200, 900));
        }
        let mut expected = sample.places.clone();
        expected.sort_unstable();
        let sorted: Vec<i64> = sample.sorted.runs.concat();
        assert_eq!(sorted, expected);
        assert!(sample.sorted.runs.iter().all(|run| !run.is_empty() && run.len() <= RUN_MAX));
        for value in [0, 250, 500, 901] {
            assert_eq!(sample.sorted.rank(value), expected.partition_point(|v| *v < value));
        }
        assert_eq!((sample.len(), sample.seen()), (3000, 22_500));
    }

    #[test]
    fn quantiles_are_clamped_and_an_empty_sample_has_none() {
        let mut sample = Reservoir::new(10, Rng::new(1));
        assert_eq!((sample.quantile(0.5), sample.quantile_inclusive(0.5)), (None, None));
        sample.fill([30, 10, 20, 40]);
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|a| sample.quantile(a).unwrap()), [10, 20, 30, 40]);
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|a| sample.quantile_inclusive(a).unwrap()), [10, 10, 20, 40]);
        assert!((sample.share_below(25) - 0.5).abs() < 1e-9);
    }

    /// δ = 3 % at 99.9 % needs 4,223 values; the stream shifts while it runs, as dates do.
    #[test]
    fn the_error_of_a_quantile_is_within_its_bound_on_shifting_data() {
        let (delta, trials) = (0.03, 1000);
        let capacity = sample_size(delta, 0.999);
        let mut outside = 0;
        let world = Rng::new(11);
        for trial in 0..trials {
            let mut rng = world.fork_nth("values", trial);
            let mut sample = Reservoir::new(capacity, world.fork_nth("sample", trial));
            let values: Vec<i64> = (0..8000).map(|n| n / 4 + rng.between(0, 2000)).collect();
            sample.fill(values[..4000].iter().copied());
            values[4000..].iter().for_each(|v| sample.add(*v));
            let alpha = 0.1 + 0.8 * rng.unit();
            let parameter = sample.quantile(alpha).unwrap();
            let real = values.iter().filter(|v| **v < parameter).count() as f64 / values.len() as f64;
            outside += u32::from((real - alpha).abs() > delta);
        }
        assert!(outside <= 1, "{outside} of {trials} outside the bound");
    }

    #[test]
    fn a_fixed_parameter_drifts_where_a_quantile_stays() {
        let mut sample = Reservoir::new(2000, Rng::new(1));
        let mut rng = Rng::new(2);
        let loaded: Vec<i64> = (0..5000).map(|_| rng.between(0, 1000)).collect();
        sample.fill(loaded.iter().copied());
        let (alpha, mut values) = (0.4, loaded);
        let fixed = sample.quantile(alpha).unwrap();
        for n in 0..5000 {
            let value = 1000 + n / 10;
            values.push(value);
            sample.add(value);
        }
        let share = |x: i64| values.iter().filter(|v| **v < x).count() as f64 / values.len() as f64;
        assert!((share(sample.quantile(alpha).unwrap()) - alpha).abs() < 0.04);
        assert!((share(fixed) - alpha / 2.0).abs() < 0.03, "half of it is left: {}", share(fixed));
    }
}
