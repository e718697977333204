//! A directory that holds a database: who may use it, and what it was made with.
//!
//! A directory is one life of its logs, named by when it was made ([`DataDir::incarnation`]). Inside: `lock` (locked by
//! the process that uses it), `made-with` (settings, one `name value` a line, which must be the same until the cluster is
//! changed), and one
//! directory per node ([`RecordLog`]). KEEPS: one process at a time; a directory that holds
//! anything else is left alone; once every node has begun, a node whose directory is gone is refused.

use crate::disk_error::{DiskError, io};
use crate::files::{Files, make_directory, sync_directory};
use crate::record_log::{RecordLog, Recovered};
use crate::room::{RESERVE_BYTES, Room};
use base::NodeId;
use base::cut::Incarnation;
use base::process::Recorded;
use durability::Disk;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of this process.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    incarnation: Incarnation,
    /// What it was made with.
    settings: Vec<(String, String)>,
    /// Every node has been opened once: none of them may be missing.
    has_begun: bool,
    room: Arc<Room>,
    /// Released when the process ends, however it does.
    _lock: File,
}

/// Files of counts of sequences, which the front end keeps, begin so.
const COUNTS: &str = "sequences-";
const LOCK: &str = "lock";
const MADE_WITH: &str = "made-with";
/// The line that names the life of the logs.
const INCARNATION: &str = "incarnation";
/// The line that says that every node has been opened.
const BEGUN: &str = "begun";
/// The line that names the format of `made-with`, and the one that is read and written. A file without it has format 1.
const FORMAT: &str = "format";
const FORMAT_NUMBER: u32 = 1;

impl DataDir {
    /// Takes a directory, made if it is not there. `settings` have to be what it was made with.
    pub fn open(path: &Path, settings: &[(&str, String)]) -> Result<DataDir, DiskError> {
        make_directory(path).map_err(io(path, "make"))?;
        let lock_path = path.join(LOCK);
        if !path.join(MADE_WITH).exists() {
            let others = std::fs::read_dir(path).map_err(io(path, "read"))?;
            let others = others.filter_map(Result::ok).map(|entry| entry.file_name());
            // A first start may have been cut short before it wrote anything down.
            // One that replaces a lost one, or is a new region's, was prepared.
            let is_known = |name: &std::ffi::OsStr| {
                name == LOCK
                    || name == temporary().as_str()
                    || name == crate::tcp::lives::FILE
                    || name.to_string_lossy().starts_with(COUNTS)
                    || Room::is_own(name)
            };
            if let Some(other) = others.filter(|name| !is_known(name)).min() {
                let why = format!("holds {} but no database; choose an empty directory", other.display());
                return Err(DiskError::Foreign { path: path.to_path_buf(), why });
            }
        }
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(io(&lock_path, "open"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DiskError::InUse { path: path.to_path_buf() },
            TryLockError::Error(error) => io(&lock_path, "lock")(error),
        })?;
        let room = Arc::new(Room::open(path, RESERVE_BYTES).map_err(io(path, "write to"))?);
        let mut directory = DataDir {
            path: path.to_path_buf(),
            incarnation: Incarnation(crate::clock::Clock::new().now().0),
            settings: settings.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
            has_begun: false,
            room,
            _lock: lock,
        };
        if !path.join(MADE_WITH).exists() {
            directory.write_down()?;
            return Ok(directory);
        }
        directory.check_format()?;
        directory.compare(settings)?;
        directory.has_begun = directory.value(BEGUN)?.is_some();
        match directory.value(INCARNATION)?.and_then(|text| text.parse().ok()) {
            Some(known) => directory.incarnation = Incarnation(known),
            // Made before lives had names: this one is named now.
            None => return directory.write_down().map(|()| directory),
        }
        Ok(directory)
    }

    fn check_format(&self) -> Result<(), DiskError> {
        let found = self.value(FORMAT)?.unwrap_or_else(|| FORMAT_NUMBER.to_string());
        if found == FORMAT_NUMBER.to_string() {
            return Ok(());
        }
        let why = format!(
            "has format {found}; this program reads format {FORMAT_NUMBER}. Start the build that wrote it"
        );
        Err(DiskError::Foreign { path: self.path.join(MADE_WITH), why })
    }

