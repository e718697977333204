//! A node's input log in a directory: a [`durability::Store`], and the thread that writes and syncs for it.
//!
//! KEEPS: a record counts as written only after its sync; one sync covers all that gathered; after the first failure
//! nothing is written any more. Only the log is used so far: nodes take no checkpoints.

use crate::files::Files;
use base::NodeId;
use base::cut::Incarnation;
use base::process::PersistToken;
use durability::{
    ClusterId, Disk, Failed, Identity, Lane, Options, Owner, Record, Refused, Sequence, Stopped, Store,
};
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// The only owner of records so far.
const INPUTS: Owner = Owner(1);
/// A record of the group's journal (`consensus::journal`).
const JOURNAL: u8 = 1;
const JOURNAL_VERSION: u8 = 1;

/// Why files cannot be used.
#[derive(Debug)]
pub enum DiskError {
    /// The system refused.
    Io { path: PathBuf, doing: &'static str, error: std::io::Error },
    /// Not what it should be.
    Foreign { path: PathBuf, why: String },
    /// A node's directory was not opened.
    Refused { directory: PathBuf, why: Refused },
    /// A write or a sync failed.
    Stopped { directory: PathBuf, why: Stopped },
    /// Another process has the directory.
    InUse { path: PathBuf },
    /// The directory was made with another value of this setting.
    Differs { path: PathBuf, name: String, found: String, wanted: String },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Io { path, doing, error } => write!(f, "cannot {doing} {}: {error}", path.display()),
            DiskError::Foreign { path, why } => write!(f, "{}: {why}", path.display()),
            DiskError::Refused { directory, why } => {
                write!(f, "in {}: {why}", directory.display())?;
                match why {
                    Refused::Damaged { .. } | Refused::Missing { .. } => f.write_str(
                        ". Data that was synced is lost; restore the directory from a copy, or the database from a backup",
                    ),
                    Refused::Format { found, reads, .. } if found > reads => {
                        f.write_str(". A later build wrote it; start that one")
                    }
                    Refused::Format { .. } => f.write_str(". An earlier build wrote it; start that one"),
                    Refused::Differs { .. } => {
                        f.write_str(". Put the directory back where it was, or name another one with --data")
                    }
                    Refused::Disk(failed) if failed.why == durability::Failure::Full => {
                        f.write_str(". Make room on it and start again; nothing that was answered is lost")
                    }
                    Refused::Disk(_) => Ok(()),
                }
            }
            DiskError::Stopped { directory, why } => write!(f, "in {}: {why}", directory.display()),
            DiskError::InUse { path } => write!(f, "{} is in use by another process", path.display()),
            DiskError::Differs { path, name, found, wanted } => {
                write!(f, "{} was made with {name} {found}, not {wanted}", path.display())
            }
        }
    }
}
impl std::error::Error for DiskError {}

pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> DiskError {
    let path = path.to_path_buf();
    move |error| DiskError::Io { path, doing, error }
}

/// A log that is open for appending.
#[derive(Debug)]
pub struct NodeLog {
    files: Files,
    store: Store,
    /// Records that are not on disk yet.
    waiting: VecDeque<(Sequence, PersistToken)>,
}

impl NodeLog {
    /// Opens a node's directory, or makes one. Answers the records that it holds.
    pub fn open(
        directory: &Path,
        node: NodeId,
        made: Incarnation,
    ) -> Result<(NodeLog, Vec<Vec<u8>>), DiskError> {
        let refused = |why: Refused| DiskError::Refused { directory: directory.to_path_buf(), why };
        let mut files = Files::open(directory).map_err(|failed| refused(failed.into()))?;
        // What the cluster was made with is compared name by name before (`DataDir`).
        let identity = Identity { cluster: ClusterId(made.0.into()), node, topology_digest: 0 };
        let opened = durability::open(&mut files, identity, Options::default()).map_err(refused)?;
        for note in &opened.notes {
            tracing::warn!(directory = %directory.display(), "{note}");
        }
        let mut replay = opened.replay;
        let mut records = Vec::new();
        while let Some(record) = replay.next(&mut files).map_err(refused)? {
            records.push(journal_of(record).map_err(|why| {
                let path = directory.to_path_buf();
                DiskError::Foreign { path, why }
            })?);
        }
        let store = replay.finish();
        Ok((NodeLog { files, store, waiting: VecDeque::new() }, records))
    }

