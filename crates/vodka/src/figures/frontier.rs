//! Throughputs of terminals and streams beside each other, and the most streams at a fixed rate.

use serde::{Deserialize, Serialize};
use workload::vodka::frontier::{Peaks, Point, Trial, covered, envelope, peaks};

/// What a number of terminals and a number of streams did beside each other in a closed loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrontierPoint {
    pub terminals: u32,
    pub streams: u32,
    pub tps: f64,
    pub queries_per_hour: f64,
    /// HATtrick's freshness; `None` without transactions, without queries, and without `vodka_freshness`.
    pub freshness_p99_ms: Option<f64>,
    /// Streams that ended early: the figures are of the others.
    pub broken_streams: u32,
    pub failed_queries: u64,
}

impl FrontierPoint {
    fn point(&self) -> Point {
        let FrontierPoint { terminals, streams, tps, queries_per_hour, .. } = *self;
        Point { terminals, streams, tps, queries_per_hour }
    }
}

/// All points, and what they come to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FrontierFigures {
    pub points: Vec<FrontierPoint>,
    /// Transactions per second without queries.
    pub tps_peak: f64,
    /// Queries per hour without transactions.
    pub queries_per_hour_peak: f64,
    /// Numbers of terminals and of streams of the points that no other beats.
    pub envelope: Vec<(u32, u32)>,
    /// Share of the rectangle of both peaks that lies under the envelope.
    pub covered: Option<f64>,
}

impl FrontierFigures {
    pub fn add(&mut self, point: FrontierPoint) {
        self.points.push(point);
        let points = self.plain();
        let Peaks { tps, queries_per_hour } = peaks(&points);
        (self.tps_peak, self.queries_per_hour_peak) = (tps, queries_per_hour);
        self.envelope = envelope(&points).iter().map(|p| (p.terminals, p.streams)).collect();
        self.covered = covered(&points);
    }
    pub fn plain(&self) -> Vec<Point> {
        self.points.iter().map(FrontierPoint::point).collect()
    }
    pub fn is_on_envelope(&self, point: &FrontierPoint) -> bool {
        self.envelope.contains(&(point.terminals, point.streams))
    }
    /// Points of which a part of the streams broke.
    pub fn broken_count(&self) -> usize {
        self.points.iter().filter(|point| point.broken_streams > 0).count()
    }
}

/// One trial of the search for the most streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialFigures {
    pub streams: u32,
    pub confirms: bool,
    pub tps: f64,
    pub queries_per_hour: f64,
    pub broken_streams: u32,
    pub holds: bool,
}

/// The most streams at which the rate holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MostStreams {
    pub trials: Vec<TrialFigures>,
    /// `None` if the rate does not hold without streams, or the search ended early.
    pub found: Option<u32>,
    /// No more were tried: there may be more.
    pub is_limit: bool,
}

/// A rate holds within 2 % of what is asked for, while no stream breaks.
pub fn holds(point: &FrontierPoint, tps_target: f64) -> bool {
    point.tps >= 0.98 * tps_target && point.broken_streams == 0
}

impl TrialFigures {
    pub fn of(trial: Trial, point: &FrontierPoint, holds: bool) -> TrialFigures {
        TrialFigures {
            streams: trial.streams,
            confirms: trial.confirms,
            tps: point.tps,
            queries_per_hour: point.queries_per_hour,
            broken_streams: point.broken_streams,
            holds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_every_point() {
        let mut figures = FrontierFigures::default();
        for (terminals, streams, tps, queries_per_hour) in
            [(0, 1, 0.0, 90.0), (1, 0, 10.0, 0.0), (1, 1, 8.0, 60.0), (1, 2, 7.0, 50.0)]
        {
            figures.add(FrontierPoint { terminals, streams, tps, queries_per_hour, ..Default::default() });
        }
        assert_eq!((figures.tps_peak, figures.queries_per_hour_peak), (10.0, 90.0));
        assert_eq!(figures.envelope, [(0, 1), (1, 1), (1, 0)]);
        assert!(!figures.is_on_envelope(&figures.points[3]) && figures.covered.unwrap() > 0.5);
    }

    #[test]
    fn a_rate_does_not_hold_while_a_stream_is_broken() {
        let point = FrontierPoint { tps: 98.5, ..FrontierPoint::default() };
        assert!(holds(&point, 100.0) && !holds(&point, 101.0));
        assert!(!holds(&FrontierPoint { broken_streams: 1, ..point }, 100.0));
    }
}
