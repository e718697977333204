//! A small world for one group: clocks that err, links that lose, double and reorder, disks that tear,
//! members that crash. It checks after every event what a log promises, and panics with the seed.
//!
//! It shares no code with the simulator: what judges the protocol here is this file alone.

use base::process::PersistToken;
use base::rng::Rng;
use base::time::{MS, US};
use base::{NodeId, Time, codec};
use consensus::{Entry, Index, Member, Message, Options, Outputs, Payload, Position, Term, frame};
use std::collections::{BTreeMap, BTreeSet};

const BEGIN: u64 = 1_000 * MS;

/// What one seed does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub members: u16,
    pub options: Options,
    pub loss: f64,
    pub duplication: f64,
    pub delay_ns_max: u64,
    pub sync_ns_max: u64,
    /// Mean time between two crashes, cuts and healings.
    pub trouble_every_ns: u64,
    pub propose_every_ns: u64,
    /// How likely a member takes a checkpoint whenever something happens to it.
    pub checkpoints: f64,
    pub active_ns: u64,
    /// Whether all has to go well again once it is healed.
    pub demands_progress: bool,
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut rng = Rng::new(seed).fork("plan");
        let lease_ns = *rng.pick(&[20 * MS, 50 * MS, 100 * MS]);
        let options = Options {
            heartbeat_ns: *rng.pick(&[5 * MS, 20 * MS]),
            election_ns: *rng.pick(&[(40 * MS, 60 * MS), (100 * MS, 300 * MS)]),
            lease_ns,
            clock_bound_ns: *rng.pick(&[0, MS, 10 * MS]),
            message_bytes_max: *rng.pick(&[1, 40, 1 << 20]),
            messages_ahead_max: *rng.pick(&[1, 2, 8]),
            entries_kept: *rng.pick(&[0, 3, 10_000]),
            ..Options::default()
        };
        Plan {
            seed,
            members: *rng.pick(&[1, 2, 3, 3, 3, 3, 5]),
            options,
            loss: *rng.pick(&[0.0, 0.05, 0.3]),
            duplication: *rng.pick(&[0.0, 0.1, 0.3]),
            delay_ns_max: *rng.pick(&[MS, 10 * MS, 60 * MS]),
            sync_ns_max: *rng.pick(&[200 * US, 5 * MS, 30 * MS]),
            trouble_every_ns: *rng.pick(&[20 * MS, 60 * MS, 300 * MS]),
            propose_every_ns: *rng.pick(&[2 * MS, 10 * MS]),
            checkpoints: *rng.pick(&[0.0, 0.01, 0.1]),
            active_ns: 1_500 * MS,
            demands_progress: true,
        }
    }
}

enum Happening {
    Arrives { from: NodeId, to: NodeId, bytes: Vec<u8> },
    Synced { at: NodeId, life: u32 },
    Wakes { at: NodeId, life: u32 },
    Proposes,
    Trouble,
}

struct Machine {
    member: Option<Member>,
    /// Counts restarts, so that what belongs to a former life is known.
    life: u32,
    /// On stable storage.
    disk: Vec<u8>,
    /// On its way there: behind what is there, or instead of it.
    write: Option<Write>,
    /// What the entries handed out here add up to.
    state: u64,
    /// ns that the clock is ahead, and how much it was ahead at most: readings never turn back.
    error_ns: i64,
    shown: Time,
    /// A wake that is on its way.
    wakes_at: Option<u64>,
}

struct Write {
    token: PersistToken,
    bytes: Vec<u8>,
    replaces: bool,
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub elections: usize,
    pub committed: u64,
    pub crashes: u64,
    pub lease_readings: u64,
    /// Checkpoints taken, and restored from.
    pub taken: u64,
    pub restored: u64,
    pub trace: u64,
}

pub struct World {
    plan: Plan,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    machines: Vec<Machine>,
    rng: Rng,
    cuts: BTreeSet<(NodeId, NodeId)>,
    healed: bool,
    proposals: u64,
    // ---- what was promised ----
    leaders: BTreeMap<Term, NodeId>,
    /// Every entry that was ever in a log, with the term before it.
    entries: BTreeMap<Position, (Payload, Term)>,
    /// Handed out somewhere.
    committed: BTreeMap<Index, (Term, Payload)>,
    /// What the entries up to an index add up to.
    states: BTreeMap<Index, u64>,
    summary: Summary,
}

