//! A query over columns that no single reader keeps, at the node that took it: its coordinator (PERSEUS
//! §IV-B, Alg. 2).
//!
//! IN: a query, what readers say. OUT: one snapshot, or an error. KEEPS: one cut for all partitions, chosen once,
//! when the query arrives, and never changed; a snapshot is handed out when every reader's part has been
//! readable at that cut and all its rows are here; until then the cut is a floor; a reader that fails is
//! replaced by another at the same cut, from the beginning of its part.
//!
//! The cut is a rank at every level: `rss` and `regular` take the rank of a strong read here, `session` and `stale`
//! what is complete in the columns of this node. A rank cut promises more than `regular` asks for. It is not
//! moved up while the query waits: the readers would have to be told.

use super::*;
use crate::message::{Opened, ScanPart, ScanRequest, ScanTable, Scanned};
use crate::node::scanning::PIECES_AT_ONCE;
use base::Cut;
use base::cut::CutChoice;
use colstore::{Received, TableSnapshot};

/// A reader that was silent for so many times what a message there and back may take is given up, if there is another.
const SILENT_TIMES: u64 = 4;

/// A query under way.
pub(super) struct Gather {
    pub open: OpenSnapshot,
    pub at: Rank,
    choice: CutChoice,
    arrived: Time,
    parts: BTreeMap<QuestionId, Part>,
    bytes: u64,
}

/// What one reader gives.
struct Part {
    reader: NodeId,
    what: ScanPart,
    /// Readers that were given up for this part.
    given_up: BTreeSet<NodeId>,
    asked_at: Time,
    heard_at: Time,
    /// And after which time since the arrival.
    opened: Option<(Opened, u64)>,
    /// The coordinator's own columns.
    own: BTreeMap<TableId, TableSnapshot>,
    pieces: BTreeMap<u32, Option<(TableId, Received)>>,
    /// Those that came before the part was known to be open.
    early: Vec<(u32, TableId, Option<Vec<u8>>)>,
    /// Pieces before this one were asked for, and before the other have all come.
    asked: u32,
    come: u32,
    rows: u64,
    bytes: u64,
}

impl Part {
    fn new(now: Time, reader: NodeId, what: ScanPart, given_up: BTreeSet<NodeId>) -> Part {
        Part {
            reader,
            what,
            given_up,
            asked_at: now,
            heard_at: now,
            opened: None,
            own: BTreeMap::new(),
            pieces: BTreeMap::new(),
            early: Vec::new(),
            asked: 0,
            come: 0,
            rows: 0,
            bytes: 0,
        }
    }
    fn is_complete(&self) -> bool {
        self.opened.as_ref().is_some_and(|(opened, _)| self.come == opened.pieces)
    }
}

impl<E: Engine> Node<E> {
    pub(super) fn keeps_no_columns(&self, partition: PartitionId) -> SqlError {
        SqlError::unsupported(format!(
            "a query over partition {partition}, whose columns node {} does not keep,",
            self.id
        ))
        .hint("Connect to a node that subscribes to the partition.")
    }

    /// Opens a query at a cut, some of whose partitions have their columns elsewhere.
    pub(super) fn gather(
        &mut self,
        now: Time,
        id: RequestId,
        open: OpenSnapshot,
        (at, choice): (Rank, CutChoice),
        out: &mut Effects<Self>,
    ) {
        let tables = open.tables.iter().map(|(table, partitions)| {
            let wanted = open.wanted.get(table).cloned().unwrap_or_default();
            (*table, ScanTable { partitions: partitions.clone(), wanted })
        });
        let whole = ScanPart { at, tables: tables.collect() };
        let parts = match self.dealt_out(&whole, &BTreeSet::new()) {
            Ok(parts) => parts,
            Err(partition) => {
                return out.reply(
                    id,
                    Reply::Snapshot(Err(SqlError::unsupported(format!(
                        "a query over partition {partition}, whose columns no node keeps,"
                    ))
                    .hint("Give a node the partition's columns."))),
                );
            }
        };
        self.floors.hold(at);
        self.tell_floor();
        self.gathers.insert(id, Gather { open, at, choice, arrived: now, parts: BTreeMap::new(), bytes: 0 });
        self.begin_parts(now, id, parts, &BTreeSet::new(), out);
    }

