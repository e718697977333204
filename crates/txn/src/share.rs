//! How a transaction ended at a participant, and for its client.

use base::txn::{Outcome, StatementResult};
use base::{PartitionId, SqlError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A participant's share of a transaction's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Share {
    Committed(Vec<(PartitionId, Vec<StatementResult>)>),
    Aborted(SqlError),
    /// It ended without effect, and may be submitted again under another id.
    Noop,
}

/// Puts the participants' results together, in partition order.
pub fn merge(shares: impl Iterator<Item = Share>) -> Outcome {
    let mut by_partition: BTreeMap<PartitionId, Vec<StatementResult>> = BTreeMap::new();
    for share in shares {
        match share {
            Share::Committed(results) => by_partition.extend(results),
            Share::Aborted(error) => return Outcome::Aborted(error),
            Share::Noop => unreachable!("what ended without effect is no answer"),
        }
    }
    let mut by_partition = by_partition.into_values();
    let mut results = by_partition.next().unwrap_or_default();
    for more in by_partition {
        if more.len() > results.len() {
            results.resize_with(more.len(), StatementResult::default);
        }
        for (result, more) in results.iter_mut().zip(more) {
            result.rows.extend(more.rows);
            result.affected += more.affected;
        }
    }
    Outcome::Committed { results }
}
