//! Which functions the session carries out, and what they take and give.

use crate::session::advisory::AdvisoryCall;
use base::DataType;
use sql::types::Column;

/// Object id of type void, whose only value is shown as an empty text.
const VOID_OID: u32 = 2278;

/// A function that the session carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum OwnFunction {
    Advisory(AdvisoryCall),
    Sleep,
    SleepFor,
    CurrentValue,
    LastValue,
    Notify,
    /// `pg_cancel_backend`: ends what another session does.
    CancelBackend,
    /// `pg_terminate_backend`: ends another session.
    TerminateBackend,
}

impl OwnFunction {
    pub(super) fn named(name: &str) -> Option<OwnFunction> {
        match name {
            "pg_sleep" => Some(OwnFunction::Sleep),
            "pg_sleep_for" => Some(OwnFunction::SleepFor),
            "currval" => Some(OwnFunction::CurrentValue),
            "lastval" => Some(OwnFunction::LastValue),
            "pg_notify" => Some(OwnFunction::Notify),
            "pg_cancel_backend" => Some(OwnFunction::CancelBackend),
            "pg_terminate_backend" => Some(OwnFunction::TerminateBackend),
            name => AdvisoryCall::named(name).map(OwnFunction::Advisory),
        }
    }

    /// Types of so many arguments; `None`: it does not take so many.
    pub(super) fn arguments(self, count: usize) -> Option<&'static [&'static str]> {
        match self {
            OwnFunction::Sleep if count == 1 => Some(&["double precision"]),
            OwnFunction::SleepFor | OwnFunction::CurrentValue if count == 1 => Some(&["text"]),
            OwnFunction::LastValue if count == 0 => Some(&[]),
            OwnFunction::Notify if count == 2 => Some(&["text", "text"]),
            OwnFunction::CancelBackend | OwnFunction::TerminateBackend if count == 1 => Some(&["integer"]),
            OwnFunction::TerminateBackend if count == 2 => Some(&["integer", "bigint"]),
            OwnFunction::Advisory(call) => call.arguments(count),
            _ => None,
        }
    }

    pub(super) fn column(self, name: String) -> Column {
        match self {
            OwnFunction::Advisory(call) if call.tells() => Column::new(name, DataType::Boolean),
            OwnFunction::CancelBackend | OwnFunction::TerminateBackend => {
                Column::new(name, DataType::Boolean)
            }
            OwnFunction::CurrentValue | OwnFunction::LastValue => Column::new(name, DataType::BigInt),
            _ => Column { type_oid: VOID_OID, ..Column::new(name, DataType::Text) },
        }
    }
}
