//! Random histories from small plans.
//!
//! A plan shrinks well: `proptest` removes operations and actions one by one.

use std::collections::BTreeMap;

use history::{History, OpId, Recorder, Seen, SessionId};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

pub const KEYS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Copy, Debug)]
pub enum Action {
    Read,
    /// Overwrites or appends, after a read.
    Update,
    /// Overwrites or appends without looking.
    Blind,
    /// Appends without looking, overwrites after a read.
    Append,
    /// Deletes a register after a read, appends to a list.
    Delete,
    /// Reads all keys from this one on.
    Scan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Committed,
    Aborted,
    UnknownApplied,
    UnknownLost,
}

#[derive(Clone, Debug)]
pub struct OpPlan {
    pub actions: Vec<(usize, Action)>,
    pub ending: Ending,
    pub session: u64,
    /// Place in the serial order.
    pub rank: u8,
    pub start: u8,
    pub length: u8,
    /// Carries the token of an earlier operation, chosen by this number.
    pub token: Option<u8>,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub ops: Vec<OpPlan>,
    /// Keys from this index on are lists.
    pub lists_from: usize,
    /// Reads that see something else: which read, which of the candidates.
    pub lies: Vec<(u8, u8)>,
}

pub fn actions(weights: [u32; 6]) -> impl Strategy<Value = Action> + Clone {
    prop_oneof![
        weights[0] => Just(Action::Read),
        weights[1] => Just(Action::Update),
        weights[2] => Just(Action::Blind),
        weights[3] => Just(Action::Delete),
        weights[4] => Just(Action::Scan),
        weights[5] => Just(Action::Append),
    ]
}

pub fn plans(
    ops_count: std::ops::RangeInclusive<usize>,
    lies_max: usize,
    action: impl Strategy<Value = Action> + Clone,
) -> impl Strategy<Value = Plan> {
    let ending = prop_oneof![
        12 => Just(Ending::Committed),
        1 => Just(Ending::Aborted),
        1 => Just(Ending::UnknownApplied),
        1 => Just(Ending::UnknownLost),
    ];
    let op = (
        prop::collection::vec((0..KEYS.len() - 1, action), 1..=3),
        ending,
        0..4_u64,
        any::<u8>(),
        0..12_u8,
        0..8_u8,
        prop::option::weighted(0.15, any::<u8>()),
    );
    let op = op.prop_map(|(actions, ending, session, rank, start, length, token)| OpPlan {
        actions,
        ending,
        session,
        rank,
        start,
        length,
        token,
    });
    let lies = prop::collection::vec((any::<u8>(), any::<u8>()), 0..=lies_max);
    (prop::collection::vec(op, ops_count), 0..=KEYS.len(), lies).prop_map(|(ops, lists_from, lies)| Plan {
        ops,
        lists_from,
        lies,
    })
}

/// A runner that draws the same cases every time.
pub fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// When the operations of a plan seem to have run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// As planned, whatever their serial order.
    Planned,
    /// Each around its place in the serial order.
    Serial,
    /// One after the other in the serial order.
    OneByOne,
}

/// Runs the plan serially by rank, and lets it look as if it had run at other instants.
pub fn history(plan: &Plan, clock: Clock) -> History {
    let mut order: Vec<usize> = (0..plan.ops.len()).collect();
    order.sort_by_key(|&at| (plan.ops[at].rank, at));
    let mut store = Store { lists_from: plan.lists_from, ..Store::default() };
    let mut events: Vec<Vec<(usize, Did)>> = vec![Vec::new(); plan.ops.len()];
    let mut place = vec![0; plan.ops.len()];
    for (step, at) in order.into_iter().enumerate() {
        place[at] = step;
        events[at] = store.run(&plan.ops[at]);
    }
    for lie in &plan.lies {
        tell(lie, plan, &mut events, &store);
    }

    // Instants differ everywhere, so that ties decide nothing.
    let interval = |at: usize| {
        let op = &plan.ops[at];
        let (start, length, step) = (u64::from(op.start), u64::from(op.length), place[at] as u64 + 12);
        let (first, last) = match clock {
            Clock::Planned => (start, start + length),
            Clock::Serial => (step - start, step + length),
            Clock::OneByOne => (step, step),
        };
        (first * 2048 + at as u64, last * 2048 + 1024 + at as u64)
    };
    let mut by_time: Vec<usize> = (0..plan.ops.len()).collect();
    by_time.sort_by_key(|&at| interval(at).0);
    let mut recorder = Recorder::new();
    for &at in &by_time {
        let op = &plan.ops[at];
        let (invoked_ns, replied_ns) = interval(at);
        let id = recorder.begin(SessionId(op.session), invoked_ns);
        if let Some(token) = op.token.filter(|_| id.0 > 0) {
            let from = OpId(u32::from(token) % id.0);
            if clock == Clock::Planned || place[by_time[from.0 as usize]] < place[at] {
                recorder.token(id, from);
            }
        }
        record(&mut recorder, id, &events[at]);
        match op.ending {
            Ending::Committed => recorder.commit(id, replied_ns),
            Ending::Aborted => recorder.abort(id, replied_ns),
            Ending::UnknownApplied | Ending::UnknownLost => recorder.unknown(id),
        }
    }
    recorder.finish()
}

