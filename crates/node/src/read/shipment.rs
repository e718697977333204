//! A part of another node's query that is open here: its pieces, sent as the coordinator asks for them.
//!
//! IN: immutable columns at the cut, questions for pieces. OUT: pieces, a few at a time. KEEPS: a piece that is sent
//! twice is the same twice.

use crate::message::{Opened, ScanPart, Scanned};
use base::TableId;
use colstore::{Block, TableSnapshot};
use std::collections::BTreeMap;

/// Pieces sent for one question for them.
pub const PIECES_AT_ONCE: u32 = 16;

/// An open part.
pub struct Shipment {
    part: ScanPart,
    opened: Opened,
    pieces: Vec<(TableId, Block)>,
}

impl Shipment {
    /// `opened`: what the coordinator learns of it, but for the number of pieces.
    pub fn new(part: ScanPart, opened: Opened, snapshots: &BTreeMap<TableId, TableSnapshot>) -> Shipment {
        let mut pieces = Vec::new();
        for (id, table) in snapshots {
            pieces.extend(table.blocks_for(&part.tables[id].wanted).map(|block| (*id, block)));
        }
        let count = u32::try_from(pieces.len()).expect("a snapshot has fewer pieces");
        Shipment { part, opened: Opened { pieces: count, ..opened }, pieces }
    }

    pub fn opened(&self) -> Scanned {
        Scanned::Opened(self.opened.clone())
    }

    /// Some pieces from this number on.
    pub fn pieces_from(&self, first: u32) -> Vec<Scanned> {
        let some = (first..).zip(self.pieces.iter().skip(first as usize)).take(PIECES_AT_ONCE as usize);
        some.map(|(number, (table, block))| match block.ship(&self.part.tables[table].wanted) {
            Ok(rows) => Scanned::Piece { number, table: *table, rows },
            Err(error) => Scanned::Refused(error),
        })
        .collect()
    }
}
