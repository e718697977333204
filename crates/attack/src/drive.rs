//! A run: one generator after another, with quiet in between, against a server that others use at the same time.
//!
//! Workers throw inputs, each over a connection of its own. What happens to the server or to other sessions (it ends,
//! memory, a stall) is suspected of every input that was under way; each suspect is then thrown alone ([`confirm`]).
//! KEEPS: every input that was thrown can be thrown again from its generator, seed and index.

mod confirm;
mod others;
mod supply;
mod tally;
mod throw;
mod trail;

use crate::generate::Generator;
use crate::input::Input;
use crate::judge::{Kind, Patience, Verdict};
use crate::neighbour::{Ledger, Suffered};
use crate::process::{Launch, News, Server};
use crate::report::{Finding, Findings, Summary};
use crate::statements::SETUP;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use supply::{Name, Source, Supply};
use tally::Tally;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trail::Trail;

/// What to attack.
#[derive(Clone, Debug)]
pub enum Where {
    Start(Launch),
    Running { address: SocketAddr, pid: Option<u32> },
}

#[derive(Clone, Debug)]
pub struct Options {
    pub target: Where,
    pub seed: u64,
    pub connections: usize,
    pub generators: Vec<Generator>,
    /// Of the whole run; slices are repeated until then, each generator gets one at least.
    pub duration: Duration,
    pub slice: Duration,
    pub quiet: Duration,
    pub patience: Patience,
    /// Another session that waits longer has been stalled.
    pub stall: Duration,
    /// The server's own limit of what it may take for queries.
    pub limit_bytes: u64,
    /// Rows, buffers and connections beside it.
    pub allowance_bytes: u64,
    /// Inputs that are thrown first.
    pub corpus: Vec<Input>,
    /// Where findings are written.
    pub findings: Option<PathBuf>,
    /// Throws suspects again alone and makes them small; takes time.
    pub confirm: bool,
}

/// The server that is attacked at the moment; it may end and be started again.
pub struct Target {
    server: RwLock<Option<Server>>,
    /// Which start of it this is.
    life: AtomicU64,
    stopping: AtomicBool,
}

impl Target {
    fn with<T>(&self, ask: impl FnOnce(&Server) -> T) -> Option<T> {
        self.server.read().expect("no panic while it is held").as_ref().map(ask)
    }
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
    pub fn is_down(&self) -> bool {
        self.with(Server::has_ended).unwrap_or(true)
    }
    pub fn life(&self) -> u64 {
        self.life.load(Relaxed)
    }
    /// Of the n-th region, or of the last one.
    pub fn address(&self, region: usize) -> Option<SocketAddr> {
        self.with(|s| s.addresses[region.min(s.addresses.len() - 1)])
    }
}

/// Something to look into: what was seen, and whom it is suspected of.
struct Suspicion {
    verdict: Verdict,
    suspects: Vec<Name>,
}

const LOOK: Duration = Duration::from_millis(50);

struct Run {
    options: Options,
    target: Target,
    ledger: Ledger,
    /// Held by whoever throws; taken alone to confirm.
    gate: tokio::sync::RwLock<()>,
    supply: Supply,
    trail: Trail,
    tally: Tally,
    findings: Findings,
    suspicions: mpsc::UnboundedSender<Suspicion>,
    /// Connections that say nothing, held open.
    held: Mutex<VecDeque<crate::client::Connection>>,
    /// The server may still be at work for an input whose answer was given up.
    spoilt: AtomicBool,
    /// What the log said last before the process ended.
    last_words: Mutex<String>,
}

