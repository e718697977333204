//! Faults that a test plants in indexes which are built over rows, to prove that its checks find them; never in production.
//!
//! KEEPS: a copy and a replica have the fault of the store that they fill.

use crate::versions::Slot;
use base::Row;

/// What can be wrong while an index is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A program leaves out the last row of its range, which counts as entered.
    SkipLastRow,
    /// A row is entered as it was before it was last changed.
    EnterEarlierRow,
    /// A row is entered whether or not another row has its entry.
    EnterUnchecked,
    /// A row is written whether or not a row that was entered has its entry.
    WriteUnchecked,
    /// Rows are written without the entries of an index that is being built.
    WritePastIndex,
}

impl Mutant {
    pub const ALL: [Mutant; 5] = [
        Mutant::SkipLastRow,
        Mutant::EnterEarlierRow,
        Mutant::EnterUnchecked,
        Mutant::WriteUnchecked,
        Mutant::WritePastIndex,
    ];
}

/// A row before its last change.
pub(crate) fn before_last(slot: &Slot<Row>) -> Option<&Row> {
    let versions: Vec<Option<&Row>> = slot.versions().map(|(_, row)| row).collect();
    *versions.iter().rev().nth(1)?
}
