//! Row locks between regions: asked for at the rows' home, served by the gateway there; see [`crate::locks`].

use super::*;
use crate::locks::{Granted, LockEvent, LockMessage, LockOwner, Wish, WishName};
use base::time::SECOND;

/// Repeated so often without a word from the home, a wish is given up.
const SILENCE_MAX: u32 = 3;
/// How often others are told of a table that is contended.
const TELL_EVERY_NS: u64 = SECOND;

impl<E: Engine> Node<E> {
    /// The gateway wants rows locked that are homed elsewhere.
    pub(super) fn lock_rows(&mut self, now: Time, id: RequestId, lock: LockRows, out: &mut Effects<Self>) {
        let LockRows { home, owner, rows, patience_ns } = lock;
        if home == self.id || usize::from(home.0) >= self.topology.nodes.len() {
            return out.reply(id, Reply::Locked(Ok(None)));
        }
        let wish = self.questions.next_question();
        self.send(home, Message::Lock(LockMessage::Want { owner, wish, rows: rows.clone() }), out);
        out.timer(Timer::RepeatWish { wish }, now + self.patience_ns(home));
        let until = patience_ns.map(|ns| now + ns);
        self.locks.wishes.insert(wish, Wish { request: id, home, owner, rows, silent: 0, until });
    }

    /// No answer to a wish yet: it is repeated, or given up.
    pub(super) fn repeat_wish(&mut self, now: Time, wish: QuestionId, out: &mut Effects<Self>) {
        let Some(known) = self.locks.wishes.get_mut(&wish) else { return };
        known.silent += 1;
        let (home, owner) = (known.home, known.owner);
        if known.silent > SILENCE_MAX || known.until.is_some_and(|until| until <= now) {
            base::sometimes!("a wish for a row lock elsewhere is given up");
            let known = self.locks.wishes.remove(&wish).expect("just found");
            self.send(home, Message::Lock(LockMessage::Release { owner, wish: Some(wish) }), out);
            return out.reply(known.request, Reply::Locked(Ok(None)));
        }
        let rows = known.rows.clone();
        self.send(home, Message::Lock(LockMessage::Want { owner, wish, rows }), out);
        out.timer(Timer::RepeatWish { wish }, now + self.patience_ns(home));
    }

    /// Nobody waits for these wishes any more.
    pub(super) fn forget_wishes(&mut self, id: RequestId, out: &mut Effects<Self>) {
        if self.locks.server == Some(id) {
            self.locks.server = None;
        }
        let gone: Vec<QuestionId> =
            self.locks.wishes.iter().filter(|(_, wish)| wish.request == id).map(|(name, _)| *name).collect();
        for name in gone {
            let wish = self.locks.wishes.remove(&name).expect("just found");
            let release = LockMessage::Release { owner: wish.owner, wish: Some(name) };
            self.send(wish.home, Message::Lock(release), out);
        }
    }

    pub(super) fn unlock_rows(&mut self, home: NodeId, owner: LockOwner, out: &mut Effects<Self>) {
        if home != self.id && usize::from(home.0) < self.topology.nodes.len() {
            self.send(home, Message::Lock(LockMessage::Release { owner, wish: None }), out);
        }
    }

    /// The gateway serves locks on rows homed here, from now on or still.
    pub(super) fn serve_locks(&mut self, id: RequestId, begins: bool, out: &mut Effects<Self>) {
        if begins {
            // Another gateway, which has locked nothing for anybody. Wishes that still wait are repeated.
            (self.locks.served, self.locks.granted) = Default::default();
            self.locks.events.clear();
            self.locks.is_served = true;
        }
        self.locks.server = Some(id);
        self.tell_server(out);
    }

    /// Answers the gateway's open request if there is something to tell.
    pub(super) fn tell_server(&mut self, out: &mut Effects<Self>) {
        if self.locks.events.is_empty() {
            return;
        }
        if let Some(id) = self.locks.server.take() {
            out.reply(id, Reply::LockEvents(self.locks.events.drain(..).collect()));
        }
    }

    /// The gateway here has locked the rows of a wish for another node, or has found that it never could.
    pub(super) fn lock_served(
        &mut self,
        now: Time,
        name: WishName,
        result: Result<bool, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(served) = self.locks.served.get_mut(&name) else { return };
        let wish = name.wish;
        match result {
            Ok(waited) => {
                let at = now.rank() + self.topology.clock_bound_ns;
                served.at = Some((at, waited));
                for row in served.rows.clone() {
                    self.locks.granted.insert(row, name);
                }
                self.data.note_writes(true);
                out.timer(Timer::LockLease { name }, now + self.lease_of_locks_ns(name.node));
                self.send(name.node, Message::Lock(LockMessage::Granted { wish, at, waited }), out);
            }
            Err(error) => {
                self.locks.end(name);
                self.send(name.node, Message::Lock(LockMessage::Refused { wish, error }), out);
            }
        }
        self.tell_server(out);
    }

