//! `current_setting(name [, missing_ok])`: a setting of the session's, as SHOW tells it; `current_schemas`: what one of them means.

use crate::context::{Context, is_custom_setting};
use base::SqlError;
use base::error::{SqlResult, SqlState};

/// What belongs to a transaction or changes with every statement, which SHOW alone knows.
const OF_SHOW: &[&str] =
    &["meridian.freshness", "meridian.request", "meridian.token", "transaction_read_only"];

/// What describes the server and is listed apart from what sessions have: names, values and types.
pub(super) const PRESET: [(&str, &str, &str); 2] =
    [("block_size", "8192", "integer"), ("max_index_keys", "32", "integer")];

/// The session's settings that the server has, for `pg_settings`.
pub(super) fn of_server<'c>(context: &'c Context<'_>) -> impl Iterator<Item = (&'c str, String)> {
    let names = context.settings.keys().map(AsRef::as_ref);
    let told = |name: &'c str| current(context, name, true).ok().flatten().map(|value| (name, value));
    let is_preset = |name: &str| PRESET.iter().any(|(known, ..)| *known == name);
    names.filter(move |name: &&'c str| !is_custom_setting(name) && !is_preset(name)).filter_map(told)
}

/// The value; `None` is NULL, for a setting that there is not if that may be. Errors: 42704, 0A000.
pub(super) fn current(context: &Context<'_>, name: &str, missing_ok: bool) -> SqlResult<Option<String>> {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "transaction_isolation" => return Ok(Some(context.isolation.into())),
        "is_superuser" => return Ok(Some(on_or_off(context.standing.is_superuser))),
        "in_hot_standby" => return Ok(Some(on_or_off(context.cluster().read_only().is_some()))),
        "jit" => return Ok(Some("off".into())),
        name if OF_SHOW.contains(&name) => {
            let refused = SqlError::unsupported(format!("current_setting('{name}')"));
            return Err(refused.hint(format!("SHOW {name} tells its value.")));
        }
        _ => {}
    }
    let of_session = context.settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
    let preset = || PRESET.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| value.to_string());
    match of_session.map(|(_, value)| value.clone()).or_else(preset) {
        None if !missing_ok => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
        value => Ok(value),
    }
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.into()
}

/// `current_schemas(with_implicit)`: the schemas of the search path that there are, and before them those that are looked in
/// although they are not in it.
pub(super) fn schemas(context: &Context<'_>, with_implicit: bool) -> Vec<String> {
    let of_system = |schema: &str| ["pg_catalog", "information_schema"].contains(&schema);
    let is_there = |schema: &&String| of_system(schema) || context.catalog.schemas.contains(schema);
    let path = sql::temporary::shown(context.search_path).filter(is_there).cloned().collect::<Vec<_>>();
    if !with_implicit {
        return path;
    }
    let own = sql::temporary::own(context.search_path).map(String::from).filter(|own| is_there(&own));
    let catalog = Some("pg_catalog".to_string()).filter(|catalog| !path.contains(catalog));
    own.into_iter().chain(catalog).chain(path).collect()
}

/// `set_config` where no session can be changed: over rows. What has no effect can be set. Errors: 0A000.
pub(super) fn refuse_change(name: Option<&str>) -> SqlResult<()> {
    match name {
        Some(name) if name.eq_ignore_ascii_case("jit") => Ok(()),
        name => Err(SqlError::unsupported(format!("set_config('{}')", name.unwrap_or_default()))
            .hint("SET changes a setting.")),
    }
}
