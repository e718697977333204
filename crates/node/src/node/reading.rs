//! Reads of local clients: from a request to rows or an immutable snapshot.
//!
//! KEEPS: a cut in use is a floor from the moment it is chosen until its answer; a request gets one reply.

use super::asking::granule_of;
use super::*;
use crate::questions::{Asked, Owner};
use base::Cut;
use base::cut::{Consistency, CutChoice};
use base::key::KeyRange;
use base::txn::RowRead;
use reads::snapshot::perseus::RegularQuery;
use reads::snapshot::printed::PrintedQuery;
use reads::snapshot::rank::RankQuery;
use reads::snapshot::{Ask, QueryMeta, Readable};

/// The cut of a read of rows, and how it was chosen.
#[derive(Clone, Copy)]
pub(super) struct RowCut {
    /// When the read arrived.
    pub arrived: Time,
    pub at: Rank,
    pub choice: CutChoice,
}

impl RowCut {
    /// Freshness of rows that are handed out now.
    fn freshness(&self, now: Time, coordination_ns: u64) -> base::Freshness {
        // A rank that was found by asking says nothing about time, but everything that was answered is in there.
        let complete_until = match self.choice {
            CutChoice::Calibrated => self.arrived,
            _ => self.at.time(),
        };
        let newest = now.rank();
        let choice = self.choice;
        let freshness =
            reads::snapshot::freshness(self.arrived, now, newest, complete_until, coordination_ns);
        base::Freshness { choice, ..freshness }
    }
}

impl<E: Engine> Node<E> {
    /// The cut of a read that arrives now, by its level; `None`: it has to be found by asking (see `finding`).
    ///
    /// `session` and `stale` read what is complete in the columns here. Where the columns of a partition are not here,
    /// or have not come yet, nothing is known to be complete, and the read is a strong one. At every level a cut is
    /// not below the last change of a table that is read: the statement was planned with the catalog as it is here,
    /// and the rows of an earlier cut have another shape, or the table is not there at all.
    ///
    /// Errors: 0A000, the level rests on clocks that have no bound.
    pub(super) fn choose_cut(
        &self,
        now: Time,
        consistency: Consistency,
        token: &Token,
        partitions: impl Iterator<Item = PartitionId>,
        is_read: impl Fn(TableId) -> bool,
    ) -> Result<Option<Rank>, SqlError> {
        let strong = match self.topology.unbounded_clocks {
            true => None,
            false => Some(now.rank() + self.topology.clock_bound_ns),
        };
        let cut = match consistency {
            Consistency::Rss if strong.is_none() => return Err(rests_on_clocks()),
            Consistency::Rss | Consistency::Regular => strong,
            Consistency::Session | Consistency::Stale => match (self.complete_here(partitions), strong) {
                (Some(low), Some(strong)) => Some(low.min(strong)),
                (low, strong) => low.or(strong),
            },
        };
        let seen = match consistency {
            // It waits for nothing, not even for what its own session has written.
            Consistency::Stale => Rank::ZERO,
            _ => token.rank,
        };
        let Some(cut) = cut.map(|cut| cut.max(seen)) else { return Ok(None) };
        let changed =
            [self.data.changed_above(cut, &is_read), self.columns.store.changed_above(cut, &is_read)];
        let changed = changed.into_iter().flatten().max();
        if changed.is_some() {
            base::sometimes!("a cut is moved up to the last change of a table that is read");
        }
        Ok(Some(changed.unwrap_or(cut)))
    }

    /// Up to where the columns here have everything of these partitions. (It was never collected: see `tell_floor`.)
    fn complete_here(&self, partitions: impl Iterator<Item = PartitionId>) -> Option<Rank> {
        let mut complete = None;
        for partition in partitions {
            // Nothing is known of a copy that has not arrived.
            let low = *self.columns.low.get(&partition)?;
            complete = Some(complete.map_or(low, |complete: Rank| complete.min(low)));
        }
        complete
    }

