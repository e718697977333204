//! HATtrick's picture of a hybrid system: how much of its throughput of transactions is left beside queries, and the other way
//! round; and the search for the most streams of queries at which a rate of transactions holds.
//!
//! IN: throughputs of a grid of terminals and streams. OUT: the envelope of the points that no other point beats, the peaks
//! of either side alone, lines of a fixed number of terminals or of streams, and the share of the bounding box that the
//! envelope covers.
//! KEEPS: a point is on the envelope if and only if no other has as much of one throughput and more of the other; a number of
//! streams that [`Search`] answers has held twice.

use std::collections::BTreeSet;

/// What one point of the grid did.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Point {
    pub terminals: u32,
    pub streams: u32,
    pub tps: f64,
    pub queries_per_hour: f64,
}

/// The throughputs of either side alone: the corner of the bounding box.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Peaks {
    pub tps: f64,
    pub queries_per_hour: f64,
}

/// All pairs of a number of terminals and a number of streams, fewest first, zero of either among them; without the pair of
/// zeros.
pub fn grid(terminals: &[u32], streams: &[u32]) -> Vec<(u32, u32)> {
    let with_zero = |list: &[u32]| list.iter().copied().chain([0]).collect::<BTreeSet<u32>>();
    let streams = with_zero(streams);
    with_zero(terminals)
        .into_iter()
        .flat_map(|t| streams.iter().map(move |a| (t, *a)))
        .filter(|pair| *pair != (0, 0))
        .collect()
}

/// The best of transactions without queries, and of queries without transactions.
pub fn peaks(points: &[Point]) -> Peaks {
    let best = |of: &dyn Fn(&Point) -> Option<f64>| points.iter().filter_map(of).fold(0.0, f64::max);
    Peaks {
        tps: best(&|p| (p.streams == 0).then_some(p.tps)),
        queries_per_hour: best(&|p| (p.terminals == 0).then_some(p.queries_per_hour)),
    }
}

/// The points that no other beats in both, by growing throughput of transactions.
pub fn envelope(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| b.tps.total_cmp(&a.tps).then(b.queries_per_hour.total_cmp(&a.queries_per_hour)));
    let mut out: Vec<Point> = Vec::new();
    for point in sorted {
        if out.last().is_none_or(|last| point.queries_per_hour > last.queries_per_hour) {
            out.push(point);
        }
    }
    out.reverse();
    out
}

/// Which part of the rectangle of both peaks lies under the straight lines through the envelope's points: 1/2 if either
/// throughput is traded for the other in proportion, 1 if neither costs the other anything. `None` without a peak of both.
pub fn covered(points: &[Point]) -> Option<f64> {
    let peaks = peaks(points);
    if peaks.tps <= 0.0 || peaks.queries_per_hour <= 0.0 {
        return None;
    }
    let within =
        |p: &Point| ((p.tps / peaks.tps).min(1.0), (p.queries_per_hour / peaks.queries_per_hour).min(1.0));
    let mut line: Vec<(f64, f64)> = envelope(points).iter().map(within).collect();
    // From the peak of queries alone to that of transactions alone, whichever points lie between.
    line.insert(0, (0.0, 1.0));
    line.push((1.0, 0.0));
    line.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let area = line.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum();
    Some(area)
}

/// Points of a plot: transactions per second, queries per hour.
type Line = Vec<(f64, f64)>;

/// The lines of each number of terminals, over growing numbers of streams.
pub fn by_terminals(points: &[Point]) -> Vec<(u32, Line)> {
    lines(points, |p| (p.terminals, p.streams))
}

/// The lines of each number of streams, over growing numbers of terminals.
pub fn by_streams(points: &[Point]) -> Vec<(u32, Line)> {
    lines(points, |p| (p.streams, p.terminals))
}

fn lines(points: &[Point], of: fn(&Point) -> (u32, u32)) -> Vec<(u32, Line)> {
    let numbers: BTreeSet<u32> = points.iter().map(|p| of(p).0).filter(|n| *n > 0).collect();
    let line = |number: u32| -> (u32, Line) {
        let mut of_it: Vec<&Point> = points.iter().filter(|p| of(p).0 == number).collect();
        of_it.sort_by_key(|p| of(p).1);
        (number, of_it.iter().map(|p| (p.tps, p.queries_per_hour)).collect())
    };
    numbers.into_iter().map(line).collect()
}

/// How many queries were done between two instants, from the begin and the length of each: one that lies partly in between
/// counts by that part. All in ms.
pub fn done_within(queries: impl IntoIterator<Item = (f64, f64)>, from_ms: f64, to_ms: f64) -> f64 {
    let part = |(begin, length): (f64, f64)| {
        if length <= 0.0 {
            return f64::from(u8::from(from_ms <= begin && begin < to_ms));
        }
        ((begin + length).min(to_ms) - begin.max(from_ms)).max(0.0) / length
    };
    queries.into_iter().map(part).sum()
}

/// What to try next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    pub streams: u32,
    /// It has held before and is tried again.
    pub confirms: bool,
}

/// Looks for the most streams at which a rate holds: doubles them until it does not, halves the gap, and tries the result
/// once more. A result that does not hold the second time counts as one that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    held: BTreeSet<u32>,
    /// The fewest that did not hold.
    fails: Option<u32>,
    limit: u32,
    confirmed: Option<u32>,
}

