//! Column copies.

/// An immutable snapshot of one table's columns at a cut.
pub struct TableSnapshot;
