//! A node's directory whose files were damaged after they had been synced.

use crate::{Dice, damage};
use base::NodeId;
use durability::{
    ClusterId, Description, Disk, Failed, Failure, Identity, Lane, Op, Options, Owner, Record, Refused, Store,
};
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

const IDENTITY: Identity = Identity { cluster: ClusterId(7), node: NodeId(2), topology_digest: 11 };

/// Small, so that a few records are several batches, segments and pieces.
fn options() -> Options {
    Options { segment_bytes: 300, batch_bytes_max: 120, piece_bytes_max: 100, ..Options::default() }
}

/// Seeds of the directory's content and of the damage.
pub fn input(dice: &mut Dice) -> Vec<u8> {
    (0..16).map(|_| dice.random()).collect()
}

pub fn handle(input: &[u8]) -> Result<(), String> {
    let mut seeds = [0; 16];
    input.iter().zip(&mut seeds).for_each(|(from, to)| *to = *from);
    let (content, damage) = seeds.split_at(8);
    let dice_of = |seed: &[u8]| Dice::seed_from_u64(u64::from_le_bytes(seed.try_into().expect("8 bytes")));
    let (mut disk, written) = filled(&mut dice_of(content)).map_err(|why| format!("to fill it: {why}"))?;
    let mut dice = dice_of(damage);
    for _ in 0..dice.random_range(1..=3) {
        disk.damage(&mut dice);
    }
    opened(&mut disk, &written)
}

/// A directory with records and perhaps a checkpoint, and all records that were appended.
fn filled(dice: &mut Dice) -> Result<(Files, Vec<Record>), Refused> {
    let mut disk = Files::default();
    let mut written = Vec::new();
    for _ in 0..dice.random_range(1..=2) {
        let mut opened = durability::open(&mut disk, IDENTITY, options())?;
        while opened.replay.next(&mut disk)?.is_some() {}
        let mut store = opened.replay.finish();
        for _ in 0..dice.random_range(0..12) {
            let payload: Vec<u8> = (0..dice.random_range(0..80)).map(|_| dice.random()).collect();
            let (owner, kind, version) = (Owner(dice.random_range(0..3)), dice.random(), 1);
            let appended = store.append(owner, kind, version, payload.clone());
            let sequence = appended.expect("the disk does not fail");
            written.push(Record { sequence, owner, kind, version, payload });
            disk.work(&mut store);
        }
        if dice.random() {
            store.begin_checkpoint(Description { position: store.stable(), ranks: Vec::new() });
            for _ in 0..dice.random_range(0..4) {
                let block: Vec<u8> = (0..dice.random_range(0..90)).map(|_| dice.random()).collect();
                store.add_block("rows", &block);
            }
            store.finish_checkpoint();
            disk.work(&mut store);
        }
    }
    Ok((disk, written))
}

/// Opens a directory and compares what it answers with what was written.
fn opened(disk: &mut Files, written: &[Record]) -> Result<(), String> {
    let Ok(mut opened) = durability::open(disk, IDENTITY, options()) else { return Ok(()) };
    let mut next = opened.checkpoint.as_ref().map_or(1, |newest| newest.description().position.0 + 1);
    while let Ok(read) = opened.replay.next(disk) {
        let Some(record) = read else {
            drop(opened.replay.finish());
            return Ok(());
        };
        if record.sequence.0 != next {
            return Err(format!("record {} where {next} was to come", record.sequence));
        }
        if written.get(next as usize - 1) != Some(&record) {
            return Err(format!("record {next} is not what was appended"));
        }
        next += 1;
    }
    Ok(())
}

/// A disk in memory. It loses nothing, so a sync has nothing to do.
#[derive(Default)]
struct Files {
    files: BTreeMap<String, Vec<u8>>,
    directories: BTreeSet<String>,
}

impl Files {
    /// Does all the work that a store has.
    fn work(&mut self, store: &mut Store) {
        for lane in [Lane::Log, Lane::Background] {
            while let Some(job) = store.next_job(lane) {
                let done = job.ops.iter().try_for_each(|op| self.perform(op));
                store.done(lane, done);
            }
        }
    }

    fn damage(&mut self, dice: &mut Dice) {
        let count = self.files.len().max(1);
        let at = dice.random_range(0..count);
        let Some(path) = self.files.keys().nth(at).cloned() else { return };
        if dice.random_range(0..8) == 0 {
            // A file takes another one's name, or is gone.
            let bytes = self.files.remove(&path).expect("it was found");
            if let (true, Some(other)) = (dice.random(), self.files.keys().nth(at % count).cloned()) {
                self.files.insert(other, bytes);
            }
            return;
        }
        damage::damage(dice, self.files.get_mut(&path).expect("it was found"));
    }

    fn file(&mut self, path: &str) -> Result<&mut Vec<u8>, Failed> {
        let why = Failure::Other("there is no such file".to_string());
        let failed = Failed { doing: "find", path: path.to_string(), why };
        self.files.get_mut(path).ok_or(failed)
    }
}

impl Disk for Files {
    fn list(&mut self, directory: &str) -> Result<Vec<String>, Failed> {
        let inside = |path: &String| {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            (parent == directory).then(|| name.to_string())
        };
        Ok(self.files.keys().chain(&self.directories).filter_map(inside).collect())
    }
    fn length(&mut self, path: &str) -> Result<Option<u64>, Failed> {
        Ok(self.files.get(path).map(|bytes| bytes.len() as u64))
    }
    fn read(&mut self, path: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failed> {
        let file = self.file(path)?;
        let at = (at as usize).min(file.len());
        let until = at.saturating_add(bytes).min(file.len());
        Ok(file[at..until].to_vec())
    }
    fn perform(&mut self, op: &Op) -> Result<(), Failed> {
        match op {
            Op::MakeDirectory { path } => drop(self.directories.insert(path.clone())),
            Op::Create { path } => drop(self.files.insert(path.clone(), Vec::new())),
            Op::Write { path, at, bytes } => {
                let (file, at) = (self.file(path)?, *at as usize);
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Op::Cut { path, bytes } => self.file(path)?.truncate(*bytes as usize),
            Op::Sync { .. } | Op::SyncDirectory { .. } => {}
            Op::Rename { from, to } => {
                let bytes = std::mem::take(self.file(from)?);
                self.files.remove(from);
                self.files.insert(to.clone(), bytes);
            }
            Op::Delete { path } => drop(self.files.remove(path)),
            Op::DeleteDirectory { path } => drop(self.directories.remove(path)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_damage_answers_all_that_was_written() {
        let mut answered = 0;
        for seed in 0..50 {
            let (mut disk, written) = filled(&mut Dice::seed_from_u64(seed)).unwrap();
            assert_eq!(opened(&mut disk, &written), Ok(()));
            answered += written.len();
        }
        assert!(answered > 100);
    }
}
