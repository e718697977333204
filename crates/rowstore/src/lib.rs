//! Rows in memory, with versions, and the deterministic execution of programs over them.
//!
//! One [`Store`] holds one partition. A transaction comes twice: [`Store::gather`] finds out whether it
//! must abort here and what the other participants need to know; [`Store::apply`] writes at its place.
//! Readers come with a cut: [`Store::read`], [`Store::get_at`], [`Store::scan_at`].
//!
//! KEEPS: conflicting transactions are applied in the order of their places (asserted per key); every
//! abort is decided while gathering; an answer at a cut never changes once the cut is closed.
//!
//! Suggested reading order: the modules below, top to bottom.

mod map;

pub mod versions;

mod table;

mod garbage;

mod tables;

pub mod store;

mod read;

mod copy;

mod live;

mod follow;

mod execute;

mod entries;

mod late;

mod invariants;

mod planted;

pub use copy::{CopyOutdated, CopyPlan};
pub use execute::evaluate::{Begun, EvaluatedHere};
pub use execute::steps::Unfinished;
pub use live::LiveRows;
pub use planted::Mutant;
pub use read::Reading;
pub use store::Store;
pub use tables::Counters;
