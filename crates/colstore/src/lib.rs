//! Column copies: what analytics reads.
//!
//! A [`ColumnStore`] consumes the commit records of its partitions in log order and hands out
//! [`TableSnapshot`]s: immutable columns of one table at one cut. Recent versions are rows in a delta;
//! merges turn them into sorted, encoded segments. Snapshots share the pieces and never change.
//!
//! What the host does with it:
//! - [`ColumnStore::apply`] for every record, as it comes;
//! - [`ColumnStore::snapshot`] once the cut's records have been applied, then
//!   [`TableSnapshot::scan`] per unit, on any threads, for as long as it likes;
//! - now and then [`ColumnStore::plan_merge`], [`MergeJob::run`] on a thread of its own, and
//!   [`ColumnStore::install`]; or [`ColumnStore::merge_step`], which does all three on the spot. A full
//!   merge of 65,536 rows (or 4 MiB) takes tens of milliseconds; `rows_max` makes it shorter, at the
//!   price of more and smaller segments.
//!
//! Suggested reading order: the modules below, top to bottom.

mod copy;
mod delta;
mod encode;
mod index;
mod merge;
mod patch;
mod segment;
mod shard;
mod ship;
mod sketch;
mod snapshot;
mod store;
mod types;
mod values;
mod version;
mod zone;

pub use merge::{MergeJob, MergedSegment};
pub use ship::{Received, Wanted};
pub use snapshot::{Block, ColumnStatistics, Rows, Scan, TableSnapshot, TableStatistics};
pub use store::{ColumnStore, StoreStatus};
pub use types::{array_of, arrow_type, datum_at, field_of, from_arrow_interval, row_values, schema_of};
pub use zone::{ColumnPredicate, Comparison};

/// Sizes of a store's pieces.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows per delta chunk: at most this many rows are copied by a snapshot.
    pub chunk_rows: usize,
    /// Rows per batch of a scan and per zone of a zone map; a multiple of 64.
    pub block_rows: usize,
    /// Most rows of a segment, and most bytes of its rows as they were in the delta; both bound the
    /// work of one merge.
    pub segment_rows: usize,
    pub segment_bytes: usize,
    /// A delta smaller than this is not worth a merge; neither is one smaller than this share of its
    /// segments' rows.
    pub merge_rows_min: usize,
    pub merge_share_min: usize,
    /// A delta that no query reads may become this many times as large, but no larger than so many bytes.
    pub unread_times: usize,
    pub unread_bytes_max: usize,
    /// This many small segments are merged into one.
    pub small_segments_max: usize,
    /// Follows logs and the catalog, and keeps no rows: for a node that follows an order on behalf of others.
    /// Nothing can be read.
    pub follows_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            chunk_rows: 1024,
            block_rows: 8192,
            segment_rows: 65_536,
            segment_bytes: 4 << 20,
            merge_rows_min: 8192,
            merge_share_min: 16,
            unread_times: 4,
            unread_bytes_max: 16 << 20,
            small_segments_max: 3,
            follows_only: false,
        }
    }
}

impl Options {
    fn check(&self) {
        assert!(
            0 < self.chunk_rows && self.chunk_rows <= self.block_rows && self.block_rows.is_multiple_of(64)
        );
        assert!(self.chunk_rows <= self.segment_rows);
        assert!(2 <= self.small_segments_max && 1 <= self.merge_share_min && 1 <= self.unread_times);
    }
}
