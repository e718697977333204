//! A disk that keeps its word and nothing more.
//!
//! Until a file is synced, any of its sectors that were written may be on the disk or not, and so may its length; until
//! a directory is synced, each name that was made, renamed or deleted in it. Reads see the page cache. A
//! sync of a file that fails leaves the pages in the cache, clean: they look written and never reach the disk. A failed
//! sync of a directory changes nothing. A full disk takes the beginning of a write.

use base::rng::Rng;
use durability::{Disk, Failed, Failure, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Small, so that records are torn too.
const SECTOR_BYTES: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Directory,
    File(u64),
}

/// Of a file, since its last sync.
#[derive(Clone, Debug)]
enum Change {
    Write {
        at: usize,
        bytes: Vec<u8>,
    },
    Cut(usize),
    /// The file grew to this length, but what was written there is lost.
    Grown(usize),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    cache: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<Change>,
}

/// Of a directory, since its last sync.
#[derive(Clone, Debug)]
enum Naming {
    Add(String, Entry),
    Remove(String),
    Rename { from: String, to: String, entry: Entry },
}

#[derive(Clone, Debug)]
pub struct ModelDisk {
    rng: Rng,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, Entry>,
    durable_names: BTreeMap<String, Entry>,
    /// By the directory in which it happened.
    unsynced: Vec<(String, Naming)>,
    next_inode: u64,
    /// Operations until the machine stops, in the middle of one.
    pub ops_until_crash: Option<u64>,
    pub is_crashed: bool,
    /// The sync after this many fails.
    pub syncs_until_failure: Option<u64>,
    /// Bytes that files may still grow by.
    pub room: Option<u64>,
}

impl ModelDisk {
    pub fn new(rng: Rng) -> ModelDisk {
        ModelDisk {
            rng,
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced: Vec::new(),
            next_inode: 0,
            ops_until_crash: None,
            is_crashed: false,
            syncs_until_failure: None,
            room: None,
        }
    }

    /// The process is gone; the page cache is not.
    pub fn process_killed(&mut self) {
        self.revived();
    }

    /// The page cache is gone: what was not synced is there or not, in parts.
    pub fn power_lost(&mut self) {
        let kept = *self.rng.pick(&[0.0, 0.5, 0.9, 1.0]);
        for inode in self.inodes.values_mut() {
            for change in std::mem::take(&mut inode.dirty) {
                apply(&mut inode.durable, change, kept, &mut self.rng);
            }
            inode.cache = inode.durable.clone();
        }
        let kept = *self.rng.pick(&[0.0, 0.5, 0.9, 1.0]);
        for (_, naming) in std::mem::take(&mut self.unsynced) {
            if self.rng.chance(kept) {
                rename(&mut self.durable_names, naming);
            }
        }
        let directories: BTreeSet<String> = self
            .durable_names
            .iter()
            .filter(|(_, e)| **e == Entry::Directory)
            .map(|(p, _)| p.clone())
            .collect();
        self.durable_names.retain(|path, _| {
            let mut above = parent(path);
            while !above.is_empty() {
                if !directories.contains(above) {
                    return false;
                }
                above = parent(above);
            }
            true
        });
        self.names = self.durable_names.clone();
        self.revived();
    }

    fn revived(&mut self) {
        (self.is_crashed, self.ops_until_crash, self.syncs_until_failure) = (false, None, None);
    }

    /// Flips a bit of a file, at rest; of a byte drawn at random, unless it is given. False if there is none.
    pub fn flip(&mut self, path: &str, at: Option<usize>) -> bool {
        let Some(Entry::File(inode)) = self.names.get(path) else { return false };
        let inode = self.inodes.get_mut(inode).expect("it has a name");
        let bytes = inode.durable.len().min(inode.cache.len()) as u64;
        if bytes == 0 {
            return false;
        }
        let at = at.unwrap_or_else(|| self.rng.below(bytes) as usize);
        let bit = 1 << self.rng.below(8);
        inode.durable[at] ^= bit;
        inode.cache[at] ^= bit;
        true
    }

