//! A group where nothing happens unless a scene says so: who wakes, what arrives, who crashes, what time it is.
//!
//! KEEPS: after everything that happens a term has had one leader, all agree on what is committed, and no two
//! members hold a lease.

use base::rng::Rng;
use base::time::SECOND;
use base::{NodeId, Time};
use consensus::{Index, Member, Message, Options, Outputs, Payload, Term, frame};
use std::collections::{BTreeMap, VecDeque};

struct Actor {
    member: Member,
    disk: Vec<u8>,
    error_ns: i64,
}

pub struct Stage {
    options: Options,
    /// True time.
    pub now_ns: u64,
    actors: Vec<Actor>,
    flying: VecDeque<(usize, usize, Message)>,
    leaders: BTreeMap<Term, usize>,
    committed: BTreeMap<Index, (Term, Payload)>,
}

impl Stage {
    /// Three members with these errors of their clocks, in their first life.
    pub fn new(options: Options, errors_ns: [i64; 3]) -> Stage {
        let actors = (0..3).map(|m| Actor {
            member: member(m, &options, &[]),
            disk: Vec::new(),
            error_ns: errors_ns[m],
        });
        let mut stage = Stage {
            actors: actors.collect(),
            options,
            now_ns: SECOND,
            flying: VecDeque::new(),
            leaders: BTreeMap::new(),
            committed: BTreeMap::new(),
        };
        (0..3).for_each(|m| stage.with(m, |member, now, out| member.start(now, out)));
        stage
    }

    fn clock(&self, m: usize) -> Time {
        Time((self.now_ns as i64 + self.actors[m].error_ns) as u64)
    }

    /// Lets a member do something; whatever it writes is safe at once.
    fn with(&mut self, m: usize, act: impl FnOnce(&mut Member, Time, &mut Outputs)) {
        let now = self.clock(m);
        let actor = &mut self.actors[m];
        let mut out = Outputs::default();
        act(&mut actor.member, now, &mut out);
        loop {
            let token = if let Some((token, record)) = out.replace.take() {
                actor.disk = frame::frame(0, &record);
                token
            } else if let Some((token, record)) = out.persist.take() {
                actor.disk.extend(frame::frame(actor.disk.len(), &record));
                token
            } else {
                break;
            };
            actor.member.persisted(now, token, &mut out);
        }
        _ = actor.member.next_checkpoint();
        while actor.member.next_committed().is_some() {}
        self.flying.extend(out.messages.into_iter().map(|(to, message)| (m, usize::from(to.0), message)));
        self.check();
    }

    pub fn leads(&self, m: usize) -> bool {
        self.actors[m].member.is_leader()
    }
    pub fn has_lease(&self, m: usize) -> bool {
        self.actors[m].member.has_lease(self.clock(m))
    }
    pub fn term(&self, m: usize) -> Term {
        self.actors[m].member.term()
    }
    /// Who leads, where the log ends and how far it is committed, as a member knows it, and when it wakes.
    pub fn state(&self, m: usize) -> String {
        let member = &self.actors[m].member;
        let ends = (member.term(), member.leader(), member.last(), member.commit());
        format!("{ends:?} {:?} {:?}", member.wake_at(), member.lease_until())
    }
    /// How much a member has refused of what another one has said.
    pub fn refused(&self, m: usize, from: usize) -> u64 {
        let refused = self.actors[m].member.refused().iter();
        refused.filter(|((node, _), _)| usize::from(node.0) == from).map(|(_, count)| count).sum()
    }
    /// A message that no member has sent arrives.
    pub fn hears(&mut self, m: usize, from: usize, message: Message) {
        self.with(m, |member, now, out| member.message(now, NodeId(from as u16), message, out));
    }
    pub fn last(&self, m: usize) -> Index {
        self.actors[m].member.last().index
    }

