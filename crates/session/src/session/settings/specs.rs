//! Which settings there are.

use super::planning;
use std::sync::LazyLock;

/// A setting's name, default, whether clients are told of changes, and whether SET may change it.
#[derive(Clone, Copy)]
pub(super) struct Spec(pub &'static str, pub &'static str, pub bool, pub bool);

/// All settings, those of the planner's with them.
pub(super) static SPECS: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let of_planning = planning::SETTINGS.iter().map(|(name, usual, _)| Spec(name, usual, false, true));
    OWN.iter().copied().chain(of_planning).collect()
});

const OWN: &[Spec] = &[
    Spec("application_name", "", true, true),
    Spec("authentication_timeout", "10s", false, false),
    Spec("autovacuum", "on", false, false),
    Spec("block_size", "8192", false, false),
    Spec("bytea_output", "hex", false, true),
    Spec("check_function_bodies", "on", false, true),
    Spec("client_encoding", "UTF8", true, true),
    Spec("client_min_messages", "notice", false, true),
    Spec("DateStyle", "ISO, MDY", true, true),
    Spec("default_table_access_method", "heap", false, true),
    Spec("default_tablespace", "", false, true),
    Spec("default_text_search_config", sql::text_search::DEFAULT_CONFIG, false, true),
    Spec("default_transaction_deferrable", "off", false, true),
    Spec("default_transaction_isolation", "serializable", false, true),
    Spec("default_transaction_read_only", "off", false, true),
    Spec("default_with_oids", "off", false, true),
    Spec("extra_float_digits", "1", false, true),
    Spec("idle_in_transaction_session_timeout", "0", false, true),
    Spec("idle_session_timeout", "0", false, true),
    Spec("in_hot_standby", "off", true, false),
    Spec("integer_datetimes", "on", true, false),
    Spec("IntervalStyle", "postgres", true, true),
    Spec("lc_collate", "C.UTF-8", false, false),
    Spec("lc_ctype", "C.UTF-8", false, false),
    Spec("is_superuser", "on", true, false),
    Spec("lock_timeout", "0", false, true),
    Spec("max_connections", "500", false, false),
    Spec("max_function_args", "100", false, false),
    Spec("max_identifier_length", "63", false, false),
    Spec("max_index_keys", "32", false, false),
    Spec("max_prepared_transactions", "0", false, false),
    Spec("meridian.consistency", "rss", false, true),
    Spec("meridian.copy_batch_rows", "0", false, true),
    Spec("meridian.engine", "", false, false),
    Spec("meridian.freshness", "", false, false),
    Spec("meridian.read_policy", "scc", false, true),
    Spec("meridian.region", "", false, false),
    Spec("meridian.request", "", false, true),
    Spec("meridian.token", "", false, true),
    Spec("role", "none", false, true),
    Spec("row_security", "on", false, true),
    Spec("search_path", "\"$user\", public", false, true),
    Spec("server_encoding", "UTF8", true, false),
    Spec("server_version", "15.0 (Meridian)", true, false),
    Spec("server_version_num", "150000", false, false),
    Spec("session_authorization", "", true, true),
    Spec("standard_conforming_strings", "on", true, true),
    Spec("statement_timeout", "0", false, true),
    Spec("superuser_reserved_connections", "3", false, false),
    Spec("synchronize_seqscans", "on", false, true),
    Spec("TimeZone", "UTC", true, true),
    Spec("transaction_deferrable", "off", false, true),
    Spec("transaction_isolation", "serializable", false, true),
    Spec("transaction_read_only", "off", false, true),
    Spec("transaction_timeout", "0", false, true),
    Spec("xmloption", "content", false, true),
];