    /// How the cut of a read of rows is chosen.
    fn choice_of_rows(&self, given: Option<Rank>, consistency: Consistency) -> CutChoice {
        match consistency {
            _ if given.is_some() => CutChoice::Given,
            Consistency::Session | Consistency::Stale => CutChoice::Local,
            _ if self.topology.unbounded_clocks => CutChoice::Calibrated,
            Consistency::Rss | Consistency::Regular => CutChoice::Clock,
        }
    }

    pub(super) fn read_rows(&mut self, now: Time, id: RequestId, read: ReadRows, out: &mut Effects<Self>) {
        if let Err(error) = self.check_token(now, &read.token) {
            return out.reply(id, Reply::Rows(Err(error)));
        }
        let partitions = read.reads.iter().map(|row_read| row_read.partition);
        let is_read = |table| read.reads.iter().any(|row_read| row_read.table == table);
        let cut = match read.at {
            Some(at) => Ok(Some(at)),
            None => self.choose_cut(now, read.consistency, &read.token, partitions, is_read),
        };
        match cut {
            Err(error) => out.reply(id, Reply::Rows(Err(error))),
            Ok(Some(at)) => {
                let choice = self.choice_of_rows(read.at, read.consistency);
                self.read_rows_at(now, id, RowCut { arrived: now, at, choice }, read, out)
            }
            Ok(None) => {
                let mut reads: BTreeMap<PartitionId, Vec<Granule>> = BTreeMap::new();
                for read in &read.reads {
                    reads.entry(read.partition).or_default().push(granule_of(read));
                }
                let token = read.token.rank;
                self.find_cut(now, id, Request::ReadRows(read), reads, token, out);
            }
        }
    }

    /// Reads at a cut that was chosen for a request which had arrived then.
    pub(super) fn read_rows_at(
        &mut self,
        now: Time,
        id: RequestId,
        cut: RowCut,
        read: ReadRows,
        out: &mut Effects<Self>,
    ) {
        let slots = read.reads.len();
        if let Some(first) = read.reads.first().map(|row_read| row_read.partition)
            && read.reads.iter().all(|row_read| row_read.partition == first)
        {
            let question = Question::Rows { at: cut.at, reads: read.reads };
            return self.read_partition(now, id, cut, slots, (first, question), out);
        }
        let mut by_partition: BTreeMap<PartitionId, (Vec<usize>, Vec<RowRead>)> = BTreeMap::new();
        for (slot, row_read) in read.reads.into_iter().enumerate() {
            let group = by_partition.entry(row_read.partition).or_default();
            group.0.push(slot);
            group.1.push(row_read);
        }
        let questions = by_partition
            .into_iter()
            .map(|(partition, (slots, reads))| (partition, slots, Question::Rows { at: cut.at, reads }));
        self.read_at(now, id, cut, slots, questions.collect(), out);
    }

    /// A call reads at the cut of a strong read: whatever was answered before it came is in there.
    pub(super) fn call(&mut self, now: Time, id: RequestId, call: ReadingCall, out: &mut Effects<Self>) {
        if let Err(error) = self.check_token(now, &call.token) {
            return out.reply(id, Reply::Rows(Err(error)));
        }
        let strong = Consistency::Regular;
        match self.choose_cut(now, strong, &call.token, std::iter::empty(), |_| true) {
            Err(error) => out.reply(id, Reply::Rows(Err(error))),
            Ok(Some(at)) => {
                let choice = self.choice_of_rows(None, strong);
                self.call_at(now, id, RowCut { arrived: now, at, choice }, call, out)
            }
            Ok(None) => {
                let granules = call.call.access.iter().map(|access| access.granule.clone()).collect();
                let (reads, token) = ([(call.partition, granules)].into(), call.token.rank);
                self.find_cut(now, id, Request::Call(call), reads, token, out);
            }
        }
    }

    pub(super) fn call_at(
        &mut self,
        now: Time,
        id: RequestId,
        cut: RowCut,
        call: ReadingCall,
        out: &mut Effects<Self>,
    ) {
        let question = Question::Call { at: cut.at, call: call.call };
        self.read_partition(now, id, cut, 1, (call.partition, question), out);
    }