    /// What a directory was made with, by name; `None`: nothing is written down there.
    pub fn made_with(path: &Path) -> Result<Option<BTreeMap<String, String>>, DiskError> {
        let path = path.join(MADE_WITH);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                // A name may have spaces, and no value has.
                let pairs = text.lines().filter_map(|line| line.rsplit_once(' '));
                Ok(Some(pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io(&path, "read")(error)),
        }
    }
    /// From now on the directory is used with other settings: what it holds has been changed accordingly.
    pub fn change_settings(&mut self, settings: &[(&str, String)]) -> Result<(), DiskError> {
        self.settings = settings.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        self.write_down()
    }

    /// Every node has been opened. From now on a node whose directory is not there has lost what it had.
    pub fn begin(&mut self) -> Result<(), DiskError> {
        if self.has_begun {
            return Ok(());
        }
        self.has_begun = true;
        self.write_down()
    }

    /// The life of these logs: the same for as long as the directory is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What was written down under a name.
    fn value(&self, name: &str) -> Result<Option<String>, DiskError> {
        let path = self.path.join(MADE_WITH);
        let text = std::fs::read_to_string(&path).map_err(io(&path, "read"))?;
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(found.map(str::to_string))
    }

    /// Errors: a setting differs.
    fn compare(&self, settings: &[(&str, String)]) -> Result<(), DiskError> {
        for (name, wanted) in settings {
            let found = self.value(name)?;
            if found.as_ref() != Some(wanted) {
                return Err(DiskError::Differs {
                    path: self.path.clone(),
                    name: name.to_string(),
                    found: found.unwrap_or_else(|| "unknown".into()),
                    wanted: wanted.clone(),
                });
            }
        }
        Ok(())
    }

    fn write_down(&self) -> Result<(), DiskError> {
        let mut text = format!("{FORMAT} {FORMAT_NUMBER}\n");
        self.settings.iter().for_each(|(name, value)| text.push_str(&format!("{name} {value}\n")));
        text.push_str(&format!("{INCARNATION} {}\n", self.incarnation.0));
        if self.has_begun {
            text.push_str(&format!("{BEGUN} yes\n"));
        }
        let (path, new) = (self.path.join(MADE_WITH), self.path.join(temporary()));
        let mut file = File::create(&new).map_err(io(&new, "make"))?;
        file.write_all(text.as_bytes()).map_err(io(&new, "write"))?;
        file.sync_all().map_err(io(&new, "sync"))?;
        std::fs::rename(&new, &path).map_err(io(&path, "rename"))?;
        sync_directory(&self.path).map_err(io(&self.path, "sync"))
    }

    /// Errors: logs that were there are gone. A life goes on with all of them or not at all.
    pub fn check_complete(&self, nodes: impl Iterator<Item = NodeId>) -> Result<(), DiskError> {
        let refused = |path: &Path| {
            let directory = path.to_path_buf();
            move |failed: durability::Failed| DiskError::Refused { directory, why: failed.into() }
        };
        let (mut missing, mut written) = (None, None);
        for path in nodes.map(|node| self.log_path(node)) {
            match look(&path).map_err(refused(&path))? {
                None => missing = missing.or(Some(path)),
                Some(true) => written = Some(path),
                Some(false) => {}
            }
        }
        let Some(missing) = missing else { return Ok(()) };
        let why = match written {
            Some(written) => format!("is not there, but {} is; {RESTORE}", written.display()),
            None if self.has_begun => format!("is not there, and it was once; {RESTORE}"),
            None => return Ok(()),
        };
        Err(DiskError::Foreign { path: missing, why })
    }

    fn log_path(&self, node: NodeId) -> PathBuf {
        self.path.join(format!("node-{}", node.0))
    }

    /// A node that has come back with its records, or a new one; see [`RecordLog::open`].
    pub fn records<P: Recorded>(
        &self,
        node: NodeId,
        checkpoint_bytes: u64,
        make: impl FnOnce(u32) -> P,
    ) -> Result<Recovered<P>, DiskError> {
        self.check_complete(std::iter::once(node))?;
        let (path, room) = (self.log_path(node), self.room.clone());
        RecordLog::open(&path, room, node, self.incarnation, checkpoint_bytes, make)
    }
}

