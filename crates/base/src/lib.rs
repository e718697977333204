//! The types that every other crate uses: ids, time, values, programs, commit records, cuts.
//!
//! Suggested reading order: the modules below, top to bottom. Nothing here orders, stores or
//! serves anything; `base` only says what things *are*, so that `txn` (ordering) and `reads`
//! (visibility) can work together without depending on each other.

pub mod array_functions;
pub mod check;
pub mod codec;
pub mod comments;
pub mod commit;
pub mod composite;
pub mod convert;
pub mod cut;
pub mod databases;
pub mod datum;
pub mod decimal;
pub mod domain;
pub mod element;
pub mod enumeration;
pub mod error;
pub mod expr;
pub mod hash;
pub mod id;
pub mod identifier;
pub mod inet;
pub mod interval;
pub mod json;
pub mod key;
pub mod order;
pub mod partitioning;
pub mod patience;
pub mod patterns;
pub mod process;
pub mod rng;
pub mod role_settings;
pub mod roles;
pub mod routines;
pub mod row;
pub mod schema;
pub mod text;
mod text_bounds;
pub mod text_functions;
pub mod text_search;
pub mod time;
pub mod timetz;
pub mod topology;
pub mod txn;
pub mod user_types;
pub mod views;
pub mod wan;
pub mod write_set;
pub mod zone;

pub use cut::{ClosedSet, Consistency, Cut, Freshness, Token};
pub use datum::{DataType, Datum};
pub use error::{SqlError, SqlState};
pub use id::{LogPosition, NodeId, PartitionId, RegionId, RequestId, TableId, TxnId};
pub use key::Key;
pub use row::{Row, RowPatch};
pub use time::{Place, Rank, Time};