/// Runs a plan to its end; panics if something is wrong.
pub fn run(plan: Plan) -> Summary {
    let mut world = World::new(plan);
    let active_until = BEGIN + world.plan.active_ns;
    while world.now < active_until {
        world.step();
    }
    world.heal();
    // Entries may go one by one: a follower that has lost most of them needs a while.
    let patience_ns = 20_000 * MS;
    let target = world.proposals + 5;
    while world.plan.demands_progress && !world.all_have(target) {
        assert!(
            world.now < active_until + patience_ns,
            "seed {}: no progress after healing",
            world.plan.seed
        );
        world.step();
    }
    world.summary.elections = world.leaders.len();
    world.summary.committed = world.committed.len() as u64;
    world.summary
}

impl World {
    fn new(plan: Plan) -> World {
        let rng = Rng::new(plan.seed).fork("world");
        let machine = |_| Machine {
            member: None,
            life: 0,
            disk: Vec::new(),
            write: None,
            state: 0,
            error_ns: 0,
            shown: Time::ZERO,
            wakes_at: None,
        };
        let machines = (0..plan.members).map(machine).collect();
        let mut world = World {
            now: BEGIN,
            queue: BTreeMap::new(),
            sequence: 0,
            machines,
            rng,
            cuts: BTreeSet::new(),
            healed: false,
            proposals: 0,
            leaders: BTreeMap::new(),
            entries: BTreeMap::new(),
            committed: BTreeMap::new(),
            states: BTreeMap::new(),
            summary: Summary::default(),
            plan,
        };
        for n in 0..world.plan.members {
            world.boot(NodeId(n));
        }
        world.push(world.plan.propose_every_ns, Happening::Proposes);
        world.push(world.plan.trouble_every_ns, Happening::Trouble);
        world
    }

    fn push(&mut self, after_ns: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((self.now + after_ns, self.sequence), happening);
    }

    fn members(&self) -> Vec<NodeId> {
        (0..self.plan.members).map(NodeId).collect()
    }

    fn clock(&mut self, at: NodeId) -> Time {
        let machine = &mut self.machines[at.0 as usize];
        let reading = Time((self.now as i64 + machine.error_ns) as u64);
        machine.shown = machine.shown.max(reading);
        machine.shown
    }

    fn boot(&mut self, at: NodeId) {
        let (members, plan) = (self.members(), self.plan.clone());
        let machine = &mut self.machines[at.0 as usize];
        let found = frame::split(&machine.disk).expect("a torn tail is no damage");
        let records: Vec<Vec<u8>> = found.records.iter().map(|r| r.to_vec()).collect();
        let valid = found.valid_bytes;
        machine.disk.truncate(valid);
        machine.life += 1;
        let rng = Rng::new(plan.seed).fork_nth("member", u64::from(at.0));
        let member = Member::new(at, &members, plan.options, rng, &records).expect("its own journal");
        machine.member = Some(member);
        (machine.wakes_at, machine.state) = (None, 0);
        let now = self.clock(at);
        self.with(at, |member, out| member.start(now, out));
    }

    fn crash(&mut self, at: NodeId) {
        let machine = &mut self.machines[at.0 as usize];
        if machine.member.take().is_none() {
            return;
        }
        self.summary.crashes += 1;
        if let Some(Write { bytes, replaces, .. }) = machine.write.take() {
            if replaces {
                // Written beside the old one and renamed: whatever there is of it, it is the one or the other.
                if self.rng.chance(0.5) {
                    machine.disk = bytes;
                }
                return;
            }
            let torn = self.rng.below(bytes.len() as u64 + 1) as usize;
            machine.disk.extend_from_slice(&bytes[..torn]);
            if torn < bytes.len() && self.rng.chance(0.3) {
                // The file was grown before its content came.
                machine.disk.extend(std::iter::repeat_n(0, bytes.len() - torn));
            }
        }
    }