    /// A read of one partition. Where that is here and nobody holds it up, which is the usual case, it is answered
    /// without being remembered.
    fn read_partition(
        &mut self,
        now: Time,
        id: RequestId,
        cut: RowCut,
        slots: usize,
        (partition, what): (PartitionId, Question),
        out: &mut Effects<Self>,
    ) {
        let granules = match &what {
            _ if self.topology.copy_near(partition, self.id) != self.id => None,
            Question::Rows { reads, .. } => Some(reads.iter().map(granule_of).collect()),
            Question::Call { call, .. } => Some(call.access.iter().map(|a| a.granule.clone()).collect()),
            _ => None,
        };
        let Some(granules) = granules else {
            let questions = vec![(partition, (0..slots).collect(), what)];
            return self.read_at(now, id, cut, slots, questions, out);
        };
        let ticket = self.questions.next_ticket();
        let mut effects = self.close_rank(now, ticket, Close { partition, rank: cut.at, granules });
        let answers = |effect: &EngineEffect<E::Message>| matches!(effect, EngineEffect::Answered { ticket: answered, .. } if *answered == ticket);
        if let Some(nth) = effects.iter().rposition(answers)
            && let EngineEffect::Answered { result, .. } = effects.remove(nth)
        {
            self.engine_effects(now, effects, out);
            let rows = result.and_then(|_| self.rows_of(partition, &what));
            let freshness = cut.freshness(now, now.since(cut.arrived));
            let (at, token) = (cut.at, Token::at(cut.at).of(self.options.incarnation));
            let asked = self.questions.take_asked(id);
            return out.reply(id, Reply::Rows(rows.map(|reads| Rows { at, reads, token, freshness, asked })));
        }
        base::sometimes!("a read of rows waits for a writer here");
        let question = self.questions.next_question();
        self.hold_read(now, id, cut, slots, [(question, (0..slots).collect())].into());
        self.questions.asked.insert(question, Asked { partition, what: None, owner: Owner::Read(id) });
        self.begin_serving(now, self.id, question, ticket, partition, what);
        self.engine_effects(now, effects, out);
    }

    /// A read whose answers are to come, and the cut that it keeps.
    fn hold_read(
        &mut self,
        now: Time,
        id: RequestId,
        cut: RowCut,
        slots: usize,
        open: BTreeMap<QuestionId, Vec<usize>>,
    ) {
        self.floors.hold(cut.at);
        self.tell_floor();
        let rows = vec![Vec::new(); slots];
        let coordination_ns = now.since(cut.arrived);
        let state = RowReadState { cut, open, rows, coordination_ns, waited_ns: 0 };
        self.row_reads.insert(id, state);
    }

    /// Asks partitions about rows at a cut; each answers some of `slots` reads.
    fn read_at(
        &mut self,
        now: Time,
        id: RequestId,
        cut: RowCut,
        slots: usize,
        questions: Vec<(PartitionId, Vec<usize>, Question)>,
        out: &mut Effects<Self>,
    ) {
        let mut open = BTreeMap::new();
        let mut asks = Vec::with_capacity(questions.len());
        for (partition, slots, what) in questions {
            let question = self.questions.next_question();
            open.insert(question, slots);
            asks.push((question, partition, what));
        }
        self.hold_read(now, id, cut, slots, open);
        for (question, partition, what) in asks {
            self.ask(now, question, partition, what, Owner::Read(id), out);
        }
        self.finish_row_read(now, id, out);
    }

    pub(super) fn finish_row_read(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        if self.row_reads.get(&id).is_none_or(|state| !state.open.is_empty()) {
            return;
        }
        let state = self.row_reads.remove(&id).expect("was found");
        let at = state.cut.at;
        self.floors.release(at);
        self.tell_floor();
        let freshness = state.cut.freshness(now, state.coordination_ns);
        let token = Token::at(at).of(self.options.incarnation);
        let asked = self.questions.take_asked(id);
        let rows = Rows { at, reads: state.rows, token, freshness, asked };
        out.reply(id, Reply::Rows(Ok(rows)));
    }

