//! The coordinator of a query over columns of several readers: what [`Gather`] asks for, on its
//! way out, and what readers say, on its way in.
//!
//! KEEPS: until the query ends its cut is a floor here; readers that are given up are told so.

use super::*;
use crate::message::{Opened, ScanPart, ScanRequest, Scanned};
use crate::read::gather::{self, Gather, Going, Piece, Shares, Silence};
use colstore::TableSnapshot;
use reads::rule::Chosen;

impl<E: Engine> Node<E> {
    pub(super) fn keeps_no_columns(&self, partition: PartitionId) -> SqlError {
        SqlError::unsupported(format!(
            "a query over partition {partition}, whose columns node {} does not keep,",
            self.id
        ))
        .hint("Connect to a node that subscribes to the partition.")
    }

    /// Opens a query at a cut, some of whose partitions may have their columns elsewhere.
    pub(super) fn gather(
        &mut self,
        now: Time,
        id: RequestId,
        (arrived, chosen): (Time, Chosen),
        open: OpenSnapshot,
        out: &mut Effects<Self>,
    ) {
        let gather = Gather::new(open, chosen, arrived);
        let shares = match self.shares(&gather.whole(), &BTreeSet::new()) {
            Ok(shares) => shares,
            Err(partition) => {
                let what = format!("a query over partition {partition}, whose columns no node keeps,");
                let error = SqlError::unsupported(what).hint("Give a node the partition's columns.");
                return out.reply(id, Reply::Snapshot(Err(error)));
            }
        };
        self.reads.begin(ReadId::Client(id), Read::pieces(arrived, gather));
        self.tell_floor();
        self.begin_parts(now, id, shares, &BTreeSet::new(), out);
    }

    fn shares(&self, whole: &ScanPart, given_up: &BTreeSet<NodeId>) -> Result<Shares, PartitionId> {
        gather::shares(&self.topology, self.id, whole, given_up)
    }

    fn begin_parts(
        &mut self,
        now: Time,
        id: RequestId,
        shares: Shares,
        given_up: &BTreeSet<NodeId>,
        out: &mut Effects<Self>,
    ) {
        let mut asked = Vec::new();
        for (reader, what) in shares {
            let scan = self.questions.next_question();
            self.reads.part_begins(id, scan);
            let Some((_, gather)) = self.reads.query_of(scan) else { return self.reads.part_ends(scan) };
            gather.begin(now, scan, reader, what.clone(), given_up.clone());
            asked.push((scan, reader, what));
        }
        // An answer that comes at once finds all of them.
        for (scan, reader, what) in asked {
            if reader == self.id {
                self.open_scan(now, ReadId::Part { coordinator: self.id, scan }, what, out);
            } else {
                self.send(reader, Message::Scan { scan, what: ScanRequest::Open(what) }, out);
                out.timer(Timer::Scan { scan }, now + self.patience_ns(reader));
            }
        }
    }

    /// A reader says something of its part.
    pub(super) fn on_scanned(
        &mut self,
        now: Time,
        from: NodeId,
        scan: QuestionId,
        what: Scanned,
        out: &mut Effects<Self>,
    ) {
        let Some((_, gather)) = self.reads.query_of(scan) else {
            // Of a query that has ended: the reader need not keep it.
            if from != self.id && matches!(what, Scanned::Opened(_) | Scanned::Waiting) {
                self.send(from, Message::Scan { scan, what: ScanRequest::Release }, out);
            }
            return;
        };
        if !gather.heard(now, from, scan) {
            return;
        }
        match what {
            Scanned::Waiting => {}
            Scanned::Opened(opened) => self.part_opened(now, from, scan, opened, BTreeMap::new(), out),
            Scanned::Piece { number, table, rows } => self.piece(now, scan, (number, table, rows), out),
            Scanned::Lost if gather.is_open(scan) => {
                base::sometimes!("a part of a query begins again");
                let (reader, what, given_up) = gather.share(scan).expect("it is open");
                self.replace_part(now, scan, [(reader, what)].into(), &given_up, out);
            }
            Scanned::Lost => {}
            Scanned::Refused(error) => self.part_failed(now, scan, error, out),
        }
    }

    /// A part is readable at the cut.
    pub(super) fn part_opened(
        &mut self,
        now: Time,
        from: NodeId,
        scan: QuestionId,
        opened: Opened,
        own: BTreeMap<TableId, TableSnapshot>,
        out: &mut Effects<Self>,
    ) {
        let Some((_, gather)) = self.reads.query_of(scan) else { return };
        let Some(early) = gather.opened(now, from, scan, opened, own) else { return };
        for piece in early {
            self.piece(now, scan, piece, out);
        }
        self.go_on_with(now, scan, out);
    }

