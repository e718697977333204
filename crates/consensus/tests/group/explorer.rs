//! Every way that a few events can go in a group of three: elections, proposals, crashes that lose or tear what
//! was not synced, messages in any order or never.
//!
//! Two schedules that lead to the same members, disks, messages on their way and history are one state and are
//! explored once. Clock readings do not count: there are no leases here, a campaign is possible whenever it is
//! wanted, and a member's clock shows the term that it is in and how much has happened to it there. Who may vote
//! when is for `scenarios`.
//!
//! Left out, because nothing can go wrong by it: soundings get their answers at once, and an opinion that a
//! campaign would fail; heartbeats without entries are lost; a message that changes nothing is lost too.

use base::hash::digest;
use base::process::PersistToken;
use base::rng::Rng;
use base::{NodeId, Time};
use consensus::{Index, Member, Message, Options, Outputs, Payload, Term, frame};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What may happen.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Campaigns, by member.
    pub campaigns: [u8; 3],
    pub proposals: u8,
    /// Crashes, by member.
    pub crashes: [u8; 3],
    /// States to look at, at most.
    pub limit: usize,
}

/// What an exploration found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub states: usize,
    /// Nothing within the scope is left out.
    pub is_complete: bool,
}

/// Panics if some schedule breaks a promise of the log.
pub fn explore(options: &Options, scope: Scope) -> Found {
    let options =
        Options { heartbeat_ns: 1, election_ns: (2, 2), lease_ns: 0, clock_bound_ns: 0, ..options.clone() };
    let options = Rc::new(Options { messages_ahead_max: u32::MAX, ..options });
    let mut seen = BTreeSet::new();
    let mut open = vec![State::new(&options, scope)];
    while let Some(state) = open.pop() {
        if !seen.insert(state.key()) {
            continue;
        }
        if seen.len() == scope.limit {
            return Found { states: seen.len(), is_complete: false };
        }
        state.successors(&options, &mut open);
    }
    Found { states: seen.len(), is_complete: true }
}

#[derive(Clone)]
struct Actor {
    member: Member,
    disk: Vec<u8>,
    write: Option<(PersistToken, Vec<u8>)>,
    /// In this term, at this member.
    happened: u64,
    /// Of all but the time.
    digest: u64,
}

#[derive(Clone)]
struct State {
    actors: [Rc<Actor>; 3],
    /// From, to, message, digest.
    flying: Vec<(usize, usize, Rc<Message>, u64)>,
    left: Scope,
    /// Whoever led, and what was committed, at any time.
    leaders: BTreeMap<Term, usize>,
    committed: BTreeMap<Index, (Term, Payload)>,
}

const GROUP: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];
/// Of a clock, per term; more than happens to a member in one.
const TERM_NS: u64 = 1_000_000;

fn member(m: usize, options: &Options, records: &[Vec<u8>]) -> Member {
    let rng = Rng::new(7).fork_nth("explored", m as u64);
    Member::new(GROUP[m], &GROUP, options.clone(), rng, records).expect("its own journal")
}

/// What a member is, apart from what it will draw: with these options that does not matter.
fn portrait(member: &Member) -> String {
    let mut text = format!("{member:?}");
    let from = text.find("rng: ").expect("is shown");
    let upto = text.find(", life: ").expect("is shown");
    text.replace_range(from..upto, "");
    timeless(&text)
}

