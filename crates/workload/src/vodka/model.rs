//! Latency of a query as a function of the tables' sizes, so that systems can be compared at equal size.
//!
//! `L(S) = Σ (a·S·ln S + b·S + c·ln S) + d` over the tables that the query reads and that change, by Huber's loss: an
//! answer that was late for another reason does not bend the curve. Tables grow together, so the terms are nearly
//! collinear: sizes are scaled by the first observation, and a ridge keeps the system solvable. Predictions inside the observed
//! range are sound, single coefficients mean nothing.
//!
//! IN: sizes and latencies. OUT: predictions. KEEPS: the same pairs give the same model.

/// What a coefficient may cost. The terms are nearly collinear: with too low a price noise decides about coefficients
/// that cancel each other, and a little beyond the data they no longer do.
const RIDGES: [f64; 5] = [1e-6, 1e-4, 1e-2, 1.0, 1e6];
/// Observations from which on the price is chosen by the later quarter of them.
const CHOOSING_MIN: usize = 12;
const ROUNDS: usize = 50;

/// One execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    /// Rows of each table of the query, at its begin; the same tables in each observation.
    pub sizes: Vec<f64>,
    pub latency_ms: f64,
}

/// A fitted model.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// Sizes of the first observation.
    pub first: Vec<f64>,
    /// Mean and spread of each term.
    pub scales: Vec<(f64, f64)>,
    /// Per term, then the constant.
    pub coefficients: Vec<f64>,
    /// Where Huber's loss turns from square to linear, ms.
    pub delta_ms: f64,
    /// Smallest and greatest total of sizes that were observed.
    pub observed: (f64, f64),
}

impl Model {
    /// `None` with fewer than three observations, or with an empty table in the first. In the order of their execution:
    /// the price of coefficients is the one that predicts the later ones best from the earlier.
    pub fn fit(observations: &[Observation]) -> Option<Model> {
        let (earlier, later) = observations.split_at(observations.len() - observations.len() / 4);
        let off = |ridge: f64| {
            let model = Model::fit_at(earlier, ridge)?;
            Some(median(later.iter().map(|o| (model.predict_ms(&o.sizes) - o.latency_ms).abs()).collect()))
        };
        let mut best = (RIDGES[0], f64::INFINITY);
        for ridge in RIDGES.into_iter().filter(|_| observations.len() >= CHOOSING_MIN) {
            if let Some(off) = off(ridge).filter(|off| *off < best.1) {
                best = (ridge, off);
            }
        }
        Model::fit_at(observations, best.0)
    }

    fn fit_at(observations: &[Observation], ridge: f64) -> Option<Model> {
        let first = observations.first().filter(|_| observations.len() >= 3)?.sizes.clone();
        if first.iter().any(|size| *size <= 0.0) {
            return None;
        }
        let totals = || observations.iter().map(|o| o.sizes.iter().sum::<f64>());
        let raw: Vec<Vec<f64>> = observations.iter().map(|o| terms(&o.sizes, &first)).collect();
        let scales: Vec<(f64, f64)> = (0..raw[0].len())
            .map(|n| {
                let mean = raw.iter().map(|row| row[n]).sum::<f64>() / raw.len() as f64;
                let variance = raw.iter().map(|row| (row[n] - mean).powi(2)).sum::<f64>() / raw.len() as f64;
                (mean, variance.sqrt().max(1e-9))
            })
            .collect();
        let mut model = Model {
            first,
            coefficients: vec![0.0; scales.len() + 1],
            scales,
            delta_ms: f64::INFINITY,
            observed: (totals().fold(f64::INFINITY, f64::min), totals().fold(0.0, f64::max)),
        };
        let rows: Vec<Vec<f64>> = raw.iter().map(|row| model.scaled(row)).collect();
        let latencies: Vec<f64> = observations.iter().map(|o| o.latency_ms).collect();
        // Starts from the median: least squares would start from where outliers drag it.
        *model.coefficients.last_mut().expect("there is a constant") = median(latencies.clone());
        for _ in 0..ROUNDS {
            let off: Vec<f64> = rows
                .iter()
                .zip(&latencies)
                .map(|(row, y)| (y - dot(row, &model.coefficients)).abs())
                .collect();
            // 1.4826·MAD estimates the spread; 1.345 of it keeps 95 % of least squares' efficiency.
            model.delta_ms = (1.345 * 1.4826 * median(off.clone())).max(1e-9);
            let weights: Vec<f64> =
                off.iter().map(|off| (model.delta_ms / off.max(1e-12)).min(1.0)).collect();
            let next = least_squares(&rows, &latencies, &weights, ridge)?;
            let moved = next.iter().zip(&model.coefficients).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            model.coefficients = next;
            if moved < 1e-9 {
                break;
            }
        }
        Some(model)
    }

    /// The latency at these sizes, not below 0.
    pub fn predict_ms(&self, sizes: &[f64]) -> f64 {
        dot(&self.scaled(&terms(sizes, &self.first)), &self.coefficients).max(0.0)
    }
    /// Mean of the predictions against mean of what was measured: the paper's error.
    pub fn mean_error(&self, held_out: &[Observation]) -> Option<f64> {
        let mean =
            |of: &dyn Fn(&Observation) -> f64| held_out.iter().map(of).sum::<f64>() / held_out.len() as f64;
        let actual = mean(&|o| o.latency_ms);
        (actual > 0.0).then(|| (mean(&|o| self.predict_ms(&o.sizes)) - actual).abs() / actual)
    }
    /// The share by which a size lies outside of what was observed; 0 inside.
    pub fn extrapolation(&self, sizes: &[f64]) -> f64 {
        let total: f64 = sizes.iter().sum();
        let (low, high) = self.observed;
        ((low - total).max(total - high) / high).max(0.0)
    }
    fn scaled(&self, terms: &[f64]) -> Vec<f64> {
        let scaled = terms.iter().zip(&self.scales).map(|(term, (mean, spread))| (term - mean) / spread);
        scaled.chain([1.0]).collect()
    }
}