impl Search {
    /// `limit`: more are not tried.
    pub fn new(limit: u32) -> Search {
        Search { held: BTreeSet::new(), fails: None, limit: limit.max(1), confirmed: None }
    }
    /// `None` once it is over.
    pub fn next_trial(&self) -> Option<Trial> {
        if self.confirmed.is_some() || self.fails == Some(0) {
            return None;
        }
        let first = |streams| Some(Trial { streams, confirms: false });
        let Some(most) = self.held.last().copied() else {
            return first(self.fails.map_or(1, |fails| fails / 2));
        };
        match self.fails {
            None if most < self.limit => first(most.saturating_mul(2).clamp(1, self.limit)),
            Some(fails) if fails - most > 1 => first(most + (fails - most) / 2),
            _ => Some(Trial { streams: most, confirms: true }),
        }
    }
    /// Takes what a trial came to.
    pub fn told(&mut self, trial: Trial, holds: bool) {
        if !holds {
            self.fails = Some(self.fails.map_or(trial.streams, |fails| fails.min(trial.streams)));
            self.held.retain(|streams| *streams < trial.streams);
        } else if trial.confirms {
            self.confirmed = Some(trial.streams);
        } else {
            self.held.insert(trial.streams);
        }
    }
    /// The most streams that held twice; `None` before it is over, and if the rate does not hold without any.
    pub fn found(&self) -> Option<u32> {
        self.confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(terminals: u32, streams: u32, tps: f64, queries_per_hour: f64) -> Point {
        Point { terminals, streams, tps, queries_per_hour }
    }
    fn measured() -> Vec<Point> {
        vec![
            point(0, 1, 0.0, 50.0),
            point(0, 2, 0.0, 80.0),
            point(1, 0, 60.0, 0.0),
            point(1, 1, 50.0, 40.0),
            point(1, 2, 30.0, 60.0),
            point(2, 0, 100.0, 0.0),
            point(2, 1, 70.0, 40.0),
            point(2, 2, 40.0, 30.0),
        ]
    }

    #[test]
    fn the_grid_holds_either_side_alone_and_no_pair_twice() {
        assert_eq!(grid(&[2, 0, 2], &[1]), [(0, 1), (2, 0), (2, 1)]);
        assert!(grid(&[], &[]).is_empty());
    }

    #[test]
    fn the_envelope_is_of_the_points_that_none_beats() {
        let points = measured();
        assert_eq!(peaks(&points), Peaks { tps: 100.0, queries_per_hour: 80.0 });
        let envelope: Vec<(f64, f64)> =
            envelope(&points).iter().map(|p| (p.tps, p.queries_per_hour)).collect();
        assert_eq!(envelope, [(0.0, 80.0), (30.0, 60.0), (70.0, 40.0), (100.0, 0.0)]);
        assert_eq!(super::envelope(&[point(1, 0, 5.0, 0.0), point(2, 0, 5.0, 0.0)]).len(), 1);
    }

    #[test]
    fn a_proportional_trade_covers_half_of_the_box_and_isolation_all_of_it() {
        let alone = [point(0, 1, 0.0, 80.0), point(1, 0, 100.0, 0.0)];
        let with = |tps, queries| covered(&[alone[0], alone[1], point(1, 1, tps, queries)]).unwrap();
        assert!((covered(&alone).unwrap() - 0.5).abs() < 1e-9);
        assert!((with(50.0, 40.0) - 0.5).abs() < 1e-9);
        assert!((with(100.0, 80.0) - 1.0).abs() < 1e-9);
        // Noise beyond a peak is no more than all.
        assert!((with(103.0, 81.0) - 1.0).abs() < 1e-9);
        assert_eq!(covered(&alone[..1]), None);
    }

    #[test]
    fn lines_of_a_fixed_number_go_over_the_other_in_order() {
        let points = measured();
        assert_eq!(by_terminals(&points)[1], (2, vec![(100.0, 0.0), (70.0, 40.0), (40.0, 30.0)]));
        assert_eq!(by_streams(&points)[0], (1, vec![(0.0, 50.0), (50.0, 40.0), (70.0, 40.0)]));
    }

    #[test]
    fn a_query_counts_by_the_part_that_lies_within() {
        let queries = [(0.0, 50.0), (90.0, 20.0), (150.0, 10.0), (180.0, 40.0), (220.0, 10.0), (150.0, 0.0)];
        assert!((done_within(queries, 100.0, 200.0) - 3.0).abs() < 1e-9);
        assert!((done_within([(0.0, 400.0)], 100.0, 200.0) - 0.25).abs() < 1e-9);
    }

    /// Tries until it is over; `holds` is asked with the number of the trial.
    fn search(limit: u32, holds: impl Fn(Trial) -> bool) -> (Option<u32>, Vec<u32>) {
        let mut search = Search::new(limit);
        let mut tried = Vec::new();
        while let Some(trial) = search.next_trial() {
            tried.push(trial.streams);
            assert!(tried.len() < 100, "{tried:?}");
            search.told(trial, holds(trial));
        }
        (search.found(), tried)
    }

    #[test]
    fn the_search_doubles_halves_the_gap_and_confirms() {
        assert_eq!(search(64, |t| t.streams <= 6), (Some(6), vec![1, 2, 4, 8, 6, 7, 6]));
        assert_eq!(search(64, |t| t.streams <= 1), (Some(1), vec![1, 2, 1]));
        assert_eq!(search(64, |t| t.streams == 0), (Some(0), vec![1, 0, 0]));
        assert_eq!(search(64, |_| false), (None, vec![1, 0]));
        assert_eq!(search(6, |_| true), (Some(6), vec![1, 2, 4, 6, 6]));
        for most in 0..40 {
            assert_eq!(search(64, |t| t.streams <= most).0, Some(most));
        }
    }

    #[test]
    fn what_held_once_only_is_not_the_answer() {
        assert_eq!(search(64, |t| t.streams <= 5 && !(t.confirms && t.streams == 5)).0, Some(4));
        assert_eq!(search(4, |t| !t.confirms), (None, vec![1, 2, 4, 4, 3, 3, 2, 1, 0, 0]));
    }
}