    /// Whether a directory holds a node's log, and whether anything was ever written to it.
    pub(crate) fn look(directory: &Path) -> Result<Option<bool>, Failed> {
        if !directory.is_dir() {
            return Ok(None);
        }
        let mut files = Files::open(directory)?;
        let is_made = files.length(durability::paths::IDENTITY)?.is_some();
        Ok(if is_made { Some(!files.list(durability::paths::LOG)?.is_empty()) } else { None })
    }

    pub fn path(&self) -> &Path {
        self.files.root()
    }

    fn append(&mut self, (token, record): (PersistToken, Vec<u8>)) -> Result<(), DiskError> {
        let appended = self.store.append(INPUTS, JOURNAL, JOURNAL_VERSION, record);
        let sequence = appended.map_err(|why| self.stopped(why))?;
        self.waiting.push_back((sequence, token));
        Ok(())
    }

    /// Writes and syncs one batch; says what is safe. False: nothing waits.
    fn write_batch(&mut self, safe: &impl Fn(PersistToken)) -> Result<bool, DiskError> {
        let Some(job) = self.store.next_job(Lane::Log) else { return Ok(false) };
        let result = job.ops.iter().try_for_each(|op| self.files.perform(op));
        self.store.done(Lane::Log, result);
        if let Some(why) = self.store.stopped() {
            return Err(self.stopped(why.clone()));
        }
        let stable = self.store.stable();
        while let Some((_, token)) = self.waiting.pop_front_if(|(sequence, _)| *sequence <= stable) {
            safe(token);
        }
        Ok(true)
    }

    fn stopped(&self, why: Stopped) -> DiskError {
        DiskError::Stopped { directory: self.path().to_path_buf(), why }
    }

