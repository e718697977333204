//! Names of a store's files.
//!
//! ```text
//! identity                       whose directory this is, and how often it was opened
//! log/<first sequence>.seg       records from this sequence number on
//! checkpoint/<number>/manifest   written last: the checkpoint is complete
//! checkpoint/<number>/<name>     blocks of the owner's data
//! ```

use crate::record::Sequence;

pub const ROOT: &str = "";
pub const LOG: &str = "log";
pub const CHECKPOINTS: &str = "checkpoint";
pub const IDENTITY: &str = "identity";
pub(crate) const NEW_IDENTITY: &str = "identity.new";
pub(crate) const MANIFEST: &str = "manifest";

/// Greater numbers in names were not written by a store. So every number has a next one.
pub(crate) const NUMBER_MAX: u64 = 1 << 60;

/// Twenty digits, so that names sort as numbers do.
pub fn segment(first: Sequence) -> String {
    format!("{LOG}/{:020}.seg", first.0)
}

/// The first sequence number that a segment's name tells.
pub(crate) fn first_of(name: &str) -> Option<Sequence> {
    let is_number = |digits: &&str| digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    let digits = name.strip_suffix(".seg").filter(is_number)?;
    digits.parse().ok().filter(|first| *first <= NUMBER_MAX).map(Sequence)
}

/// The number that a checkpoint's name tells.
pub(crate) fn checkpoint_of(name: &str) -> Option<u64> {
    name.parse().ok().filter(|number: &u64| *number <= NUMBER_MAX && number.to_string() == name)
}

pub fn checkpoint(number: u64) -> String {
    format!("{CHECKPOINTS}/{number}")
}

pub fn manifest(number: u64) -> String {
    data(number, MANIFEST)
}

/// A file of a checkpoint.
pub fn data(number: u64, name: &str) -> String {
    format!("{CHECKPOINTS}/{number}/{name}")
}

/// Whether a checkpoint's file may have this name.
pub(crate) fn is_data_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name != MANIFEST && name.chars().all(is_plain)
}
