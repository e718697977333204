//! What a session tells its client beside its answers: notices, and settings that have changed.

use super::Session;
use crate::response::Notice;
use base::error::SqlState;

/// Notices that wait to be sent; one statement's later ones are dropped.
const NOTICES_MAX: usize = 1_000;

/// What waits to be told.
#[derive(Default)]
pub(super) struct Told {
    pub notices: Vec<Notice>,
    /// Names and values of settings.
    pub changed: Vec<(String, String)>,
}

impl Session {
    /// A setting has another value.
    pub(super) fn note_changed(&mut self, name: &str, value: String) {
        self.told.changed.retain(|(changed, _)| changed != name);
        self.told.changed.push((name.into(), value));
    }

    /// Reported settings (ParameterStatus) that changed since the last call.
    pub fn take_changed_parameters(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.told.changed)
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.told.notices)
    }

    pub(super) fn notice(&mut self, severity: &'static str, state: SqlState, message: impl Into<String>) {
        if !self.settings.notices_from.sends(severity) || self.told.notices.len() >= NOTICES_MAX {
            return;
        }
        self.told.notices.push(Notice { severity, state, message: message.into() });
    }
}
