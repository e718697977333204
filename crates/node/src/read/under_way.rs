//! All reads of a node: those under way, cuts of open transactions, and what collection has to spare for them.
//!
//! IN: reads as they begin, go on and end; pins. OUT: which reads wait for the columns here, the least cut in use. KEEPS:
//! the floor of every read and pin is held from its beginning to its end; a part that this node asked for belongs to one
//! read under way.

use super::floors::Floors;
use super::gather::Gather;
use super::shipment::Shipment;
use super::{Read, ReadId};
use crate::message::QuestionId;
use crate::request::PinId;
use base::order::Calibration;
use base::{NodeId, PartitionId, Rank, RequestId, Time};
use reads::rule::levels::Levels;
use reads::share::{Fetches, Reuse, Stamp, Want};
use std::collections::{BTreeMap, BTreeSet};

/// The reads of one node.
pub struct Reads {
    levels: Levels,
    under_way: BTreeMap<ReadId, Read>,
    /// Those that wait for the columns here.
    over_columns: BTreeSet<ReadId>,
    /// Parts that other readers (or this one) give: whose query each belongs to.
    parts: BTreeMap<QuestionId, RequestId>,
    /// When the coordinator of a part last spoke of it.
    heard_at: BTreeMap<ReadId, Time>,
    calibrations: Fetches<PartitionId, ReadId, Calibration>,
    /// Each with the request that made it.
    pins: BTreeMap<PinId, (Rank, RequestId)>,
    floors: Floors,
    floor_told: Option<Rank>,
}

impl Reads {
    /// `serve_late_arrivals`: a planted fault, see [`Reuse::LateArrivals`].
    pub fn new(levels: Levels, serve_late_arrivals: bool) -> Reads {
        Reads {
            levels,
            under_way: BTreeMap::new(),
            over_columns: BTreeSet::new(),
            parts: BTreeMap::new(),
            heard_at: BTreeMap::new(),
            calibrations: Fetches::new(match serve_late_arrivals {
                true => Reuse::LateArrivals,
                false => Reuse::Strict,
            }),
            pins: BTreeMap::new(),
            floors: Floors::default(),
            floor_told: None,
        }
    }

    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    // ---- under way --------------------------------------------------------------------------------

    pub fn begin(&mut self, id: ReadId, read: Read) {
        if let Some(floor) = read.floor() {
            self.floors.hold(floor);
        }
        if read.is_over_columns() {
            self.over_columns.insert(id);
        }
        if let ReadId::Part { .. } = id {
            self.heard_at.insert(id, read.arrived());
        }
        self.under_way.insert(id, read);
    }

    pub fn get(&self, id: ReadId) -> Option<&Read> {
        self.under_way.get(&id)
    }
    pub fn get_mut(&mut self, id: ReadId) -> Option<&mut Read> {
        self.under_way.get_mut(&id)
    }

    /// It is answered, or was given up.
    pub fn end(&mut self, id: ReadId) -> Option<Read> {
        let mut read = self.under_way.remove(&id)?;
        self.over_columns.remove(&id);
        self.heard_at.remove(&id);
        if let Some(floor) = read.floor() {
            self.floors.release(floor);
        }
        for scan in read.gather().into_iter().flat_map(|gather| gather.scans()) {
            self.parts.remove(&scan);
        }
        Some(read)
    }

    /// A part of another node's query is open: it waits for nothing any more, and its pieces are kept.
    pub fn ship(&mut self, id: ReadId, shipment: Shipment) {
        let Some(read) = self.under_way.get_mut(&id) else { return };
        self.over_columns.remove(&id);
        if let Some(floor) = read.ship(shipment) {
            self.floors.release(floor);
        }
    }

    /// Those that wait for the columns here: clients' first, then parts.
    pub fn over_columns(&self) -> Vec<ReadId> {
        self.over_columns.iter().copied().collect()
    }
    /// Those of clients.
    pub fn of_clients(&self) -> Vec<RequestId> {
        let clients = self.under_way.keys().filter_map(|id| match id {
            ReadId::Client(id) => Some(*id),
            ReadId::Part { .. } => None,
        });
        clients.collect()
    }
    /// Reads under way and pins.
    pub fn held(&self) -> usize {
        self.under_way.len() + self.pins.len()
    }