    fn piece(&mut self, now: Time, scan: QuestionId, piece: Piece, out: &mut Effects<Self>) {
        let bytes_max = self.options.gather_bytes_max;
        let Some((id, gather)) = self.reads.query_of(scan) else { return };
        match gather.piece(scan, piece, bytes_max) {
            Ok(true) => self.go_on_with(now, scan, out),
            Ok(false) => {}
            Err(error) => self.fail_read(now, ReadId::Client(id), error, out),
        }
    }

    /// Asks for more, or ends the part, or the whole.
    fn go_on_with(&mut self, now: Time, scan: QuestionId, out: &mut Effects<Self>) {
        let Some((id, gather)) = self.reads.query_of(scan) else { return };
        let Some(Going { reader, fetches, is_complete, are_all }) = gather.go_on(scan) else { return };
        for what in fetches {
            self.send(reader, Message::Scan { scan, what }, out);
        }
        if is_complete && reader != self.id {
            self.send(reader, Message::Scan { scan, what: ScanRequest::Release }, out);
        }
        if are_all {
            self.finish_gather(now, id, out);
        }
    }

    /// A reader has been silent for a while.
    pub(super) fn repeat_scan(&mut self, now: Time, scan: QuestionId, out: &mut Effects<Self>) {
        let (topology, me, lease_ns) = (self.topology.clone(), self.id, self.options.lease_ns);
        let Some(reader) = self.reads.query_of(scan).and_then(|(_, gather)| gather.reader(scan)) else {
            return;
        };
        let patience_ns = self.patience_ns(reader);
        let (id, gather) = self.reads.query_of(scan).expect("just found");
        let shares = |what: &ScanPart, given_up: &_| gather::shares(&topology, me, what, given_up);
        match gather.silence(now, scan, (patience_ns, lease_ns), shares) {
            Silence::Over => {}
            Silence::Bear { reader, again } => {
                if let Some(what) = again {
                    self.send(reader, Message::Scan { scan, what }, out);
                }
                out.timer(Timer::Scan { scan }, now + patience_ns);
            }
            Silence::Replace { shares, given_up } => self.replace_part(now, scan, shares, &given_up, out),
            Silence::Fail(error) => self.fail_read(now, ReadId::Client(id), error, out),
        }
    }

    /// A reader cannot serve its part.
    fn part_failed(&mut self, now: Time, scan: QuestionId, error: SqlError, out: &mut Effects<Self>) {
        let Some((id, gather)) = self.reads.query_of(scan) else { return };
        let Some((reader, what, mut given_up)) = gather.share(scan) else { return };
        given_up.insert(reader);
        // It came back too late for this cut, or keeps no columns: another may have them.
        let elsewhere = [SqlState::SNAPSHOT_TOO_OLD, SqlState::FEATURE_NOT_SUPPORTED].contains(&error.state);
        match self.shares(&what, &given_up) {
            Ok(shares) if elsewhere => {
                base::sometimes!("a part that a reader refuses is asked of another");
                self.replace_part(now, scan, shares, &given_up, out);
            }
            _ => self.fail_read(now, ReadId::Client(id), error, out),
        }
    }

    /// Drops what came of a part, and asks for it anew.
    fn replace_part(
        &mut self,
        now: Time,
        scan: QuestionId,
        shares: Shares,
        given_up: &BTreeSet<NodeId>,
        out: &mut Effects<Self>,
    ) {
        let Some((id, gather)) = self.reads.query_of(scan) else { return };
        let Some(reader) = gather.drop_part(scan) else { return };
        self.reads.part_ends(scan);
        if reader != self.id {
            self.send(reader, Message::Scan { scan, what: ScanRequest::Release }, out);
        }
        self.begin_parts(now, id, shares, given_up, out);
    }

    fn finish_gather(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let read = self.end_read(ReadId::Client(id)).expect("it is under way");
        self.tell_floor();
        let gather = read.into_gather().expect("it has parts");
        let snapshot = gather.assembled(now, self.id).map(|mut snapshot| {
            let token = snapshot.token.of(self.options.incarnation);
            snapshot.asked.extend(self.questions.take_asked(id));
            Snapshot { token, ..snapshot }
        });
        out.reply(id, Reply::Snapshot(snapshot));
    }
}
