//! What a server can do at most, without and with the tool's tracking.

use super::Bench;
use crate::figures::Run;
use bench::drive::{Pace, run_sides};
use bench::measure::Recorder;
use std::time::Duration;

impl Bench {
    /// What the flags ask for beside the run. It writes as much as it can, so it comes after it.
    pub(super) async fn afterwards(&self, out: &mut Run) -> anyhow::Result<()> {
        if !self.args.timing.overhead.is_zero() {
            self.overhead(out).await?;
        }
        if let (Some(length), Some(tps)) = (self.args.timing.most_streams, self.args.load.tps) {
            self.most_streams(out, length, tps).await?;
        }
        if let Some(length) = self.args.timing.frontier {
            self.frontier(out, length).await?;
        }
        Ok(())
    }

    /// As many transactions as there can be, without and with the tool's tracking, in turns.
    pub(super) async fn overhead(&self, out: &mut Run) -> anyhow::Result<()> {
        let (shared, _) = self.look().await?;
        let mut side = self.side(&shared, self.args.load.tp_threads).await?;
        let mut done = [(0u64, 0.0f64); 2];
        let short =
            Pace { duration: self.args.timing.overhead / 2, warmup: Duration::ZERO, slices: 1, rate: None };
        run_sides(
            std::slice::from_mut(&mut side),
            Pace { warmup: self.args.timing.warmup, duration: Duration::ZERO, ..short },
        )
        .await?;
        // Without, with, with, without: a drift falls on both alike.
        for tracks in [false, true, true, false] {
            shared.tracker.set_tracking(tracks);
            let before = counts(&side.recorder());
            run_sides(std::slice::from_mut(&mut side), short).await?;
            let after = counts(&side.recorder());
            let of = &mut done[usize::from(tracks)];
            *of = (of.0 + after.0 - before.0, of.1 + after.1 - before.1);
        }
        let per_s = |(committed, seconds): (u64, f64)| committed as f64 / seconds.max(f64::MIN_POSITIVE);
        (out.throughput.tps_without_tool, out.throughput.tps_with_tool) =
            (Some(per_s(done[0])), Some(per_s(done[1])));
        Ok(())
    }
}

fn counts(recorder: &Recorder) -> (u64, f64) {
    (recorder.committed(), recorder.active_s)
}