/// Three terms per table, of its size as a multiple of the first.
fn terms(sizes: &[f64], first: &[f64]) -> Vec<f64> {
    let of = |(size, first): (&f64, &f64)| {
        let s = (size / first).max(1e-9);
        [s * s.ln(), s, s.ln()]
    };
    sizes.iter().zip(first).flat_map(of).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Weighted least squares with a ridge on all but the constant.
fn least_squares(rows: &[Vec<f64>], y: &[f64], weights: &[f64], ridge: f64) -> Option<Vec<f64>> {
    let n = rows[0].len();
    let total: f64 = weights.iter().sum();
    let mut system = vec![vec![0.0; n + 1]; n];
    for ((row, y), weight) in rows.iter().zip(y).zip(weights) {
        for i in 0..n {
            for j in 0..n {
                system[i][j] += weight * row[i] * row[j];
            }
            system[i][n] += weight * row[i] * y;
        }
    }
    (0..n - 1).for_each(|i| system[i][i] += ridge * total);
    solve(system)
}

/// Gauss with pivots; the right side is the last column.
fn solve(mut m: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = m.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| m[*a][column].abs().total_cmp(&m[*b][column].abs()))?;
        if m[pivot][column].abs() < 1e-14 {
            return None;
        }
        m.swap(column, pivot);
        for row in 0..n {
            if row != column {
                let factor = m[row][column] / m[column][column];
                for k in column..=n {
                    let above = m[column][k];
                    m[row][k] -= factor * above;
                }
            }
        }
    }
    Some((0..n).map(|i| m[i][n] / m[i][i]).collect())
}

/// Queries an hour of `streams` streams that each take this long for all of them.
pub fn queries_per_hour(queries: usize, total_ms: f64, streams: u32) -> f64 {
    3600.0 * queries as f64 * f64::from(streams) / (total_ms / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    fn planted(orders: f64, lines: f64) -> f64 {
        let (o, l) = (orders / 30_000.0, lines / 300_000.0);
        40.0 + 15.0 * o + 25.0 * l * l.ln() + 60.0 * l + 3.0 * l.ln()
    }

    #[test]
    fn planted_latencies_are_predicted_with_a_tenth_of_outliers() {
        let mut rng = Rng::new(3);
        let mut pairs: Vec<Observation> = (0..150)
            .map(|n| {
                let orders = 30_000.0 + 200.0 * f64::from(n);
                let lines = orders * 10.0 + rng.unit() * 500.0;
                let noise = 1.0 + 0.06 * (rng.unit() - 0.5);
                let late = if rng.chance(0.1) { 5.0 } else { 1.0 };
                Observation { sizes: vec![orders, lines], latency_ms: planted(orders, lines) * noise * late }
            })
            .collect();
        rng.shuffle(&mut pairs);
        let model = Model::fit(&pairs[..100]).unwrap();
        for held_out in &pairs[100..] {
            let real = planted(held_out.sizes[0], held_out.sizes[1]);
            let off = (model.predict_ms(&held_out.sizes) - real).abs() / real;
            assert!(off < 0.05, "{off}");
        }
        let calm: Vec<Observation> = pairs[100..].iter().filter(|o| o.latency_ms < 300.0).cloned().collect();
        assert!(model.mean_error(&calm).unwrap() < 0.05);
        // Beyond what was observed it says so.
        assert_eq!(model.extrapolation(&pairs[0].sizes), 0.0);
        assert!(model.extrapolation(&[120_000.0, 1_200_000.0]) > 0.9);
    }

    #[test]
    fn noise_over_a_small_range_does_not_become_a_slope() {
        let mut rng = Rng::new(8);
        let observation = |n: u32, rng: &mut Rng| {
            let orders = 30_000.0 * (1.0 + 0.05 * f64::from(n) / 60.0);
            Observation { sizes: vec![orders, orders * 10.0], latency_ms: 40.0 * (0.6 + 0.8 * rng.unit()) }
        };
        let all: Vec<Observation> = (0..60).map(|n| observation(n, &mut rng)).collect();
        let model = Model::fit(&all[..40]).unwrap();
        assert!(model.mean_error(&all[40..]).unwrap() < 0.15, "{:?}", model.mean_error(&all[40..]));
    }

    #[test]
    fn too_little_to_fit_is_no_model() {
        let one = Observation { sizes: vec![1.0], latency_ms: 1.0 };
        assert_eq!(Model::fit(&[one.clone(), one]), None);
        let empty = Observation { sizes: vec![0.0], latency_ms: 1.0 };
        assert_eq!(Model::fit(&vec![empty; 5]), None);
    }

    #[test]
    fn sizes_that_never_change_give_a_constant() {
        let same = Observation { sizes: vec![500.0], latency_ms: 7.0 };
        let model = Model::fit(&vec![same; 5]).unwrap();
        assert!((model.predict_ms(&[500.0]) - 7.0).abs() < 1e-6);
        assert!((queries_per_hour(22, 22_000.0, 2) - 7200.0).abs() < 1e-9);
    }
}
