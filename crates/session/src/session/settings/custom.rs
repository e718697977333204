//! Settings of applications' own, whose names have a dot: texts that nothing here reads, which functions and triggers ask for
//! with `current_setting`.
//!
//! KEEPS: a session's take a bounded place. One that was set once is there until the session ends, empty after RESET and
//! after the transaction that it was set for, as in PostgreSQL.

use super::Settings;
use analytics::{SettingValues, is_custom_setting};
use base::SqlError;
use base::error::{SqlResult, SqlState};
use std::borrow::Cow;

/// What names and values take together at most.
const BYTES_MAX: usize = 1 << 20;

/// The name that a setting of an application's has here: they are the same in any case. Errors: 42602.
pub(super) fn canonical(name: &str) -> SqlResult<Cow<'static, str>> {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let goes_on = |c: char| starts(c) || c.is_ascii_digit() || c == '$';
    let is_simple = |part: &str| part.starts_with(starts) && part.chars().all(goes_on);
    match name.split('.').all(is_simple) {
        true => Ok(Cow::Owned(name.to_string())),
        false => Err(SqlError::new(
            SqlState::INVALID_NAME,
            format!("invalid configuration parameter name \"{name}\""),
        )
        .detail("Custom parameter names must be two or more simple identifiers separated by dots.")),
    }
}

/// Refuses a value that would make a session's settings too large. Errors: 53400.
pub(super) fn check_room(values: &SettingValues, name: &str, value: &str) -> SqlResult<()> {
    let of_others = values.iter().filter(|(other, _)| is_custom_setting(other) && other.as_ref() != name);
    let taken: usize = of_others.map(|(other, value)| other.len() + value.len()).sum();
    match taken + name.len() + value.len() > BYTES_MAX {
        false => Ok(()),
        true => Err(SqlError::new(
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!("the session's own settings are larger than {BYTES_MAX} bytes with \"{name}\""),
        )),
    }
}

impl Settings {
    /// Whether a setting has a value; one of an application's has none before it is set.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Settings of applications' that were set once do not vanish.
    pub(super) fn outlive(&self, values: &mut SettingValues) {
        for name in self.values.keys().filter(|name| is_custom_setting(name)) {
            values.entry(name.clone()).or_default();
        }
    }
}
