//! What a drill came to: RPO, RTO, and by which role of the killed process.

use super::audit::Found;
use super::load::Waits;
use super::{DrillArgs, Fault};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// One process and a fault that it met.
#[derive(Clone, Debug)]
pub struct Cycle {
    fault: Fault,
    node: String,
    waits: Waits,
    restart: Duration,
    /// Every client was answered before it was too late.
    has_recovered: bool,
}

impl Cycle {
    pub fn new(fault: Fault, node: &str, waits: Waits, restart: Duration, has_recovered: bool) -> Cycle {
        Cycle { fault, node: node.to_string(), waits, restart, has_recovered }
    }
    fn by_role(&self) -> [(&'static str, Option<Duration>); 3] {
        [("gateway", self.waits.gateway), ("sequencer", self.waits.sequencer), ("others", self.waits.others)]
    }
    /// Until the last client was answered.
    fn longest(&self) -> Option<Duration> {
        self.by_role().into_iter().try_fold(Duration::ZERO, |sum, (_, one)| Some(sum.max(one?)))
    }
}

impl std::fmt::Display for Cycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.fault.name(), self.node)?;
        for (role, wait) in self.by_role() {
            match wait {
                Some(wait) => write!(f, "; {role} {} ms", wait.as_millis())?,
                None => write!(f, "; {role} never")?,
            }
        }
        write!(f, "; ready {} ms after it was over", self.restart.as_millis())
    }
}

/// In ms; `None`: at least one never came.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    pub p50: Option<u64>,
    pub max: Option<u64>,
}

impl Spread {
    /// What never came is later than everything.
    fn of(values: impl Iterator<Item = Option<Duration>>) -> Spread {
        let mut ms: Vec<u64> =
            values.map(|value| value.map_or(u64::MAX, |value| value.as_millis() as u64)).collect();
        ms.sort_unstable();
        let known = |ms: Option<&u64>| ms.copied().filter(|ms| *ms < u64::MAX);
        Spread { p50: known(ms.get(ms.len() / 2)), max: known(ms.last()) }
    }
}

#[derive(Serialize, Clone, Debug)]
pub struct Role {
    pub role: &'static str,
    pub rto_ms: Spread,
}

#[derive(Serialize, Clone, Debug)]
pub struct OfFault {
    pub fault: &'static str,
    pub cycles: usize,
    pub rto_ms: Spread,
}

/// What was drilled.
#[derive(Serialize, Clone, Debug)]
pub struct Drilled {
    pub processes: u16,
    pub engine: String,
    pub survive: u8,
    pub seed: u64,
}

#[derive(Serialize, Clone, Debug)]
pub struct Report {
    #[serde(flatten)]
    pub drilled: Drilled,
    pub cycles: usize,
    /// Faults after which some client was not answered within a minute.
    pub not_recovered: usize,
    /// Transfers that were answered.
    pub answered: usize,
    /// Answered, and not at every node.
    pub lost: usize,
    /// At some node, and never asked for; and balances that are not what the transfers come to.
    pub invented: usize,
    /// Nobody was told what became of these, and so many of them took effect.
    pub unknown: usize,
    pub unknown_done: usize,
    /// Nodes do not have the same transfers.
    pub nodes_differ: bool,
    pub rto_ms: Spread,
    pub by_role: Vec<Role>,
    pub by_fault: Vec<OfFault>,
    /// From the repair of a fault, often the process's start, to its being ready.
    pub restart_ms: Spread,
}

