//! Which inputs were under way when, to know later whom to suspect.

use super::supply::Name;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// How many finished inputs are remembered.
const RAN_KEPT: usize = 4000;

#[derive(Default)]
pub(super) struct Trail(Mutex<Inputs>);

#[derive(Default)]
struct Inputs {
    /// By worker, with the time it began.
    under_way: BTreeMap<usize, (Name, Instant)>,
    ran: VecDeque<Ran>,
}

struct Ran {
    name: Name,
    from: Instant,
    to: Instant,
}

impl Trail {
    fn inputs(&self) -> MutexGuard<'_, Inputs> {
        self.0.lock().expect("no panic while it is held")
    }

    pub fn begins(&self, worker: usize, name: Name) {
        self.inputs().under_way.insert(worker, (name, Instant::now()));
    }

    pub fn ends(&self, worker: usize) {
        let mut inputs = self.inputs();
        let Some((name, from)) = inputs.under_way.remove(&worker) else { return };
        inputs.ran.push_back(Ran { name, from, to: Instant::now() });
        if inputs.ran.len() > RAN_KEPT {
            inputs.ran.pop_front();
        }
    }

    pub fn is_idle(&self) -> bool {
        self.inputs().under_way.is_empty()
    }

    /// Whose inputs overlap this time: those under way, then the others, the last one first.
    pub fn who_ran(&self, from: Instant, to: Instant) -> Vec<Name> {
        let inputs = self.inputs();
        let under_way = inputs.under_way.values().filter(|(_, since)| *since <= to).map(|(name, _)| *name);
        let ran = inputs.ran.iter().rev().filter(|ran| ran.from <= to && ran.to >= from).map(|ran| ran.name);
        under_way.chain(ran).collect()
    }
}