/// Attacks, and tells what came of it. Errors: the server cannot be started or reached.
pub async fn run(mut options: Options) -> anyhow::Result<Summary> {
    let (suspicions, mut inbox) = mpsc::unbounded_channel();
    let target =
        Target { server: RwLock::new(None), life: AtomicU64::new(0), stopping: AtomicBool::new(false) };
    let run = Arc::new(Run {
        target,
        ledger: Ledger::default(),
        gate: tokio::sync::RwLock::new(()),
        supply: Supply::new(options.seed, std::mem::take(&mut options.corpus)),
        trail: Trail::default(),
        tally: Tally::new(options.limit_bytes, options.allowance_bytes),
        findings: Findings::new(options.findings.clone()),
        suspicions,
        held: Mutex::default(),
        spoilt: AtomicBool::new(false),
        last_words: Mutex::default(),
        options,
    });
    run.start().await?;
    let of_others = run.clone();
    let others = std::thread::spawn(move || others::be(&of_others));
    let mut tasks = JoinSet::new();
    for worker in 0..run.options.connections {
        let run = run.clone();
        tasks.spawn(async move { run.work(worker).await });
    }
    // Whoever interrupts a run still gets what it found, and no server is left behind.
    let outcome = tokio::select! {
        outcome = run.phases(&mut inbox) => outcome,
        () = interrupted() => Ok(()),
    };
    run.target.stopping.store(true, Relaxed);
    let mut summary = run.summary();
    // Ends the process that was started here.
    *run.target.server.write().expect("no panic while it is held") = None;
    summary.driver_panics += others::end_all(tasks).await;
    // It looks every few milliseconds whether it is to stop.
    summary.driver_panics += others.join().map_or(Ok(1), |panics| panics)?;
    outcome.map(|()| summary)
}

/// The tables that inputs are about; what was refused, if anything was.
async fn make_tables(connection: &mut crate::client::Connection) -> Option<String> {
    let mut refused = None;
    for sql in SETUP {
        let reply = connection.query(sql.as_bytes(), Duration::from_secs(20)).await;
        refused = refused.or_else(|| reply.errors.first().map(|error| format!("{error:?}: {sql}")));
    }
    refused
}

async fn interrupted() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(signal) => _ = signal.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

impl Run {
    /// Starts the server, or starts it again, with its tables.
    async fn start(&self) -> anyhow::Result<()> {
        let server = match &self.options.target {
            Where::Start(launch) => {
                let launch = launch.clone();
                // The old one has to go first: two would share the machine.
                *self.target.server.write().expect("no panic while it is held") = None;
                tokio::task::spawn_blocking(move || Server::start(&launch))
                    .await
                    .context("start the server")??
            }
            Where::Running { address, pid } => Server::running(*address, *pid),
        };
        *self.target.server.write().expect("no panic while it is held") = Some(server);
        self.target.life.fetch_add(1, Relaxed);
        self.set_up(self.target.with(Server::is_ours).unwrap_or(false)).await
    }

