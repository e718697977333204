//! SQL errors and notices as protocol messages.

use base::SqlError;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use session::Notice;

/// An ErrorResponse; `severity` is `ERROR`, or `FATAL` if the connection ends with it.
pub fn error_response(error: &SqlError, severity: &str) -> ErrorResponse {
    let mut fields = vec![
        (b'S', severity.to_string()),
        (b'V', severity.to_string()),
        (b'C', error.state.as_str().to_string()),
        (b'M', error.message.clone()),
    ];
    let mut add = |code: u8, value: &Option<String>| {
        if let Some(value) = value {
            fields.push((code, value.clone()));
        }
    };
    add(b'D', &error.detail);
    add(b'H', &error.hint);
    add(b'P', &error.position.map(|p| p.to_string()));
    add(b'W', &error.context);
    add(b't', &error.table);
    add(b'c', &error.column);
    add(b'n', &error.constraint);
    // Drivers prepare the statement anew when they find this routine in the error.
    if error.message == session::session::OTHER_RESULT_TYPE {
        fields.push((b'R', "RevalidateCachedQuery".into()));
    }
    ErrorResponse::new(fields)
}

pub fn notice_response(notice: &Notice) -> NoticeResponse {
    let mut fields = vec![
        (b'S', notice.severity.to_string()),
        (b'V', notice.severity.to_string()),
        (b'C', notice.state.as_str().to_string()),
        (b'M', notice.message.clone()),
    ];
    fields.extend(notice.detail.iter().map(|detail| (b'D', detail.clone())));
    fields.extend(notice.hint.iter().map(|hint| (b'H', hint.clone())));
    NoticeResponse::new(fields)
}
