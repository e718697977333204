//! A node's log in a file: records are appended and synced, with one sync for all that gathered.
//!
//! The file is [`MAGIC`], a version byte, then frames ([`consensus::frame`]). KEEPS: a record counts as written
//! only after its sync; what a crash tore off the end is cut when the file is opened; anything else that cannot
//! be read is refused, with the file's name and the offset, and nothing is changed.

use base::process::PersistToken;
use consensus::frame;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// First bytes of a log.
pub const MAGIC: &[u8; 8] = b"meridian";
/// How the file is laid out; the records themselves carry the codec's version.
pub const VERSION: u8 = 1;
/// Where the first frame begins.
const HEADER_BYTES: usize = MAGIC.len() + 1;

/// Why files cannot be used.
#[derive(Debug)]
pub enum DiskError {
    /// The system refused.
    Io { path: PathBuf, doing: &'static str, error: std::io::Error },
    /// Not a log, or of another layout.
    Foreign { path: PathBuf, why: String },
    /// Damaged at this offset, with whole records behind it: what was synced is gone, so nothing is cut.
    Damaged { path: PathBuf, offset: u64 },
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
            DiskError::Damaged { path, offset } => write!(
                f,
                "{} is damaged at offset {offset}, and whole records follow: data that was synced is lost. \
                 Nothing was changed; restore the file from a copy",
                path.display()
            ),
            DiskError::InUse { path } => {
                write!(f, "{} is in use by another process", path.display())
            }
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
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes of frames behind the header.
    framed: usize,
}

impl LogFile {
    /// Opens a log, or makes an empty one. Answers what it holds.
    pub fn open(path: &Path) -> Result<(LogFile, Vec<Vec<u8>>), DiskError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io(path, "open"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io(path, "read"))?;
        let mut header = MAGIC.to_vec();
        header.push(VERSION);
        let log = |file, framed| LogFile { path: path.to_path_buf(), file, framed };
        // A file that was being made when the machine stopped holds nothing that anyone was told.
        if bytes.len() < HEADER_BYTES && (header.starts_with(&bytes) || bytes.iter().all(|b| *b == 0)) {
            file.seek(SeekFrom::Start(0)).map_err(io(path, "write"))?;
            file.write_all(&header).map_err(io(path, "write"))?;
            file.sync_all().map_err(io(path, "sync"))?;
            sync_directory(path)?;
            return Ok((log(file, 0), Vec::new()));
        }
        let foreign = |why: String| DiskError::Foreign { path: path.to_path_buf(), why };
        if !bytes.starts_with(MAGIC) {
            return Err(foreign("this is no log of meridian".into()));
        }
        if bytes[MAGIC.len()] != VERSION {
            let found = bytes[MAGIC.len()];
            return Err(foreign(format!("layout version {found}; this program reads version {VERSION}")));
        }
        let found = frame::split(&bytes[HEADER_BYTES..]).map_err(|damaged| DiskError::Damaged {
            path: path.to_path_buf(),
            offset: (HEADER_BYTES + damaged.at_byte) as u64,
        })?;
        let end = HEADER_BYTES + found.valid_bytes;
        if end < bytes.len() {
            tracing::warn!(file = %path.display(), bytes = bytes.len() - end, "cut a torn end");
            file.set_len(end as u64).map_err(io(path, "cut"))?;
            file.sync_all().map_err(io(path, "sync"))?;
        }
        file.seek(SeekFrom::Start(end as u64)).map_err(io(path, "read"))?;
        let records = found.records.iter().map(|record| record.to_vec()).collect();
        Ok((log(file, found.valid_bytes), records))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes records and syncs them.
    pub(crate) fn append(&mut self, records: &[(PersistToken, Vec<u8>)]) -> Result<(), DiskError> {
        let mut bytes = Vec::new();
        for (_, record) in records {
            bytes.extend(frame::frame(self.framed + bytes.len(), record));
        }
        self.file.write_all(&bytes).map_err(io(&self.path, "write"))?;
        self.file.sync_data().map_err(io(&self.path, "sync"))?;
        self.framed += bytes.len();
        Ok(())
    }

    /// Writes what comes in, until nobody can send any more; says what is safe. Ends with the first error:
    /// after a failed sync nobody knows what the disk holds.
    pub(crate) fn serve(
        mut self,
        records: mpsc::Receiver<(PersistToken, Vec<u8>)>,
        safe: impl Fn(PersistToken),
    ) -> Result<(), DiskError> {
        while let Ok(first) = records.recv() {
            let mut batch = vec![first];
            batch.extend(records.try_iter());
            self.append(&batch)?;
            batch.iter().for_each(|(token, _)| safe(*token));
        }
        Ok(())
    }
}

/// Makes the name of a new file as durable as its content.
pub(crate) fn sync_directory(of: &Path) -> Result<(), DiskError> {
    let directory = match of.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let opened = File::open(directory).map_err(io(directory, "open"))?;
    opened.sync_all().map_err(io(directory, "sync"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;

    fn write(path: &Path, records: &[&[u8]]) {
        let (mut log, _) = LogFile::open(path).unwrap();
        for (n, record) in records.iter().enumerate() {
            log.append(&[(PersistToken(n as u64), record.to_vec())]).unwrap();
        }
    }
    fn read(path: &Path) -> Vec<Vec<u8>> {
        LogFile::open(path).unwrap().1
    }

    #[test]
    fn what_was_appended_is_there_and_a_torn_end_is_cut_anywhere() {
        let scratch = Scratch::new();
        let path = scratch.0.join("log");
        write(&path, &[b"one", b"two", b"three"]);
        assert_eq!(read(&path), [&b"one"[..], b"two", b"three"]);
        let whole = std::fs::read(&path).unwrap();
        let two = whole.len() - (frame::HEADER_BYTES + 5);
        for cut in two..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(read(&path).len(), 2, "cut at {cut}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), two as u64);
            // What comes next stands where the torn record stood.
            write(&path, &[b"four"]);
            assert_eq!(read(&path), [&b"one"[..], b"two", b"four"]);
        }
        for cut in 0..HEADER_BYTES {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).is_empty());
        }
    }

    #[test]
    fn damage_in_the_middle_is_refused_with_its_place_and_nothing_is_changed() {
        let scratch = Scratch::new();
        let path = scratch.0.join("log");
        write(&path, &[b"one", b"two", b"three"]);
        let mut bytes = std::fs::read(&path).unwrap();
        let second = HEADER_BYTES + frame::HEADER_BYTES + 3;
        bytes[second + frame::HEADER_BYTES] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = LogFile::open(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains(&format!("offset {second},")), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.0.join("log");
        std::fs::write(&path, b"a shopping list").unwrap();
        assert!(LogFile::open(&path).unwrap_err().to_string().contains("no log"));
        write(&scratch.0.join("other"), &[]);
        let mut bytes = std::fs::read(scratch.0.join("other")).unwrap();
        bytes[MAGIC.len()] = 9;
        std::fs::write(&path, bytes).unwrap();
        assert!(LogFile::open(&path).unwrap_err().to_string().contains("version 9"));
    }
}