    /// Lets a member do something and carries out what it wants.
    fn with<T>(&mut self, at: NodeId, act: impl FnOnce(&mut Member, &mut Outputs) -> T) -> T {
        let mut out = Outputs::default();
        let member = self.machines[at.0 as usize].member.as_mut().expect("is up");
        let result = act(member, &mut out);
        let mut handed = Vec::new();
        // Either way the state is what all entries up to there add up to.
        let mut state = self.machines[at.0 as usize].state;
        let member = self.machines[at.0 as usize].member.as_mut().expect("is up");
        if let Some(checkpoint) = member.next_checkpoint() {
            state = u64::from_le_bytes(checkpoint.state.bytes().try_into().expect("eight bytes"));
            self.summary.restored += 1;
        }
        while let Some((position, payload)) = member.next_committed() {
            state = base::hash::digest(&(state, position, payload.bytes()));
            let seed = self.plan.seed;
            let known = *self.states.entry(position.index).or_insert(state);
            assert_eq!(known, state, "seed {seed}: two states at {position:?}");
            handed.push((position, payload));
        }
        if self.plan.checkpoints > 0.0 && self.rng.chance(self.plan.checkpoints) {
            let now = self.clock(at);
            let member = self.machines[at.0 as usize].member.as_mut().expect("is up");
            member.checkpoint(now, Payload::new(state.to_le_bytes().to_vec()), &mut out);
            self.summary.taken += 1;
        }
        self.machines[at.0 as usize].state = state;
        if self.rng.chance(0.2) {
            self.machines[at.0 as usize].member.as_mut().expect("is up").release();
        }
        for (position, payload) in handed {
            let before = self.committed.insert(position.index, (position.term, payload.clone()));
            if let Some(before) = before {
                let seed = self.plan.seed;
                assert_eq!(before, (position.term, payload), "seed {seed}: two entries at {position:?}");
            }
        }
        let machine = &mut self.machines[at.0 as usize];
        let life = machine.life;
        let persist = out.persist.take().map(|(token, record)| {
            let bytes = frame::frame(machine.disk.len(), &record);
            Write { token, bytes, replaces: false }
        });
        let replace = out.replace.take().map(|(token, record)| {
            let bytes = frame::frame(0, &record);
            Write { token, bytes, replaces: true }
        });
        assert!(persist.is_none() || replace.is_none(), "one write at a time");
        if let Some(write) = persist.or(replace) {
            assert!(machine.write.is_none(), "one write at a time");
            machine.write = Some(write);
            let sync_ns = 1 + self.rng.below(self.plan.sync_ns_max);
            self.push(sync_ns, Happening::Synced { at, life });
        }
        for (to, message) in out.messages {
            self.send(at, to, message);
        }
        self.arm(at);
        self.check(at);
        result
    }

