//! A query over columns that no single reader keeps, at the node that took it: its coordinator (PERSEUS
//! §IV-B, Alg. 2).
//!
//! IN: a query at a cut, what readers say, silence. OUT: whom to ask for which part ([`Part`]), whom to give up, one
//! snapshot. KEEPS: one cut for all partitions, chosen once, when the query arrives, and never changed; a snapshot is
//! handed out when every reader's part has been readable at that cut and all its rows are here; a reader that fails is
//! replaced by another at the same cut, from the beginning of its part.
//!
//! The cut is a rank at every level, chosen as for rows. A rank cut promises more than `regular` asks for. It is not
//! moved up while the query waits: the readers would have to be told.

use super::shipment::PIECES_AT_ONCE;
use crate::message::{Opened, QuestionId, ScanPart, ScanRequest, ScanTable};
use crate::request::{OpenSnapshot, Snapshot, Source};
use base::topology::Topology;
use base::{Cut, NodeId, PartitionId, Rank, SqlError, SqlState, TableId, Time, Token};
use colstore::{Received, TableSnapshot};
use reads::rule::Chosen;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A reader that was silent for so many times what a message there and back may take is given up, if there is another.
const SILENT_TIMES: u64 = 4;

/// A query under way.
pub struct Gather {
    open: OpenSnapshot,
    chosen: Chosen,
    arrived: Time,
    parts: BTreeMap<QuestionId, Part>,
    bytes: u64,
}

/// Rows of a table, by their number in the part; `None`: an empty piece.
pub type Piece = (u32, TableId, Option<Vec<u8>>);

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
    early: Vec<Piece>,
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
    /// Nobody else has what its reader keeps.
    fn lost(&self) -> SqlError {
        let partitions: BTreeSet<PartitionId> =
            self.what.tables.values().flat_map(|t| t.partitions.iter().copied()).collect();
        let listed = partitions.iter().map(PartitionId::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("node {}, which reads {listed} for this query, does not answer", self.reader);
        SqlError::new(SqlState::CONNECTION_FAILURE, message)
            .detail("No other node that answers keeps these columns.")
            .hint("Run the query again when the node is back.")
    }
    fn is_complete(&self) -> bool {
        self.opened.as_ref().is_some_and(|(opened, _)| self.come == opened.pieces)
    }
}

/// Who gives what.
pub type Shares = BTreeMap<NodeId, ScanPart>;

/// How a part goes on after something came of it.
pub struct Going {
    pub reader: NodeId,
    /// To be asked of the reader.
    pub fetches: Vec<ScanRequest>,
    pub is_complete: bool,
    /// So is every other part.
    pub are_all: bool,
}

/// What to do about a reader that has not spoken for a while.
pub enum Silence {
    /// The part has come, or there is no such part.
    Over,
    /// It may be slow, or the question was lost.
    Bear {
        reader: NodeId,
        again: Option<ScanRequest>,
    },
    /// Others give what it was to give.
    Replace {
        shares: Shares,
        given_up: BTreeSet<NodeId>,
    },
    Fail(SqlError),
}

/// This node gives what it has, for the rest the nearest reader that is not given up. Err: nobody keeps this
/// partition.
pub fn shares(
    topology: &Topology,
    me: NodeId,
    whole: &ScanPart,
    given_up: &BTreeSet<NodeId>,
) -> Result<Shares, PartitionId> {
    let mut shares = Shares::new();
    for (&table, of) in &whole.tables {
        for &partition in &of.partitions {
            let readers = topology.subscribers_of(partition).filter(|n| !given_up.contains(n));
            let nearest = readers.min_by_key(|n| (*n != me, topology.one_way_ns(me, *n), *n));
            let part = shares
                .entry(nearest.ok_or(partition)?)
                .or_insert_with(|| ScanPart { at: whole.at, tables: BTreeMap::new() });
            let empty = || ScanTable { partitions: BTreeSet::new(), wanted: of.wanted.clone() };
            part.tables.entry(table).or_insert_with(empty).partitions.insert(partition);
        }
    }
    Ok(shares)
}