/// What an operation did at one key.
#[derive(Clone, Debug)]
pub enum Did {
    Read(Seen),
    Wrote(u64),
    Appended(u64),
    Deleted,
    /// The rows from this key on; keys left out are absent.
    Scanned(Vec<(usize, Seen)>),
}

#[derive(Clone, Debug, Default)]
pub struct Store {
    pub lists_from: usize,
    rows: BTreeMap<usize, Seen>,
    /// Every state that a key was ever in.
    past: BTreeMap<usize, Vec<Seen>>,
    value_last: u64,
}

impl Store {
    /// Runs one operation on its own copy and keeps the outcome unless it is lost.
    pub fn run(&mut self, op: &OpPlan) -> Vec<(usize, Did)> {
        let kept = self.rows.clone();
        let mut did = Vec::new();
        for &(key, action) in &op.actions {
            let list = key >= self.lists_from;
            let looks = match action {
                Action::Read | Action::Update | Action::Delete => true,
                Action::Append => !list,
                Action::Blind | Action::Scan => false,
            };
            if looks {
                did.push((key, Did::Read(self.get(key))));
            }
            self.value_last += 1;
            let value = self.value_last;
            match action {
                Action::Read => {}
                Action::Scan => {
                    let rows = self.rows.range(key..).map(|(&key, seen)| (key, seen.clone()));
                    let rows: Vec<(usize, Seen)> = rows.filter(|(_, seen)| *seen != Seen::Absent).collect();
                    did.push((key, Did::Scanned(rows)));
                }
                Action::Update | Action::Blind | Action::Append | Action::Delete if list => {
                    let mut values = match self.get(key) {
                        Seen::List(values) => values,
                        _ => Vec::new(),
                    };
                    values.push(value);
                    did.push((key, Did::Appended(value)));
                    self.put(key, Seen::List(values));
                }
                Action::Update | Action::Blind | Action::Append => {
                    did.push((key, Did::Wrote(value)));
                    self.put(key, Seen::Value(value));
                }
                Action::Delete => {
                    did.push((key, Did::Deleted));
                    self.put(key, Seen::Absent);
                }
            }
        }
        if matches!(op.ending, Ending::Aborted | Ending::UnknownLost) {
            self.rows = kept;
        }
        did
    }
    fn get(&self, key: usize) -> Seen {
        let none = if key >= self.lists_from { Seen::List(Vec::new()) } else { Seen::Initial };
        self.rows.get(&key).cloned().unwrap_or(none)
    }
    fn put(&mut self, key: usize, seen: Seen) {
        self.past.entry(key).or_default().push(seen.clone());
        self.rows.insert(key, seen);
    }
}

/// Makes one read see another state that its key was in at some time, or none.
fn tell(lie: &(u8, u8), plan: &Plan, events: &mut [Vec<(usize, Did)>], store: &Store) {
    let mut reads: Vec<(usize, &mut Seen)> = Vec::new();
    let answered = events.iter_mut().zip(&plan.ops).filter(|(_, op)| op.ending == Ending::Committed);
    for (key, did) in answered.flat_map(|(events, _)| events) {
        match did {
            Did::Read(seen) => reads.push((*key, seen)),
            Did::Scanned(rows) => reads.extend(rows.iter_mut().map(|(key, seen)| (*key, seen))),
            Did::Wrote(_) | Did::Appended(_) | Did::Deleted => {}
        }
    }
    if reads.is_empty() {
        return;
    }
    let at = usize::from(lie.0) % reads.len();
    let (key, seen) = &mut reads[at];
    let mut candidates = store.past.get(key).cloned().unwrap_or_default();
    candidates.push(if *key >= store.lists_from { Seen::List(Vec::new()) } else { Seen::Initial });
    **seen = candidates[usize::from(lie.1) % candidates.len()].clone();
}

pub fn record(recorder: &mut Recorder, id: OpId, events: &[(usize, Did)]) {
    for (key, did) in events {
        let name = KEYS[*key];
        match did {
            Did::Read(seen) => recorder.read_seen(id, name, seen.clone()),
            Did::Wrote(value) => recorder.write(id, name, *value),
            Did::Appended(value) => recorder.append(id, name, *value),
            Did::Deleted => recorder.delete(id, name),
            Did::Scanned(rows) => {
                recorder.scan(id, name, None, rows.iter().map(|(key, seen)| (KEYS[*key], seen.clone())));
            }
        }
    }
}
