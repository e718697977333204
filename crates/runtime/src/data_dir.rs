//! A directory that holds a database: who may use it, and what it was made with.
//!
//! Inside: `lock` (locked by the process that uses it), `made-with` (settings, one `name value` a line, which
//! must be the same for ever), and one log per node. KEEPS: one process at a time; a directory that holds
//! anything else is left alone.

use crate::log_file::{DiskError, LogFile, io, sync_directory};
use base::NodeId;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A directory of this process.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Released when the process ends, however it does.
    _lock: File,
}

const LOCK: &str = "lock";
const MADE_WITH: &str = "made-with";

impl DataDir {
    /// Takes a directory, made if it is not there. `settings` have to be what it was made with, except those
    /// named in `may_differ`, which are written down anew.
    pub fn open(path: &Path, settings: &[(&str, String)], may_differ: &[&str]) -> Result<DataDir, DiskError> {
        std::fs::create_dir_all(path).map_err(io(path, "make"))?;
        let lock_path = path.join(LOCK);
        if !path.join(MADE_WITH).exists() {
            let others = std::fs::read_dir(path).map_err(io(path, "read"))?;
            let others = others.filter_map(Result::ok).map(|entry| entry.file_name());
            // A first start may have been cut short before it wrote anything down.
            let is_known = |name: &std::ffi::OsStr| name == LOCK || name == temporary().as_str();
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
        let directory = DataDir { path: path.to_path_buf(), _lock: lock };
        let is_new = !path.join(MADE_WITH).exists();
        if is_new || directory.compare(settings, may_differ)? {
            directory.write_down(settings)?;
        }
        Ok(directory)
    }

    /// Whether a setting that may differ does.
    fn compare(&self, settings: &[(&str, String)], may_differ: &[&str]) -> Result<bool, DiskError> {
        let path = self.path.join(MADE_WITH);
        let text = std::fs::read_to_string(&path).map_err(io(&path, "read"))?;
        let mut has_changed = false;
        for (name, wanted) in settings {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            if found == Some(wanted) {
                continue;
            }
            if !may_differ.contains(name) {
                return Err(DiskError::Differs {
                    path: self.path.clone(),
                    name: name.to_string(),
                    found: found.unwrap_or("unknown").to_string(),
                    wanted: wanted.clone(),
                });
            }
            has_changed = true;
        }
        Ok(has_changed)
    }

    fn write_down(&self, settings: &[(&str, String)]) -> Result<(), DiskError> {
        let text: String = settings.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        let (path, new) = (self.path.join(MADE_WITH), self.path.join(temporary()));
        let mut file = File::create(&new).map_err(io(&new, "make"))?;
        file.write_all(text.as_bytes()).map_err(io(&new, "write"))?;
        file.sync_all().map_err(io(&new, "sync"))?;
        std::fs::rename(&new, &path).map_err(io(&path, "rename"))?;
        sync_directory(&path)
    }

    /// The log of one node, and what it holds.
    pub fn log(&self, node: NodeId) -> Result<(LogFile, Vec<Vec<u8>>), DiskError> {
        LogFile::open(&self.path.join(format!("node-{}.log", node.0)))
    }
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

    fn with(engine: &str, build: &str) -> [(&'static str, String); 2] {
        [("--engine", engine.to_string()), ("build", build.to_string())]
    }

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let scratch = Scratch::new();
        let first = DataDir::open(&scratch.0, &with("perseus", "1"), &[]).unwrap();
        let second = DataDir::open(&scratch.0, &with("perseus", "1"), &[]).unwrap_err();
        assert!(second.to_string().ends_with("is in use by another process"), "{second}");
        drop(first);
        DataDir::open(&scratch.0, &with("perseus", "1"), &[]).unwrap();
    }

    #[test]
    fn a_directory_remembers_what_it_was_made_with() {
        let scratch = Scratch::new();
        drop(DataDir::open(&scratch.0, &with("perseus", "1"), &[]).unwrap());
        let other = DataDir::open(&scratch.0, &with("caerus", "1"), &[]).unwrap_err().to_string();
        assert!(other.ends_with("was made with --engine perseus, not caerus"), "{other}");
        DataDir::open(&scratch.0, &with("perseus", "2"), &[]).unwrap_err();
        drop(DataDir::open(&scratch.0, &with("perseus", "2"), &["build"]).unwrap());
        DataDir::open(&scratch.0, &with("perseus", "2"), &[]).unwrap();
    }

    #[test]
    fn a_directory_of_something_else_is_left_alone() {
        let scratch = Scratch::new();
        std::fs::write(scratch.0.join("thesis.tex"), "").unwrap();
        let error = DataDir::open(&scratch.0, &with("perseus", "1"), &[]).unwrap_err().to_string();
        assert!(error.contains("thesis.tex"), "{error}");
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
    }
}
