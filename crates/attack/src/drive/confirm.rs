//! Looking into a suspicion: each suspect is thrown alone; the one that does it again is kept, as small as it can be
//! made by halving its repetitions and leaving steps out.

use super::supply::Name;
use super::{Run, Suspicion};
use crate::input::Input;
use crate::judge::{Kind, Verdict};
use crate::process::Server;
use crate::report::Finding;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Suspects that are tried, the likeliest first.
const SUSPECTS_MAX: usize = 10;
/// Time for making one finding small.
const SMALLER: Duration = Duration::from_secs(40);
/// After an input: what it did to others shows by then.
const AFTERMATH: Duration = Duration::from_millis(150);

impl Run {
    pub(super) async fn look_into(&self, phase: &str, suspicion: Suspicion) -> anyhow::Result<()> {
        let Suspicion { verdict, suspects } = suspicion;
        let kind = verdict.kind;
        let first = suspects.first().copied();
        let direct = matches!(
            kind,
            Kind::Internal | Kind::Reveals | Kind::Malformed | Kind::Lost | Kind::Disturbed | Kind::Panic
        );
        let finding = self.finding(first, phase, verdict.clone(), direct);
        if self.findings.is_known(&finding) || !self.options.confirm || direct {
            self.findings.note(finding, first.map(|n| self.supply.input(n)).as_ref());
            if kind == Kind::Memory {
                let alone = self.gate.write().await;
                self.give_memory_back().await?;
                drop(alone);
            }
            return Ok(());
        }
        let alone = self.gate.write().await;
        self.ledger.enter("");
        self.spoilt.store(true, Relaxed);
        let mut guilty: Option<(Name, Input)> = None;
        for &name in suspects.iter().take(SUSPECTS_MAX) {
            let input = self.supply.input(name);
            if self.findings.is_set_aside(&input.shape) {
                continue;
            }
            if self.does(kind, &input).await? {
                guilty = Some((name, input));
                break;
            }
        }
        if let Some((name, input)) = guilty {
            let finding = self.finding(Some(name), phase, verdict, true);
            let smaller =
                if self.findings.is_known(&finding) { input } else { self.smaller(kind, input).await? };
            self.findings.note(finding, Some(&smaller));
        } else {
            self.findings.note(finding, first.map(|n| self.supply.input(n)).as_ref());
        }
        self.give_memory_back().await?;
        drop(alone);
        Ok(())
    }

    /// Memory that the server keeps would be held against the next input.
    async fn give_memory_back(&self) -> anyhow::Result<()> {
        let resident = self.target.with(Server::resident_bytes).unwrap_or(0);
        if self.tally.is_above_ceiling(resident) && self.target.with(Server::is_ours).unwrap_or(false) {
            self.tally.restarted();
            self.start().await?;
        }
        Ok(())
    }

    /// Whether an input does it again, thrown alone.
    async fn does(&self, kind: Kind, input: &Input) -> anyhow::Result<bool> {
        // What an earlier input left behind (memory, work that goes on after its answer) is not this one's.
        let resident = self.target.with(Server::resident_bytes).unwrap_or(0);
        let spoilt = self.spoilt.swap(false, Relaxed) || self.tally.is_swollen(resident);
        if spoilt && self.target.with(Server::is_ours).unwrap_or(false) {
            self.start().await?;
        }
        self.ledger.take_suffered();
        self.target.with(Server::forget_peak);
        let thrown = self.throw(input).await;
        tokio::time::sleep(AFTERMATH).await;
        let peak = self.target.with(Server::resident_bytes_peak).unwrap_or(0);
        let for_memory = self.target.with(Server::was_ended_for_memory).unwrap_or(false);
        let ended = self.target.is_down();
        if ended {
            if kind != Kind::Exit && !for_memory {
                self.note_exit(input);
            }
            self.tally.restarted();
            self.start().await?;
        }
        let answer = thrown.verdict.map(|v| v.kind);
        self.spoilt.store(matches!(answer, Some(Kind::Late | Kind::Silence)), Relaxed);
        Ok(match kind {
            Kind::Exit => ended && !for_memory,
            Kind::Memory => for_memory || self.tally.is_above_ceiling(peak),
            Kind::Stall => {
                let stalls = self.ledger.take_suffered();
                stalls.iter().any(|s| s.error.is_none() && !self.ledger.machine_was_late(s.from, s.to))
            }
            // Slow alone is slow, whichever of the two it was.
            Kind::Late | Kind::Silence => matches!(answer, Some(Kind::Late | Kind::Silence)),
            kind => answer == Some(kind),
        })
    }

    /// An input that was suspected of something else has ended the process.
    fn note_exit(&self, input: &Input) {
        let last_words = self.take_last_words(&input.shape);
        let detail = crate::judge::alike(&last_words);
        let verdict = Verdict { kind: Kind::Exit, detail, said: format!("the process ended: {last_words}") };
        let finding = Finding::new(verdict, input.shape.clone(), None, None, true);
        self.findings.note(finding, Some(input));
    }

    /// The smallest of a few that still do it.
    async fn smaller(&self, kind: Kind, input: Input) -> anyhow::Result<Input> {
        let end = Instant::now() + SMALLER;
        let mut best = input;
        for at in (0..best.steps.len()).rev() {
            if best.steps.len() == 1 || Instant::now() > end {
                break;
            }
            let mut fewer = best.clone();
            fewer.steps.remove(at);
            if self.does(kind, &fewer).await? {
                best = fewer;
            }
        }
        let whole = best.clone();
        let from = whole.times_max();
        let (mut low, mut high) = (1, from);
        while low < high && Instant::now() < end {
            // By ratio: the order of magnitude first.
            let middle = ((f64::from(low) * f64::from(high)).sqrt() as u32).clamp(low, high - 1);
            if high - low <= high / 20 {
                break;
            }
            let scaled = whole.scaled(from, middle);
            if self.does(kind, &scaled).await? {
                high = middle;
                best = scaled;
            } else {
                low = middle + 1;
            }
        }
        Ok(best)
    }
}
