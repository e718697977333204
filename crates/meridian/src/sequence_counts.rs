//! How many values of each sequence a node may have handed out: what its next life begins behind.
//!
//! A file in the directory, one for each node, has a line for each sequence. A block of values is written down, and synced, before the
//! first of them is handed out; a life that ends leaves the rest of its blocks unused. A node of a cluster that survives lost
//! directories makes the file of a new one from what the others know (`session::handed_out`). KEEPS: the file is replaced whole,
//! so it is the old one or the new one.

use base::error::SqlResult;
use base::{NodeId, SqlError, SqlState, TableId};
use sql::generators::KeptCounts;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The first line: what the file is, and its format.
const HEAD: &str = "meridian sequences 2";

pub struct CountsFile {
    path: PathBuf,
    counts: Mutex<BTreeMap<(TableId, u32), i64>>,
}

impl CountsFile {
    /// A node's file in a directory of data, which may not be there yet.
    ///
    /// Errors: it cannot be read, or is none.
    pub fn open(data: &Path, node: NodeId) -> anyhow::Result<CountsFile> {
        let path = data.join(format!("sequences-{}", node.0));
        let counts = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or_else(|| {
                anyhow::anyhow!("{}: is no file of sequences of this version; restore it", path.display())
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => anyhow::bail!("cannot read {}: {error}", path.display()),
        };
        Ok(CountsFile { path, counts: Mutex::new(counts) })
    }

    /// Writes a node's file with these counts. Errors: it cannot be written.
    pub fn replace(data: &Path, node: NodeId, counts: BTreeMap<(TableId, u32), i64>) -> anyhow::Result<()> {
        let path = data.join(format!("sequences-{}", node.0));
        let file = CountsFile { path, counts: Mutex::default() };
        file.write(&counts).map_err(|error| anyhow::anyhow!("cannot write {}: {error}", file.path.display()))
    }

    fn unwritten(&self, error: &std::io::Error) -> SqlError {
        let is_full = error.kind() == std::io::ErrorKind::StorageFull;
        let state = if is_full { SqlState::DISK_FULL } else { SqlState(*b"58030") };
        SqlError::new(state, format!("cannot write {}: {error}", self.path.display()))
            .detail("Values of a sequence are written down before they are handed out.")
    }

    fn write(&self, counts: &BTreeMap<(TableId, u32), i64>) -> std::io::Result<()> {
        let mut text = format!("{HEAD}\n");
        for ((sequence, times_moved), count) in counts {
            _ = writeln!(text, "{} {times_moved} {count}", sequence.0);
        }
        let next = self.path.with_extension("new");
        let mut file = File::create(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&next, &self.path)?;
        match self.path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn parse(text: &str) -> Option<BTreeMap<(TableId, u32), i64>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return None;
    }
    let line = |line: &str| {
        let [sequence, times_moved, count] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let name = (TableId(sequence.parse().ok()?), times_moved.parse().ok()?);
        Some((name, count.parse().ok()?))
    };
    lines.map(line).collect()
}

impl KeptCounts for CountsFile {
    fn all(&self) -> BTreeMap<(TableId, u32), i64> {
        self.counts.lock().expect("no panic while writing").clone()
    }
    fn reserved(&self, sequence: (TableId, u32)) -> i64 {
        self.counts.lock().expect("no panic while writing").get(&sequence).copied().unwrap_or(0)
    }
    fn is_new(&self) -> bool {
        !self.path.exists()
    }
    fn begin(&self, counts: BTreeMap<(TableId, u32), i64>) -> SqlResult<()> {
        let mut known = self.counts.lock().expect("no panic while writing");
        self.write(&counts).map_err(|error| self.unwritten(&error))?;
        *known = counts;
        Ok(())
    }
    fn times_moved(&self, sequence: TableId) -> Option<u32> {
        let counts = self.counts.lock().expect("no panic while writing");
        counts.keys().filter(|(known, _)| *known == sequence).map(|(_, times)| *times).max()
    }
    fn reserve(&self, sequence: (TableId, u32), count: i64) -> SqlResult<()> {
        let mut counts = self.counts.lock().expect("no panic while writing");
        let mut next = counts.clone();
        // Before it was moved its counts matter only to statements that are still under way.
        next.retain(|(known, times_moved), _| *known != sequence.0 || times_moved + 1 >= sequence.1);
        next.insert(sequence, count);
        self.write(&next).map_err(|error| self.unwritten(&error))?;
        *counts = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_is_known_to_the_next_life() {
        let directory = std::env::temp_dir().join(format!("meridian-{}-counts", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = CountsFile::open(&directory, NodeId(1)).unwrap();
        let (seventh, ninth) = ((TableId(7), 0), (TableId(9), 0));
        assert_eq!((file.reserved(seventh), file.is_new()), (0, true));
        file.begin(BTreeMap::from([((TableId(5), 0), 50)])).unwrap();
        assert!(file.reserved((TableId(5), 0)) == 50 && !file.is_new());
        file.reserve(seventh, 100).unwrap();
        file.reserve(ninth, 300).unwrap();
        file.reserve(seventh, 200).unwrap();
        let again = CountsFile::open(&directory, NodeId(1)).unwrap();
        assert_eq!((again.reserved(seventh), again.reserved(ninth)), (200, 300));
        for times_moved in 1..4 {
            assert_eq!(again.reserved((TableId(7), times_moved)), 0);
            again.reserve((TableId(7), times_moved), 100).unwrap();
        }
        let again = CountsFile::open(&directory, NodeId(1)).unwrap();
        let kept = [0, 1, 2, 3].map(|times_moved| again.reserved((TableId(7), times_moved)));
        assert_eq!((kept, again.reserved(ninth)), ([0, 0, 100, 100], 300));
        assert_eq!((again.times_moved(TableId(7)), again.times_moved(TableId(8))), (Some(3), None));
        std::fs::write(directory.join("sequences-1"), "something else").unwrap();
        assert!(CountsFile::open(&directory, NodeId(1)).is_err());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
