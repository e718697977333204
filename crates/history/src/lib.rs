//! Operation histories and their checkers.
//!
//! A history says what clients saw: which operation of which session was invoked and answered when,
//! which versions it read, which it wrote. Nothing here knows a protocol. Versions are named by the
//! values written (every write carries a value of its own), and the order of a key's versions is
//! recovered from values read and written; a protocol's own ranks are never consulted, so that a
//! protocol cannot vouch for itself.
//!
//! - [`recorder`] collects a history while a system runs; [`text`] writes and reads one.
//! - [`check`] decides whether a history keeps a [`Guarantee`] and, if not, names the anomaly and
//!   prints the shortest cycle it found, each edge with its reason.
//!
//! Everything reported is a fact: where the order of two versions cannot be recovered, no edge is
//! drawn and the [`Report`] says how many pairs stayed open. For histories whose writers append to
//! lists, or read a key before they overwrite it, the verdict is also complete.
//!
//! ```
//! use history::{Anomaly, Guarantee, Recorder, SessionId, check};
//!
//! let mut recorder = Recorder::new();
//! let write = recorder.begin(SessionId(1), 0);
//! recorder.read(write, "x", 0); // the initial state
//! recorder.write(write, "x", 7); // a value nobody else writes to x
//! recorder.commit(write, 10);
//! let query = recorder.begin(SessionId(2), 20);
//! recorder.read(query, "x", 0);
//! recorder.commit(query, 30);
//!
//! let history = recorder.finish();
//! assert!(check(&history, Guarantee::Serializable).is_ok());
//! let violation = check(&history, Guarantee::Rss).unwrap_err();
//! assert_eq!(violation.anomaly, Anomaly::StaleRead);
//! println!("{violation}{history}"); // an argument to follow, and text to check again
//! ```

pub mod op;
pub mod recorder;
pub mod text;

mod edges;
mod freshness;
mod graph;
pub mod guarantee;
mod order;
mod search;
mod versions;

mod explain;
pub mod violation;

pub mod checker;

pub use checker::{Checker, Report, check};
pub use guarantee::{AntiDependencies, Guarantee, RealTime, Rules};
pub use op::{Event, History, KeyId, Op, OpId, Outcome, Seen, SessionId};
pub use recorder::Recorder;
pub use violation::{Anomaly, Violation};
