//! Real files for a [`durability::Store`].
//!
//! KEEPS: a file is synced through the handle that wrote it, because the system tells a failed write-back to handles
//! that were open when it failed.

use durability::{Disk, Failed, Failure, Op};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A directory on a disk.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    /// The file that was written last.
    open: Option<(String, File)>,
}

impl Files {
    /// Makes the directory if it is not there.
    pub fn open(root: &Path) -> Result<Files, Failed> {
        make_directory(root).map_err(|error| failed("create", "its directory", error))?;
        Ok(Files { root: root.to_path_buf(), open: None })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn create(&mut self, path: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(self.path(path))?;
        self.open = Some((path.to_string(), file));
        Ok(())
    }

    /// The handle of a file that is there.
    fn file(&mut self, path: &str) -> std::io::Result<&mut File> {
        if self.open.as_ref().is_none_or(|(name, _)| name != path) {
            let file = OpenOptions::new().read(true).write(true).open(self.path(path))?;
            self.open = Some((path.to_string(), file));
        }
        Ok(&mut self.open.as_mut().expect("opened above").1)
    }

    fn write(&mut self, path: &str, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        let file = self.file(path)?;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    fn read_at(&mut self, path: &str, at: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut file = self.file(path)?;
        file.seek(SeekFrom::Start(at))?;
        let mut found = Vec::new();
        Read::by_ref(&mut file).take(bytes as u64).read_to_end(&mut found)?;
        Ok(found)
    }

    fn names(&self, directory: &str) -> std::io::Result<Vec<String>> {
        let inside = std::fs::read_dir(self.path(directory))?;
        inside.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

impl Disk for Files {
    fn list(&mut self, directory: &str) -> Result<Vec<String>, Failed> {
        let names = absent_is(self.names(directory), Vec::new());
        names.map_err(|error| failed("read", directory, error))
    }

    fn length(&mut self, path: &str) -> Result<Option<u64>, Failed> {
        let length = std::fs::metadata(self.path(path)).map(|found| Some(found.len()));
        absent_is(length, None).map_err(|error| failed("read", path, error))
    }

    fn read(&mut self, path: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failed> {
        self.read_at(path, at, bytes).map_err(|error| failed("read", path, error))
    }

    fn perform(&mut self, op: &Op) -> Result<(), Failed> {
        let done = match op {
            Op::MakeDirectory { path } => match std::fs::create_dir(self.path(path)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                made => made,
            },
            Op::Create { path } => self.create(path),
            Op::Write { path, at, bytes } => self.write(path, *at, bytes),
            Op::Cut { path, bytes } => self.file(path).and_then(|file| file.set_len(*bytes)),
            Op::Sync { path } => self.file(path).and_then(|file| file.sync_data()),
            Op::SyncDirectory { path } => absent_is(sync_directory(&self.path(path)), ()),
            Op::Rename { from, to } => {
                self.open = None;
                std::fs::rename(self.path(from), self.path(to))
            }
            Op::Delete { path } => {
                self.open.take_if(|(name, _)| name == path);
                absent_is(std::fs::remove_file(self.path(path)), ())
            }
            Op::DeleteDirectory { path } => absent_is(std::fs::remove_dir(self.path(path)), ()),
        };
        done.map_err(|error| failed(op.verb(), op.path(), error))
    }
}

/// Makes a directory and those above it, where they are not there. Its name is as durable as its content.
pub(crate) fn make_directory(path: &Path) -> std::io::Result<()> {
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    if path.is_dir() {
        // A directory that was given to this user may stand in one that the user cannot open.
        return match sync_directory(above) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            result => result,
        };
    }
    make_directory(above)?;
    std::fs::create_dir(path)?;
    sync_directory(above)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

fn absent_is<T>(result: std::io::Result<T>, absent: T) -> std::io::Result<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(absent),
        result => result,
    }
}

fn failed(doing: &'static str, path: &str, error: Error) -> Failed {
    let why = if crate::room::is_full(&error) { Failure::Full } else { Failure::Other(error.to_string()) };
    Failed { doing, path: path.to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;
    use base::NodeId;
    use durability::{ClusterId, Description, Identity, Lane, Options, Owner, Sequence, Store, open, paths};

    fn start(files: &mut Files) -> (Store, Option<u64>, usize) {
        let identity = Identity { cluster: ClusterId(7), node: NodeId(1), topology_digest: 0 };
        let options = Options { segment_bytes: 300, ..Options::default() };
        let opened = open(files, identity, options).unwrap();
        let (mut replay, mut records) = (opened.replay, 0);
        while replay.next(files).unwrap().is_some() {
            records += 1;
        }
        (replay.finish(), opened.checkpoint.map(|found| found.number), records)
    }

    fn work(store: &mut Store, files: &mut Files) {
        for lane in [Lane::Log, Lane::Background] {
            while let Some(job) = store.next_job(lane) {
                let result = job.ops.iter().try_for_each(|op| files.perform(op));
                store.done(lane, result);
            }
        }
        assert_eq!(store.stopped(), None);
    }

    #[test]
    fn records_and_checkpoints_come_back_from_real_files_and_the_rest_is_deleted() {
        let scratch = Scratch::new();
        let root = scratch.0.join("a/node");
        for life in 1..=4u64 {
            let mut files = Files::open(&root).unwrap();
            let (mut store, checkpoint, records) = start(&mut files);
            assert_eq!((store.incarnation(), store.stable()), (life, Sequence((life - 1) * 20)));
            // The checkpoint was taken in the middle of the life before.
            assert_eq!((checkpoint, records), if life == 1 { (None, 0) } else { (Some(life - 1), 10) });
            for n in 1..=20u64 {
                store.append(Owner(1), 1, 1, vec![n as u8; 50]).unwrap();
                work(&mut store, &mut files);
                if n == 10 {
                    store.begin_checkpoint(Description { position: store.stable(), ranks: Vec::new() });
                    store.add_block("rows", &[9; 5_000]);
                    store.finish_checkpoint();
                }
            }
            let kept = files.list(paths::CHECKPOINTS).unwrap().len() as u64;
            assert_eq!(kept, life.min(2));
        }
        // Four segments a life; those before the older checkpoint are gone.
        let segments = Files::open(&root).unwrap().list(paths::LOG).unwrap().len();
        assert!((7..=11).contains(&segments), "{segments} segments");
    }

    #[test]
    fn a_full_disk_has_a_type() {
        for (code, is_full) in [(28, true), (122, true), (5, false)] {
            let found = failed("write", "log", Error::from_raw_os_error(code));
            assert_eq!(found.why == Failure::Full, is_full, "{found}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_told_with_its_file() {
        let scratch = Scratch::new();
        let mut files = Files::open(&scratch.0).unwrap();
        let error = files.perform(&Op::Sync { path: "log/none.seg".into() }).unwrap_err().to_string();
        assert!(error.starts_with("cannot sync log/none.seg: "), "{error}");
        assert_eq!(files.length("none"), Ok(None));
        files.perform(&Op::Delete { path: "none".into() }).unwrap();
        assert!(files.list("none").unwrap().is_empty());
    }
}