    /// Paths of all files, as reads see them.
    pub fn files(&self) -> Vec<String> {
        let is_file = |entry: &Entry| matches!(entry, Entry::File(_));
        self.names.iter().filter(|(_, entry)| is_file(entry)).map(|(path, _)| path.clone()).collect()
    }

    fn inode(&mut self, path: &str, doing: &'static str) -> Result<&mut Inode, Failed> {
        match self.names.get(path) {
            Some(Entry::File(inode)) => Ok(self.inodes.get_mut(inode).expect("it has a name")),
            _ => Err(failed(doing, path, "no such file")),
        }
    }

    fn naming(&mut self, directory: &str, naming: Naming) {
        rename(&mut self.names, naming.clone());
        self.unsynced.push((directory.to_string(), naming));
    }

    fn write(&mut self, path: &str, at: usize, bytes: &[u8]) -> Result<(), Failed> {
        let room = self.room;
        let inode = self.inode(path, "write")?;
        let grows = (at + bytes.len()).saturating_sub(inode.cache.len()) as u64;
        let lacks = room.map_or(0, |room| grows.saturating_sub(room)) as usize;
        let taken = &bytes[..bytes.len() - lacks];
        write_at(&mut inode.cache, at, taken);
        inode.dirty.push(Change::Write { at, bytes: taken.to_vec() });
        self.room = room.map(|room| room.saturating_sub(grows));
        if lacks > 0 {
            return Err(Failed { doing: "write", path: path.into(), why: Failure::Full });
        }
        Ok(())
    }

    /// The sync after the last one that may succeed.
    fn fails_sync(&mut self) -> bool {
        let fails = self.syncs_until_failure == Some(0);
        self.syncs_until_failure = self.syncs_until_failure.and_then(|left| left.checked_sub(1));
        fails
    }

    fn sync(&mut self, path: &str) -> Result<(), Failed> {
        let fails = self.fails_sync();
        let mut rng = self.rng.clone();
        let inode = self.inode(path, "sync")?;
        if !fails {
            inode.dirty.clear();
            inode.durable = inode.cache.clone();
            return Ok(());
        }
        let kept = *rng.pick(&[0.0, 0.5]);
        let mut lengths = Vec::new();
        for change in std::mem::take(&mut inode.dirty) {
            match change {
                Change::Write { at, bytes } => {
                    lengths.push(Change::Grown(at + bytes.len()));
                    // Some of it got there before the failure.
                    let within = inode.durable.len();
                    for (at, sector) in sectors(at, &bytes) {
                        if at + sector.len() <= within && rng.chance(kept) {
                            write_at(&mut inode.durable, at, sector);
                        }
                    }
                }
                length => lengths.push(length),
            }
        }
        inode.dirty = lengths;
        self.rng = rng;
        Err(failed("sync", path, "input/output error"))
    }
}

impl Disk for ModelDisk {
    fn list(&mut self, directory: &str) -> Result<Vec<String>, Failed> {
        let inside = self.names.keys().filter(|path| parent(path) == directory);
        Ok(inside.map(|path| path.rsplit('/').next().expect("a name").to_string()).collect())
    }

    fn length(&mut self, path: &str) -> Result<Option<u64>, Failed> {
        Ok(self.inode(path, "read").ok().map(|inode| inode.cache.len() as u64))
    }