    pub(super) fn open_snapshot(
        &mut self,
        now: Time,
        id: RequestId,
        open: OpenSnapshot,
        out: &mut Effects<Self>,
    ) {
        if let Err(error) = self.check_open(now, &open) {
            return out.reply(id, Reply::Snapshot(Err(error)));
        }
        let mut reads: BTreeMap<PartitionId, Vec<Granule>> = BTreeMap::new();
        for (&table, partitions) in &open.tables {
            for &partition in partitions {
                reads.entry(partition).or_default().push(Granule::Range(table, KeyRange::all()));
            }
        }
        let is_elsewhere = reads.keys().any(|p| !self.subscribes(*p));
        // What the columns here have of other partitions says how far a cut may be that other readers give part of.
        let local: Vec<PartitionId> = match is_elsewhere {
            true => self.topology.nodes[self.id.0 as usize].subscribes.clone(),
            false => reads.keys().copied().collect(),
        };
        let is_read = |table| open.tables.contains_key(&table);
        let chosen = match open.at {
            Some(at) => Ok(Some(at)),
            None => self.choose_cut(now, open.consistency, &open.token, local.iter().copied(), is_read),
        };
        let chosen = match chosen {
            Ok(chosen) => chosen,
            Err(error) => return out.reply(id, Reply::Snapshot(Err(error))),
        };
        if is_elsewhere {
            let token = open.token.rank;
            return match chosen {
                None => self.find_cut(now, id, Request::OpenSnapshot(open), reads, token, out),
                Some(at) => {
                    // What came as a copy can be read from there on.
                    let begins = local.iter().map(|p| self.columns.begins_at(*p)).max().unwrap_or_default();
                    let at = if open.at.is_some() { at } else { at.max(begins) };
                    let choice = match (open.at, open.consistency) {
                        (Some(_), _) => CutChoice::Given,
                        (None, Consistency::Rss | Consistency::Regular) => CutChoice::Clock,
                        (None, Consistency::Session | Consistency::Stale) => CutChoice::Local,
                    };
                    self.gather(now, id, open, (at, choice), out)
                }
            };
        }
        let is_complete = self.complete_here(local.into_iter()).is_some();
        // `stale` waits for nothing, not even for what its own session has written.
        let token = match open.consistency {
            Consistency::Stale => Token::default(),
            _ => open.token.clone(),
        };
        let meta = QueryMeta { arrived: now, token, reads };
        let strong = open.at.is_none() && matches!(open.consistency, Consistency::Rss | Consistency::Regular);
        let rival = if strong { self.rival_rule(meta.clone()) } else { None };
        let (rule, floor): (Box<dyn SnapshotRule>, Rank) = match (open.at, open.consistency) {
            _ if rival.is_some() => rival.expect("just seen"),
            (None, Consistency::Rss | Consistency::Regular) if self.options.printed.is_some() => {
                let printed = self.options.printed.expect("just seen");
                let rule = PrintedQuery::new(meta, printed, &self.columns);
                (Box::new(rule), self.columns.collected_below)
            }
            // Logs of two copies differ where order does not matter: their positions mean nothing to each
            // other, and a rank cut promises more.
            (None, Consistency::Regular) if !self.topology.is_replicated() => {
                // Its base will not lie below what is complete now. (What was collected would be a floor, too, but
                // one that follows itself: where some query is always open, nothing more is ever collected.)
                let complete = meta.reads.keys().map(|p| self.columns.low(*p)).min().unwrap_or_default();
                let floor = complete.max(self.columns.collected_below);
                let rule = RegularQuery::new(meta, self.options.dynamic, self.options.planted());
                (Box::new(rule), floor)
            }
            (at, consistency) => {
                let is_local =
                    is_complete && matches!(consistency, Consistency::Session | Consistency::Stale);
                let (dynamic, planted) = (self.options.dynamic, self.options.planted());
                let query = match (at, chosen) {
                    // Of an old cut, most is complete here.
                    (Some(at), _) => RankQuery::part(meta, at, &self.columns, None),
                    (None, Some(cut)) if is_local => RankQuery::local(meta, cut, &self.columns),
                    (None, Some(cut)) => RankQuery::strong(meta, cut, dynamic, &self.columns, planted),
                    (None, None) => {
                        let least = self.least_cut(now);
                        RankQuery::calibrated(meta, least, dynamic, &self.columns)
                    }
                };
                let cut = query.cut();
                (Box::new(query), cut)
            }
        };
        self.floors.hold(floor);
        self.tell_floor();
        let asks = rule.asks();
        self.queries.insert(id, Query { rule, open, floor });
        self.put(now, id, asks, out);
        self.finish_query(now, id, out);
    }