    // ---- parts ------------------------------------------------------------------------------------

    /// A query asks a reader for a part.
    pub fn part_begins(&mut self, query: RequestId, scan: QuestionId) {
        self.parts.insert(scan, query);
    }
    pub fn part_ends(&mut self, scan: QuestionId) {
        self.parts.remove(&scan);
    }
    /// The query to which a part belongs.
    pub fn query_of(&mut self, scan: QuestionId) -> Option<(RequestId, &mut Gather)> {
        let id = *self.parts.get(&scan)?;
        Some((id, self.under_way.get_mut(&ReadId::Client(id))?.gather()?))
    }
    /// The coordinator of a part speaks of it.
    pub fn heard(&mut self, now: Time, id: ReadId) {
        if let Some(heard_at) = self.heard_at.get_mut(&id) {
            *heard_at = now;
        }
    }
    /// Parts of other coordinators that have not spoken since this instant.
    pub fn silent(&self, me: NodeId, heard_before: Time) -> Vec<ReadId> {
        let is_own = |id: &ReadId| matches!(id, ReadId::Part { coordinator, .. } if *coordinator == me);
        let silent = self.heard_at.iter().filter(|(id, at)| !is_own(id) && **at < heard_before);
        silent.map(|(id, _)| *id).collect()
    }

    // ---- calibrations -----------------------------------------------------------------------------

    /// A read that has just arrived wants it.
    pub fn want_calibration(
        &mut self,
        now: Time,
        gap_ns: u64,
        partition: PartitionId,
        id: ReadId,
    ) -> Want<Calibration> {
        let arrived = self.calibrations.arrival();
        self.calibrations.want(now, gap_ns, partition, arrived, id)
    }
    /// The gap after a calibration has passed. Whether to ask again, as which question.
    pub fn calibration_is_due(&mut self, now: Time, partition: PartitionId) -> Option<Stamp> {
        self.calibrations.due(now, &partition)
    }
    /// The answer to a question, if it is one: whom it serves.
    pub fn calibrated(
        &mut self,
        partition: PartitionId,
        sent: Stamp,
        calibration: Option<Calibration>,
    ) -> BTreeSet<ReadId> {
        match calibration {
            Some(calibration) => self.calibrations.answered(&partition, sent, calibration),
            None => self.calibrations.answered_alone(&partition, sent),
        }
    }
    /// Calibrations that nobody needs without this read.
    pub fn forget_calibrations(&mut self, id: ReadId) -> Vec<(PartitionId, Stamp)> {
        self.calibrations.forget(id)
    }

    // ---- pins and floors --------------------------------------------------------------------------

    pub fn pin(&mut self, pin: PinId, rank: Rank, request: RequestId) {
        self.pins.insert(pin, (rank, request));
        self.floors.hold(rank);
    }
    /// Whether it was there.
    pub fn unpin(&mut self, pin: PinId) -> bool {
        let pinned = self.pins.remove(&pin);
        if let Some((rank, _)) = pinned {
            self.floors.release(rank);
        }
        pinned.is_some()
    }
    /// Ends what these requests have pinned.
    pub fn unpin_all(&mut self, of: &dyn Fn(RequestId) -> bool) {
        let (gone, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.pins).into_iter().partition(|(_, (_, id))| of(*id));
        self.pins = kept;
        gone.into_values().for_each(|(rank, _)| self.floors.release(rank));
    }

    pub fn least_floor(&self) -> Option<Rank> {
        self.floors.least()
    }
    /// The engine is told a floor if it is another than before.
    pub fn is_news(&mut self, floor: Option<Rank>) -> bool {
        let is_news = floor != self.floor_told;
        self.floor_told = floor;
        is_news
    }
}
