//! Terminals and streams beside each other: HATtrick's grid in a closed loop, and the most streams at a fixed rate.

use super::{Bench, ENDING, Notes, take};
use crate::analysts::Questions;
use crate::figures::{self, FrontierPoint, Run, Spread, TrialFigures};
use crate::probes::forget_old;
use crate::terminals::Shared;
use anyhow::Context;
use bench::drive::{Pace, Side, run_sides};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use workload::vodka::frontier::{Search, done_within, grid};

/// Terminals and streams beside each other, and how fast the terminals are.
#[derive(Clone, Copy)]
struct Setting {
    terminals: u32,
    streams: u32,
    /// Transactions offered per second; `None` is a closed loop.
    rate: Option<f64>,
    length: Duration,
}

impl Bench {
    /// Every number of terminals beside every number of streams.
    pub(super) async fn frontier(&self, out: &mut Run, length: Duration) -> anyhow::Result<()> {
        let timing = &self.args.timing;
        let (shared, questions) = self.ready().await?;
        for (terminals, streams) in grid(&timing.frontier_tp, &timing.frontier_threads) {
            let setting = Setting { terminals, streams, rate: None, length };
            let point = self.point(&shared, &questions, setting).await.with_context(|| {
                format!("the frontier's point of {terminals} terminals and {streams} streams")
            })?;
            println!(
                "frontier: {terminals} terminals, {streams} streams: {:.1} tps, {:.0} queries/h{}",
                point.tps,
                point.queries_per_hour,
                point.freshness_p99_ms.map_or(String::new(), |ms| format!(", freshness p99 {ms:.1} ms"))
            );
            out.throughput.frontier.add(point);
        }
        Ok(())
    }

    /// The most streams at which the rate holds.
    pub(super) async fn most_streams(&self, out: &mut Run, length: Duration, tps: f64) -> anyhow::Result<()> {
        let (shared, questions) = self.ready().await?;
        let (terminals, limit) = (self.args.load.tp_threads, self.args.timing.most_streams_limit);
        let mut search = Search::new(limit);
        while let Some(trial) = search.next_trial() {
            let setting = Setting { terminals, streams: trial.streams, rate: Some(tps), length };
            let point = self
                .point(&shared, &questions, setting)
                .await
                .with_context(|| format!("the trial of {} streams", trial.streams))?;
            let holds = figures::holds(&point, tps);
            println!(
                "most streams: {}{}: {:.1} of {tps} tps: {}",
                trial.streams,
                if trial.confirms { " again" } else { "" },
                point.tps,
                if holds { "holds" } else { "does not hold" }
            );
            out.throughput.most_streams.trials.push(TrialFigures::of(trial, &point, holds));
            search.told(trial, holds);
        }
        out.throughput.most_streams.found = search.found();
        out.throughput.most_streams.is_limit = search.found() == Some(limit);
        Ok(())
    }

    async fn ready(&self) -> anyhow::Result<(Arc<Shared>, Arc<Questions>)> {
        let (shared, alphas) = self.look().await?;
        let questions = Questions { numbers: self.args.load.queries.0.clone(), alphas, fixed: None };
        Ok((shared, Arc::new(questions)))
    }

    async fn point(
        &self,
        shared: &Arc<Shared>,
        questions: &Arc<Questions>,
        Setting { terminals, streams, rate, length }: Setting,
    ) -> anyhow::Result<FrontierPoint> {
        let (notes, mut tasks, mut probing) = (Notes::default(), JoinSet::new(), JoinSet::new());
        let mut side = match terminals {
            0 => None,
            count => Some(self.side(shared, count).await?),
        };
        self.streams(&mut tasks, streams, shared, questions, &notes).await?;
        if terminals > 0 && streams > 0 && shared.freshness_table {
            self.mark_probe(&mut probing, shared, &notes).await?;
        }
        let pace = Pace { duration: Duration::ZERO, warmup: self.args.timing.warmup, slices: 1, rate };
        run_or_wait(side.as_mut(), pace).await?;
        let now_ms = || shared.began.elapsed().as_secs_f64() * 1000.0;
        let from_ms = now_ms();
        run_or_wait(side.as_mut(), Pace { duration: length, warmup: Duration::ZERO, ..pace }).await?;
        let to_ms = now_ms();
        notes.stop.store(true, Ordering::Relaxed);
        let mut broken_streams = 0;
        // A query that is under way at the end counts by its part, once it is done.
        let ending = async {
            while let Some(joined) = tasks.join_next().await {
                if let Err(error) = joined.context("a stream's task broke down").and_then(|result| result) {
                    println!("a stream broke: {error:#}");
                    broken_streams += 1;
                }
            }
        };
        if tokio::time::timeout(ENDING, ending).await.is_err() {
            broken_streams += tasks.len() as u32;
            println!("{} streams were given up after {ENDING:?}", tasks.len());
            tasks.shutdown().await;
        }
        if let Some(joined) = probing.try_join_next() {
            joined.context("the probe's task broke down")??;
        }
        probing.shutdown().await;
        drop(shared.take_lines());
        forget_old(shared);
        let lines = take(&notes.queries);
        let good = lines.iter().filter(|line| line.error.is_empty());
        let done = done_within(good.map(|l| (l.elapsed_ms as f64, l.latency_ms)), from_ms, to_ms);
        let marks = take(&notes.marks);
        let within = marks.iter().filter(|line| (from_ms..to_ms).contains(&(line.elapsed_ms as f64)));
        let freshness = Spread::of(within.map(|line| line.reading.freshness_us as f64 / 1000.0));
        Ok(FrontierPoint {
            terminals,
            streams,
            tps: side.as_ref().map_or(0.0, |side| side.recorder().per_s()),
            queries_per_hour: done * 3_600_000.0 / (to_ms - from_ms).max(1.0),
            freshness_p99_ms: freshness.map(|spread| spread.p99),
            broken_streams,
            failed_queries: lines.iter().filter(|line| !line.error.is_empty()).count() as u64,
        })
    }
}

/// Lets the terminals run, or as much time pass without them.
async fn run_or_wait(side: Option<&mut Side>, pace: Pace) -> anyhow::Result<()> {
    match side {
        Some(side) => run_sides(std::slice::from_mut(side), pace).await,
        None => {
            tokio::time::sleep(pace.warmup + pace.duration).await;
            Ok(())
        }
    }
}
