//! A directory that is to hold one state of a node, and nothing from before it.

use super::{ROWS, RecordLog, STATE};
use crate::disk_error::DiskError;
use base::process::{CheckpointBlock, Recorded};
use durability::{Description, Lane};

impl RecordLog {
    /// Writes a checkpoint of a node that has not started, which has taken all that is here, as the only state that the
    /// directory holds: two alike, so that none from before is kept. Errors: the disk fails, or has no room.
    pub fn write_state<P: Recorded>(&mut self, process: &mut P) -> Result<(), DiskError> {
        for _ in 0..2 {
            let (newest, position) = (self.store.newest_checkpoint(), self.store.end());
            self.store.begin_checkpoint(Description { position, ranks: Vec::new() });
            process.begin_checkpoint();
            while let Ok(Some(block)) = process.next_block() {
                match block {
                    CheckpointBlock::State(bytes) => self.store.add_block(STATE, &bytes),
                    CheckpointBlock::Rows(partition, bytes) => {
                        self.store.add_block(&format!("{ROWS}{}", partition.0), &bytes)
                    }
                }
                while !self.store.has_room() && self.work()? {}
            }
            process.end_checkpoint();
            self.store.finish_checkpoint();
            while self.work()? {}
            if self.store.newest_checkpoint() == newest {
                let why = "has no room for a checkpoint; make some and start again".to_string();
                return Err(DiskError::Foreign { path: self.directory.clone(), why });
            }
        }
        self.behind_bytes = 0;
        Ok(())
    }
    /// Does one job of a checkpoint; false: there is none.
    fn work(&mut self) -> Result<bool, DiskError> {
        let Some(job) = self.store.next_job(Lane::Background) else { return Ok(false) };
        let result = job.ops.iter().try_for_each(|op| self.disk.perform(op));
        self.store.done(Lane::Background, result);
        match self.store.stopped() {
            None => Ok(true),
            Some(why) => Err(DiskError::Stopped { directory: self.directory.clone(), why: why.clone() }),
        }
    }
}