impl Report {
    pub fn new(args: &DrillArgs, cycles: &[Cycle], found: &[Found]) -> Report {
        let most = |count: fn(&Found) -> usize| found.iter().map(count).max().unwrap_or_default();
        let role = |n: usize| Role {
            role: cycles.first().map_or("", |cycle| cycle.by_role()[n].0),
            rto_ms: Spread::of(cycles.iter().map(|cycle| cycle.by_role()[n].1)),
        };
        for node in found.iter().filter(|node| node.wrong_balances > 0) {
            eprintln!("node {}: {} balances are wrong", node.node, node.wrong_balances);
        }
        Report {
            drilled: Drilled {
                processes: args.processes,
                engine: args.engine.clone(),
                survive: args.survive.unwrap_or_default(),
                seed: args.seed,
            },
            cycles: cycles.len(),
            not_recovered: cycles.iter().filter(|cycle| !cycle.has_recovered).count(),
            answered: most(|node| node.audit.answered),
            lost: most(|node| node.audit.lost),
            invented: most(|node| node.audit.invented + node.wrong_balances),
            unknown: most(|node| node.audit.unknown),
            unknown_done: most(|node| node.audit.unknown_done),
            nodes_differ: found.windows(2).any(|pair| pair[0].audit != pair[1].audit),
            rto_ms: Spread::of(cycles.iter().map(Cycle::longest)),
            by_role: if cycles.is_empty() { Vec::new() } else { (0..3).map(role).collect() },
            by_fault: by_fault(cycles),
            restart_ms: Spread::of(cycles.iter().map(|cycle| Some(cycle.restart))),
        }
    }

    /// What is wrong, if something is.
    pub fn verdict(&self) -> Option<String> {
        if self.lost > 0 || self.invented > 0 || self.nodes_differ {
            let differ = if self.nodes_differ { "; nodes differ" } else { "" };
            return Some(format!("{} transfers lost, {} invented{differ}", self.lost, self.invented));
        }
        if self.cycles == 0 || self.answered == 0 {
            return Some("nothing was drilled; give a longer --duration".into());
        }
        None
    }
}

fn by_fault(cycles: &[Cycle]) -> Vec<OfFault> {
    let faults: BTreeSet<Fault> = cycles.iter().map(|cycle| cycle.fault).collect();
    let of = |fault: Fault| {
        let own: Vec<&Cycle> = cycles.iter().filter(|cycle| cycle.fault == fault).collect();
        let rto_ms = Spread::of(own.iter().map(|cycle| cycle.longest()));
        OfFault { fault: fault.name(), cycles: own.len(), rto_ms }
    };
    faults.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::audit::Audit;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: DrillArgs,
    }

    #[test]
    fn what_one_node_lost_is_lost_and_what_never_came_has_no_time() {
        let args = Only::parse_from(["drill"]).args;
        let ms = |n| Some(Duration::from_millis(n));
        let waits = |n, sequencer| Waits { gateway: ms(n), sequencer, others: ms(5) };
        let cycle = |fault, waits| Cycle::new(fault, "us", waits, Duration::from_millis(300), true);
        let (kill, cut) = (Fault::Kill, Fault::Cut);
        let cycles =
            [cycle(kill, waits(10, ms(40))), cycle(cut, waits(20, None)), cycle(kill, waits(30, ms(20)))];
        let audit = Audit { answered: 9, lost: 0, unknown: 2, unknown_done: 1, invented: 0 };
        let found = |audit: Audit, wrong_balances| Found { node: "us".into(), audit, wrong_balances };
        let fine = Report::new(&args, &cycles, &[found(audit.clone(), 0), found(audit.clone(), 0)]);
        assert_eq!(fine.verdict(), None);
        assert_eq!(fine.rto_ms, Spread { p50: Some(40), max: None });
        assert_eq!(fine.by_role[0].rto_ms, Spread { p50: Some(20), max: Some(30) });
        assert_eq!(fine.restart_ms.max, Some(300));
        let by_fault: Vec<_> = fine.by_fault.iter().map(|of| (of.fault, of.cycles, of.rto_ms.max)).collect();
        assert_eq!(by_fault, [("kill", 2, Some(40)), ("cut", 1, None)]);
        let lost = Audit { lost: 1, ..audit.clone() };
        let bad = Report::new(&args, &cycles, &[found(audit.clone(), 0), found(lost, 0)]);
        assert_eq!((bad.lost, bad.nodes_differ), (1, true));
        assert!(bad.verdict().unwrap().contains("1 transfers lost"));
        assert!(
            Report::new(&args, &cycles, &[found(audit.clone(), 3)]).verdict().unwrap().contains("3 invented")
        );
        assert!(Report::new(&args, &[], &[found(audit, 0)]).verdict().is_some());
    }
}
