//! The mark that tells names apart which occur twice in one query.

/// Stands between a name that occurs twice and its number; no name has it.
pub(super) const MARK: char = '\u{f8ff}';

/// A column's name as a client sees it.
pub(crate) fn shown(name: &str) -> &str {
    name.split(MARK).next().unwrap_or_default()
}
