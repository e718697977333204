//! A session's settings: SET, SHOW, RESET.

mod custom;
pub mod durations;
mod levels;
mod planning;
mod specs;
mod undo;

use analytics::{SettingValues, is_custom_setting};
use base::cut::{Consistency, Incarnation};
use base::error::{SqlResult, SqlState};
use base::zone::Zone;
use base::{Rank, SqlError, Token};
pub use levels::{READ_COMMITTED, READ_UNCOMMITTED, REPEATABLE_READ, SERIALIZABLE, shown_level};
use node::ReadPolicy;
use specs::SPECS;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::IntervalStyle;

/// Settings and what they mean for statements.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shared with what asks for them until one changes.
    values: Arc<SettingValues>,
    /// How queries read.
    pub consistency: Consistency,
    /// How reads of rows use replicas.
    pub read_policy: ReadPolicy,
    /// Of a session that has not said how.
    pub(super) usual_consistency: Consistency,
    /// What texts of moments are shown in, and what days and hours are counted by.
    pub zone: Zone,
    /// Schemas that names without one are looked up in.
    pub search_path: Vec<String>,
    pub statement_timeout_ms: u64,
    pub timeouts: Timeouts,
    /// What the client set when it connected, which RESET goes back to.
    initial: SettingValues,
    /// Notices below this level are not sent.
    pub notices_from: NoticeLevel,
    /// New transactions are READ ONLY.
    pub read_only: bool,
    /// Counts changes that make plans stale.
    pub epoch: u64,
    /// As they were before the transaction, the text or the pipeline that has changed them.
    before: Option<Box<undo::Before>>,
    /// A copy of what they are, until they change.
    marked: Option<Arc<Settings>>,
}

/// Timeouts beside `statement_timeout`; 0 is none.
#[derive(Clone, Debug, Default)]
pub struct Timeouts {
    pub lock_ms: u64,
    pub idle_in_transaction_ms: u64,
    pub idle_session_ms: u64,
    /// Of a transaction from its first statement to its end.
    pub transaction_ms: u64,
}

/// Levels of `client_min_messages`, of which notices here have three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeLevel {
    Log,
    Notice,
    Warning,
    Error,
}

impl NoticeLevel {
    fn parse(name: &str) -> Option<NoticeLevel> {
        Some(match name.to_ascii_lowercase().as_str() {
            "debug" | "debug1" | "debug2" | "debug3" | "debug4" | "debug5" | "log" => NoticeLevel::Log,
            "notice" => NoticeLevel::Notice,
            "warning" => NoticeLevel::Warning,
            "error" => NoticeLevel::Error,
            _ => return None,
        })
    }
    /// Whether a notice is sent; INFO always is.
    pub fn sends(self, severity: &str) -> bool {
        match severity {
            "NOTICE" => self <= NoticeLevel::Notice,
            "WARNING" => self <= NoticeLevel::Warning,
            "LOG" | "DEBUG" => self <= NoticeLevel::Log,
            _ => true,
        }
    }
}

impl Settings {
    /// The session's level for what a transaction reads that may write: it is never below `regular`.
    pub fn strong_level(&self) -> Consistency {
        match self.consistency {
            // There a cut of the region's own is as near to COMMIT as any.
            Consistency::Session if self.merges_epochs() => Consistency::Session,
            Consistency::Session | Consistency::Stale => self.usual_consistency,
            level => level,
        }
    }

    /// Whether every region executes its own clients' transactions and all merge them by epochs (engine `geogauss`).
    pub fn merges_epochs(&self) -> bool {
        self.get("meridian.engine") == "geogauss"
    }
    pub fn new(user: &str, engine: &str, region: &str) -> Settings {
        let mut values: SettingValues = SPECS.iter().map(|s| (s.0.into(), s.1.to_string())).collect();
        values.insert("session_authorization".into(), user.into());
        values.insert("meridian.engine".into(), engine.into());
        values.insert("meridian.region".into(), region.into());
        Settings {
            values: Arc::new(values),
            consistency: Consistency::Rss,
            read_policy: ReadPolicy::default(),
            usual_consistency: Consistency::Rss,
            zone: Zone::Utc,
            search_path: vec!["public".into()],
            statement_timeout_ms: 0,
            timeouts: Timeouts::default(),
            initial: BTreeMap::from([("session_authorization".into(), user.to_string())]),
            notices_from: NoticeLevel::Notice,
            read_only: false,
            epoch: 0,
            before: None,
            marked: None,
        }
    }

