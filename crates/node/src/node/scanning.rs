//! A reader's part in a query that another node coordinates (PERSEUS §IV-B, Alg. 3): a read like any other, whose cut is
//! given and whose answer is pieces.
//!
//! KEEPS: what is opened is readable at the coordinator's cut, as for a query of this node; a cut is a floor here from
//! the moment it arrives until it is open; a part of which its coordinator has not spoken for a lease is forgotten.

use super::*;
use crate::message::{Opened, ScanPart, ScanRequest, Scanned};
use crate::read::goal::granules_of;
use crate::read::shipment::Shipment;
use crate::read::{Read, ReadId, Target};
use reads::rule::Readable;

impl<E: Engine> Node<E> {
    pub(super) fn on_scan(
        &mut self,
        now: Time,
        from: NodeId,
        scan: QuestionId,
        what: ScanRequest,
        out: &mut Effects<Self>,
    ) {
        let id = ReadId::Part { coordinator: from, scan };
        self.reads.heard(now, id);
        match what {
            ScanRequest::Open(part) => self.open_scan(now, id, part, out),
            ScanRequest::Fetch { from: first } => self.send_pieces(now, id, first, out),
            ScanRequest::Release => _ = self.give_up(id),
        }
    }

    /// Begins a part, or says again how far it is.
    pub(super) fn open_scan(&mut self, now: Time, id: ReadId, part: ScanPart, out: &mut Effects<Self>) {
        if let Some(known) = self.reads.get(id) {
            let said = known.shipment().map_or(Scanned::Waiting, Shipment::opened);
            return self.say_scanned(now, id, said, out);
        }
        let mut partitions = part.tables.values().flat_map(|table| &table.partitions);
        if let Some(partition) = partitions.find(|p| !self.subscribes(**p)) {
            let error = self.keeps_no_columns(*partition);
            return self.say_scanned(now, id, Scanned::Refused(error), out);
        }
        let granules = granules_of(part.tables.iter().map(|(table, of)| (*table, &of.partitions)));
        let is_remote = !matches!(id, ReadId::Part { coordinator, .. } if coordinator == self.id);
        let followed = self.reads.levels().part(now, part.at, granules, is_remote, &self.here());
        self.begin_read(now, id, Read::columns(now, followed, Target::Coordinator(part)), out);
    }

    /// Opens a part whose cut has become readable.
    pub(super) fn open_part(&mut self, now: Time, id: ReadId, readable: Readable, out: &mut Effects<Self>) {
        let Some(part) = self.reads.get(id).and_then(Read::part).cloned() else { return };
        let (catalog, snapshots) = match self.columns.part(&readable.cut, &part) {
            Ok(opened) => opened,
            Err(error) => return self.fail_read(now, id, error, out),
        };
        let freshness = readable.freshness;
        let opened = Opened {
            pieces: 0,
            catalog,
            statistics: snapshots.iter().map(|(id, table)| (*id, table.statistics())).collect(),
            newest: (now - freshness.newest_age_ns).rank(),
            waited_ns: freshness.wait_ns,
        };
        let ReadId::Part { coordinator, scan } = id else { return };
        if coordinator == self.id {
            // The coordinator's own part needs no bytes.
            self.reads.end(id);
            self.tell_floor();
            return self.part_opened(now, self.id, scan, opened, snapshots, out);
        }
        let shipment = Shipment::new(part, opened, &snapshots);
        let said = shipment.opened();
        self.reads.ship(id, shipment);
        self.tell_floor();
        self.say_scanned(now, id, said, out);
        self.send_pieces(now, id, 0, out);
    }

    fn send_pieces(&mut self, now: Time, id: ReadId, first: u32, out: &mut Effects<Self>) {
        let Some(shipment) = self.reads.get(id).and_then(Read::shipment) else {
            base::sometimes!("a reader is asked for pieces that it does not have");
            return self.say_scanned(now, id, Scanned::Lost, out);
        };
        let said = shipment.pieces_from(first);
        said.into_iter().for_each(|what| self.say_scanned(now, id, what, out));
    }

    pub(super) fn say_scanned(&mut self, now: Time, id: ReadId, what: Scanned, out: &mut Effects<Self>) {
        let ReadId::Part { coordinator, scan } = id else { return };
        match coordinator == self.id {
            true => self.on_scanned(now, coordinator, scan, what, out),
            false => self.send(coordinator, Message::Scanned { scan, what }, out),
        }
    }

    /// Nobody speaks of these any more.
    pub(super) fn expire_scans(&mut self, now: Time) {
        for id in self.reads.silent(self.id, now - self.options.lease_ns) {
            base::sometimes!("a scan's coordinator is given up");
            self.give_up(id);
        }
    }
}
