//! What a node keeps on disk: a log of typed records, and checkpoints that allow the log's beginning to be deleted.
//!
//! IN: records and blocks from the parts of a node, and completions of disk work. OUT: disk work, as [`Job`]s that a
//! host carries out in order. The crate has no files, threads or clock of its own.
//!
//! KEEPS, through any crash of the process or loss of power:
//! - *durability*: a record at or below [`Store::stable`] is found by every later opening, unless a checkpoint that
//!   the opening answers covers it;
//! - *integrity*: an opening answers records that were appended, and nothing else;
//! - *order*: they have consecutive sequence numbers from the checkpoint's position on, in the order of appending. What
//!   an opening did not answer never appears afterwards;
//! - *checkpoints are atomic*: one is answered completely or not at all, and after [`Store::newest_checkpoint`]
//!   names it, it or a later one is answered, unless its own bytes are damaged, and then the one before;
//! - *incarnations are unique*: two openings of a directory never answer the same one;
//! - *nothing is believed after a failure*: after a failed write or sync the store does no more work. The next
//!   opening rewrites and syncs what the failed sync may have left in the page cache only;
//! - *refusals name what differs*: damage is refused with file and offset, another identity with each difference,
//!   another format with both versions.
//!
//! Limit: damage inside the last batch of the log, or the loss of its last segment, looks like a crash if it was written
//! since the last opening, and is cut off like what a crash tore. A node that has to survive that too needs its records on
//! several machines.
//!
//! Suggested reading order: [`disk`] (what a host does), [`record`] and [`segment`] (bytes of the log), `log`
//! (group commit), [`checkpoint`] (its format), `writer` (how one is written), [`store`] (both together),
//! [`mod@open`] (recovery).

pub mod checkpoint;
pub mod disk;
pub mod identity;
pub mod open;
pub mod options;
pub mod paths;
pub mod record;
pub mod refused;
pub mod segment;
pub mod store;

mod log;
mod sealed;
mod writer;

pub use checkpoint::{Checkpoint, Description};
pub use disk::{Disk, Failed, Failure, Job, Lane, Op};
pub use identity::{ClusterId, Identity};
pub use open::{Note, Opened, Replay, open};
#[cfg(feature = "mutants")]
pub use options::Mutant;
pub use options::Options;
pub use record::{Owner, Record, Sequence};
pub use refused::{Difference, Refused};
pub use store::{Stopped, Store};