    /// The same where clocks have no bound: queries read at `regular`, and `rss` is refused.
    pub fn without_clocks(mut self) -> Settings {
        (self.consistency, self.usual_consistency) = (Consistency::Regular, Consistency::Regular);
        self.put("meridian.consistency".into(), self.consistency.name().into());
        self
    }

    /// A setting's canonical name, also one that an application would make. Errors: 42704, 42602.
    pub fn canonical(name: &str) -> SqlResult<Cow<'static, str>> {
        let name = match name.to_ascii_lowercase().as_str() {
            "time zone" => "TimeZone".to_string(),
            "names" => "client_encoding".into(),
            "transaction isolation level" => "transaction_isolation".into(),
            other => other.to_string(),
        };
        match SPECS.iter().find(|s| s.0.eq_ignore_ascii_case(&name)) {
            Some(spec) => Ok(spec.0.into()),
            None if is_custom_setting(&name) => custom::canonical(&name),
            None => Err(unrecognized(&name)),
        }
    }

    /// The value of a setting that there is.
    pub fn get(&self, name: &str) -> &str {
        &self.values[name]
    }
    /// Every setting with its value, in order of names.
    pub fn all(&self) -> &Arc<SettingValues> {
        &self.values
    }
    /// Whether clients are told when it changes.
    pub fn is_reported(name: &str) -> bool {
        SPECS.iter().any(|s| s.0 == name && s.2)
    }
    /// Settings that a client is told at the start.
    pub fn reported(&self) -> Vec<(String, String)> {
        SPECS.iter().filter(|s| s.2).map(|s| (s.0.to_string(), self.values[s.0].clone())).collect()
    }
    /// SET. Returns the token to take over, for `meridian.token`. Errors: 22023, 55P02 for read-only ones, 0A000 for
    /// a level that rests on clocks which have no bound.
    pub fn set(&mut self, name: &str, value: &str) -> SqlResult<Option<Token>> {
        let Some(spec) = SPECS.iter().find(|s| s.0 == name) else {
            custom::check_room(&self.values, name, value)?;
            self.put(name.to_string().into(), value.into());
            return Ok(None);
        };
        if !spec.3 {
            return Err(SqlError::new(
                SqlState(*b"55P02"),
                format!("parameter \"{name}\" cannot be changed"),
            ));
        }
        let invalid = || {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"{name}\": \"{value}\""),
            )
        };
        let mut shown = value.to_string();
        let mut token = None;
        match name {
            "meridian.consistency" => {
                let level = Consistency::parse(value)
                    .ok_or_else(|| invalid().hint("Levels are rss, regular, session and stale."))?;
                if level == Consistency::Rss && self.usual_consistency != Consistency::Rss {
                    return Err(node::rests_on_clocks());
                }
                self.consistency = level;
                shown = self.consistency.name().into();
            }
            "meridian.read_policy" => (self.read_policy, shown) = policy(value).ok_or_else(invalid)??,
            "meridian.token" => token = Some(parse_token(value).ok_or_else(invalid)?),
            "search_path" => {
                let told = "List syntax is invalid.";
                self.search_path = self.path(value).ok_or_else(|| invalid().detail(told))?;
                self.epoch += 1;
            }
            "statement_timeout"
            | "lock_timeout"
            | "idle_in_transaction_session_timeout"
            | "idle_session_timeout"
            | "transaction_timeout" => {
                let ms = durations::milliseconds(name, value)?;
                shown = durations::shown_ms(ms);
                *match name {
                    "statement_timeout" => &mut self.statement_timeout_ms,
                    "lock_timeout" => &mut self.timeouts.lock_ms,
                    "idle_session_timeout" => &mut self.timeouts.idle_session_ms,
                    "transaction_timeout" => &mut self.timeouts.transaction_ms,
                    _ => &mut self.timeouts.idle_in_transaction_ms,
                } = ms;
            }
            "client_min_messages" => {
                self.notices_from = NoticeLevel::parse(value).ok_or_else(invalid)?;
                shown = value.to_ascii_lowercase();
            }
            "bytea_output" => match value.to_ascii_lowercase().as_str() {
                form @ ("hex" | "escape") => shown = form.into(),
                _ => return Err(invalid()),
            },
            "extra_float_digits" => match value.trim().parse::<i8>() {
                Ok(digits @ -15..=3) => shown = digits.to_string(),
                _ => return Err(invalid()),
            },
            // As PostgreSQL keeps it: printable, and no longer than a name.
            "application_name" => {
                let printable = |c: char| if (' '..='~').contains(&c) { c } else { '?' };
                shown = value.chars().map(printable).take(63).collect();
            }
            "default_transaction_read_only" => {
                self.read_only = boolean(value).ok_or_else(invalid)?;
                shown = if self.read_only { "on" } else { "off" }.into();
            }
            "client_encoding" => match value.trim_matches('\'').to_ascii_uppercase().as_str() {
                "UTF8" | "UTF-8" | "UNICODE" | "SQL_ASCII" => shown = "UTF8".into(),
                _ => return Err(SqlError::unsupported(format!("client_encoding {value}"))),
            },
            "TimeZone" => shown = self.set_zone(value).ok_or_else(invalid)?,
            "DateStyle" => shown = date_style(value)?.into(),
            "meridian.copy_batch_rows" => {
                value.parse::<usize>().map_err(|_| invalid())?;
            }
            "IntervalStyle" => {
                shown = value.to_ascii_lowercase();
                match IntervalStyle::named(&shown) {
                    Some(_) => {}
                    // Signs are read otherwise in it.
                    None if shown == "sql_standard" => {
                        return Err(SqlError::unsupported(format!("IntervalStyle {value}")));
                    }
                    None => return Err(invalid()),
                }
            }
            "standard_conforming_strings" if boolean(value) != Some(true) => {
                return Err(SqlError::unsupported("standard_conforming_strings = off"));
            }
            "default_text_search_config" => shown = search_config(value).ok_or_else(invalid)??.into(),
            _ if without_effect(name, value) == Some(false) => return Err(invalid()),
            name if let Some(taken) = planning::shown(name, value) => shown = taken?.ok_or_else(invalid)?,
            // What is given is shown, not what is asked for.
            "default_transaction_isolation" | "transaction_isolation" => {
                match value.to_ascii_lowercase().as_str() {
                    SERIALIZABLE | REPEATABLE_READ | READ_COMMITTED | READ_UNCOMMITTED => {}
                    _ => return Err(invalid()),
                }
                shown = shown_level(self.gives(value)).into();
            }
            _ => {}
        }
        self.put(spec.0.into(), shown);
        Ok(token)
    }

    /// Answers how the zone is shown; `None` if there is none of this name.
    fn set_zone(&mut self, value: &str) -> Option<String> {
        self.zone = Zone::of_setting(value)?;
        self.epoch += 1;
        Some(match self.zone {
            // One without changes of clocks goes by the name that it was given.
            Zone::Fixed(_) if value.parse::<f64>().is_err() => value.into(),
            zone => zone.to_string(),
        })
    }

    fn put(&mut self, name: Cow<'static, str>, shown: String) {
        let is_role = matches!(&*name, "role" | "session_authorization");
        if !is_role && self.values.get(&name) == Some(&shown) {
            return;
        }
        let values = Arc::make_mut(&mut self.values);
        if is_role {
            values.insert("role".into(), "none".into());
        }
        values.insert(name, shown);
        self.epoch += 1;
    }

    /// What is set now was set by the client when it connected.
    pub fn keep_initial(&mut self, name: &str) {
        if let Some((name, shown)) = self.values.get_key_value(name) {
            self.initial.insert(name.clone(), shown.clone());
        }
    }
    /// What the server knows of itself, for SHOW.
    pub fn tell(&mut self, name: Cow<'static, str>, value: String) {
        self.put(name, value);
    }

    /// RESET, or SET … TO DEFAULT.
    pub fn reset(&mut self, name: &str) -> SqlResult<()> {
        let usual = SPECS.iter().find(|s| s.0 == name).map_or("", |spec| spec.1);
        match (name, self.initial.get(name).cloned()) {
            ("meridian.token", _) => Ok(()),
            (_, Some(initial)) => self.set(name, &initial).map(|_| ()),
            ("meridian.consistency", None) => self.set(name, self.usual_consistency.name()).map(|_| ()),
            (_, None) => self.set(name, usual).map(|_| ()),
        }
    }
    /// RESET ALL, which leaves the session the role that it has.
    pub fn reset_all(&mut self) {
        let is_role = |name| matches!(name, "role" | "session_authorization");
        for spec in SPECS.iter().filter(|s| s.3 && !is_role(s.0)) {
            self.reset(spec.0).expect("defaults are valid");
        }
        let own: Vec<_> = self.values.keys().filter(|name| is_custom_setting(name)).cloned().collect();
        for name in own {
            self.reset(&name).expect("what was there once has room");
        }
    }
}

