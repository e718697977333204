//! A reader's part in a query that another node coordinates (PERSEUS §IV-B, Alg. 3).
//!
//! IN: a cut, tables, partitions whose columns are kept here. OUT: that they are readable at the cut, then their rows,
//! a few pieces at a time as they are asked for. KEEPS: what is opened is readable at the coordinator's cut,
//! as for a query of this node; it never changes afterwards, so a piece that is sent twice is the same twice; a
//! cut is a floor here from the moment it arrives until it is open; a scan of which nobody has spoken for
//! a lease is forgotten.

use super::*;
use crate::message::{AnswerBody, Opened, ScanPart, ScanRequest, Scanned};
use crate::questions::Owner;
use base::Cut;
use base::key::KeyRange;
use colstore::{Block, TableSnapshot};
use reads::snapshot::rank::RankQuery;
use reads::snapshot::{Ask, Mutant, QueryMeta, Told};

/// Pieces sent for one question for them.
pub(super) const PIECES_AT_ONCE: u32 = 16;

/// A scan by its coordinator's name for it.
pub(super) type ScanKey = (NodeId, QuestionId);

/// One part of somebody's query.
pub(super) struct Scan {
    part: ScanPart,
    /// When its coordinator last spoke of it.
    heard_at: Time,
    stage: Stage,
}

enum Stage {
    /// Its cut is a floor.
    Closing(RankQuery),
    Open {
        opened: Opened,
        pieces: Vec<(TableId, Block)>,
    },
}

impl<E: Engine> Node<E> {
    pub(super) fn on_scan(
        &mut self,
        now: Time,
        from: NodeId,
        scan: QuestionId,
        what: ScanRequest,
        out: &mut Effects<Self>,
    ) {
        if let Some(known) = self.scans.get_mut(&(from, scan)) {
            known.heard_at = now;
        }
        match what {
            ScanRequest::Open(part) => self.open_scan(now, (from, scan), part, out),
            ScanRequest::Fetch { from: first } => self.send_pieces(now, (from, scan), first, out),
            ScanRequest::Release => self.forget_scan((from, scan)),
        }
    }

    /// Begins a part, or says again how far it is.
    pub(super) fn open_scan(&mut self, now: Time, key: ScanKey, part: ScanPart, out: &mut Effects<Self>) {
        if let Some(known) = self.scans.get(&key) {
            let said = match &known.stage {
                Stage::Closing(_) => Scanned::Waiting,
                Stage::Open { opened, .. } => Scanned::Opened(opened.clone()),
            };
            return self.say_scanned(now, key, said, out);
        }
        let partitions = || part.tables.values().flat_map(|table| &table.partitions);
        if let Some(partition) = partitions().find(|p| !self.subscribes(**p)) {
            return self.say_scanned(now, key, Scanned::Refused(self.keeps_no_columns(*partition)), out);
        }
        let mut reads: BTreeMap<PartitionId, Vec<Granule>> = BTreeMap::new();
        for (&table, of) in &part.tables {
            for &partition in &of.partitions {
                reads.entry(partition).or_default().push(Granule::Range(table, KeyRange::all()));
            }
        }
        let planted = self.options.planted().filter(|_| key.0 != self.id);
        let at = match planted {
            Some(Mutant::OwnCutAtEachReader) => {
                reads.keys().map(|p| self.columns.low(*p)).min().unwrap_or(part.at)
            }
            _ => part.at,
        };
        let meta = QueryMeta { arrived: now, token: Token::default(), reads };
        let rule = RankQuery::part(meta, at, &self.columns, planted);
        self.floors.hold(part.at);
        self.tell_floor();
        let asks = rule.asks();
        self.scans.insert(key, Scan { part, heard_at: now, stage: Stage::Closing(rule) });
        for ask in asks {
            let Ask::Close(close) = ask else { unreachable!("a rank cut is closed") };
            let (question, partition) = (self.questions.next_question(), close.partition);
            self.ask(now, question, partition, Question::Close(close), Owner::Scan(key.0, key.1), out);
        }
        self.finish_scan(now, key, out);
    }

    /// A partition has closed the cut, or refuses to.
    pub(super) fn scan_told(
        &mut self,
        now: Time,
        key: ScanKey,
        partition: PartitionId,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(Scan { stage: Stage::Closing(rule), .. }) = self.scans.get_mut(&key) else { return };
        match answer {
            Ok(AnswerBody::Closed { closed, through }) => {
                rule.told(now, Told::Closed { partition, closed, through, waited_ns });
                self.finish_scan(now, key, out);
            }
            Ok(_) => {}
            Err(error) => self.refuse_scan(now, key, error, out),
        }
    }

    pub(super) fn finish_scans(&mut self, now: Time, out: &mut Effects<Self>) {
        let closing = self.scans.iter().filter(|(_, scan)| matches!(scan.stage, Stage::Closing(_)));
        let closing: Vec<ScanKey> = closing.map(|(key, _)| *key).collect();
        closing.into_iter().for_each(|key| self.finish_scan(now, key, out));
    }

