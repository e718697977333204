//! Tries every order of a small history. Shares no code with the checker.

use std::collections::BTreeMap;

use history::{Event, History, Op, OpId, Outcome, Seen};

/// Which pairs an order has to respect; the oracle's own reading of the guarantees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    Nothing,
    /// Sessions, tokens, and all of real time.
    Strict,
    /// Sessions, tokens, real time among writers and from a writer to a query that touches its keys.
    Rss,
    /// Tokens, and real time from a writer to whoever touches its keys.
    Conflicting,
}

/// Tries all orders of the operations of one history.
pub struct Oracle<'h> {
    history: &'h History,
}

impl<'h> Oracle<'h> {
    pub fn new(history: &'h History) -> Oracle<'h> {
        Oracle { history }
    }

    /// Is there a legal serial order, with some of the unanswered operations?
    pub fn serial(&self, demand: Demand) -> bool {
        self.subsets().iter().any(|ops| self.orders(ops, demand))
    }

    /// Is there a legal order of the writers, and one with each query?
    pub fn serial_per_query(&self, demand: Demand) -> bool {
        self.subsets().iter().any(|ops| {
            let (queries, writers): (Vec<OpId>, Vec<OpId>) =
                ops.iter().partition(|&&op| self.history.op(op).is_read_only());
            self.orders(&writers, demand)
                && queries.iter().all(|&query| {
                    let mut with_query = writers.clone();
                    with_query.push(query);
                    self.orders(&with_query, demand)
                })
        })
    }

    /// Is there an interleaving of starts and commits in which everyone reads the state at its start
    /// and nobody commits over a write committed since?
    pub fn snapshot(&self) -> bool {
        self.subsets().iter().any(|ops| {
            let mut running = BTreeMap::new();
            self.interleave(ops, &mut running, &State::new())
        })
    }

    fn interleave(&self, waiting: &[OpId], running: &mut BTreeMap<OpId, State>, state: &State) -> bool {
        if waiting.is_empty() && running.is_empty() {
            return true;
        }
        for (at, &op) in waiting.iter().enumerate() {
            // Reads are checked at the start; what is written waits for the commit.
            if self.execute(op, state).is_some() {
                let mut rest = waiting.to_vec();
                rest.remove(at);
                running.insert(op, state.clone());
                if self.interleave(&rest, running, state) {
                    return true;
                }
                running.remove(&op);
            }
        }
        for op in running.keys().copied().collect::<Vec<_>>() {
            let snapshot = running.remove(&op).expect("a running operation");
            let written = self.written(op);
            if written.iter().all(|key| snapshot.get(key) == state.get(key)) {
                let after = self.execute(op, &snapshot).expect("reads were checked at the start");
                let mut state = state.clone();
                for key in written {
                    state.insert(key.clone(), after[&key].clone());
                }
                if self.interleave(waiting, running, &state) {
                    return true;
                }
            }
            running.insert(op, snapshot);
        }
        false
    }

    /// The committed operations with every choice of unanswered ones.
    fn subsets(&self) -> Vec<Vec<OpId>> {
        let mut subsets = vec![Vec::new()];
        for (at, op) in self.history.ops().iter().enumerate() {
            let id = OpId(at as u32);
            match op.outcome {
                Outcome::Aborted { .. } => {}
                Outcome::Committed { .. } => subsets.iter_mut().for_each(|subset| subset.push(id)),
                Outcome::Unknown => {
                    let mut with = subsets.clone();
                    with.iter_mut().for_each(|subset| subset.push(id));
                    subsets.extend(with);
                }
            }
        }
        subsets
    }

    fn orders(&self, ops: &[OpId], demand: Demand) -> bool {
        self.extend(ops, &State::new(), demand)
    }

    fn extend(&self, rest: &[OpId], state: &State, demand: Demand) -> bool {
        if rest.is_empty() {
            return true;
        }
        rest.iter().enumerate().any(|(at, &op)| {
            let free = rest.iter().all(|&other| other == op || !self.precedes(other, op, demand));
            let next = if free { self.execute(op, state) } else { None };
            next.is_some_and(|state| {
                let mut rest = rest.to_vec();
                rest.remove(at);
                self.extend(&rest, &state, demand)
            })
        })
    }

    fn precedes(&self, a: OpId, b: OpId, demand: Demand) -> bool {
        let (first, second) = (self.history.op(a), self.history.op(b));
        let answered = first.replied_ns().is_some_and(|replied_ns| replied_ns < second.invoked_ns);
        let writes = !first.is_read_only();
        let touches = || {
            let touched = self.touched(second);
            self.written(a).iter().any(|key| touched(key))
        };
        match demand {
            Demand::Nothing => false,
            Demand::Strict => self.hands_on(a, b, true) || answered,
            Demand::Rss => {
                self.hands_on(a, b, true) || answered && writes && (!second.is_read_only() || touches())
            }
            Demand::Conflicting => self.hands_on(a, b, false) || answered && writes && touches(),
        }
    }

    /// By a token or within a session, perhaps through aborted operations.
    fn hands_on(&self, a: OpId, b: OpId, sessions: bool) -> bool {
        let (first, second) = (self.history.op(a), self.history.op(b));
        let answered = first.replied_ns().is_some_and(|replied_ns| replied_ns < second.invoked_ns);
        if second.tokens.contains(&a) || sessions && first.session == second.session && answered {
            return true;
        }
        let between = (a.0 + 1..b.0).map(OpId);
        let aborted = between.filter(|&c| matches!(self.history.op(c).outcome, Outcome::Aborted { .. }));
        aborted.into_iter().any(|c| self.hands_on(a, c, sessions) && self.hands_on(c, b, sessions))
    }

    fn written(&self, op: OpId) -> Vec<String> {
        let events = self.history.op(op).events.iter();
        let keys = events.filter_map(|event| match event {
            Event::Write { key, .. } | Event::Append { key, .. } | Event::Delete { key } => Some(*key),
            Event::Read { .. } | Event::Scan { .. } => None,
        });
        keys.map(|key| self.history.key_name(key).to_owned()).collect()
    }

    fn touched<'a>(&'a self, op: &'a Op) -> impl Fn(&str) -> bool + 'a {
        move |name| {
            op.events.iter().any(|event| match event {
                Event::Scan { low, high, .. } => {
                    low.as_str() <= name && high.as_ref().is_none_or(|high| name < high.as_str())
                }
                Event::Read { key, .. }
                | Event::Write { key, .. }
                | Event::Append { key, .. }
                | Event::Delete { key } => self.history.key_name(*key) == name,
            })
        }
    }

    /// The state after the operation, or `None` if it cannot have read what it read.
    fn execute(&self, op: OpId, state: &State) -> Option<State> {
        let mut state = state.clone();
        for event in &self.history.op(op).events {
            match event {
                Event::Read { key, seen } => {
                    matches(state.get(self.history.key_name(*key)), seen).then_some(())?;
                }
                Event::Scan { low, high, rows } => {
                    for (key, seen) in rows {
                        matches(state.get(self.history.key_name(*key)), seen).then_some(())?;
                    }
                    let returned = |name: &str| rows.iter().any(|row| self.history.key_name(row.0) == name);
                    let missed = state.iter().any(|(name, seen)| {
                        let inside = low <= name && high.as_ref().is_none_or(|high| name < high);
                        inside && !returned(name) && *seen != Seen::Absent
                    });
                    (!missed).then_some(())?;
                }
                Event::Write { key, value } => {
                    state.insert(self.history.key_name(*key).to_owned(), Seen::Value(*value));
                }
                Event::Delete { key } => {
                    state.insert(self.history.key_name(*key).to_owned(), Seen::Absent);
                }
                Event::Append { key, value } => {
                    let list = state.entry(self.history.key_name(*key).to_owned());
                    match list.or_insert(Seen::List(Vec::new())) {
                        Seen::List(values) => values.push(*value),
                        other => panic!("{other:?} is not a list"),
                    }
                }
            }
        }
        Some(state)
    }
}

type State = BTreeMap<String, Seen>;

fn matches(state: Option<&Seen>, seen: &Seen) -> bool {
    match state {
        Some(state) => state == seen,
        None => matches!(seen, Seen::Initial | Seen::Absent) || *seen == Seen::List(Vec::new()),
    }
}
