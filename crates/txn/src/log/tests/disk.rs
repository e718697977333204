//! Nodes that record their logs: what a node says waits until all that it recorded before is stable; a crash takes what is
//! not stable and what was not said, and the node comes back with its checkpoint and the records behind it.
//!
//! Found here: a candidate asked for logs from where it had merged to, merged what its disk was still writing, and put
//! the best log behind that, so that its own held the same entries twice.
//!
//! Checked beside what the other worlds check: nothing that any node has told its readers is taken back. A node that had
//! merged `n` entries and had closed a rank never sees the entry `n`, nor a later one, stamped at or below it, in
//! whichever life and wherever it asks.

use super::{Budget, Entry, Flying, Step, World, merge, walk};
use crate::log::{Change, Fault, Kept, Log, Posts, Said};
use crate::trial::panics;
use base::{NodeId, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

#[derive(Clone)]
pub(super) struct Disk {
    /// The node before its first record.
    empty: Log<Entry>,
    checkpoint: Option<Kept<Entry>>,
    /// Behind the checkpoint, stable.
    records: Vec<Change<Entry>>,
    /// Recorded, and lost in a crash.
    unstable: VecDeque<Change<Entry>>,
    /// Records of this life.
    number: u64,
    /// What waits until so many records of this life are stable.
    waiting: VecDeque<(u64, NodeId, Said<Entry>)>,
    /// For each count of merged entries, what was closed then.
    told: BTreeMap<u64, Rank>,
}

/// How often nodes crash in a schedule.
const CRASHES: u8 = 16;

impl Disk {
    fn stable(&self) -> u64 {
        self.number - self.unstable.len() as u64
    }
    /// Takes what a log has to record, and what may be said after that.
    pub fn keep(&mut self, log: &mut Log<Entry>, posts: Posts<Entry>) {
        self.unstable.extend(log.take_changes(&mut self.number));
        self.waiting.extend(posts.into_iter().map(|(to, said)| (self.number, to, said)));
        let told = self.told.entry(log.merged()).or_insert(Rank::ZERO);
        *told = log.closed().max(*told);
    }
    pub fn steps(&self, n: usize, may_crash: bool) -> impl Iterator<Item = Step> + use<> {
        let has_all = self.unstable.is_empty();
        let syncs = (!has_all || !self.waiting.is_empty()).then_some(Step::Sync(n));
        let crashes = may_crash.then_some(Step::Crash(n));
        let checkpoints = (has_all && self.records.len() > 8).then_some(Step::Checkpoint(n));
        syncs.into_iter().chain(crashes).chain(checkpoints)
    }
    pub fn checkpoint(&mut self, log: &Log<Entry>) {
        assert!(self.unstable.is_empty());
        self.checkpoint = Some(log.kept());
        self.records.clear();
    }
}

impl World {
    fn with_disks(nodes: u16, copies: usize, fault: Option<Fault>) -> World {
        let budget = Budget { appends: 24, silences: 12, heartbeats: 8, questions: 0, crashes: CRASHES };
        let mut world = World::new(nodes, copies, budget, fault);
        for log in &mut world.logs {
            let empty = (**log).clone();
            Rc::make_mut(log).record();
            world.disks.push(Disk {
                empty,
                checkpoint: None,
                records: Vec::new(),
                unstable: VecDeque::new(),
                number: 0,
                waiting: VecDeque::new(),
                told: BTreeMap::new(),
            });
        }
        world
    }

    /// What a node has recorded is stable.
    pub(super) fn sync(&mut self, n: usize) {
        let disk = &mut self.disks[n];
        disk.records.extend(disk.unstable.drain(..));
        let (stable, from) = (disk.number, NodeId(n as u16));
        assert_eq!(disk.stable(), stable);
        self.flying.extend(disk.waiting.drain(..).map(|(_, to, said)| (from, to, Flying::Said(said))));
        self.at(n, "sync", |log, _, _, merged| {
            let (is_more, raised) = log.on_synced(stable);
            if is_more {
                merge(log, merged);
                log.open();
            }
            raised.is_some_and(|closed| log.promise(closed))
        });
    }

    pub(super) fn crash(&mut self, n: usize) {
        let disk = &mut self.disks[n];
        disk.unstable.clear();
        disk.waiting.clear();
        disk.number = 0;
        let mut log = disk.empty.clone();
        if let Some(kept) = disk.checkpoint.clone() {
            log.take_kept(kept);
        }
        for change in &disk.records {
            assert!(log.replay(change.clone()), "{change:?} does not follow at n{n}");
        }
        let led = log.leads();
        log.restarted(self.now, led);
        self.logs[n] = Rc::new(log);
        self.at(n, "comes back", |log, _, _, merged| {
            merge(log, merged);
            log.open();
            log.leads()
        });
    }

    /// Panics if something was merged that was told to be closed before.
    fn check_told(&self) {
        for (n, disk) in self.disks.iter().enumerate() {
            for (merged, told) in &disk.told {
                let later = self.merged.iter().skip(*merged as usize).find(|entry| entry.stamp <= *told);
                assert!(later.is_none(), "n{n} had merged {merged} and told {told:?}, then came {later:?}");
            }
        }
    }
}

fn random(nodes: u16, copies: usize, seed: u64, fault: Option<Fault>) -> World {
    let world = walk(World::with_disks(nodes, copies, fault), seed, 1000);
    world.check_told();
    world
}

const SHAPES: [(u16, usize); 9] = [(2, 0), (3, 0), (2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 1), (5, 2)];

#[test]
fn nodes_that_crash_at_any_moment_take_nothing_back() {
    let (mut merged, mut terms, mut crashes) = (0, 0, 0);
    for (nodes, copies) in SHAPES {
        for seed in 0..300 {
            let world = random(nodes, copies, seed, None);
            merged += world.merged.len();
            terms += world.led.len() - 1;
            crashes += u64::from(CRASHES - world.budget.crashes);
        }
    }
    println!("{merged} entries, {terms} terms, {crashes} crashes");
    assert!(merged > 1_000 && terms > 200 && crashes > 1_000, "{merged}, {terms}, {crashes}");
}

#[test]
fn what_is_planted_in_records_is_found() {
    for fault in [Fault::NoCeiling, Fault::UnrecordedTerms, Fault::CountBeforeSync] {
        let finds = |(nodes, copies)| {
            (0..400).filter(|seed| panics(|| _ = random(nodes, copies, *seed, Some(fault)))).count()
        };
        let found: Vec<usize> = SHAPES.into_iter().map(finds).collect();
        println!("{fault:?}: found by {found:?} of 400 seeds at {SHAPES:?}");
        assert!(found.iter().sum::<usize>() >= 5, "{fault:?} is found too seldom: {found:?}");
    }
}