    fn arm(&mut self, at: NodeId) {
        let reading = self.clock(at);
        let machine = &mut self.machines[at.0 as usize];
        let Some(member) = &machine.member else { return };
        let wake_at = member.wake_at();
        if wake_at == Time::MAX {
            return;
        }
        let due = self.now + wake_at.since(reading).max(1);
        if machine.wakes_at.is_none_or(|armed| due < armed || armed <= self.now) {
            machine.wakes_at = Some(due);
            let life = machine.life;
            self.push(due - self.now, Happening::Wakes { at, life });
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        let bytes = codec::encode(&message);
        self.summary.trace = base::rng::fnv1a(self.summary.trace, &bytes) ^ self.now;
        let (loss, duplication) =
            if self.healed { (0.0, 0.0) } else { (self.plan.loss, self.plan.duplication) };
        let copies = 1 + u32::from(self.rng.chance(duplication));
        for _ in 0..copies {
            if self.rng.chance(loss) {
                continue;
            }
            let delay_ns = 1 + self.rng.below(self.plan.delay_ns_max);
            self.push(delay_ns, Happening::Arrives { from, to, bytes: bytes.clone() });
        }
    }

    fn step(&mut self) {
        let ((at, _), happening) = self.queue.pop_first().expect("something is always to come");
        self.now = at;
        match happening {
            Happening::Arrives { from, to, bytes } => {
                if self.cuts.contains(&(from, to)) || self.machines[to.0 as usize].member.is_none() {
                    return;
                }
                let message = codec::decode(&bytes).expect("what was sent");
                let now = self.clock(to);
                self.with(to, |member, out| member.message(now, from, message, out));
            }
            Happening::Synced { at, life } => {
                let machine = &mut self.machines[at.0 as usize];
                if machine.life != life || machine.member.is_none() {
                    return;
                }
                let Write { token, bytes, replaces } = machine.write.take().expect("is under way");
                if replaces {
                    machine.disk.clear();
                }
                machine.disk.extend_from_slice(&bytes);
                let now = self.clock(at);
                self.with(at, |member, out| member.persisted(now, token, out));
            }
            Happening::Wakes { at, life } => {
                let machine = &mut self.machines[at.0 as usize];
                if machine.life != life || machine.member.is_none() {
                    return;
                }
                machine.wakes_at = None;
                let now = self.clock(at);
                self.with(at, |member, out| member.wake(now, out));
            }
            Happening::Proposes => {
                let after_ns = 1 + self.rng.below(2 * self.plan.propose_every_ns);
                self.push(after_ns, Happening::Proposes);
                for at in self.members() {
                    let leads = self.machines[at.0 as usize].member.as_ref().is_some_and(Member::is_leader);
                    if !leads {
                        continue;
                    }
                    self.proposals += 1;
                    let now = self.clock(at);
                    let payload = Payload::new(self.proposals.to_le_bytes().to_vec());
                    self.with(at, |member, out| member.propose(now, payload, out)).expect("it leads");
                }
            }
            Happening::Trouble => self.trouble(),
        }
        self.check_leases();
    }

    fn trouble(&mut self) {
        if self.healed {
            return;
        }
        let after_ns = 1 + self.rng.below(2 * self.plan.trouble_every_ns);
        self.push(after_ns, Happening::Trouble);
        let members = self.members();
        let victim = *self.rng.pick(&members);
        match self.rng.below(8) {
            0 | 1 => self.crash(victim),
            2..4 => {
                if self.machines[victim.0 as usize].member.is_none() {
                    self.boot(victim);
                }
            }
            4 => {
                let other = *self.rng.pick(&members);
                self.cuts.insert((victim, other));
            }
            5 => {
                for other in members {
                    self.cuts.extend([(victim, other), (other, victim)]);
                }
            }
            6 => self.cuts.clear(),
            _ => {
                let bound = self.plan.options.clock_bound_ns as i64;
                self.machines[victim.0 as usize].error_ns = *self.rng.pick(&[-bound, bound, 0]);
            }
        }
    }

    fn heal(&mut self) {
        self.healed = true;
        (self.plan.delay_ns_max, self.plan.sync_ns_max) = (MS, 200 * US);
        self.cuts.clear();
        for at in self.members() {
            if self.machines[at.0 as usize].member.is_none() {
                self.boot(at);
            }
        }
    }

    /// Everyone has handed out some proposal made after `target` others.
    fn all_have(&self, target: u64) -> bool {
        let newest = self
            .committed
            .iter()
            .rev()
            .find(|(_, (_, p))| target <= u64::from_le_bytes(p.bytes().try_into().expect("eight bytes")));
        newest.is_some_and(|(index, _)| {
            self.machines.iter().all(|m| m.member.as_ref().is_some_and(|m| *index <= m.commit()))
        })
    }

    // ---- the judge --------------------------------------------------------------------------------

    fn check(&mut self, at: NodeId) {
        let seed = self.plan.seed;
        let member = self.machines[at.0 as usize].member.as_ref().expect("is up");
        assert!(member.refused().is_empty(), "seed {seed}: {at} refuses {:?}", member.refused());
        // Log matching: an entry is named by its position; what precedes it is always the same.
        let (released, last) = (member.released(), member.last().index);
        let newest = Index(last.0.saturating_sub(8)).max(released);
        let first = if self.rng.chance(0.02) { released } else { newest };
        let mut before = None;
        for index in (first.0 + 1..=last.0).map(Index) {
            let Entry { term, payload } = member.entry(index).expect("is in memory").clone();
            if let Some(before) = before {
                let known = self.entries.entry(Position { term, index }).or_insert((payload.clone(), before));
                assert_eq!(*known, (payload, before), "seed {seed}: logs differ at {index:?} {term:?}");
            }
            before = Some(term);
        }
        if !member.is_leader() {
            return;
        }
        // Election safety.
        let leader = *self.leaders.entry(member.term()).or_insert(at);
        assert_eq!(leader, at, "seed {seed}: two leaders in {:?}", member.term());
        // Leader completeness, for the newest committed entries and sometimes for all.
        let all = if self.rng.chance(0.02) { usize::MAX } else { 8 };
        for (&index, (term, _)) in self.committed.iter().rev().take(all) {
            if released < index {
                let own = member.entry(index).map(|e| e.term);
                let newer = self.leaders.keys().next_back().is_some_and(|newest| member.term() == *newest);
                assert!(
                    own == Some(*term) || !newer,
                    "seed {seed}: {at} leads without {index:?} of {term:?}"
                );
            }
        }
    }

    fn check_leases(&mut self) {
        let mut holders = Vec::new();
        for at in self.members() {
            let now = self.clock(at);
            if self.machines[at.0 as usize].member.as_ref().is_some_and(|m| m.has_lease(now)) {
                holders.push(at);
            }
        }
        self.summary.lease_readings += u64::from(!holders.is_empty());
        assert!(holders.len() <= 1, "seed {}: leases at {holders:?}", self.plan.seed);
    }
}
