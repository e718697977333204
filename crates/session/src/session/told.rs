//! What a session tells its client beside its answers: notices, settings that have changed, and what other sessions say.

use super::Session;
use crate::gateway::Gateway;
use crate::notifications::{Listener, Mailbox, Notification, Said};
use crate::response::{Notice, Response};
use analytics::RowsMemory;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sql::names;
use sqlparser::ast::Statement;
use std::sync::Arc;

/// Notices that wait to be sent; one statement's later ones are dropped.
const NOTICES_MAX: usize = 1_000;
/// What they may take together.
const NOTICES_BYTES_MAX: usize = 4 << 20;

/// What waits to be told.
pub(super) struct Told {
    notices: Notices,
    /// Names and values of settings.
    pub changed: Vec<(String, String)>,
    pub listener: Listener,
}

impl Told {
    pub fn new(listener: Listener, gateway: &Gateway) -> Told {
        let notices =
            Notices { kept: Vec::new(), dropped: 0, memory: gateway.notices_memory(NOTICES_BYTES_MAX) };
        Told { notices, changed: Vec::new(), listener }
    }
}

/// Notices of a statement. KEEPS: what they take is reserved; those for which there is no room are counted.
struct Notices {
    kept: Vec<Notice>,
    dropped: usize,
    memory: RowsMemory,
}

impl Notices {
    fn add(&mut self, notice: Notice) {
        // Later ones would have gaps before them.
        let has_room = self.dropped == 0 && self.kept.len() < NOTICES_MAX;
        if has_room && self.memory.grow(bytes(&notice)).is_ok() {
            self.kept.push(notice);
        } else {
            self.dropped += 1;
        }
    }

    fn forget(&mut self, from: usize) {
        self.memory.shrink(self.kept.drain(from.min(self.kept.len())..).map(|notice| bytes(&notice)).sum());
        self.dropped = 0;
    }

    fn take(&mut self) -> Vec<Notice> {
        let mut taken = std::mem::take(&mut self.kept);
        let dropped = std::mem::take(&mut self.dropped);
        self.memory.clear();
        if dropped > 0 {
            taken.push(Notice {
                severity: "WARNING",
                state: SqlState(*b"01000"),
                message: format!("{dropped} further notices of the statement are not shown"),
                detail: Some(format!(
                    "A statement keeps {NOTICES_MAX} notices of {} MiB together until it ends.",
                    NOTICES_BYTES_MAX >> 20
                )),
                hint: None,
            });
        }
        taken
    }
}

fn bytes(notice: &Notice) -> usize {
    let texts = [Some(&notice.message), notice.detail.as_ref(), notice.hint.as_ref()];
    size_of::<Notice>() + texts.into_iter().flatten().map(String::len).sum::<usize>()
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

    /// Where messages of other sessions arrive.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.told.listener.mailbox.clone()
    }

    /// Messages since the last call; in a block they wait for its end.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        match self.transaction {
            None => self.told.listener.mailbox.take(),
            Some(_) => Vec::new(),
        }
    }

    /// LISTEN, UNLISTEN and NOTIFY: at once, or when the open transaction commits. Errors: 53200, 54000.
    pub(super) fn say(&mut self, said: Said) -> SqlResult<()> {
        if self.transaction.is_some() {
            return self.open().say(said);
        }
        let said = [said];
        self.told.listener.check_room(&said)?;
        self.told.listener.carry_out(&said);
        Ok(())
    }

    /// The statements LISTEN, UNLISTEN and NOTIFY. Errors: 22023, 53200, 54000.
    pub(super) fn run_notification(&mut self, statement: &Statement) -> SqlResult<Response> {
        let (said, tag) = match statement {
            Statement::LISTEN { channel } => (Said::listen(names::fold(channel))?, "LISTEN"),
            Statement::UNLISTEN { channel } if channel.value == "*" => (Said::UnlistenAll, "UNLISTEN"),
            Statement::UNLISTEN { channel } => (Said::Unlisten(names::fold(channel)), "UNLISTEN"),
            Statement::NOTIFY { channel, payload } => {
                (Said::notify(names::fold(channel), payload.clone().unwrap_or_default())?, "NOTIFY")
            }
            other => return Err(SqlError::unsupported(sql::ddl::first_words(other))),
        };
        self.say(said)?;
        Ok(Response::Command(tag.into()))
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.told.notices.take()
    }

    pub(super) fn notice(&mut self, severity: &'static str, state: SqlState, message: impl Into<String>) {
        self.tell_notice(Notice { severity, state, message: message.into(), detail: None, hint: None });
    }

    /// Tells of names that were too long.
    pub(super) fn tell_cut(&mut self, told: Vec<String>) {
        for text in told {
            self.notice("NOTICE", SqlState::NAME_TOO_LONG, text);
        }
    }

    /// Notices that wait, and what to go back to before a statement is executed again.
    pub(super) fn notices_so_far(&self) -> usize {
        self.told.notices.kept.len()
    }
    pub(super) fn forget_notices(&mut self, from: usize) {
        self.told.notices.forget(from);
    }

    pub(super) fn tell_notice(&mut self, notice: Notice) {
        if self.settings.notices_from.sends(notice.severity) {
            self.told.notices.add(notice);
        }
    }
}
