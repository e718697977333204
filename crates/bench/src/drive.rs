//! Clients and their pace.
//!
//! A [`Worker`] is one client: a connection and an endless list of things to do. [`run_sides`] warms every
//! server up and then measures each in slices, in the order A B B A A B …, so that a drift of the machine
//! falls on both alike.

use crate::args::Common;
use crate::measure::{Done, Recorder};
use crate::server::Server;
use anyhow::Context;
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// One client.
pub trait Worker: Send {
    /// Does the next thing to its end, retries included. `None` if the list has an end and it is reached.
    ///
    /// # Errors
    /// Only what makes going on pointless: a lost connection, a table that is not there.
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>>;
}

/// Clients of one server and what was counted of them.
pub struct Side {
    pub server: Server,
    pub workers: Vec<Box<dyn Worker>>,
    recorder: Arc<Mutex<Recorder>>,
}

impl Side {
    pub fn new(server: Server, workers: Vec<Box<dyn Worker>>, kinds: &[String]) -> Side {
        Side { server, workers, recorder: Arc::new(Mutex::new(Recorder::new(kinds))) }
    }
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        lock(&self.recorder)
    }
}

/// How long to run, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub duration: Duration,
    pub warmup: Duration,
    /// Turns of each server; 1 when there is only one.
    pub slices: u32,
    /// Offered by all clients together, per second; `None` is a closed loop.
    pub rate: Option<f64>,
}

impl Pace {
    pub fn of(common: &Common) -> Pace {
        let slices = if common.compare.is_some() { common.slices } else { 1 };
        Pace { duration: common.duration, warmup: common.warmup, slices, rate: common.rate }
    }
}

/// Warms up and measures; one line a second on standard output.
pub async fn run_sides(sides: &mut [Side], pace: Pace) -> anyhow::Result<()> {
    if !pace.warmup.is_zero() {
        for side in sides.iter_mut() {
            println!("warming up {} for {:.0?}", side.server.short_name(), pace.warmup);
            let kinds: Vec<String> = side.recorder().tallies.iter().map(|tally| tally.name.clone()).collect();
            let unmeasured = Arc::new(Mutex::new(Recorder::new(&kinds)));
            slice(&mut side.workers, &unmeasured, pace.warmup, pace.rate, None).await?;
        }
    }
    let length = pace.duration / pace.slices;
    for turn in 0..pace.slices {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let side = &mut sides[index];
            let name = side.server.short_name();
            slice(&mut side.workers, &side.recorder, length, pace.rate, Some(&name)).await?;
        }
    }
    Ok(())
}

/// Lets every worker run until `length` has passed or its list ends.
async fn slice(
    workers: &mut Vec<Box<dyn Worker>>,
    recorder: &Arc<Mutex<Recorder>>,
    length: Duration,
    rate: Option<f64>,
    name: Option<&str>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let end = begin + length;
    let gap = rate.map(|rate| Duration::from_secs_f64(workers.len() as f64 / rate));
    let count = workers.len() as u32;
    let mut tasks = tokio::task::JoinSet::new();
    for (n, worker) in workers.drain(..).enumerate() {
        // Clients of an open loop start evenly spread over one gap.
        let due = begin + gap.map_or(Duration::ZERO, |gap| gap * n as u32 / count);
        tasks.spawn(client(worker, recorder.clone(), due, end, gap));
    }
    let mut last = begin;
    let mut tick = begin + Duration::from_secs(1);
    let mut outcome = Ok(());
    loop {
        tokio::select! {
            joined = tasks.join_next() => match joined {
                None => break,
                // Ended because of another client's error, which is the outcome.
                Some(Err(error)) if error.is_cancelled() && outcome.is_err() => {}
                Some(result) => match result.context("a client's task broke down")? {
                    Ok(worker) => workers.push(worker),
                    // One client's lost connection ends the run: its figures would be of fewer clients.
                    Err(error) => {
                        tasks.abort_all();
                        outcome = Err(error);
                    }
                },
            },
            () = sleep_until(tick), if tick <= end => {
                line(&mut lock(recorder), tick - last, name);
                last = tick;
                tick += Duration::from_secs(1);
            }
        }
    }
    let stopped = Instant::now().min(end);
    if stopped > last + Duration::from_millis(1) {
        line(&mut lock(recorder), stopped - last, name);
    }
    outcome
}

async fn client(
    mut worker: Box<dyn Worker>,
    recorder: Arc<Mutex<Recorder>>,
    mut due: Instant,
    end: Instant,
    gap: Option<Duration>,
) -> anyhow::Result<Box<dyn Worker>> {
    loop {
        match gap {
            Some(gap) => {
                // A client that lags behind its schedule stops with the others.
                if due >= end || Instant::now() >= end {
                    break;
                }
                sleep_until(due).await;
                let Some(done) = worker.next().await? else { break };
                let now = Instant::now();
                if now <= end {
                    lock(&recorder).record(done, now - due);
                }
                due += gap;
            }
            None => {
                let begin = Instant::now();
                if begin >= end {
                    break;
                }
                let Some(done) = worker.next().await? else { break };
                let now = Instant::now();
                if now <= end {
                    lock(&recorder).record(done, now - begin);
                }
            }
        }
    }
    Ok(worker)
}

fn line(recorder: &mut Recorder, lasted: Duration, name: Option<&str>) {
    let second = recorder.end_second(lasted);
    let Some(name) = name else { return };
    let per_s = second.committed as f64 / second.lasted_s;
    println!(
        "{:>6.1}s  {name:<24} {per_s:>9.0}/s  p50 {:>8.2} ms  p99 {:>8.2} ms  retried {:>4}  failed {:>3}",
        second.at_s, second.p50_ms, second.p99_ms, second.retried, second.failed
    );
}

fn lock(recorder: &Mutex<Recorder>) -> MutexGuard<'_, Recorder> {
    recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loses its connection at once, or waits for ever.
    struct Client {
        is_lost: bool,
    }

    impl Worker for Client {
        fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
            Box::pin(async {
                match self.is_lost {
                    true => anyhow::bail!("the connection is lost"),
                    false => std::future::pending().await,
                }
            })
        }
    }

    #[tokio::test]
    async fn a_run_that_ends_early_says_why_and_not_that_others_were_ended() {
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        workers.extend([false, true, false].map(|is_lost| Box::new(Client { is_lost }) as Box<dyn Worker>));
        let recorder = Arc::new(Mutex::new(Recorder::new(&[])));
        let outcome = slice(&mut workers, &recorder, Duration::from_secs(5), None, None).await;
        assert_eq!(outcome.unwrap_err().to_string(), "the connection is lost");
    }
}