    /// Writes what comes in, until nobody can send any more; says what is safe. Ends with the first error:
    /// after a failed sync nobody knows what the disk holds.
    pub(crate) fn serve(
        mut self,
        records: mpsc::Receiver<(PersistToken, Vec<u8>)>,
        safe: impl Fn(PersistToken),
    ) -> Result<(), DiskError> {
        while let Ok(first) = records.recv() {
            self.append(first)?;
            loop {
                // What came in during a sync shares the next one.
                for record in records.try_iter() {
                    self.append(record)?;
                }
                if !self.write_batch(&safe)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn journal_of(record: Record) -> Result<Vec<u8>, String> {
    let Record { sequence, owner, kind, version, payload } = record;
    if (owner, kind, version) == (INPUTS, JOURNAL, JOURNAL_VERSION) {
        return Ok(payload);
    }
    let what = format!("record {sequence} is of owner {}, kind {kind}, version {version}", owner.0);
    let reads = format!("owner {}, kind {JOURNAL}, version {JOURNAL_VERSION}", INPUTS.0);
    Err(format!("{what}; this program reads {reads}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;
    use std::cell::RefCell;

    const MADE: Incarnation = Incarnation(5);

    fn open(path: &Path) -> Result<(NodeLog, Vec<Vec<u8>>), DiskError> {
        NodeLog::open(path, NodeId(2), MADE)
    }
    fn write(path: &Path, records: &[&[u8]]) {
        let (mut log, _) = open(path).unwrap();
        for (n, record) in records.iter().enumerate() {
            log.append((PersistToken(n as u64), record.to_vec())).unwrap();
            assert!(log.write_batch(&|token| assert_eq!(token.0, n as u64)).unwrap());
        }
    }
    fn segment(path: &Path) -> PathBuf {
        path.join("log/00000000000000000001.seg")
    }
    const HEADER_BYTES: usize = durability::segment::HEADER_BYTES as usize;

    #[test]
    fn what_was_appended_is_there_and_a_torn_end_is_cut_anywhere() {
        let scratch = Scratch::new();
        let two = HEADER_BYTES + 2 * (24 + 3);
        for cut in two..=two + 24 + 5 {
            let path = scratch.0.join(format!("node-{cut}"));
            write(&path, &[b"one", b"two", b"three"]);
            let whole = std::fs::read(segment(&path)).unwrap();
            assert_eq!(whole.len(), two + 24 + 5);
            std::fs::write(segment(&path), &whole[..cut]).unwrap();
            let (_, records) = open(&path).unwrap();
            if cut == whole.len() {
                assert_eq!(records, [&b"one"[..], b"two", b"three"]);
                continue;
            }
            assert_eq!(records.len(), 2, "cut at {cut}");
            assert_eq!(std::fs::metadata(segment(&path)).unwrap().len(), two as u64);
            // What comes next stands where the torn record stood.
            write(&path, &[b"four"]);
            assert_eq!(open(&path).unwrap().1, [&b"one"[..], b"two", b"four"]);
        }
        // Less than an opening has found is no torn end.
        let path = scratch.0.join("node");
        write(&path, &[b"one", b"two", b"three"]);
        open(&path).unwrap();
        let whole = std::fs::read(segment(&path)).unwrap();
        std::fs::write(segment(&path), &whole[..two]).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("the log ends at record 2, and once ended at 3"), "{error}");
    }

    #[test]
    fn damage_in_the_middle_is_refused_with_its_place_and_nothing_is_changed() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node");
        write(&path, &[b"one", b"two", b"three"]);
        let mut bytes = std::fs::read(segment(&path)).unwrap();
        let second = HEADER_BYTES + 24 + 3;
        bytes[second + 24] ^= 1;
        std::fs::write(segment(&path), &bytes).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains(&format!("00001.seg is damaged at offset {second}:")), "{error}");
        assert_eq!(std::fs::read(segment(&path)).unwrap(), bytes);
    }

    #[test]
    fn the_log_of_another_node_or_another_directory_or_another_version_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node");
        write(&path, &[b"one"]);
        let error = NodeLog::open(&path, NodeId(3), MADE).unwrap_err().to_string();
        assert!(
            error.contains("identity belongs elsewhere: node is n2, not n3. Put the directory back"),
            "{error}"
        );
        let error = NodeLog::open(&path, NodeId(2), Incarnation(6)).unwrap_err().to_string();
        assert!(error.contains("cluster is 00000000000000000000000000000005, not 0"), "{error}");
        let (mut log, _) = open(&path).unwrap();
        log.store.append(INPUTS, JOURNAL, 2, Vec::new()).unwrap();
        log.write_batch(&|_| ()).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("kind 1, version 2; this program reads owner 1, kind 1, version 1"),
            "{error}"
        );
    }

    #[test]
    fn the_thread_answers_each_token_once_and_in_order_and_ends_with_its_senders() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node");
        let (sender, records) = mpsc::channel();
        for n in 0..500u64 {
            sender.send((PersistToken(n), n.to_le_bytes().to_vec())).unwrap();
        }
        drop(sender);
        let answered = RefCell::new(Vec::new());
        let log = open(&path).unwrap().0;
        log.serve(records, |token| answered.borrow_mut().push(token.0)).unwrap();
        assert_eq!(answered.into_inner(), (0..500).collect::<Vec<_>>());
        let found = open(&path).unwrap().1;
        assert!(
            found.iter().zip(0u64..).all(|(record, n)| record[..] == n.to_le_bytes()) && found.len() == 500
        );
    }

    #[test]
    fn a_write_that_fails_ends_the_log_and_says_which_file() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node");
        let (mut log, _) = open(&path).unwrap();
        std::fs::remove_dir(path.join("log")).unwrap();
        log.append((PersistToken(1), b"lost".to_vec())).unwrap();
        let error = log.write_batch(&|_| panic!("nothing is safe")).unwrap_err().to_string();
        assert!(error.contains("stopped: cannot create log/00000000000000000001.seg: "), "{error}");
        assert!(log.append((PersistToken(2), b"lost".to_vec())).is_err());
    }
}