    fn read(&mut self, path: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failed> {
        let inode = self.inode(path, "read")?;
        let from = (at as usize).min(inode.cache.len());
        let to = (from + bytes).min(inode.cache.len());
        Ok(inode.cache[from..to].to_vec())
    }

    fn perform(&mut self, op: &Op) -> Result<(), Failed> {
        assert!(!self.is_crashed, "nothing is done after a crash");
        if self.ops_until_crash == Some(0) {
            self.is_crashed = true;
            if let Op::Write { path, at, bytes } = op {
                let done = self.rng.below(bytes.len() as u64 + 1) as usize;
                self.write(path, *at as usize, &bytes[..done])?;
            }
            return Err(failed(op.verb(), op.path(), "the machine has stopped"));
        }
        self.ops_until_crash = self.ops_until_crash.map(|left| left - 1);
        match op {
            Op::MakeDirectory { path } => {
                if !self.names.contains_key(path) {
                    self.naming(parent(path), Naming::Add(path.clone(), Entry::Directory));
                }
            }
            Op::Create { path } => {
                if let Ok(inode) = self.inode(path, "create") {
                    inode.cache.clear();
                    inode.dirty.push(Change::Cut(0));
                } else {
                    let directory = parent(path);
                    let is_there = directory.is_empty() || self.names.contains_key(directory);
                    assert!(is_there, "{path} is created in no directory");
                    self.next_inode += 1;
                    self.inodes.insert(self.next_inode, Inode::default());
                    self.naming(directory, Naming::Add(path.clone(), Entry::File(self.next_inode)));
                }
            }
            Op::Write { path, at, bytes } => self.write(path, *at as usize, bytes)?,
            Op::Cut { path, bytes } => {
                let inode = self.inode(path, "truncate")?;
                inode.cache.truncate(*bytes as usize);
                inode.dirty.push(Change::Cut(*bytes as usize));
            }
            Op::Sync { path } => self.sync(path)?,
            Op::SyncDirectory { path } => {
                if self.fails_sync() {
                    return Err(failed("sync", path, "input/output error"));
                }
                let of_it = self.unsynced.extract_if(.., |(directory, _)| directory == path);
                of_it.for_each(|(_, naming)| rename(&mut self.durable_names, naming));
            }
            Op::Rename { from, to } => {
                let entry = *self.names.get(from).ok_or_else(|| failed("rename", from, "no such file"))?;
                let (from, to) = (from.clone(), to.clone());
                self.naming(parent(op.path()), Naming::Rename { from, to, entry });
            }
            Op::Delete { path } => {
                if self.names.contains_key(path) {
                    self.naming(parent(path), Naming::Remove(path.clone()));
                }
            }
            Op::DeleteDirectory { path } => {
                if self.names.keys().any(|name| parent(name) == path) {
                    return Err(failed("delete", path, "the directory is not empty"));
                }
                if self.names.contains_key(path) {
                    self.naming(parent(path), Naming::Remove(path.clone()));
                }
            }
        }
        Ok(())
    }
}

fn failed(doing: &'static str, path: &str, why: &str) -> Failed {
    Failed { doing, path: path.into(), why: Failure::Other(why.into()) }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn rename(names: &mut BTreeMap<String, Entry>, naming: Naming) {
    match naming {
        Naming::Add(path, entry) => _ = names.insert(path, entry),
        Naming::Remove(path) => _ = names.remove(&path),
        Naming::Rename { from, to, entry } => {
            names.remove(&from);
            names.insert(to, entry);
        }
    }
}

fn write_at(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Pieces of a write that reach the disk completely or not at all.
fn sectors(at: usize, bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut from, mut out) = (0, Vec::new());
    while from < bytes.len() {
        let to = (from + SECTOR_BYTES - (at + from) % SECTOR_BYTES).min(bytes.len());
        out.push((at + from, &bytes[from..to]));
        from = to;
    }
    out
}

/// A change that was not synced, when the power is lost.
fn apply(durable: &mut Vec<u8>, change: Change, kept: f64, rng: &mut Rng) {
    match change {
        Change::Write { at, bytes } => {
            for (at, sector) in sectors(at, &bytes) {
                if rng.chance(kept) {
                    write_at(durable, at, sector);
                }
            }
        }
        Change::Cut(bytes) if rng.chance(kept) => durable.truncate(bytes),
        Change::Grown(bytes) if rng.chance(kept) && durable.len() < bytes => durable.resize(bytes, 0),
        Change::Cut(_) | Change::Grown(_) => {}
    }
}