    /// Puts a query's questions.
    fn put(&mut self, now: Time, id: RequestId, asks: Vec<Ask>, out: &mut Effects<Self>) {
        for ask in asks {
            if let Ask::Calibrate(partition) = ask {
                self.want_calibration(now, partition, id, out);
                continue;
            }
            // What runs here brings its records by itself.
            if matches!(ask, Ask::Record(partition, _) if self.topology.copy_near(partition, self.id) == self.id)
            {
                continue;
            }
            let (partition, what) = Self::question_of(ask);
            let question = self.questions.next_question();
            self.ask(now, question, partition, what, Owner::Query(id), out);
        }
    }

    /// Puts the questions that an answer led to.
    pub(super) fn ask_on(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let Some(query) = self.queries.get_mut(&id) else { return };
        let asks = query.rule.follow_up();
        self.put(now, id, asks, out);
    }

    pub(super) fn check_open(&self, now: Time, open: &OpenSnapshot) -> Result<(), SqlError> {
        self.check_token(now, &open.token)?;
        // Other systems' rules are compared where one reader has all.
        let alone = self.rival.is_some() || self.options.printed.is_some();
        match open.tables.values().flatten().find(|p| !self.subscribes(**p)) {
            Some(partition) if alone => Err(self.keeps_no_columns(*partition)),
            _ => Ok(()),
        }
    }

    /// Hands out the snapshot if its cut has become readable.
    pub(super) fn finish_query(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let Some(query) = self.queries.get_mut(&id) else { return };
        let result = match query.rule.ready(now, &self.columns) {
            Ok(None) => return self.ask_on(now, id, out),
            Ok(Some(Readable { cut, token, freshness })) => {
                let token = token.of(self.options.incarnation);
                if let Cut::Set(set) = &cut {
                    for partition in set.above.keys() {
                        let issued = self.columns.issued.entry(*partition).or_default();
                        issued.take(*partition, set, &self.columns.graph);
                    }
                }
                let store = match (query.rule.to_merge(), &mut self.columns.printed) {
                    (Some(named), Some(printed)) => {
                        printed.merge(named);
                        &mut printed.store
                    }
                    _ => &mut self.columns.store,
                };
                let tables = query.open.tables.iter().map(|(&table, partitions)| {
                    store.snapshot(&cut, table, partitions).map(|snapshot| (table, Arc::new(snapshot)))
                });
                let tables = tables.collect::<Result<BTreeMap<_, _>, _>>();
                tables.and_then(|tables| {
                    let catalog = store.catalog_at(&cut)?;
                    let asked = self.questions.take_asked(id);
                    Ok(Snapshot { tables, catalog, cut, token, freshness, sources: Vec::new(), asked })
                })
            }
            Err(error) => Err(error),
        };
        let query = self.queries.remove(&id).expect("was found");
        self.floors.release(query.floor);
        self.questions.forget(id);
        self.forget_calibrations(id);
        self.tell_floor();
        out.reply(id, Reply::Snapshot(result));
    }

    pub(super) fn finish_queries(&mut self, now: Time, out: &mut Effects<Self>) {
        let open: Vec<RequestId> = self.queries.keys().copied().collect();
        open.into_iter().for_each(|id| self.finish_query(now, id, out));
        self.finish_scans(now, out);
    }
}
