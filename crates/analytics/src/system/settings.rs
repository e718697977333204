//! `current_setting(name [, missing_ok])`: a setting of the session's, as SHOW tells it.

use super::pg_tables::PRESET;
use crate::context::OwnedContext;
use base::SqlError;
use base::error::{SqlResult, SqlState};

/// What belongs to a transaction or changes with every statement, which SHOW alone knows.
const OF_SHOW: &[&str] =
    &["in_hot_standby", "meridian.freshness", "meridian.request", "meridian.token", "transaction_read_only"];

/// The value; `None` is NULL, for a setting that there is not if that may be. Errors: 42704, 0A000.
pub(super) fn current(asked: &OwnedContext, name: &str, missing_ok: bool) -> SqlResult<Option<String>> {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "transaction_isolation" => return Ok(Some(asked.isolation.into())),
        "is_superuser" => return Ok(Some(if asked.standing.is_superuser { "on" } else { "off" }.into())),
        "jit" => return Ok(Some("off".into())),
        name if OF_SHOW.contains(&name) => {
            let refused = SqlError::unsupported(format!("current_setting('{name}')"));
            return Err(refused.hint(format!("SHOW {name} tells its value.")));
        }
        _ => {}
    }
    let of_session = asked.settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
    let preset = || PRESET.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| value.to_string());
    match of_session.map(|(_, value)| value.clone()).or_else(preset) {
        None if !missing_ok => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
        value => Ok(value),
    }
}

/// `set_config` where no session can be changed: over rows. What has no effect can be set. Errors: 0A000.
pub(super) fn refuse_change(name: Option<&str>) -> SqlResult<()> {
    match name {
        Some(name) if name.eq_ignore_ascii_case("jit") => Ok(()),
        name => Err(SqlError::unsupported(format!("set_config('{}')", name.unwrap_or_default()))
            .hint("SET changes a setting.")),
    }
}
