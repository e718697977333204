//! Which lives of nodes are known: how often the own directory was started, and the latest life of each peer.
//!
//! Kept in a small file of the data directory, one line each. KEEPS: what was answered to a peer rests on it, so it is
//! on disk before the peer is taken; a peer's directory is written down when it is first heard and changes only after it was
//! given up ([`Lives::give_up`]). A directory that takes the place of a lost one counts its lives on from those.

use super::handshake::{GIVEN_UP, KnownLife, Life};
use crate::disk_error::{DiskError, io};
use crate::files::sync_directory;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Lives {
    /// `None`: they are known as long as the process lives.
    directory: Option<PathBuf>,
    starts: u64,
    /// The last life of the directory that this one replaces; 0: it replaces none.
    replaces: u64,
    known: BTreeMap<String, KnownLife>,
    /// Peers that have to be heard once more before this node serves clients: the cluster has changed.
    awaited: BTreeSet<String>,
}

pub(crate) const FILE: &str = "lives";

impl Lives {
    /// Reads what is known, and counts this start. Errors: the file cannot be read, written or understood.
    pub fn begin(directory: &Path) -> Result<Lives, DiskError> {
        let path = directory.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(io(&path, "read")(error)),
        };
        let mut lives = Lives { directory: Some(directory.to_path_buf()), ..Lives::of_process() };
        for line in text.lines() {
            lives.read(line).ok_or_else(|| DiskError::Foreign {
                path: path.clone(),
                why: format!("has a line that nobody wrote: {line:?}; restore it from a copy"),
            })?;
        }
        lives.starts += 1;
        lives.write()?;
        Ok(lives)
    }

    /// Of a process that promises nothing beyond its end: a replica.
    pub fn of_process() -> Lives {
        Lives { directory: None, starts: 0, replaces: 0, known: BTreeMap::new(), awaited: BTreeSet::new() }
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["starts", starts] => self.starts = starts.parse().ok()?,
            ["replaces", lives] => self.replaces = lives.parse().ok()?,
            ["awaits", name] => _ = self.awaited.insert(name.to_string()),
            ["peer", name, directory, starts] => {
                let life = KnownLife {
                    directory: directory.parse().ok()?,
                    starts: starts.parse().ok()?,
                    process: None,
                };
                self.known.insert(name.to_string(), life);
            }
            _ => return None,
        }
        Some(())
    }

    fn write(&self) -> Result<(), DiskError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let mut text = format!("starts {}\n", self.starts);
        if self.replaces > 0 {
            text.push_str(&format!("replaces {}\n", self.replaces));
        }
        for (name, life) in &self.known {
            text.push_str(&format!("peer {name} {} {}\n", life.directory, life.starts));
        }
        self.awaited.iter().for_each(|name| text.push_str(&format!("awaits {name}\n")));
        let (path, new) = (directory.join(FILE), directory.join(format!("{FILE}.new")));
        let mut file = File::create(&new).map_err(io(&new, "make"))?;
        file.write_all(text.as_bytes()).map_err(io(&new, "write"))?;
        file.sync_all().map_err(io(&new, "sync"))?;
        std::fs::rename(&new, &path).map_err(io(&path, "rename"))?;
        sync_directory(directory).map_err(io(directory, "sync"))
    }

    /// Makes an empty directory one that replaces a lost one, whose last life was this. Errors: it holds something.
    pub fn replace(directory: &Path, last: u64) -> Result<(), DiskError> {
        crate::files::make_directory(directory).map_err(io(directory, "make"))?;
        let mut inside = std::fs::read_dir(directory).map_err(io(directory, "read"))?;
        // A replacement that was prepared may be prepared again.
        if let Some(other) = inside.find_map(|entry| entry.ok().filter(|entry| entry.file_name() != FILE)) {
            let why = format!(
                "holds {}; a lost directory is replaced by an empty one",
                other.file_name().display()
            );
            return Err(DiskError::Foreign { path: directory.to_path_buf(), why });
        }
        let directory = Some(directory.to_path_buf());
        let lives = Lives { directory, starts: last, replaces: last, ..Lives::of_process() };
        lives.write()
    }
    /// The last life of the directory that this one replaces, if it replaces one.
    pub fn replaces(&self) -> Option<u64> {
        (self.replaces > 0).then_some(self.replaces)
    }
    /// Gives up the directory of a peer, which is lost; answers its last life that is known here.
    pub fn give_up(&mut self, name: &str) -> Result<u64, DiskError> {
        let starts = self.known.get(name).map_or(0, |known| known.starts);
        let given_up = KnownLife { directory: GIVEN_UP, starts, process: None };
        if self.known.insert(name.to_string(), given_up) != Some(given_up) {
            self.write()?;
        }
        Ok(starts)
    }
    /// How often this directory, and what it replaces, has been started, this time included.
    pub fn starts(&self) -> u64 {
        self.starts
    }
    pub fn known(&self, name: &str) -> Option<KnownLife> {
        self.known.get(name).copied()
    }
    /// The cluster has changed: these peers have to be heard again.
    pub fn await_again(&mut self, names: impl Iterator<Item = String>) -> Result<(), DiskError> {
        self.awaited = names.collect();
        self.write()
    }
    /// Whether a peer has to be heard before this node may go on.
    pub fn is_unmet(&self, name: &str) -> bool {
        self.awaited.contains(name) || !self.known.contains_key(name)
    }
    /// A peer was taken in this life.
    pub fn heard(&mut self, name: &str, life: Life) -> Result<(), DiskError> {
        let heard = KnownLife { directory: life.directory, starts: life.starts, process: Some(life.process) };
        let before = self.known.insert(name.to_string(), heard);
        let is_written =
            before.is_some_and(|before| (before.directory, before.starts) == (heard.directory, heard.starts));
        let is_written = is_written & !self.awaited.remove(name);
        if is_written { Ok(()) } else { self.write() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;

    #[test]
    fn starts_are_counted_and_lives_of_peers_are_known_after_a_restart() {
        let scratch = Scratch::new();
        let mut lives = Lives::begin(&scratch.0).unwrap();
        assert_eq!((lives.starts(), lives.known("eu")), (1, None));
        lives.heard("eu", Life { directory: 7, starts: 2, process: 9 }).unwrap();
        let lives = Lives::begin(&scratch.0).unwrap();
        assert_eq!(lives.starts(), 2);
        assert_eq!(lives.known("eu"), Some(KnownLife { directory: 7, starts: 2, process: None }));
        let mut lives = lives;
        assert!(!lives.is_unmet("eu") && lives.is_unmet("asia"));
        lives.await_again(["eu".to_string()].into_iter()).unwrap();
        let mut again = Lives::begin(&scratch.0).unwrap();
        assert!(again.is_unmet("eu"), "it was heard before the cluster changed");
        again.heard("eu", Life { directory: 7, starts: 2, process: 9 }).unwrap();
        lives = Lives::begin(&scratch.0).unwrap();
        assert!(!lives.is_unmet("eu"));
        assert_eq!(lives.give_up("eu").unwrap(), 2);
        let given_up = KnownLife { directory: GIVEN_UP, starts: 2, process: None };
        assert_eq!(Lives::begin(&scratch.0).unwrap().known("eu"), Some(given_up));
        let error = Lives::replace(&scratch.0.join(".."), 2).unwrap_err().to_string();
        assert!(error.contains("is replaced by an empty one"), "{error}");
        let new = Scratch::new();
        Lives::replace(&new.0, 7).unwrap();
        Lives::replace(&new.0, 9).unwrap();
        let lives = Lives::begin(&new.0).unwrap();
        assert_eq!((lives.starts(), lives.replaces()), (10, Some(9)));
        std::fs::write(scratch.0.join(FILE), "starts many\n").unwrap();
        let error = Lives::begin(&scratch.0).unwrap_err().to_string();
        assert!(error.contains("starts many"), "{error}");
    }
}
