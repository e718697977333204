//! Reads of rows at a replica, and the partition's answers to them; see [`reads::replica`].
//!
//! KEEPS: a read of rows is answered here or by the partition's own node, at the same promise; one that waits for too long
//! goes there.

use super::*;
use crate::message::AnswerBody;
use crate::questions::{Asked, LongRead, Owner, Purpose, Serving};
use crate::read::Target;
use crate::read::rows::{RowFetch, questions};
use crate::replicas::Wanted;
use base::LogPosition;
use base::order::Close;
use reads::replica::ReadPolicy;
use reads::rule::levels::Wish;
use reads::rule::{Chosen, Readable, Told};
use reads::share::{Stamp, Want};

/// A question waits for the answer to the one before, but for no longer than this and two round trips: that one may wait
/// for a writer that others do not read.
const ANSWER_NS: u64 = MS;
const LOST_NS: u64 = 20 * MS;

impl<E: Engine> Node<E> {
    /// The rows of a partition that this node has, as the partition itself or as a replica.
    pub(super) fn rows_of(&self, partition: PartitionId) -> &rowstore::Store {
        match self.data.replicas.store(partition) {
            Some(store) => store,
            None => self.data.store(partition),
        }
    }

    /// A client wants to read rows.
    pub(super) fn read_rows(
        &mut self,
        now: Time,
        id: RequestId,
        read: ReadRows,
        policy: ReadPolicy,
        out: &mut Effects<Self>,
    ) {
        let is_here = |p: PartitionId| self.data.replicas.store(p).is_some();
        if read.reads.is_empty() || !read.reads.iter().all(|row_read| is_here(row_read.partition)) {
            return self.read(now, id, Goal::Rows(read), out);
        }
        let goal = Goal::Rows(read);
        if let Err(error) = self.check_token(now, goal.token()) {
            return out.reply(id, goal.refused(error));
        }
        let is_read = |table| goal.reads_table(table);
        let (level, given, token) = (goal.level(), goal.given(), goal.token());
        let wish = Wish { arrived: now, level, given, token, is_read: &is_read };
        let (granules, levels) = (goal.granules(&self.topology), self.reads.levels());
        match (levels.over_replicas(&wish, policy, granules, &*self.protocol, &self.here()), goal) {
            (Ok(Some(followed)), Goal::Rows(read)) => {
                let read = Read::columns(now, followed, Target::Rows(read));
                self.begin_read(now, ReadId::Client(id), read, out);
                if self.reads.get(ReadId::Client(id)).is_some() && !self.data.replicas.falls_back {
                    self.data.replicas.falls_back = true;
                    out.timer(Timer::FallBack, now + self.options.kept.patience_ns);
                }
            }
            (Ok(_), goal) => self.read(now, id, goal, out),
            (Err(error), goal) => out.reply(id, goal.refused(error)),
        }
    }

    /// Reads at replicas that have waited for too long go to the partitions' own nodes.
    pub(super) fn fall_back_late(&mut self, now: Time, out: &mut Effects<Self>) {
        self.data.replicas.falls_back = false;
        let mut next: Option<Time> = None;
        for id in self.reads.over_columns() {
            let Some(read) = self.reads.get(id).filter(|read| read.is_over_replicas()) else { continue };
            let partitions = read.row_read().into_iter().flat_map(|read| &read.reads).map(|r| r.partition);
            let farthest = partitions.map(|p| self.columns.one_way_ns(p)).max().unwrap_or_default();
            let late_at = read.arrived() + self.options.kept.patience_ns + 2 * farthest;
            match id {
                ReadId::Client(id) if late_at <= now => self.fall_back(now, id, out),
                _ => next = Some(next.map_or(late_at, |next| next.min(late_at))),
            }
        }
        if let Some(next) = next {
            self.data.replicas.falls_back = true;
            out.timer(Timer::FallBack, next);
        }
    }

    /// A read at a replica goes to the partition's own node instead.
    pub(super) fn fall_back(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let id = ReadId::Client(id);
        if !self.reads.get(id).is_some_and(Read::is_over_replicas) {
            return;
        }
        base::sometimes!("a read at a replica falls back to the partition's own node");
        let read = self.give_up(id).expect("just seen");
        let arrived = read.arrived();
        if let (ReadId::Client(id), Some(read)) = (id, read.into_row_read()) {
            self.read_elsewhere(now, id, arrived, Goal::Rows(read), out);
        }
    }

    // ---- the question -------------------------------------------------------------------------------