    /// Opens a part whose cut has become readable.
    fn finish_scan(&mut self, now: Time, key: ScanKey, out: &mut Effects<Self>) {
        let Some(scan) = self.scans.get_mut(&key) else { return };
        let Stage::Closing(rule) = &mut scan.stage else { return };
        let readable = match rule.ready(now, &self.columns) {
            Ok(None) => return,
            Ok(Some(readable)) => readable,
            Err(error) => return self.refuse_scan(now, key, error, out),
        };
        let (cut, at) = (readable.cut, scan.part.at);
        let (newest, waited_ns) =
            ((now - readable.freshness.newest_age_ns).rank(), readable.freshness.wait_ns);
        let opened = self.columns.open_part(&cut, &scan.part);
        let (catalog, snapshots) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.refuse_scan(now, key, error, out),
        };
        let statistics = snapshots.iter().map(|(id, table)| (*id, table.statistics()));
        let mut opened = Opened { pieces: 0, catalog, statistics: statistics.collect(), newest, waited_ns };
        self.floors.release(at);
        self.tell_floor();
        if key.0 == self.id {
            // The coordinator's own part needs no bytes.
            self.scans.remove(&key);
            return self.part_opened(now, self.id, key.1, opened, snapshots, out);
        }
        let scan = self.scans.get_mut(&key).expect("found above");
        let mut pieces = Vec::new();
        for (id, table) in &snapshots {
            pieces.extend(table.blocks_for(&scan.part.tables[id].wanted).map(|block| (*id, block)));
        }
        opened.pieces = u32::try_from(pieces.len()).expect("a snapshot has fewer pieces");
        scan.stage = Stage::Open { opened: opened.clone(), pieces };
        self.say_scanned(now, key, Scanned::Opened(opened), out);
        self.send_pieces(now, key, 0, out);
    }

    fn send_pieces(&mut self, now: Time, key: ScanKey, first: u32, out: &mut Effects<Self>) {
        let Some(Scan { part, stage: Stage::Open { pieces, .. }, .. }) = self.scans.get(&key) else {
            base::sometimes!("a reader is asked for pieces that it does not have");
            return self.say_scanned(now, key, Scanned::Lost, out);
        };
        let mut said = Vec::new();
        for (number, (table, block)) in (first..).zip(pieces.iter().skip(first as usize)) {
            if number - first == PIECES_AT_ONCE {
                break;
            }
            said.push(match block.ship(&part.tables[table].wanted) {
                Ok(rows) => Scanned::Piece { number, table: *table, rows },
                Err(error) => Scanned::Refused(error),
            });
        }
        said.into_iter().for_each(|what| self.say_scanned(now, key, what, out));
    }

    fn refuse_scan(&mut self, now: Time, key: ScanKey, error: SqlError, out: &mut Effects<Self>) {
        self.forget_scan(key);
        self.say_scanned(now, key, Scanned::Refused(error), out);
    }

    fn say_scanned(&mut self, now: Time, key: ScanKey, what: Scanned, out: &mut Effects<Self>) {
        let (to, scan) = key;
        match to == self.id {
            true => self.on_scanned(now, to, scan, what, out),
            false => self.send(to, Message::Scanned { scan, what }, out),
        }
    }

    pub(super) fn forget_scan(&mut self, key: ScanKey) {
        let Some(scan) = self.scans.remove(&key) else { return };
        if let Stage::Closing(_) = scan.stage {
            self.questions.forget_scan(key.0, key.1);
            self.floors.release(scan.part.at);
            self.tell_floor();
        }
    }

    /// Nobody speaks of these any more.
    pub(super) fn expire_scans(&mut self, now: Time) {
        let heard_before = now - self.options.lease_ns;
        let silent = self.scans.iter().filter(|(key, s)| key.0 != self.id && s.heard_at < heard_before);
        for key in silent.map(|(key, _)| *key).collect::<Vec<_>>() {
            base::sometimes!("a scan's coordinator is given up");
            self.forget_scan(key);
        }
    }

    /// This node was taken for dead: cuts that are not open may not be readable here any more.
    pub(super) fn refuse_closing_scans(&mut self, now: Time, error: &SqlError, out: &mut Effects<Self>) {
        let closing = self.scans.iter().filter(|(_, scan)| matches!(scan.stage, Stage::Closing(_)));
        for key in closing.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.refuse_scan(now, key, error.clone(), out);
        }
    }
}

impl Columns {
    /// Immutable columns of a part at its cut.
    #[allow(clippy::type_complexity)]
    fn open_part(
        &mut self,
        cut: &Cut,
        part: &ScanPart,
    ) -> Result<(Arc<base::schema::Catalog>, BTreeMap<TableId, TableSnapshot>), SqlError> {
        let catalog = self.store.catalog_at(cut)?;
        let tables = part.tables.iter();
        let tables = tables.map(|(id, of)| Ok((*id, self.store.snapshot(cut, *id, &of.partitions)?)));
        Ok((catalog, tables.collect::<Result<_, SqlError>>()?))
    }
}