/// What to do about what is missing.
const RESTORE: &str = "restore the whole directory from a copy, or the database from a backup";

/// Whether a directory holds a node's log, and whether anything was ever written to it.
fn look(directory: &Path) -> Result<Option<bool>, durability::Failed> {
    if !directory.is_dir() {
        return Ok(None);
    }
    let mut files = Files::open(directory)?;
    let is_made = files.length(durability::paths::IDENTITY)?.is_some();
    Ok(if is_made { Some(!files.list(durability::paths::LOG)?.is_empty()) } else { None })
}

fn temporary() -> String {
    format!("{MADE_WITH}.new")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A directory that is gone when the test is.
    pub struct Scratch(pub PathBuf);

    impl Scratch {
        pub fn new() -> Scratch {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let name = format!("meridian-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }
    impl Drop for Scratch {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn with(engine: &str) -> [(&'static str, String); 2] {
        [("--engine", engine.to_string()), ("--survive and more", "1".to_string())]
    }

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let scratch = Scratch::new();
        let first = DataDir::open(&scratch.0, &with("perseus")).unwrap();
        let second = DataDir::open(&scratch.0, &with("perseus")).unwrap_err();
        assert!(second.to_string().ends_with("is in use by another process"), "{second}");
        drop(first);
        DataDir::open(&scratch.0, &with("perseus")).unwrap();
    }

    #[test]
    fn a_directory_remembers_what_it_was_made_with() {
        let scratch = Scratch::new();
        drop(DataDir::open(&scratch.0, &with("perseus")).unwrap());
        let known = DataDir::made_with(&scratch.0).unwrap().unwrap();
        assert_eq!(known.get("--survive and more").map(String::as_str), Some("1"));
        let other = DataDir::open(&scratch.0, &with("caerus")).unwrap_err().to_string();
        assert!(other.ends_with("was made with --engine perseus, not caerus"), "{other}");
        DataDir::open(&scratch.0, &with("perseus")).unwrap();
    }

    #[test]
    fn a_directory_is_one_life_of_its_logs() {
        let (one, other) = (Scratch::new(), Scratch::new());
        let life = |scratch: &Scratch| DataDir::open(&scratch.0, &with("perseus")).unwrap().incarnation();
        let first = life(&one);
        assert!(first.is_named() && life(&other) != first);
        assert_eq!(life(&one), first);
        // Made before lives had names.
        std::fs::write(one.0.join(MADE_WITH), "--engine perseus\n--survive and more 1\n").unwrap();
        let named = life(&one);
        assert!(named != first);
        assert_eq!(life(&one), named);
    }

    #[test]
    fn a_life_goes_on_with_all_of_its_logs_or_not_at_all() {
        let scratch = Scratch::new();
        let directory = DataDir::open(&scratch.0, &with("perseus")).unwrap();
        let nodes = || [NodeId(0), NodeId(1)].into_iter();
        directory.check_complete(nodes()).unwrap();
        let made = |node: &str| {
            std::fs::create_dir_all(scratch.0.join(node).join(durability::paths::LOG)).unwrap();
            std::fs::write(scratch.0.join(node).join(durability::paths::IDENTITY), "").unwrap();
        };
        made("node-0");
        directory.check_complete(nodes()).expect("nothing was written yet");
        std::fs::write(scratch.0.join("node-0").join(durability::paths::LOG).join("1.seg"), "").unwrap();
        let error = directory.check_complete(nodes()).unwrap_err().to_string();
        assert!(error.contains("node-1: is not there"), "{error}");
        made("node-1");
        directory.check_complete(nodes()).unwrap();
    }

    #[test]
    fn a_directory_of_something_else_is_left_alone() {
        let scratch = Scratch::new();
        // Of a first start that was cut short.
        std::fs::write(scratch.0.join("reserve"), "").unwrap();
        drop(DataDir::open(&scratch.0, &with("perseus")).unwrap());
        let scratch = Scratch::new();
        std::fs::write(scratch.0.join("thesis.tex"), "").unwrap();
        let error = DataDir::open(&scratch.0, &with("perseus")).unwrap_err().to_string();
        assert!(error.contains("thesis.tex"), "{error}");
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
    }
}