fn timeless(text: &str) -> String {
    text.split("ms").map(|part| part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')).collect()
}

impl Actor {
    fn clock(&self, at_least: Term) -> Time {
        Time((1 + self.member.term().max(at_least).0) * TERM_NS + self.happened)
    }
    fn sign(&mut self) {
        self.digest = digest(&(portrait(&self.member), &self.disk, &self.write));
    }
}

impl State {
    fn new(options: &Options, scope: Scope) -> State {
        let actor = |m| {
            let member = member(m, options, &[]);
            Rc::new(Actor { member, disk: Vec::new(), write: None, happened: 0, digest: 0 })
        };
        let mut state = State {
            actors: std::array::from_fn(actor),
            flying: Vec::new(),
            left: scope,
            leaders: BTreeMap::new(),
            committed: BTreeMap::new(),
        };
        // Everybody is there, and has written so.
        for m in 0..3 {
            state.with(m, Term(0), |member, now, out| member.start(now, out));
            state.sync(m);
        }
        state
    }

    fn key(&self) -> u64 {
        let members = [0, 1, 2].map(|m: usize| self.actors[m].digest);
        let mut flying: Vec<u64> = self.flying.iter().map(|(.., digest)| *digest).collect();
        flying.sort_unstable();
        let left = (self.left.campaigns, self.left.proposals, self.left.crashes);
        digest(&(members, flying, left, &self.leaders, &self.committed))
    }

    fn with(&mut self, m: usize, at_least: Term, act: impl FnOnce(&mut Member, Time, &mut Outputs)) {
        let actor = Rc::make_mut(&mut self.actors[m]);
        let (now, term) = (actor.clock(at_least), actor.member.term());
        let mut out = Outputs::default();
        act(&mut actor.member, now, &mut out);
        while actor.member.next_committed().is_some() {}
        actor.happened = if actor.member.term() == term { actor.happened + 1 } else { 0 };
        assert!(out.replace.is_none(), "nobody takes a checkpoint");
        if let Some((token, record)) = out.persist {
            assert!(actor.write.is_none(), "one write at a time");
            actor.write = Some((token, frame::frame(actor.disk.len(), &record)));
        }
        actor.sign();
        for (to, message) in out.messages {
            self.send(m, usize::from(to.0), message);
        }
        self.check(m);
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let is_idle = matches!(&message, Message::Append(append) if append.entries.is_empty());
        // Whoever is asked before a campaign answers the one who asks, and nothing else changes.
        let is_sounding = matches!(message, Message::AskBefore { .. } | Message::WouldVote { .. });
        if is_sounding {
            self.arrive(from, to, &message);
        } else if !is_idle {
            let digest = digest(&(from, to, timeless(&format!("{message:?}"))));
            self.flying.push((from, to, Rc::new(message), digest));
        }
    }

    fn arrive(&mut self, from: usize, to: usize, message: &Message) {
        let message = message.clone();
        let term = message.term();
        self.with(to, term, |member, now, out| member.message(now, GROUP[from], message, out));
    }

    fn sync(&mut self, m: usize) {
        let actor = Rc::make_mut(&mut self.actors[m]);
        let (token, bytes) = actor.write.take().expect("is under way");
        actor.disk.extend(bytes);
        self.with(m, Term(0), |member, now, out| member.persisted(now, token, out));
    }

    /// A crash and a new life. What was being written is there, or only half of it.
    fn crash(&mut self, m: usize, written: bool, options: &Options) {
        let actor = Rc::make_mut(&mut self.actors[m]);
        if let Some((_, bytes)) = actor.write.take() {
            let kept = if written { bytes.len() } else { bytes.len() / 2 };
            actor.disk.extend_from_slice(&bytes[..kept]);
        }
        let found = frame::split(&actor.disk).expect("a torn tail is no damage");
        let records: Vec<Vec<u8>> = found.records.iter().map(|r| r.to_vec()).collect();
        let valid_bytes = found.valid_bytes;
        actor.disk.truncate(valid_bytes);
        actor.member = member(m, options, &records);
        self.with(m, Term(0), |member, now, out| member.start(now, out));
        // A life that is not written down says nothing: its beginning alone is of no interest.
        self.sync(m);
    }

    fn successors(&self, options: &Rc<Options>, open: &mut Vec<State>) {
        let mut tried = BTreeSet::new();
        for (nth, (from, to, message, digest)) in self.flying.iter().enumerate() {
            if !tried.insert(*digest) {
                continue;
            }
            let mut next = self.clone();
            next.flying.remove(nth);
            next.arrive(*from, *to, message);
            if self.is_changed(&next, *to) || next.flying.len() + 1 != self.flying.len() {
                open.push(next);
            }
        }
        for m in 0..3 {
            let actor = &self.actors[m];
            if actor.write.is_some() {
                let mut next = self.clone();
                next.sync(m);
                open.push(next);
            }
            if self.left.crashes[m] > 0 {
                for written in [true, false] {
                    if written || actor.write.is_some() {
                        let mut next = self.clone();
                        next.left.crashes[m] -= 1;
                        next.crash(m, written, options);
                        open.push(next);
                    }
                }
            }
            if self.left.campaigns[m] > 0 && !actor.member.is_leader() {
                let mut next = self.clone();
                next.left.campaigns[m] -= 1;
                next.with(m, actor.member.term().next(), |member, now, out| member.wake(now, out));
                open.push(next);
            }
            if self.left.proposals > 0 && actor.member.is_leader() {
                let mut next = self.clone();
                next.left.proposals -= 1;
                let payload = Payload::new(vec![self.left.proposals]);
                next.with(m, Term(0), |member, now, out| {
                    _ = member.propose(now, payload, out).expect("it leads");
                });
                open.push(next);
            }
        }
    }

    fn is_changed(&self, next: &State, m: usize) -> bool {
        let (before, after) = (&self.actors[m], &next.actors[m]);
        before.write != after.write || portrait(&before.member) != portrait(&after.member)
    }

    // ---- the judge --------------------------------------------------------------------------------

    fn check(&mut self, m: usize) {
        let member = &self.actors[m].member;
        for index in (member.released().0 + 1..=member.commit().0).map(Index) {
            let entry = member.entry(index).expect("not released");
            let entry = (entry.term, entry.payload.clone());
            let known = self.committed.entry(index).or_insert(entry.clone());
            assert_eq!(*known, entry, "two entries at {index:?}");
        }
        if !member.is_leader() {
            return;
        }
        let leader = *self.leaders.entry(member.term()).or_insert(m);
        assert_eq!(leader, m, "two leaders in {:?}", member.term());
        if self.leaders.keys().next_back() == Some(&member.term()) {
            for (&index, (term, _)) in self.committed.range(member.released().next()..) {
                assert_eq!(member.entry(index).map(|e| e.term), Some(*term), "{m} leads without {index:?}");
            }
        }
    }
}

/// Small enough to be explored whole.
pub const SCOPES: [(&str, Scope); 3] = [
    ("two candidates", Scope { campaigns: [1, 1, 0], proposals: 0, crashes: [0, 0, 0], limit: 1_000_000 }),
    (
        "a follower crashes",
        Scope { campaigns: [1, 0, 0], proposals: 1, crashes: [0, 1, 0], limit: 1_000_000 },
    ),
    ("a voter crashes", Scope { campaigns: [1, 1, 0], proposals: 0, crashes: [0, 0, 1], limit: 60_000 }),
];

#[test]
fn nothing_goes_wrong_however_a_few_events_go() {
    for (name, scope) in SCOPES {
        let found = explore(&Options::default(), scope);
        println!("{name}: {} states, {}", found.states, if found.is_complete { "all" } else { "not all" });
        assert!(found.is_complete || found.states == scope.limit);
    }
}