    /// Who gives what: this node what it has, for the rest the nearest reader that is not given up. Err: nobody
    /// keeps this partition.
    fn dealt_out(
        &self,
        whole: &ScanPart,
        given_up: &BTreeSet<NodeId>,
    ) -> Result<BTreeMap<NodeId, ScanPart>, PartitionId> {
        let mut parts: BTreeMap<NodeId, ScanPart> = BTreeMap::new();
        for (&table, of) in &whole.tables {
            for &partition in &of.partitions {
                let readers = self.topology.subscribers_of(partition).filter(|n| !given_up.contains(n));
                let nearest =
                    readers.min_by_key(|n| (*n != self.id, self.topology.one_way_ns(self.id, *n), *n));
                let part = parts
                    .entry(nearest.ok_or(partition)?)
                    .or_insert_with(|| ScanPart { at: whole.at, tables: BTreeMap::new() });
                let empty = || ScanTable { partitions: BTreeSet::new(), wanted: of.wanted.clone() };
                part.tables.entry(table).or_insert_with(empty).partitions.insert(partition);
            }
        }
        Ok(parts)
    }

    fn begin_parts(
        &mut self,
        now: Time,
        id: RequestId,
        parts: BTreeMap<NodeId, ScanPart>,
        given_up: &BTreeSet<NodeId>,
        out: &mut Effects<Self>,
    ) {
        let mut asked = Vec::new();
        for (reader, what) in parts {
            let scan = self.questions.next_question();
            let Some(gather) = self.gathers.get_mut(&id) else { return };
            gather.parts.insert(scan, Part::new(now, reader, what.clone(), given_up.clone()));
            self.gathering.insert(scan, id);
            asked.push((scan, reader, what));
        }
        // An answer that comes at once finds all of them.
        for (scan, reader, what) in asked {
            if reader == self.id {
                self.open_scan(now, (self.id, scan), what, out);
            } else {
                self.send(reader, Message::Scan { scan, what: ScanRequest::Open(what) }, out);
                out.timer(Timer::Scan { scan }, now + self.patience_ns(reader));
            }
        }
    }