impl Gather {
    pub fn new(open: OpenSnapshot, chosen: Chosen, arrived: Time) -> Gather {
        Gather { open, chosen, arrived, parts: BTreeMap::new(), bytes: 0 }
    }

    pub fn at(&self) -> Rank {
        self.chosen.rank
    }
    /// All that is read, as one part.
    pub fn whole(&self) -> ScanPart {
        let tables = self.open.tables.iter().map(|(table, partitions)| {
            let wanted = self.open.wanted.get(table).cloned().unwrap_or_default();
            (*table, ScanTable { partitions: partitions.clone(), wanted })
        });
        ScanPart { at: self.at(), tables: tables.collect() }
    }
    pub fn scans(&self) -> Vec<QuestionId> {
        self.parts.keys().copied().collect()
    }
    /// Whom it waits for, part by part.
    pub fn readers(&self) -> Vec<(QuestionId, NodeId)> {
        self.parts.iter().map(|(scan, part)| (*scan, part.reader)).collect()
    }
    pub fn reader(&self, scan: QuestionId) -> Option<NodeId> {
        self.parts.get(&scan).map(|part| part.reader)
    }
    pub fn is_open(&self, scan: QuestionId) -> bool {
        self.parts.get(&scan).is_some_and(|part| part.opened.is_some())
    }

    /// A reader is asked for a part.
    pub fn begin(
        &mut self,
        now: Time,
        scan: QuestionId,
        reader: NodeId,
        what: ScanPart,
        given_up: BTreeSet<NodeId>,
    ) {
        self.parts.insert(scan, Part::new(now, reader, what, given_up));
    }

    /// Somebody speaks of a part: whether it is the reader that was asked for it.
    pub fn heard(&mut self, now: Time, from: NodeId, scan: QuestionId) -> bool {
        let Some(part) = self.parts.get_mut(&scan).filter(|part| part.reader == from) else { return false };
        part.heard_at = now;
        true
    }

    /// A part is readable at the cut. Answers pieces that came before this was known; `None`: it was known.
    pub fn opened(
        &mut self,
        now: Time,
        from: NodeId,
        scan: QuestionId,
        opened: Opened,
        own: BTreeMap<TableId, TableSnapshot>,
    ) -> Option<Vec<Piece>> {
        let since_ns = now.since(self.arrived);
        let part = self.parts.get_mut(&scan)?;
        if part.opened.is_some() || part.reader != from {
            return None;
        }
        part.opened = Some((opened, since_ns));
        part.own = own;
        // The first pieces come unasked.
        part.asked = PIECES_AT_ONCE;
        Some(std::mem::take(&mut part.early))
    }

    /// A piece comes, maybe before it is known that its part is open. Answers whether that leads to anything.
    ///
    /// Errors: 53200, there are too many bytes; or nobody asked for these rows.
    pub fn piece(&mut self, scan: QuestionId, piece: Piece, bytes_max: u64) -> Result<bool, SqlError> {
        let Some(part) = self.parts.get_mut(&scan) else { return Ok(false) };
        let Some((opened, _)) = &part.opened else {
            part.early.push(piece);
            return Ok(false);
        };
        let (number, table, rows) = piece;
        if number >= opened.pieces || part.pieces.contains_key(&number) {
            return Ok(false);
        }
        let received = rows.map(|bytes| {
            let of = part.what.tables.get(&table).zip(opened.catalog.table(table));
            let unknown = || SqlError::internal(format!("rows of {table} came, which nobody asked for"));
            let (of, description) = of.ok_or_else(unknown)?;
            Ok::<_, SqlError>((bytes.len() as u64, Received::read(description, &of.wanted, &bytes)?))
        });
        let received = received.transpose()?;
        if let Some((bytes, rows)) = &received {
            part.rows += rows.len() as u64;
            part.bytes += bytes;
            self.bytes += rows.bytes() as u64;
        }
        part.pieces.insert(number, received.map(|(_, rows)| (table, rows)));
        while part.pieces.contains_key(&part.come) {
            part.come += 1;
        }
        if self.bytes > bytes_max {
            let error = SqlError::new(SqlState::OUT_OF_MEMORY, "a query needs too many rows of other nodes")
                .detail(format!("It may take {bytes_max} bytes for them."))
                .hint("Filter its tables, or run it at a node that keeps more of their columns.");
            return Err(error);
        }
        Ok(true)
    }