/// How dates are shown and read, which is one way only. Errors: 0A000.
fn date_style(value: &str) -> SqlResult<&'static str> {
    let is_known = |word: &str| ["iso", "mdy", "us", "noneuro", "noneuropean"].contains(&word);
    let words = value.to_ascii_lowercase();
    if words.contains("iso") && words.split(',').all(|word| is_known(word.trim())) {
        return Ok("ISO, MDY");
    }
    Err(SqlError::unsupported(format!("DateStyle {value}"))
        .hint("Dates are shown as 2026-01-31, and of numbers alone the month is read first: ISO, MDY."))
}

/// Few settings take several values. Errors: 22023 for those of another.
pub fn check_count(name: &str, values: usize) -> SqlResult<()> {
    let is_list = ["search_path", "datestyle"].contains(&name.to_ascii_lowercase().as_str());
    if values > 1 && !is_list {
        let message = format!("SET {name} takes only one argument");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(())
}

/// There is no setting of this name. 42704.
pub fn unrecognized(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// A policy, and how it is shown. `None`: there is none of this name. Errors: 0A000, no cluster here can read so.
fn policy(text: &str) -> Option<SqlResult<(ReadPolicy, String)>> {
    match ReadPolicy::parse(text)? {
        ReadPolicy::CommitWait => Some(Err(SqlError::unsupported("read policy commit_wait")
            .detail("It needs writers that wait for every replica before they are answered.")
            .hint("scc and read_wait are as strong; there readers wait."))),
        policy => Some(Ok((policy, policy.shown()))),
    }
}

pub fn boolean(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    // As many letters as tell the words apart.
    let begins = |word: &str| !value.is_empty() && word.starts_with(&value);
    match value.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

/// A token as SHOW prints it: the incarnation and a slash, if it has one, the rank, then `partition@position` for
/// each position.
pub fn show_token(token: &Token) -> String {
    let mut shown = token.rank.0.to_string();
    if token.incarnation.is_named() {
        shown = format!("{}/{shown}", token.incarnation.0);
    }
    for (partition, position) in &token.positions {
        shown.push_str(&format!(",{}@{}", partition.0, position.0));
    }
    shown
}

pub fn parse_token(text: &str) -> Option<Token> {
    let (incarnation, text) = text.split_once('/').unwrap_or(("0", text));
    let mut parts = text.split(',');
    let mut token = Token::at(Rank(parts.next()?.trim().parse().ok()?));
    token.incarnation = Incarnation(incarnation.trim().parse().ok()?);
    for part in parts {
        let (partition, position) = part.trim().split_once('@')?;
        let partition = base::PartitionId(partition.parse().ok()?);
        token.positions.insert(partition, base::LogPosition(position.parse().ok()?));
    }
    Some(token)
}

/// The configuration of full-text search for calls that name none; `None` if there is none of this name. Errors: 0A000 for
/// another one than the usual one.
fn search_config(value: &str) -> Option<SqlResult<&'static str>> {
    match base::text_search::Configuration::named(value) {
        Ok(base::text_search::Configuration::English) => Some(Ok(sql::text_search::DEFAULT_CONFIG)),
        Err(error) if error.state == SqlState::UNDEFINED_OBJECT => None,
        _ => Some(Err(SqlError::unsupported(format!("default_text_search_config = {value}"))
            .hint("Name the configuration in calls: to_tsvector('simple', …)."))),
    }
}

/// Whether a value can be given to a setting of something that is not here: functions, policies, other ways of
/// keeping tables, ways of planning; `None` for all other settings.
fn without_effect(name: &str, value: &str) -> Option<bool> {
    Some(match name {
        "default_with_oids" => boolean(value) == Some(false),
        "check_function_bodies" | "row_security" | "synchronize_seqscans" => boolean(value).is_some(),
        "default_table_access_method" => value == "heap",
        "default_tablespace" => value.is_empty(),
        "xmloption" => matches!(value, "content" | "document"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bound_of_clocks_rss_is_refused_and_regular_is_usual() {
        let mut settings = Settings::new("me", "caerus", "us").without_clocks();
        assert_eq!(settings.get("meridian.consistency"), "regular");
        let refused = settings.set("meridian.consistency", "rss").unwrap_err();
        assert_eq!(refused.state.as_str(), "0A000");
        assert!(refused.hint.as_ref().is_some_and(|hint| hint.contains("regular")));
        settings.set("meridian.consistency", "stale").unwrap();
        settings.reset_all();
        assert_eq!(settings.consistency, Consistency::Regular);
    }

    #[test]
    fn settings_are_checked_and_shown_as_postgresql_does() {
        let mut settings = Settings::new("me", "perseus", "us");
        settings.set("statement_timeout", "30s").unwrap();
        assert_eq!((settings.statement_timeout_ms, settings.get("statement_timeout")), (30_000, "30s"));
        settings.set("lock_timeout", "1.5min").unwrap();
        assert_eq!((settings.timeouts.lock_ms, settings.get("lock_timeout")), (90_000, "90s"));
        settings.keep_initial("lock_timeout");
        settings.set("lock_timeout", "7").unwrap();
        settings.reset_all();
        assert_eq!(settings.get("lock_timeout"), "90s");
        settings.set("bytea_output", "Escape").unwrap();
        assert_eq!(settings.get("bytea_output"), "escape");
        assert_eq!(settings.set("IntervalStyle", "sql_standard").unwrap_err().state.as_str(), "0A000");
        assert_eq!(settings.set("IntervalStyle", "iso").unwrap_err().state.as_str(), "22023");
        assert_eq!(settings.set("meridian.engine", "x").unwrap_err().state.as_str(), "55P02");
        assert_eq!(settings.set("meridian.consistency", "eventual").unwrap_err().state.as_str(), "22023");
        settings.set("meridian.read_policy", "Stale 250").unwrap();
        assert_eq!(settings.get("meridian.read_policy"), "stale 250ms");
        assert_eq!(settings.set("meridian.read_policy", "commit_wait").unwrap_err().state.as_str(), "0A000");
        assert_eq!(settings.set("meridian.read_policy", "fresh").unwrap_err().state.as_str(), "22023");
        settings.reset_all();
        assert_eq!(settings.read_policy, ReadPolicy::Scc);
        settings.set("transaction_isolation", "read committed").unwrap();
        assert_eq!(settings.get("transaction_isolation"), "serializable");
        assert_eq!(Settings::canonical("TIMEZONE").unwrap(), "TimeZone");
        assert_eq!(Settings::canonical("wurst").unwrap_err().state, SqlState::UNDEFINED_OBJECT);
    }

    #[test]
    fn a_token_reads_as_it_prints() {
        let mut token = Token::at(Rank(77));
        token.positions.insert(base::PartitionId(3), base::LogPosition(9));
        assert_eq!(show_token(&token), "77,3@9");
        assert_eq!(parse_token("77,3@9"), Some(token.clone()));
        let token = token.of(Incarnation(5));
        assert_eq!(show_token(&token), "5/77,3@9");
        assert_eq!(parse_token("5/77,3@9"), Some(token));
        assert_eq!(parse_token("/77"), None);
        assert_eq!(parse_token("x"), None);
    }
}