    /// A read wants a rank that these partitions close.
    pub(super) fn want_fetch(
        &mut self,
        now: Time,
        partitions: Vec<PartitionId>,
        id: ReadId,
        out: &mut Effects<Self>,
    ) {
        let gap_ns = self.fetch_gap_ns(&partitions);
        let arrived = self.data.replicas.fetches.arrival();
        match self.data.replicas.fetches.want(now, gap_ns, partitions.clone(), arrived, id) {
            Want::Ask(sent) => self.send_fetch(now, partitions, sent, out),
            Want::AskAt(at) if self.data.replicas.armed.insert(partitions.clone()) => {
                out.timer(Timer::Fetch { partitions }, at)
            }
            Want::AskAt(_) | Want::Join => {}
            Want::Known(()) => unreachable!("an answer serves those that it was asked for"),
        }
    }

    fn fetch_gap_ns(&self, partitions: &[PartitionId]) -> u64 {
        let farthest = partitions.iter().map(|p| self.columns.one_way_ns(*p)).max().unwrap_or_default();
        // What is looked up waits for nobody: if it is late, it is lost.
        4 * farthest + if self.data.replicas.loads { LOST_NS } else { ANSWER_NS }
    }

    /// The answer to a question is late, and reads have gathered for the next.
    pub(super) fn fetch_again(&mut self, now: Time, partitions: Vec<PartitionId>, out: &mut Effects<Self>) {
        self.data.replicas.armed.remove(&partitions);
        let gap_ns = self.fetch_gap_ns(&partitions);
        match self.data.replicas.fetches.when_due(gap_ns, &partitions) {
            Some(at) if at > now => {
                self.data.replicas.armed.insert(partitions.clone());
                out.timer(Timer::Fetch { partitions }, at);
            }
            Some(_) => self.fetch_now(now, partitions, out),
            None => {}
        }
    }

    fn fetch_now(&mut self, now: Time, partitions: Vec<PartitionId>, out: &mut Effects<Self>) {
        if let Some(sent) = self.data.replicas.fetches.due(now, &partitions) {
            self.send_fetch(now, partitions, sent, out);
        }
    }

    fn send_fetch(&mut self, now: Time, partitions: Vec<PartitionId>, sent: Stamp, out: &mut Effects<Self>) {
        let mut wants: BTreeMap<ReadId, BTreeMap<PartitionId, Wanted>> = BTreeMap::new();
        // What is published may answer for one partition that has one copy.
        let mut least = (partitions.len() == 1 && !self.topology.is_replicated()).then_some(Rank::ZERO);
        for id in self.data.replicas.fetches.waiting(&partitions, sent) {
            let floor = self.reads.get(id).and_then(Read::floor);
            least = least.map(|least| least.max(floor.unwrap_or_default()));
            let reads = self.reads.get(id).and_then(Read::row_read).into_iter().flat_map(|read| &read.reads);
            for read in reads {
                let wanted = wants.entry(id).or_default().entry(read.partition).or_default();
                let granule = Granule::of(read.index.unwrap_or(read.table), read.range.clone());
                if read.index.is_some() {
                    wanted.watched.insert(granule.clone());
                }
                wanted.closed.insert(crate::read::goal::granule_of(read));
                wanted.needs.insert(granule);
            }
        }
        // Later than every clock's reading when those reads arrived.
        let at = now.rank() + self.topology.clock_bound_ns;
        for (partition, wanted) in self.data.replicas.begin_round(sent, partitions, at, wants) {
            let question = self.questions.next_question();
            let (closed, watched) =
                (wanted.closed.into_iter().collect(), wanted.watched.into_iter().collect());
            let what = Question::Fetch { at, least, closed, watched };
            if least.is_some() {
                let asked = Asked { partition, what: Some(what.clone()), owner: Owner::Fetch(sent) };
                self.questions.asked.insert(question, asked);
                // A read that gets no answer falls back.
                out.load(
                    self.topology.copy_near(partition, self.id),
                    Message::Ask { question, partition, what },
                );
                continue;
            }
            self.ask(now, question, partition, what, Owner::Fetch(sent), out);
        }
    }

    /// What was asked about is closed: the last writers of it, of a partition of this node.
    pub(super) fn last_writers(
        &mut self,
        now: Time,
        partition: PartitionId,
        watched: &[Granule],
        out: &mut Effects<Self>,
    ) -> Vec<LogPosition> {
        let end = self.calibration(now, partition);
        let positions =
            self.data.replicas.trackers.last_writers(partition, self.options.kept.tracker, end, watched);
        // Records that the asker will wait for go first; others wait for company.
        if positions.iter().any(|position| !self.data.replicas.trackers.is_sent(partition, *position)) {
            self.flush(now, out);
        }
        positions
    }

