//! The disk as the store sees it: operations that a host carries out, and synchronous reads while opening.
//!
//! Paths are relative to the store's directory, with `/`. KEEPS: the store relies on a write only after a [`Op::Sync`] of
//! its file, and on a name only after an [`Op::SyncDirectory`] of the directory that it stands in. Between syncs a
//! disk may keep any part of what was written, in any order.

/// Something to do on the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Does nothing if it is there.
    MakeDirectory { path: String },
    /// An empty file. A file of this name is replaced.
    Create { path: String },
    /// The file grows as needed.
    Write { path: String, at: u64, bytes: Vec<u8> },
    /// Shortens a file.
    Cut { path: String, bytes: u64 },
    /// Content and length of a file reach the disk.
    Sync { path: String },
    /// Names in a directory reach the disk: new, renamed and deleted ones. Does nothing if it is not there.
    SyncDirectory { path: String },
    /// A file of the new name is replaced, atomically.
    Rename { from: String, to: String },
    /// Does nothing if the file is not there.
    Delete { path: String },
    /// An empty directory. Does nothing if it is not there.
    DeleteDirectory { path: String },
}

impl Op {
    pub fn path(&self) -> &str {
        match self {
            Op::MakeDirectory { path }
            | Op::Create { path }
            | Op::Write { path, .. }
            | Op::Cut { path, .. }
            | Op::Sync { path }
            | Op::SyncDirectory { path }
            | Op::Rename { from: path, .. }
            | Op::Delete { path }
            | Op::DeleteDirectory { path } => path,
        }
    }

    /// What it does, as a verb for messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Op::MakeDirectory { .. } | Op::Create { .. } => "create",
            Op::Write { .. } => "write",
            Op::Cut { .. } => "truncate",
            Op::Sync { .. } | Op::SyncDirectory { .. } => "sync",
            Op::Rename { .. } => "rename",
            Op::Delete { .. } | Op::DeleteDirectory { .. } => "delete",
        }
    }
}

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No room is left. A restart succeeds once there is room.
    Full,
    /// Anything else, in the system's words.
    Other(String),
}

/// An operation that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    pub doing: &'static str,
    pub path: String,
    pub why: Failure,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match &self.why {
            Failure::Full => "the disk is full",
            Failure::Other(why) => why,
        };
        write!(f, "cannot {} {}: {why}", self.doing, self.path)
    }
}
impl std::error::Error for Failed {}

/// Jobs of one lane are done one after the other. The lanes are independent of each other, so that a commit does
/// not wait for a sync of a checkpoint's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// Records, for whose sync clients and other nodes wait.
    Log,
    /// Checkpoints, and deleting what is no longer needed.
    Background,
}

/// Operations to carry out in order. The host reports once: when all are done, or when the first has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    pub lane: Lane,
    pub ops: Vec<Op>,
}

/// What opening a store needs of a host.
pub trait Disk {
    /// Names in a directory, in any order; none if there is no such directory.
    fn list(&mut self, directory: &str) -> Result<Vec<String>, Failed>;
    /// Bytes of a file, if there is one.
    fn length(&mut self, path: &str) -> Result<Option<u64>, Failed>;
    /// Bytes of a file from `at` on: `bytes` of them, or as many as there are.
    fn read(&mut self, path: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failed>;
    fn perform(&mut self, op: &Op) -> Result<(), Failed>;
}