    /// `is_new`: no input has changed the tables yet.
    async fn set_up(&self, is_new: bool) -> anyhow::Result<()> {
        let address = self.target.address(0).context("no server")?;
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let why = match crate::client::Connection::greeted(address).await {
                Ok(Ok(mut connection)) => match make_tables(&mut connection).await {
                    // A table that an input has changed may refuse its rows. Where none has, inputs over empty tables
                    // would find nothing.
                    Some(refused) if is_new => refused,
                    _ => return Ok(()),
                },
                _ => "nobody answers".into(),
            };
            anyhow::ensure!(Instant::now() < deadline, "no tables at {address}: {why}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Before a slice. A server that runs and greets nobody is a finding, and is started again.
    async fn set_up_or_start_again(&self, phase: &str) -> anyhow::Result<()> {
        let Err(error) = self.set_up(false).await else { return Ok(()) };
        if !self.target.with(Server::is_ours).unwrap_or(false) {
            return Err(error);
        }
        let suspects = self.trail.who_ran(Instant::now() - Duration::from_secs(60), Instant::now());
        let name = suspects.first().copied();
        let verdict =
            Verdict { kind: Kind::Silence, detail: "no greeting".into(), said: format!("{error:#}") };
        self.note(name, phase, verdict);
        self.tally.restarted();
        self.start().await
    }

    /// The whole run, slice by slice.
    async fn phases(&self, inbox: &mut mpsc::UnboundedReceiver<Suspicion>) -> anyhow::Result<()> {
        let bar = ProgressBar::new(self.options.duration.as_secs());
        let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {duration_precise}  {msg}");
        bar.set_style(style.expect("a valid template"));
        // Caches fill, tables of the neighbours are made: nothing of that is measured.
        self.phase("", Source::Nothing, Duration::from_secs(1), inbox, &bar).await?;
        self.tally.is_at_rest_with(self.target.with(Server::resident_bytes_peak).unwrap_or(0));
        let end = Instant::now() + self.options.duration;
        self.phase(QUIET, Source::Nothing, self.options.quiet, inbox, &bar).await?;
        if self.supply.has_corpus() {
            self.phase(CORPUS, Source::Corpus, self.options.slice, inbox, &bar).await?;
        }
        loop {
            for &generator in &self.options.generators {
                self.set_up_or_start_again(generator.name()).await?;
                self.phase(generator.name(), Source::Made(generator), self.options.slice, inbox, &bar)
                    .await?;
            }
            if Instant::now() >= end {
                break;
            }
            self.phase(QUIET, Source::Nothing, self.options.quiet, inbox, &bar).await?;
        }
        bar.finish_and_clear();
        Ok(())
    }

    async fn phase(
        &self,
        name: &str,
        source: Source,
        length: Duration,
        inbox: &mut mpsc::UnboundedReceiver<Suspicion>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        self.target.with(Server::forget_peak);
        self.ledger.enter(name);
        self.supply.switch(source);
        let mut end = Instant::now() + length;
        let mut counted = Instant::now();
        loop {
            let now = Instant::now();
            let all_kept = source == Source::Corpus && self.supply.is_corpus_over();
            let is_time_over = now >= end && source != Source::Corpus;
            if is_time_over || all_kept && (now >= end || self.trail.is_idle()) {
                break;
            }
            tokio::time::sleep(LOOK.min(end.saturating_duration_since(now)).max(Duration::from_millis(1)))
                .await;
            let before = Instant::now();
            self.count_time(name, before - counted);
            counted = before;
            if self.look(name, inbox).await? {
                // Looking into something is not time under attack.
                self.ledger.enter(name);
                end += before.elapsed();
                counted = Instant::now();
            }
            let inputs = self.tally.inputs();
            bar.set_message(format!("{name:<8} {inputs} inputs, {} findings", self.findings.len()));
            bar.set_position(bar.elapsed().as_secs().min(self.options.duration.as_secs()));
        }
        self.supply.switch(Source::Nothing);
        // Those under way belong to this phase.
        drop(self.gate.write().await);
        self.look(name, inbox).await?;
        self.held.lock().expect("no panic while it is held").clear();
        self.count_time(name, counted.elapsed());
        Ok(())
    }

    /// Time under attack, and the most memory meanwhile.
    fn count_time(&self, phase: &str, time: Duration) {
        if !phase.is_empty() {
            self.tally.spent(phase, time, self.target.with(Server::resident_bytes_peak).unwrap_or(0));
        }
    }

    /// What has happened since the last look; true if something had to be looked into.
    async fn look(
        &self,
        phase: &str,
        inbox: &mut mpsc::UnboundedReceiver<Suspicion>,
    ) -> anyhow::Result<bool> {
        let mut busy = false;
        self.read_log(phase);
        if self.target.is_down() {
            self.ended(phase).await?;
            busy = true;
        }
        let resident = self.target.with(Server::resident_bytes).unwrap_or(0);
        if self.tally.is_above_ceiling(resident) {
            let said =
                format!("{} MiB resident, {} allowed", resident >> 20, self.tally.ceiling_bytes() >> 20);
            let verdict = Verdict { kind: Kind::Memory, detail: "above the ceiling".into(), said };
            let suspects = self.trail.who_ran(Instant::now() - Duration::from_millis(500), Instant::now());
            self.look_into(phase, Suspicion { verdict, suspects }).await?;
            busy = true;
        }
        let mut stalls: Vec<Suffered> = self.ledger.take_suffered();
        // One stall is suffered by all neighbours: the longest tells most.
        stalls.sort_by_key(|s| std::cmp::Reverse((s.error.is_some(), s.to - s.from)));
        if let Some(worst) = stalls.first() {
            if !phase.is_empty() && phase != QUIET {
                busy |= self.suffered(phase, worst).await?;
            }
        }
        while let Ok(suspicion) = inbox.try_recv() {
            self.look_into(phase, suspicion).await?;
            busy = true;
        }
        Ok(busy)
    }

    async fn suffered(&self, phase: &str, worst: &Suffered) -> anyhow::Result<bool> {
        if worst.error.is_none() && self.ledger.machine_was_late(worst.from, worst.to) {
            self.tally.machine_stalled();
            return Ok(false);
        }
        let took = worst.to - worst.from;
        let verdict = match &worst.error {
            Some(error) => Verdict {
                kind: Kind::Disturbed,
                detail: crate::judge::alike(error),
                said: format!("another session's {}: {error}", worst.errand.name()),
            },
            None => Verdict {
                kind: Kind::Stall,
                detail: "another session waited".into(),
                said: format!("another session's {} took {} ms", worst.errand.name(), took.as_millis()),
            },
        };
        self.tally.stalled(phase);
        let suspects = self.trail.who_ran(worst.from, worst.to);
        self.look_into(phase, Suspicion { verdict, suspects }).await?;
        Ok(true)
    }

    /// The process is gone: start it again, and find out who did it.
    async fn ended(&self, phase: &str) -> anyhow::Result<()> {
        let now = Instant::now();
        let for_memory = self.target.with(Server::was_ended_for_memory).unwrap_or(false);
        let alone = self.gate.write().await;
        tokio::time::sleep(LOOK).await;
        let last_words = self.take_last_words(phase);
        let (kind, detail) = if for_memory {
            (Kind::Memory, "above the ceiling".to_string())
        } else {
            (Kind::Exit, crate::judge::alike(&last_words))
        };
        let said = match kind {
            Kind::Memory => "ended from outside for its memory".to_string(),
            _ => format!("the process ended: {last_words}"),
        };
        anyhow::ensure!(
            self.target.with(Server::is_ours).unwrap_or(false),
            "the server has ended; it was not started here, so it is not started again"
        );
        let suspects = self.trail.who_ran(now - Duration::from_millis(200), now);
        self.tally.restarted();
        self.start().await?;
        drop(alone);
        self.look_into(phase, Suspicion { verdict: Verdict { kind, detail, said }, suspects }).await
    }

    /// What the log said last.
    fn take_last_words(&self, phase: &str) -> String {
        self.read_log(phase);
        std::mem::take(&mut *self.last_words.lock().expect("no panic while it is held"))
    }

    fn read_log(&self, phase: &str) {
        for news in self.target.with(Server::news).unwrap_or_default() {
            match news {
                News::Panic { place, said } => self.note_panic(phase, place, said),
                News::End(said) => *self.last_words.lock().expect("no panic while it is held") = said,
            }
        }
    }

    fn note_panic(&self, phase: &str, detail: String, said: String) {
        let suspects = self.trail.who_ran(Instant::now() - LOOK * 4, Instant::now());
        let name = suspects.first().copied();
        let verdict = Verdict { kind: Kind::Panic, detail, said };
        self.note(name, phase, verdict);
    }

    fn note(&self, name: Option<Name>, phase: &str, verdict: Verdict) {
        let input = name.map(|name| self.supply.input(name));
        self.findings.note(self.finding(name, phase, verdict, false), input.as_ref());
    }

    fn finding(&self, name: Option<Name>, phase: &str, verdict: Verdict, confirmed: bool) -> Finding {
        let shape = name.map_or_else(|| phase.to_string(), |n| self.supply.input(n).shape);
        let (seed, index) = match name {
            Some(Name::Made(_, index)) => (Some(self.options.seed), Some(index)),
            _ => (None, None),
        };
        Finding::new(verdict, shape, seed, index, confirmed)
    }

    fn summary(&self) -> Summary {
        let mut summary = self.tally.summary();
        for ((phase, errand), latencies) in self.ledger.latencies() {
            summary.rows.entry(phase).or_default().set_latencies(errand, &latencies);
        }
        Summary {
            seed: self.options.seed,
            findings: self.findings.all(),
            stall_ms: self.options.stall.as_millis() as u64,
            ..summary
        }
    }
}

pub const QUIET: &str = "quiet";
pub const CORPUS: &str = "corpus";
