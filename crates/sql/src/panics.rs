//! What is told of a panic: one line in the log with an id, and the id to the client.
//!
//! A panic is a defect of ours. Where one is caught, the statement that met it ends with XX000 and the id under which
//! the log has the place and the message. The backtrace is logged the first time that a place panics: a statement
//! that is repeated does not fill the log.

use crate::defects::{self, Noted};
use base::SqlError;
use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::PanicHookInfo;

thread_local! {
    /// Id of this thread's last panic.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes over from the standard library's report, for the whole process.
pub fn install() {
    std::panic::set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(|| "an unknown place".to_string(), ToString::to_string);
    let Noted { id, count } = defects::note(&place);
    let id = format!("{id}-{count}");
    let message = text(panic.payload()).split_whitespace().collect::<Vec<_>>().join(" ");
    tracing::error!(%id, %place, count, "caught a panic: {message}");
    if count == 1 {
        tracing::error!("backtrace of panic {id}:\n{}", Backtrace::force_capture());
    }
    LAST.with(|last| *last.borrow_mut() = Some(id));
}

/// The error of a statement that met a panic, which this thread has just caught.
pub fn error(_: Box<dyn Any + Send>) -> SqlError {
    let id = LAST.with(|last| last.borrow_mut().take());
    let error =
        SqlError::new(base::SqlState::INTERNAL_ERROR, "internal error: the server met a defect of its own");
    match id {
        Some(id) => error.detail(format!("Panic {id}.")).hint("The server's log has a line with this id."),
        None => error.hint("The server's log says where."),
    }
}

fn text(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_id_of_the_panic() {
        let panic = std::panic::catch_unwind(|| {
            report_of("first");
        });
        drop(panic);
        LAST.with(|last| *last.borrow_mut() = Some("0badcafe-3".into()));
        let told = error(Box::new("text"));
        assert_eq!(told.state, base::SqlState::INTERNAL_ERROR);
        assert_eq!(told.detail.as_deref(), Some("Panic 0badcafe-3."));
        // It is told once.
        assert_eq!(error(Box::new("text")).detail, None);
    }

    fn report_of(message: &str) {
        assert_eq!(text(&message.to_string()), message);
        assert_eq!(text(&7), "no message");
    }
}
