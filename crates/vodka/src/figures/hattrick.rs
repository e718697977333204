//! HATtrick's freshness, by the transactions that an answer's snapshot shows.

use super::Spread;
use crate::probes::MarkLine;
use serde::{Deserialize, Serialize};

/// What the answers that read `vodka_freshness` show.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HattrickFigures {
    pub answers: u64,
    /// Answers whose snapshot lacked an acknowledged transaction.
    pub stale_answers: u64,
    pub freshness_ms: Spread,
    /// The most acknowledged transactions that one snapshot lacked.
    pub unseen_max: u64,
    pub latency_ms: Spread,
    /// Seconds since the run's begin, ms.
    pub points: Vec<(f64, f64)>,
}

/// `None` without an answer.
pub fn hattrick(lines: &[MarkLine]) -> Option<HattrickFigures> {
    let ms = |line: &MarkLine| line.reading.freshness_us as f64 / 1000.0;
    Some(HattrickFigures {
        answers: lines.len() as u64,
        stale_answers: lines.iter().filter(|line| line.reading.unseen > 0).count() as u64,
        freshness_ms: Spread::of(lines.iter().map(ms))?,
        unseen_max: lines.iter().map(|line| line.reading.unseen).max()?,
        latency_ms: Spread::of(lines.iter().map(|line| line.latency_ms))?,
        points: lines.iter().map(|line| (line.elapsed_ms as f64 / 1000.0, ms(line))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::vodka::marks::MarkReading;

    #[test]
    fn answers_that_lack_nothing_are_fresh() {
        assert!(hattrick(&[]).is_none());
        let line = |elapsed_ms, freshness_us, unseen| MarkLine {
            elapsed_ms,
            latency_ms: 2.0,
            terminals: 4,
            reading: MarkReading { freshness_us, unseen },
        };
        let figures = hattrick(&[line(500, 0, 0), line(1_000, 30_000, 3), line(1_500, 0, 0)]).unwrap();
        assert_eq!((figures.answers, figures.stale_answers, figures.unseen_max), (3, 1, 3));
        assert_eq!((figures.freshness_ms.p50, figures.freshness_ms.max), (0.0, 30.0));
        assert_eq!(figures.points[1], (1.0, 30.0));
    }
}
