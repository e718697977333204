//! What a server can do at most: without and with the tool's tracking, and beside a number of streams.

use super::{Bench, Notes, take};
use crate::analysts::Questions;
use crate::figures::{FrontierPoint, Run};
use bench::drive::{Pace, run_sides};
use bench::measure::Recorder;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

impl Bench {
    /// As many transactions as there can be, without and with the tool's tracking, in turns.
    pub(super) async fn overhead(&self, out: &mut Run) -> anyhow::Result<()> {
        let (shared, _) = self.look().await?;
        let mut side = self.side(&shared).await?;
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

    /// Transactions and queries beside each other with a number of streams.
    pub(super) async fn frontier_point(
        &self,
        streams: u32,
        length: Duration,
    ) -> anyhow::Result<FrontierPoint> {
        let (shared, alphas) = self.look().await?;
        let questions =
            Arc::new(Questions { numbers: self.args.load.queries.0.clone(), alphas, fixed: None });
        let mut side = self.side(&shared).await?;
        let (notes, mut tasks) = (Notes::default(), JoinSet::new());
        self.streams(&mut tasks, streams, &shared, &questions, &notes).await?;
        let begin = Instant::now();
        let pace = Pace { duration: length, warmup: Duration::ZERO, slices: 1, rate: self.args.load.tps };
        run_sides(std::slice::from_mut(&mut side), pace).await?;
        notes.stop.store(true, Ordering::Relaxed);
        let elapsed_s = begin.elapsed().as_secs_f64();
        tasks.shutdown().await;
        let queries = take(&notes.queries).iter().filter(|line| line.error.is_empty()).count();
        let tps = side.recorder().per_s();
        Ok(FrontierPoint { streams, tps, queries_per_hour: queries as f64 * 3600.0 / elapsed_s })
    }
}

fn counts(recorder: &Recorder) -> (u64, f64) {
    (recorder.committed(), recorder.active_s)
}
