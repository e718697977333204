//! Writes one checkpoint in pieces, while commits go on.
//!
//! IN: blocks from the owner of the state, file by file. OUT: operations for the background lane, in order. KEEPS:
//! the manifest is written when every file was written and synced, and the names of the files too; no job writes
//! more than a piece; no sync has more to do than what was written since the one before.

use crate::checkpoint::{Checkpoint, DataFile, Description, Manifest};
use crate::disk::Op;
use crate::identity::Identity;
use crate::options::{Options, planted};
use crate::paths;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(crate) struct Writer {
    number: u64,
    manifest: Manifest,
    /// Written since the last sync of the last file.
    unsynced_bytes: u64,
    is_finished: bool,
}

impl Writer {
    pub fn begin(
        number: u64,
        identity: Identity,
        incarnation: u64,
        description: Description,
        ops: &mut VecDeque<Op>,
    ) -> Writer {
        ops.push_back(Op::MakeDirectory { path: paths::checkpoint(number) });
        ops.push_back(Op::SyncDirectory { path: paths::CHECKPOINTS.into() });
        let manifest = Manifest { identity, incarnation, description, files: Vec::new() };
        Writer { number, manifest, unsynced_bytes: 0, is_finished: false }
    }

    /// The blocks of a file come one after the other; a new name closes the file before.
    pub fn add_block(&mut self, name: &str, block: &[u8], options: &Options, ops: &mut VecDeque<Op>) {
        assert!(!self.is_finished, "blocks come before the end");
        if self.manifest.files.last().is_none_or(|file| file.name != name) {
            assert!(paths::is_data_name(name), "{name} is no name for a file of a checkpoint");
            let is_known = self.manifest.files.iter().any(|file| file.name == name);
            assert!(!is_known, "the blocks of {name} come one after the other");
            self.close_file(ops);
            self.manifest.files.push(DataFile::new(name));
            ops.push_back(Op::Create { path: paths::data(self.number, name) });
        }
        let file = self.manifest.files.last_mut().expect("pushed above");
        let (path, mut at) = (paths::data(self.number, name), file.bytes);
        let bytes = file.push(self.manifest.identity.salt(), block);
        for piece in bytes.chunks(options.piece_bytes_max) {
            ops.push_back(Op::Write { path: path.clone(), at, bytes: piece.to_vec() });
            at += piece.len() as u64;
            self.unsynced_bytes += piece.len() as u64;
            if self.unsynced_bytes >= options.sync_every_bytes {
                self.close_file(ops);
            }
        }
    }

    pub fn finish(&mut self, options: &Options, ops: &mut VecDeque<Op>) {
        assert!(!self.is_finished, "a checkpoint ends once");
        self.is_finished = true;
        if planted!(options, ManifestBeforeFiles) {
            self.write_manifest(options, ops);
            self.close_file(ops);
            return;
        }
        self.close_file(ops);
        ops.push_back(Op::SyncDirectory { path: paths::checkpoint(self.number) });
        self.write_manifest(options, ops);
    }

    fn write_manifest(&self, options: &Options, ops: &mut VecDeque<Op>) {
        let path = paths::manifest(self.number);
        ops.push_back(Op::Create { path: path.clone() });
        ops.push_back(Op::Write { path: path.clone(), at: 0, bytes: self.manifest.encode() });
        if !planted!(options, CompletesBeforeSync) {
            ops.push_back(Op::Sync { path });
        }
        ops.push_back(Op::SyncDirectory { path: paths::checkpoint(self.number) });
    }

    /// Syncs what was written of the last file.
    fn close_file(&mut self, ops: &mut VecDeque<Op>) {
        if let Some(file) = self.manifest.files.last()
            && self.unsynced_bytes > 0
        {
            ops.push_back(Op::Sync { path: paths::data(self.number, &file.name) });
            self.unsynced_bytes = 0;
        }
    }

    pub fn is_finished(&self) -> bool {
        self.is_finished
    }
    pub fn into_checkpoint(self) -> Checkpoint {
        Checkpoint { number: self.number, manifest: self.manifest }
    }
}