    fn part(&mut self, scan: QuestionId) -> Option<(RequestId, &mut Gather)> {
        let id = *self.gathering.get(&scan)?;
        Some((id, self.gathers.get_mut(&id)?))
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
        let Some((_, gather)) = self.part(scan) else {
            // Of a query that has ended: the reader need not keep it.
            if from != self.id && matches!(what, Scanned::Opened(_) | Scanned::Waiting) {
                self.send(from, Message::Scan { scan, what: ScanRequest::Release }, out);
            }
            return;
        };
        let part = gather.parts.get_mut(&scan).expect("it is listed");
        if part.reader != from {
            return;
        }
        part.heard_at = now;
        match what {
            Scanned::Waiting => {}
            Scanned::Opened(opened) => self.part_opened(now, from, scan, opened, BTreeMap::new(), out),
            Scanned::Piece { number, table, rows } => {
                if part.opened.is_none() {
                    return part.early.push((number, table, rows));
                }
                self.piece(now, scan, number, table, rows, out);
            }
            Scanned::Lost if part.opened.is_some() => {
                base::sometimes!("a part of a query begins again");
                let (again, given_up) = ([(part.reader, part.what.clone())].into(), part.given_up.clone());
                self.replace_part(now, scan, again, &given_up, out);
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
        let Some((_, gather)) = self.part(scan) else { return };
        let since_ns = now.since(gather.arrived);
        let part = gather.parts.get_mut(&scan).expect("it is listed");
        if part.opened.is_some() || part.reader != from {
            return;
        }
        part.opened = Some((opened, since_ns));
        part.own = own;
        // The first pieces come unasked.
        part.asked = PIECES_AT_ONCE;
        for (number, table, rows) in std::mem::take(&mut part.early) {
            self.piece(now, scan, number, table, rows, out);
        }
        self.go_on_with(now, scan, out);
    }

    fn piece(
        &mut self,
        now: Time,
        scan: QuestionId,
        number: u32,
        table: TableId,
        rows: Option<Vec<u8>>,
        out: &mut Effects<Self>,
    ) {
        let bytes_max = self.options.gather_bytes_max;
        let Some((id, gather)) = self.part(scan) else { return };
        let part = gather.parts.get_mut(&scan).expect("it is listed");
        let (opened, _) = part.opened.as_ref().expect("the caller looked");
        if number >= opened.pieces || part.pieces.contains_key(&number) {
            return;
        }
        let received = rows.map(|bytes| {
            let of = part.what.tables.get(&table).zip(opened.catalog.table(table));
            let unknown = || SqlError::internal(format!("rows of {table} came, which nobody asked for"));
            let (of, description) = of.ok_or_else(unknown)?;
            Ok((bytes.len() as u64, Received::read(description, &of.wanted, &bytes)?))
        });
        let received = match received.transpose() {
            Ok(received) => received,
            Err(error) => return self.fail_gather(id, error, out),
        };
        if let Some((bytes, rows)) = &received {
            part.rows += rows.len() as u64;
            part.bytes += bytes;
            gather.bytes += rows.bytes() as u64;
        }
        part.pieces.insert(number, received.map(|(_, rows)| (table, rows)));
        while part.pieces.contains_key(&part.come) {
            part.come += 1;
        }
        if gather.bytes > bytes_max {
            let error = SqlError::new(SqlState::OUT_OF_MEMORY, "a query needs too many rows of other nodes")
                .detail(format!("It may take {bytes_max} bytes for them."))
                .hint("Filter its tables, or run it at a node that keeps more of their columns.");
            return self.fail_gather(id, error, out);
        }
        self.go_on_with(now, scan, out);
    }

    /// Asks for more, or ends the part, or the whole.
    fn go_on_with(&mut self, now: Time, scan: QuestionId, out: &mut Effects<Self>) {
        let Some((id, gather)) = self.part(scan) else { return };
        let part = gather.parts.get_mut(&scan).expect("it is listed");
        let Some((opened, _)) = &part.opened else { return };
        let (reader, pieces) = (part.reader, opened.pieces);
        let mut fetches = Vec::new();
        while part.asked < pieces && part.asked < part.come + 2 * PIECES_AT_ONCE {
            fetches.push(ScanRequest::Fetch { from: part.asked });
            part.asked += PIECES_AT_ONCE;
        }
        let complete = part.is_complete();
        let all = complete && gather.parts.values().all(Part::is_complete);
        for what in fetches {
            self.send(reader, Message::Scan { scan, what }, out);
        }
        if complete && reader != self.id {
            self.send(reader, Message::Scan { scan, what: ScanRequest::Release }, out);
        }
        if all {
            self.finish_gather(now, id, out);
        }
    }

    /// A reader has been silent for a while.
    pub(super) fn repeat_scan(&mut self, now: Time, scan: QuestionId, out: &mut Effects<Self>) {
        let lease_ns = self.options.lease_ns;
        let Some(reader) = self.part(scan).map(|(_, gather)| gather.parts[&scan].reader) else { return };
        let patience_ns = self.patience_ns(reader);
        let (id, gather) = self.part(scan).expect("just found");
        let part = &gather.parts[&scan];
        if part.is_complete() {
            return;
        }
        let silent_ns = now.since(part.heard_at);
        let is_behind = part.opened.is_none() && now.since(part.asked_at) > lease_ns;
        let (mut given_up, what) = (part.given_up.clone(), part.what.clone());
        if silent_ns > SILENT_TIMES * patience_ns || is_behind {
            given_up.insert(reader);
            if let Ok(parts) = self.dealt_out(&what, &given_up) {
                base::sometimes!("a reader is given up for another");
                return self.replace_part(now, scan, parts, &given_up, out);
            }
            if silent_ns > lease_ns {
                let partitions: BTreeSet<PartitionId> =
                    what.tables.values().flat_map(|t| t.partitions.iter().copied()).collect();
                let error = SqlError::new(
                    SqlState::CONNECTION_FAILURE,
                    format!(
                        "node {reader}, which reads {} for this query, does not answer",
                        listed(&partitions)
                    ),
                )
                .detail("No other node that answers keeps these columns.")
                .hint("Run the query again when the node is back.");
                return self.fail_gather(id, error, out);
            }
        }
        if silent_ns >= patience_ns {
            let part = &self.gathers[&id].parts[&scan];
            let again = match &part.opened {
                None => ScanRequest::Open(part.what.clone()),
                Some(_) => ScanRequest::Fetch { from: part.come },
            };
            self.send(reader, Message::Scan { scan, what: again }, out);
        }
        out.timer(Timer::Scan { scan }, now + patience_ns);
    }

    /// A reader cannot serve its part.
    fn part_failed(&mut self, now: Time, scan: QuestionId, error: SqlError, out: &mut Effects<Self>) {
        let Some((id, gather)) = self.part(scan) else { return };
        let part = &gather.parts[&scan];
        let (mut given_up, what) = (part.given_up.clone(), part.what.clone());
        given_up.insert(part.reader);
        // It came back too late for this cut, or keeps no columns: another may have them.
        let elsewhere = [SqlState::SNAPSHOT_TOO_OLD, SqlState::FEATURE_NOT_SUPPORTED].contains(&error.state);
        match self.dealt_out(&what, &given_up) {
            Ok(parts) if elsewhere => {
                base::sometimes!("a part that a reader refuses is asked of another");
                self.replace_part(now, scan, parts, &given_up, out);
            }
            _ => self.fail_gather(id, error, out),
        }
    }

    /// Drops what came of a part, and asks for it anew.
    fn replace_part(
        &mut self,
        now: Time,
        scan: QuestionId,
        parts: BTreeMap<NodeId, ScanPart>,
        given_up: &BTreeSet<NodeId>,
        out: &mut Effects<Self>,
    ) {
        let Some((id, gather)) = self.part(scan) else { return };
        let old = gather.parts.remove(&scan).expect("it is listed");
        let dropped = old.pieces.values().flatten().map(|(_, rows)| rows.bytes() as u64).sum::<u64>();
        gather.bytes -= dropped;
        self.gathering.remove(&scan);
        if old.reader != self.id {
            self.send(old.reader, Message::Scan { scan, what: ScanRequest::Release }, out);
        }
        self.begin_parts(now, id, parts, given_up, out);
    }

    fn finish_gather(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let gather = self.drop_gather(id).expect("it is under way");
        let snapshot = assembled(now, self.id, gather).map(|mut snapshot| {
            let token = snapshot.token.of(self.options.incarnation);
            snapshot.asked.extend(self.questions.take_asked(id));
            Snapshot { token, ..snapshot }
        });
        out.reply(id, Reply::Snapshot(snapshot));
    }

    fn fail_gather(&mut self, id: RequestId, error: SqlError, out: &mut Effects<Self>) {
        if let Some(gather) = self.drop_gather(id) {
            for (scan, part) in gather.parts {
                if part.reader != self.id {
                    self.send(part.reader, Message::Scan { scan, what: ScanRequest::Release }, out);
                }
            }
            out.reply(id, Reply::Snapshot(Err(error)));
        }
    }

    /// The query is over, whatever came of it. Other readers learn of it, or forget it after a while.
    pub(super) fn drop_gather(&mut self, id: RequestId) -> Option<Gather> {
        let gather = self.gathers.remove(&id)?;
        self.floors.release(gather.at);
        for scan in gather.parts.keys() {
            self.gathering.remove(scan);
            self.forget_scan((self.id, *scan));
        }
        self.tell_floor();
        Some(gather)
    }
}

fn listed(partitions: &BTreeSet<PartitionId>) -> String {
    partitions.iter().map(PartitionId::to_string).collect::<Vec<_>>().join(", ")
}

/// One snapshot of all parts.
fn assembled(now: Time, coordinator: NodeId, gather: Gather) -> Result<Snapshot, SqlError> {
    let Gather { open, at, arrived, choice, mut parts, .. } = gather;
    let opened = |part: &Part| part.opened.clone().expect("all parts are complete");
    let own = parts.values().find(|part| part.reader == coordinator);
    let (first, _) = opened(own.or(parts.values().next()).expect("a query has a part"));
    let catalog = first.catalog;
    let (mut newest, mut ready_ns, mut on_the_way_ns) = (Rank::ZERO, 0, 0);
    let mut sources = Vec::new();
    for part in parts.values() {
        let (opened, since_ns) = opened(part);
        // At one rank all readers have one catalog, unless one of them only guesses at a past it has not seen.
        for table in part.what.tables.keys() {
            let version = |catalog: &base::schema::Catalog| catalog.table(*table).map(|t| t.version);
            if version(&opened.catalog) != version(&catalog) {
                return Err(base::schema::stale_schema());
            }
        }
        newest = newest.max(opened.newest);
        ready_ns = ready_ns.max(since_ns);
        on_the_way_ns = on_the_way_ns.max(since_ns.saturating_sub(opened.waited_ns));
        let partitions = part.what.tables.values().flat_map(|t| t.partitions.iter().copied());
        sources.push(Source {
            reader: part.reader,
            partitions: partitions.collect(),
            rows: part.rows,
            bytes: part.bytes,
            opened_ns: since_ns,
            waited_ns: opened.waited_ns,
        });
    }
    sources.sort_by_key(|source| (source.reader != coordinator, source.reader));
    let mut tables = BTreeMap::new();
    for table in open.tables.keys() {
        let description = catalog.table(*table).ok_or_else(base::schema::stale_schema)?.clone();
        let (mut own, mut received, mut statistics) = (None, Vec::new(), Vec::new());
        for part in parts.values_mut() {
            if part.reader == coordinator {
                own = own.or(part.own.remove(table));
                continue;
            }
            let (opened, _) = part.opened.as_mut().expect("all parts are complete");
            statistics.extend(opened.statistics.remove(table));
            let pieces = part.pieces.values_mut();
            let of_table = pieces.filter(|piece| piece.as_ref().is_some_and(|(of, _)| of == table));
            received.extend(of_table.filter_map(|piece| piece.take().map(|(_, rows)| rows)));
        }
        let whole = TableSnapshot::assembled(description, own, received, statistics);
        tables.insert(*table, Arc::new(whole));
    }
    let ready_at = (arrived + ready_ns).min(now);
    let mut freshness =
        reads::snapshot::freshness(arrived, ready_at, newest.min(at), at.time(), on_the_way_ns);
    let last = parts.values().max_by_key(|part| part.opened.as_ref().map(|(_, since_ns)| *since_ns));
    freshness.last = last.and_then(|part| {
        let partition = part.what.tables.values().flat_map(|t| t.partitions.iter()).next()?;
        let (opened, since_ns) = part.opened.as_ref()?;
        Some((*partition, *since_ns, opened.waited_ns))
    });
    freshness.choice = choice;
    freshness.other_readers = sources.iter().filter(|s| s.reader != coordinator).count() as u16;
    let asked = sources.iter().map(|source| source.reader).filter(|reader| *reader != coordinator).collect();
    Ok(Snapshot { tables, catalog, cut: Cut::Rank(at), token: Token::at(at), freshness, sources, asked })
}