    /// How a part goes on, if it is open.
    pub fn go_on(&mut self, scan: QuestionId) -> Option<Going> {
        let part = self.parts.get_mut(&scan)?;
        let (opened, _) = part.opened.as_ref()?;
        let mut fetches = Vec::new();
        while part.asked < opened.pieces && part.asked < part.come + 2 * PIECES_AT_ONCE {
            fetches.push(ScanRequest::Fetch { from: part.asked });
            part.asked += PIECES_AT_ONCE;
        }
        let (reader, is_complete) = (part.reader, part.is_complete());
        let are_all = is_complete && self.parts.values().all(Part::is_complete);
        Some(Going { reader, fetches, is_complete, are_all })
    }

    /// A reader has been silent for a while.
    pub fn silence(
        &mut self,
        now: Time,
        scan: QuestionId,
        (patience_ns, lease_ns): (u64, u64),
        shares: impl Fn(&ScanPart, &BTreeSet<NodeId>) -> Result<Shares, PartitionId>,
    ) -> Silence {
        let Some(part) = self.parts.get(&scan).filter(|part| !part.is_complete()) else {
            return Silence::Over;
        };
        let silent_ns = now.since(part.heard_at);
        let is_behind = part.opened.is_none() && now.since(part.asked_at) > lease_ns;
        if silent_ns > SILENT_TIMES * patience_ns || is_behind {
            let mut given_up = part.given_up.clone();
            given_up.insert(part.reader);
            if let Ok(shares) = shares(&part.what, &given_up) {
                base::sometimes!("a reader is given up for another");
                return Silence::Replace { shares, given_up };
            }
            if silent_ns > lease_ns {
                return Silence::Fail(part.lost());
            }
        }
        let again = (silent_ns >= patience_ns).then(|| match &part.opened {
            None => ScanRequest::Open(part.what.clone()),
            Some(_) => ScanRequest::Fetch { from: part.come },
        });
        Silence::Bear { reader: part.reader, again }
    }

    /// What a part was to give, and who was given up for it.
    pub fn share(&self, scan: QuestionId) -> Option<(NodeId, ScanPart, BTreeSet<NodeId>)> {
        let part = self.parts.get(&scan)?;
        Some((part.reader, part.what.clone(), part.given_up.clone()))
    }

    /// Drops what came of a part. Answers its reader.
    pub fn drop_part(&mut self, scan: QuestionId) -> Option<NodeId> {
        let old = self.parts.remove(&scan)?;
        self.bytes -= old.pieces.values().flatten().map(|(_, rows)| rows.bytes() as u64).sum::<u64>();
        Some(old.reader)
    }

    /// One snapshot of all parts.
    pub fn assembled(self, now: Time, coordinator: NodeId) -> Result<Snapshot, SqlError> {
        let Gather { open, chosen, arrived, mut parts, .. } = self;
        let at = chosen.rank;
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
        let mut freshness = reads::rule::freshness(
            arrived,
            ready_at,
            newest.min(at),
            chosen.complete_until(arrived),
            on_the_way_ns,
        );
        let last = parts.values().max_by_key(|part| part.opened.as_ref().map(|(_, since_ns)| *since_ns));
        freshness.last = last.and_then(|part| {
            let partition = part.what.tables.values().flat_map(|t| t.partitions.iter()).next()?;
            let (opened, since_ns) = part.opened.as_ref()?;
            Some((*partition, *since_ns, opened.waited_ns))
        });
        freshness.choice = chosen.choice;
        freshness.other_readers = sources.iter().filter(|s| s.reader != coordinator).count() as u16;
        let asked =
            sources.iter().map(|source| source.reader).filter(|reader| *reader != coordinator).collect();
        Ok(Snapshot { tables, catalog, cut: Cut::Rank(at), token: Token::at(at), freshness, sources, asked })
    }
}
