//! What is counted: latencies, commits, rollbacks, retries and failures, per kind of work and per second.
//!
//! KEEPS: a latency runs from the moment the work was due (open loop) or begun (closed loop) to its last
//! answer, retries included; only work that ended inside a measured slice counts.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// How one piece of work ended.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Position in the list of kinds that the workload announced.
    pub kind: usize,
    pub end: End,
    /// SQLSTATEs of the attempts before the last.
    pub retried: Vec<String>,
    /// Rows of the answer, where that is of interest.
    pub rows: u64,
    /// How long it took, if the client timed it itself and did more besides.
    pub took: Option<Duration>,
    /// Of a query, where the server tells.
    pub freshness: Option<Freshness>,
}

/// The parts of a query's visibility delay, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Freshness {
    pub staleness_ms: f64,
    pub coordination_ms: f64,
    pub wait_ms: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    #[default]
    Committed,
    /// Rolled back because the input asked for it (TPC-C's unknown item).
    RolledBack,
    /// Given up: the SQLSTATE, or "lost" if the connection went.
    Failed { state: String, message: String },
}

/// Counts of one kind of work.
#[derive(Clone, Debug)]
pub struct Tally {
    pub name: String,
    /// µs, of committed and rolled back work.
    pub latency_us: Histogram<u64>,
    pub committed: u64,
    pub rolled_back: u64,
    /// SQLSTATE → attempts that were tried again.
    pub retried: BTreeMap<String, u64>,
    /// SQLSTATE → work that was given up.
    pub failed: BTreeMap<String, u64>,
    pub rows: u64,
    pub freshness: Vec<Freshness>,
}

/// One second of a run.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Measured time at its end, in s; slices follow each other without gaps.
    pub at_s: f64,
    pub committed: u64,
    pub retried: u64,
    pub failed: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// How long it really took, in s.
    pub lasted_s: f64,
}

/// All counts of one server in one run.
#[derive(Debug)]
pub struct Recorder {
    pub tallies: Vec<Tally>,
    pub seconds: Vec<Second>,
    /// One message per SQLSTATE among the failures.
    pub messages: BTreeMap<String, String>,
    /// Measured time so far, in s.
    pub active_s: f64,
    current: Second,
    current_us: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 digits are allowed")
}

impl Recorder {
    pub fn new(kinds: &[String]) -> Recorder {
        let tally = |name: &String| Tally {
            name: name.clone(),
            latency_us: histogram(),
            committed: 0,
            rolled_back: 0,
            retried: BTreeMap::new(),
            failed: BTreeMap::new(),
            rows: 0,
            freshness: Vec::new(),
        };
        Recorder {
            tallies: kinds.iter().map(tally).collect(),
            seconds: Vec::new(),
            messages: BTreeMap::new(),
            active_s: 0.0,
            current: Second::default(),
            current_us: histogram(),
        }
    }

    pub fn record(&mut self, done: Done, latency: Duration) {
        let us = done.took.unwrap_or(latency).as_micros() as u64;
        let tally = &mut self.tallies[done.kind];
        for state in done.retried {
            self.current.retried += 1;
            *tally.retried.entry(state).or_default() += 1;
        }
        match done.end {
            End::Committed => {
                tally.committed += 1;
                self.current.committed += 1;
            }
            End::RolledBack => tally.rolled_back += 1,
            End::Failed { state, message } => {
                self.current.failed += 1;
                *tally.failed.entry(state.clone()).or_default() += 1;
                self.messages.entry(state).or_insert(message);
                return;
            }
        }
        tally.rows += done.rows;
        tally.freshness.extend(done.freshness);
        tally.latency_us.record(us).expect("histograms grow");
        self.current_us.record(us).expect("histograms grow");
    }

    /// Ends the current second (or the rest of a slice) after `lasted`.
    pub fn end_second(&mut self, lasted: Duration) -> &Second {
        let lasted_s = lasted.as_secs_f64();
        self.active_s += lasted_s;
        let second = Second {
            at_s: self.active_s,
            lasted_s,
            p50_ms: ms(self.current_us.value_at_quantile(0.5)),
            p99_ms: ms(self.current_us.value_at_quantile(0.99)),
            ..std::mem::take(&mut self.current)
        };
        self.current_us.clear();
        self.seconds.push(second);
        self.seconds.last().expect("just pushed")
    }

    pub fn committed(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.committed).sum()
    }
    pub fn failed(&self) -> u64 {
        self.tallies.iter().flat_map(|tally| tally.failed.values()).sum()
    }
    /// Committed work per measured second.
    pub fn per_s(&self) -> f64 {
        if self.active_s > 0.0 { self.committed() as f64 / self.active_s } else { 0.0 }
    }
    /// Latencies of every kind together, in µs.
    pub fn latency_us(&self) -> Histogram<u64> {
        let mut all = histogram();
        for tally in &self.tallies {
            all.add(&tally.latency_us).expect("histograms of one kind resize");
        }
        all
    }
}

/// µs as ms.
pub fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_counted_where_it_belongs() {
        let mut recorder = Recorder::new(&["a".into(), "b".into()]);
        let retried = vec!["40001".to_string(), "40001".to_string()];
        recorder.record(Done { kind: 1, retried, ..Done::default() }, Duration::from_millis(4));
        recorder.record(Done { kind: 1, end: End::RolledBack, ..Done::default() }, Duration::from_millis(2));
        let end = End::Failed { state: "22012".into(), message: "division by zero".into() };
        recorder.record(Done { end, ..Done::default() }, Duration::from_secs(9));
        let second = recorder.end_second(Duration::from_secs(1)).clone();
        assert_eq!((second.committed, second.retried, second.failed), (1, 2, 1));
        assert!((second.p99_ms - 4.0).abs() < 0.01, "{second:?}");
        assert_eq!((recorder.committed(), recorder.failed()), (1, 1));
        assert_eq!(recorder.tallies[1].retried["40001"], 2);
        assert_eq!(recorder.messages["22012"], "division by zero");
        assert_eq!(recorder.latency_us().len(), 2, "a failure has no latency");
        let second = recorder.end_second(Duration::from_millis(500)).clone();
        assert_eq!((second.at_s, second.committed, second.p50_ms), (1.5, 0, 0.0));
        assert!((recorder.per_s() - 1.0 / 1.5).abs() < 1e-9);
    }
}
