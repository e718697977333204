//! What a node remembers beyond its process: its engine's records, and checkpoints that stand for those before.
//!
//! KEEPS: a checkpoint is the engine's image and the rows as of one moment, which are made a block at a time while the node
//! goes on: what is applied after it began is left out, and old versions stay until it is over. Columns, streams, reads
//! and row locks are not in it: columns are filled from rows, whoever follows a stream gets a copy, and clients were
//! disconnected. What older programs wrote is read as far as `base::codec` reads it; anything else is refused before a part of
//! the node sees it.

use super::*;
use base::codec::{self, DecodeError};
use base::process::{CheckpointBlock, CheckpointEnded, Record, Recorded, Unreadable};
use std::collections::VecDeque;
use txn::engine::Executor;

/// The only owner of records in a node.
const ENGINE: u16 = 2;

/// Bytes of the engine's image in one block.
const STATE_BYTES: usize = 64 << 10;

/// A checkpoint that is written, or taken.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Of the image, what was not handed out.
    state: VecDeque<Vec<u8>>,
    /// Of the image, what was taken.
    taken: Vec<u8>,
    /// The node is not whole: there is nothing that a checkpoint could stand for.
    is_refused: bool,
}

pub(super) fn of_engine(record: txn::engine::Record) -> Record {
    let txn::engine::Record { kind, version, payload } = record;
    Record { owner: ENGINE, kind, version, payload }
}

/// Errors: the beginning of what was encoded is of a version that this program does not read, and what reads it.
fn check_version(encoded: &[u8]) -> Result<(), Unreadable> {
    let way_over = |error: &DecodeError| match error {
        DecodeError::Version { found } if *found < codec::OLDEST => format!(
            ". Builds that read version {found} open this directory: start one, take the database over with `meridian backup \
             create`, and restore it into an empty directory of this build with `meridian backup restore`"
        ),
        DecodeError::Version { .. } => ". A later build wrote it; start that one".to_string(),
        _ => String::new(),
    };
    let checked = codec::version_of(encoded);
    checked.map(|_| ()).map_err(|error| Unreadable(format!("{error}{}", way_over(&error))))
}

impl<E: Engine> Node<E> {
    /// So many records are stable.
    pub(super) fn records_are_stable(&mut self, now: Time, records: u64, out: &mut Effects<Self>) {
        let mut effects = self.take_effects();
        self.engine.stable(now, records, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// A node that has come back with what its disk has of another topology, and goes on in this one. `change`: its engine
    /// does the same. Errors: it cannot.
    pub fn changed(
        mut self,
        before: &Topology,
        change: impl FnOnce(E, &mut dyn Executor) -> Result<E, Unreadable>,
    ) -> Result<Node<E>, Unreadable> {
        let engine = change(self.engine, &mut self.data)?;
        self.data.extend(before, &self.topology)?;
        Ok(Node { engine, ..self })
    }

    fn take_state(&mut self) -> Result<(), Unreadable> {
        let state = std::mem::take(&mut self.told.recording.taken);
        if state.is_empty() { Ok(()) } else { self.engine.restore(&state) }
    }
}

impl<E: Engine> Recorded for Node<E> {
    fn begin_checkpoint(&mut self) {
        self.told.recording.is_refused = self.engine.absent().is_some();
        if self.told.recording.is_refused {
            return;
        }
        self.told.recording.state = self.engine.image().chunks(STATE_BYTES).map(<[u8]>::to_vec).collect();
        let partitions: Vec<PartitionId> = self.topology.copies_at(self.id).collect();
        self.data.begin_copy(self.id, &partitions);
    }
    fn next_block(&mut self) -> Result<Option<CheckpointBlock>, CheckpointEnded> {
        if self.told.recording.is_refused {
            return Err(CheckpointEnded);
        }
        if let Some(state) = self.told.recording.state.pop_front() {
            return Ok(Some(CheckpointBlock::State(state)));
        }
        match self.data.next_block(self.id) {
            Ok(block) => Ok(block.map(|(partition, bytes)| CheckpointBlock::Rows(partition, bytes))),
            Err(txn::engine::CopyEnded) => Err(CheckpointEnded),
        }
    }
    fn end_checkpoint(&mut self) {
        self.told.recording.state.clear();
        self.data.end_copy(self.id);
    }

    fn restore(&mut self, block: CheckpointBlock) -> Result<(), Unreadable> {
        match block {
            CheckpointBlock::State(bytes) => {
                if self.told.recording.taken.is_empty() {
                    check_version(&bytes)?;
                }
                self.told.recording.taken.extend(bytes);
            }
            CheckpointBlock::Rows(partition, bytes) => {
                check_version(&bytes)?;
                if !self.topology.holds(self.id, partition) {
                    return Err(Unreadable(format!("{partition} does not live at {}", self.id)));
                }
                self.data.restore(partition, &bytes);
            }
        }
        Ok(())
    }
    fn replay(&mut self, record: Record) -> Result<(), Unreadable> {
        self.take_state()?;
        let Record { owner, kind, version, payload } = record;
        if owner != ENGINE {
            return Err(Unreadable(format!("a record of owner {owner}, kind {kind}, version {version}")));
        }
        check_version(&payload)?;
        self.engine.replay(txn::engine::Record { kind, version, payload }, &mut self.data)
    }
    fn recovered(&mut self) -> Result<Time, Unreadable> {
        self.take_state()?;
        Ok(self.engine.recovered())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_what_reads_it() {
        for version in codec::READS {
            check_version(&[version, 0]).expect("it is read");
        }
        let said = |version: u8| check_version(&[version, 0]).unwrap_err().to_string();
        let reads = format!("this program reads versions {} to {}. ", codec::OLDEST, codec::VERSION);
        let older = said(codec::OLDEST - 1);
        assert!(older.starts_with(&format!("format version {}; {reads}", codec::OLDEST - 1)), "{older}");
        assert!(
            older.contains("Builds that read version") && older.contains("meridian backup create"),
            "{older}"
        );
        let newer = said(codec::VERSION + 1);
        assert!(newer.ends_with(&format!("{reads}A later build wrote it; start that one")), "{newer}");
        assert_eq!(check_version(&[]).unwrap_err().to_string(), "no bytes");
    }
}