    /// Waits until this member wants to wake, and wakes it.
    pub fn wake(&mut self, m: usize) {
        let wake_at = self.actors[m].member.wake_at();
        let wait_ns = wake_at.since(self.clock(m));
        self.now_ns += wait_ns;
        self.with(m, |member, now, out| member.wake(now, out));
    }
    pub fn propose(&mut self, m: usize, text: &str) {
        let payload = Payload::new(text.as_bytes().to_vec());
        self.with(m, |member, now, out| _ = member.propose(now, payload, out).expect("it leads"));
    }
    /// Everything so far adds up to nothing in particular.
    pub fn checkpoint(&mut self, m: usize) {
        self.with(m, |member, now, out| member.checkpoint(now, Payload::new(vec![1]), out));
    }
    /// A new life with what the disk holds.
    pub fn restart(&mut self, m: usize) {
        let disk = &self.actors[m].disk;
        let found = frame::split(disk).expect("all of it was written");
        let records: Vec<Vec<u8>> = found.records.iter().map(|r| r.to_vec()).collect();
        self.actors[m].member = member(m, &self.options, &records);
        self.with(m, |member, now, out| member.start(now, out));
    }

    /// Lets messages arrive in the order of sending, and those that they lead to, as long as `passes` lets
    /// through and `done` does not hold. Others stay on their way.
    pub fn carry(&mut self, passes: impl Fn(usize, usize, &Message) -> bool, done: impl Fn(&Stage) -> bool) {
        while !done(self) {
            let next = self.flying.iter().position(|(from, to, message)| passes(*from, *to, message));
            let Some((from, to, message)) = next.and_then(|n| self.flying.remove(n)) else { return };
            let from = NodeId(from as u16);
            self.now_ns += 1;
            self.with(to, |member, now, out| member.message(now, from, message, out));
        }
    }
    /// Everything between these members arrives.
    pub fn carry_among(&mut self, among: &[usize]) {
        self.carry(|from, to, _| among.contains(&from) && among.contains(&to), |_| false);
    }
    pub fn lose_everything(&mut self) {
        self.flying.clear();
    }

    /// This member campaigns and hears only these. No entry arrives anywhere. Answers whether it leads.
    pub fn elect(&mut self, m: usize, voters: &[usize]) -> bool {
        for _ in 0..3 {
            self.wake(m);
            let hears = |n: usize| n == m || voters.contains(&n);
            let no_entries = |message: &Message| match message {
                Message::Append(append) => append.entries.is_empty(),
                _ => true,
            };
            let passes = |from, to, message: &Message| hears(from) && hears(to) && no_entries(message);
            // Who led before first has to learn that it does not any more.
            let led = self.leads(m);
            self.carry(passes, |stage| !led && stage.leads(m));
            self.lose_everything();
            if !led && self.leads(m) {
                return true;
            }
        }
        false
    }

    fn check(&mut self) {
        let holders: Vec<usize> = (0..3).filter(|m| self.has_lease(*m)).collect();
        assert!(holders.len() <= 1, "leases at {holders:?}");
        for (m, actor) in self.actors.iter().enumerate() {
            let member = &actor.member;
            if member.is_leader() {
                let leader = *self.leaders.entry(member.term()).or_insert(m);
                assert_eq!(leader, m, "two leaders in {:?}", member.term());
            }
            for index in (member.released().0 + 1..=member.commit().0).map(Index) {
                let entry = member.entry(index).expect("not released");
                let entry = (entry.term, entry.payload.clone());
                let known = self.committed.entry(index).or_insert(entry.clone());
                assert_eq!(*known, entry, "two entries at {index:?}");
            }
        }
    }
}

fn member(m: usize, options: &Options, records: &[Vec<u8>]) -> Member {
    let group = [NodeId(0), NodeId(1), NodeId(2)];
    let rng = Rng::new(7).fork_nth("stage", m as u64);
    Member::new(group[m], &group, options.clone(), rng, records).expect("its own journal")
}