    /// How long another region's transaction may keep rows locked here.
    fn lease_of_locks_ns(&self, node: NodeId) -> u64 {
        self.options.lock_lease_ns + 6 * self.topology.one_way_ns(self.id, node)
    }

    /// A transaction has kept rows locked for too long.
    pub(super) fn end_lease(&mut self, name: WishName, out: &mut Effects<Self>) {
        if self.locks.served.contains_key(&name) {
            base::sometimes!("a row lock of another region expires");
            self.locks.end(name);
            self.tell_server(out);
        }
    }

    pub(super) fn on_lock(&mut self, now: Time, from: NodeId, message: LockMessage, out: &mut Effects<Self>) {
        match message {
            LockMessage::Want { owner, wish, rows } => {
                self.on_want(now, WishName { node: from, owner, wish }, rows, out)
            }
            LockMessage::Queued { wish } => {
                if let Some(known) = self.locks.wishes.get_mut(&wish).filter(|known| known.home == from) {
                    known.silent = 0;
                }
            }
            LockMessage::Granted { wish, at, waited } => {
                if self.locks.wishes.get(&wish).is_none_or(|known| known.home != from) {
                    return; // Given up meanwhile: the home was told.
                }
                let known = self.locks.wishes.remove(&wish).expect("just found");
                // A peer whose clock is beyond its bound: the cut is chosen here.
                let limit = self.topology.latest_rank(now, self.options.token_ahead_max_ns);
                let at = (at <= limit && !self.topology.unbounded_clocks).then_some(at);
                out.reply(known.request, Reply::Locked(Ok(Some(Locked { at, waited }))));
            }
            LockMessage::Refused { wish, error } => {
                if self.locks.wishes.get(&wish).is_some_and(|known| known.home == from) {
                    let known = self.locks.wishes.remove(&wish).expect("just found");
                    out.reply(known.request, Reply::Locked(Err(error)));
                }
            }
            LockMessage::Release { owner, wish: None } => self.locks.end_all(from, owner),
            LockMessage::Release { owner, wish: Some(wish) } => {
                self.locks.end(WishName { node: from, owner, wish })
            }
            LockMessage::Contended { table } => self.locks.event(LockEvent::Contended { table }),
        }
        self.tell_server(out);
    }

    /// Another node's gateway wants rows locked that are homed here.
    fn on_want(
        &mut self,
        now: Time,
        name: WishName,
        rows: Vec<(TableId, base::Key)>,
        out: &mut Effects<Self>,
    ) {
        let wish = name.wish;
        if !self.locks.is_served {
            return; // Nobody serves locks here: who asks goes on without.
        }
        match self.locks.served.get(&name).map(|served| served.at) {
            Some(Some((at, waited))) => {
                base::sometimes!("a grant of a row lock is repeated");
                self.send(name.node, Message::Lock(LockMessage::Granted { wish, at, waited }), out)
            }
            Some(None) => self.send(name.node, Message::Lock(LockMessage::Queued { wish }), out),
            None => {
                for table in rows.iter().map(|(table, _)| *table).collect::<BTreeSet<_>>() {
                    self.tell_contended(now, table, out);
                }
                self.locks.served.insert(name, Granted { at: None, rows: rows.clone() });
                self.locks.event(LockEvent::Want { name, rows });
            }
        }
    }

    /// Lets every gateway know that rows of a table are better locked before they are written.
    fn tell_contended(&mut self, now: Time, table: TableId, out: &mut Effects<Self>) {
        if self.locks.told.get(&table).is_some_and(|at| now < *at + TELL_EVERY_NS) {
            return;
        }
        self.locks.told.retain(|_, at| now < *at + TELL_EVERY_NS);
        self.locks.told.insert(table, now);
        let others: Vec<NodeId> = self.topology.node_ids().filter(|node| *node != self.id).collect();
        if !others.is_empty() {
            self.send_all(others, Message::Lock(LockMessage::Contended { table }), out);
        }
    }

    /// Transactions of other nodes have executed here: what they had locked is free for whoever comes next.
    pub(super) fn end_executed_locks(&mut self, now: Time, out: &mut Effects<Self>) {
        let latest = now.rank() + self.topology.clock_bound_ns;
        for (rank, coordinator, rows) in self.data.take_written() {
            // A cut that is chosen now would not hold it: its gateway will say when it may be seen.
            if rank <= latest {
                for owner in self.locks.ended_by(coordinator, &rows) {
                    self.locks.end_all(coordinator, owner);
                }
            }
        }
        self.data.note_writes(!self.locks.granted.is_empty());
        self.tell_server(out);
    }
}