    /// A step ends: partitions whose memory peers look at close a rank, for them to read at. No transaction that comes later
    /// is delayed by it: it is ranked higher anyway.
    pub(super) fn publish(&mut self, now: Time, out: &mut Effects<Self>) {
        while let Some(partition) = self.data.replicas.trackers.next_to_close(now) {
            let ticket = self.questions.next_ticket();
            let rank = now.rank() + self.topology.clock_bound_ns;
            let serving = Serving { purpose: Purpose::Publish(rank), partition, since: now };
            self.questions.serving.insert(ticket, serving);
            self.close(now, ticket, Close { partition, rank, granules: vec![Granule::Partition] }, out);
        }
    }

    /// A partition has answered, or refused to.
    pub(super) fn fetched(
        &mut self,
        now: Time,
        sent: Stamp,
        partition: PartitionId,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let (at, positions) = match answer {
            Ok(AnswerBody::Fetched(positions)) => (None, positions),
            Ok(AnswerBody::Loaded { at, positions }) => (Some(at), positions),
            Ok(_) => return,
            Err(error) => {
                let Some(round) = self.data.replicas.end_round(sent) else { return };
                self.questions.forget_fetch(sent);
                for id in self.data.replicas.fetches.answered_alone(&round.partitions, sent) {
                    self.fail_read(now, id, error.clone(), out);
                }
                return self.fetch_now(now, round.partitions, out);
            }
        };
        self.data.replicas.loads = at.is_some();
        self.data.replicas.fetches_loaded += u64::from(at.is_some());
        let Some(round) = self.data.replicas.answered(sent, partition, waited_ns, positions) else { return };
        for id in self.data.replicas.fetches.answered_alone(&round.partitions, sent) {
            let Some(read) = self.reads.get_mut(id) else { continue };
            let (rank, needs, waited_ns) = (at.unwrap_or(round.rank), round.needs_of(id), round.waited_ns());
            read.tell(now, Told::Fetched { rank, needs, waited_ns, is_loaded: at.is_some() });
            self.advance(now, id, out);
        }
        self.fetch_now(now, round.partitions, out);
    }

    /// A read has ended.
    pub(super) fn forget_fetches(&mut self, id: ReadId) {
        for (_, sent) in self.data.replicas.fetches.forget(id) {
            self.data.replicas.end_round(sent);
            self.questions.forget_fetch(sent);
        }
    }

    // ---- the rows -----------------------------------------------------------------------------------

    /// The cut of a read is readable at the replicas here.
    pub(super) fn open_rows(
        &mut self,
        now: Time,
        client: RequestId,
        readable: Readable,
        out: &mut Effects<Self>,
    ) {
        let id = ReadId::Client(client);
        let Some(read) = self.reads.end(id) else { return };
        let (arrived, Some(read)) = (read.arrived(), read.into_row_read()) else { return };
        let base::Cut::Rank(rank) = readable.cut else { unreachable!("rows are read at ranks") };
        let chosen = Chosen { rank, choice: readable.freshness.choice };
        let slots = read.reads.len();
        let asks = match questions(read, rank) {
            Err((partition, what)) => vec![(partition, (0..slots).collect(), what)],
            Ok(several) => several,
        };
        let asks: Vec<_> = asks.into_iter().map(|ask| (self.questions.next_question(), ask)).collect();
        let open = asks.iter().map(|(question, (_, slots, _))| (*question, slots.clone())).collect();
        let rows = RowFetch::new(chosen, readable.freshness.coordination_ns, slots, open);
        self.reads.begin(id, Read::rows(arrived, rows));
        self.tell_floor();
        for (question, (partition, _, what)) in asks {
            self.questions.asked.insert(question, Asked { partition, what: None, owner: Owner::Read(id) });
            let answer = match self.begin_rows(partition, what) {
                Ok(asking::Found::All(rows)) => Ok(AnswerBody::Rows(rows)),
                Ok(asking::Found::Part(reading)) => {
                    let read = LongRead { to: self.id, question, partition, since: arrived, reading };
                    self.read_later(read, out);
                    continue;
                }
                Err(error) => Err(error),
            };
            self.told(now, question, partition, now.since(arrived), answer, out);
        }
    }
}
