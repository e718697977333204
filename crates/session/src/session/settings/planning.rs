//! Settings of PostgreSQL's about planning, memory, maintenance and what else no statement here depends on: they are taken and
//! checked, and change nothing. Of those that could change what a statement means, only the values are taken under which it
//! means what it means here.

use base::error::{SqlError, SqlResult};

/// What a setting's values are.
pub(super) enum Kind {
    Flag,
    /// A whole number, from here to there.
    Whole(i64, i64),
    Number,
    /// An amount of memory; the unit of a bare number in KiB.
    Memory(u64),
    Choice(&'static [&'static str]),
    /// A time; a bare number is milliseconds.
    Time,
    /// Values that are taken, and others of PostgreSQL's that would mean something which is not here.
    Only(&'static [&'static str], &'static [&'static str]),
    /// A flag whose other value would mean something which is not here.
    Stays(bool),
    /// A text; any other one would mean something which is not here.
    Fixed,
}

use Kind::{Choice, Fixed, Flag, Memory, Number, Only, Stays, Time, Whole};

/// The locale that texts, numbers and moments are written by.
const LOCALE: Kind = Only(&["C.UTF-8", "C", "POSIX", "C.utf8"], &[]);

/// Levels of what PostgreSQL writes to its log.
const LEVELS: Kind = Choice(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal",
    "panic",
]);

/// Names, defaults and values.
pub(super) const SETTINGS: &[(&str, &str, Kind)] = &[
    ("allow_system_table_mods", "off", Stays(false)),
    ("array_nulls", "on", Stays(true)),
    ("backend_flush_after", "0", Memory(8)),
    ("backslash_quote", "safe_encoding", Only(&["safe_encoding"], &["on", "off"])),
    ("client_connection_check_interval", "0", Time),
    ("commit_delay", "0", Whole(0, 100_000)),
    ("commit_siblings", "5", Whole(0, 1_000)),
    ("compute_query_id", "auto", Choice(&["auto", "regress", "on", "off"])),
    ("constraint_exclusion", "partition", Choice(&["partition", "on", "off"])),
    ("cpu_index_tuple_cost", "0.005", Number),
    ("cpu_operator_cost", "0.0025", Number),
    ("cpu_tuple_cost", "0.01", Number),
    ("cursor_tuple_fraction", "0.1", Number),
    ("deadlock_timeout", "1s", Time),
    ("debug_pretty_print", "on", Flag),
    ("debug_print_parse", "off", Flag),
    ("debug_print_plan", "off", Flag),
    ("debug_print_rewritten", "off", Flag),
    ("default_statistics_target", "100", Whole(1, 10_000)),
    ("default_toast_compression", "pglz", Choice(&["pglz", "lz4"])),
    ("dynamic_library_path", "$libdir", Fixed),
    ("effective_cache_size", "4GB", Memory(8)),
    ("effective_io_concurrency", "1", Whole(0, 1_000)),
    ("enable_async_append", "on", Flag),
    ("enable_bitmapscan", "on", Flag),
    ("enable_gathermerge", "on", Flag),
    ("enable_hashagg", "on", Flag),
    ("enable_hashjoin", "on", Flag),
    ("enable_incremental_sort", "on", Flag),
    ("enable_indexonlyscan", "on", Flag),
    ("enable_indexscan", "on", Flag),
    ("enable_material", "on", Flag),
    ("enable_memoize", "on", Flag),
    ("enable_mergejoin", "on", Flag),
    ("enable_nestloop", "on", Flag),
    ("enable_parallel_append", "on", Flag),
    ("enable_parallel_hash", "on", Flag),
    ("enable_partition_pruning", "on", Flag),
    ("enable_partitionwise_aggregate", "off", Flag),
    ("enable_partitionwise_join", "off", Flag),
    ("enable_seqscan", "on", Flag),
    ("enable_sort", "on", Flag),
    ("enable_tidscan", "on", Flag),
    ("escape_string_warning", "on", Flag),
    ("exit_on_error", "off", Stays(false)),
    ("force_parallel_mode", "off", Choice(&["off", "on", "regress"])),
    ("from_collapse_limit", "8", Whole(1, i32::MAX as i64)),
    ("geqo", "on", Flag),
    ("geqo_effort", "5", Whole(1, 10)),
    ("geqo_generations", "0", Whole(0, i32::MAX as i64)),
    ("geqo_pool_size", "0", Whole(0, i32::MAX as i64)),
    ("geqo_seed", "0", Number),
    ("geqo_selection_bias", "2", Number),
    ("geqo_threshold", "12", Whole(2, i32::MAX as i64)),
    ("gin_fuzzy_search_limit", "0", Whole(0, i32::MAX as i64)),
    ("gin_pending_list_limit", "4MB", Memory(1)),
    ("hash_mem_multiplier", "2", Number),
    ("jit", "on", Flag),
    ("jit_above_cost", "100000", Number),
    ("jit_expressions", "on", Flag),
    ("jit_inline_above_cost", "500000", Number),
    ("jit_optimize_above_cost", "500000", Number),
    ("jit_tuple_deforming", "on", Flag),
    ("join_collapse_limit", "8", Whole(1, i32::MAX as i64)),
    ("lc_messages", "C.UTF-8", LOCALE),
    ("lc_monetary", "C.UTF-8", LOCALE),
    ("lc_numeric", "C.UTF-8", LOCALE),
    ("lc_time", "C.UTF-8", LOCALE),
    ("lo_compat_privileges", "off", Stays(false)),
    ("local_preload_libraries", "", Fixed),
    ("log_duration", "off", Stays(false)),
    ("log_error_verbosity", "default", Choice(&["terse", "default", "verbose"])),
    ("log_executor_stats", "off", Stays(false)),
    ("log_min_duration_statement", "-1", Fixed),
    ("log_min_error_statement", "error", LEVELS),
    ("log_min_messages", "warning", LEVELS),
    ("log_parser_stats", "off", Stays(false)),
    ("log_planner_stats", "off", Stays(false)),
    ("log_statement", "none", Only(&["none"], &["ddl", "mod", "all"])),
    ("log_statement_stats", "off", Stays(false)),
    ("logical_decoding_work_mem", "64MB", Memory(1)),
    ("maintenance_io_concurrency", "10", Whole(0, 1_000)),
    ("maintenance_work_mem", "64MB", Memory(1)),
    ("max_parallel_maintenance_workers", "2", Whole(0, 1_024)),
    ("max_parallel_workers", "8", Whole(0, 1_024)),
    ("max_parallel_workers_per_gather", "2", Whole(0, 1_024)),
    ("max_stack_depth", "2MB", Memory(1)),
    ("min_parallel_index_scan_size", "512kB", Memory(8)),
    ("min_parallel_table_scan_size", "8MB", Memory(8)),
    ("parallel_leader_participation", "on", Flag),
    ("parallel_setup_cost", "1000", Number),
    ("parallel_tuple_cost", "0.1", Number),
    ("password_encryption", "scram-sha-256", Only(&["scram-sha-256"], &["md5"])),
    ("plan_cache_mode", "auto", Choice(&["auto", "force_generic_plan", "force_custom_plan"])),
    ("quote_all_identifiers", "off", Stays(false)),
    ("random_page_cost", "4", Number),
    ("recursive_worktable_factor", "10", Number),
    ("seq_page_cost", "1", Number),
    ("session_preload_libraries", "", Fixed),
    ("session_replication_role", "origin", Only(&["origin", "local"], &["replica"])),
    ("stats_fetch_consistency", "cache", Choice(&["none", "cache", "snapshot"])),
    ("synchronous_commit", "on", Only(&["on", "local", "remote_write", "off"], &["remote_apply"])),
    ("tcp_keepalives_count", "9", Whole(0, i32::MAX as i64)),
    ("tcp_keepalives_idle", "7200", Whole(0, i32::MAX as i64)),
    ("tcp_keepalives_interval", "75", Whole(0, i32::MAX as i64)),
    ("tcp_user_timeout", "0", Time),
    ("temp_buffers", "8MB", Memory(8)),
    ("temp_file_limit", "-1", Fixed),
    ("temp_tablespaces", "", Fixed),
    ("trace_notify", "off", Flag),
    ("trace_sort", "off", Flag),
    ("track_activities", "on", Stays(true)),
    ("track_counts", "on", Flag),
    ("track_functions", "none", Choice(&["none", "pl", "all"])),
    ("track_io_timing", "off", Flag),
    ("track_wal_io_timing", "off", Flag),
    ("transform_null_equals", "off", Stays(false)),
    ("update_process_title", "on", Flag),
    ("vacuum_cost_delay", "0", Number),
    ("vacuum_cost_limit", "200", Whole(1, 10_000)),
    ("vacuum_cost_page_dirty", "20", Whole(0, 10_000)),
    ("vacuum_cost_page_hit", "1", Whole(0, 10_000)),
    ("vacuum_cost_page_miss", "2", Whole(0, 10_000)),
    ("vacuum_failsafe_age", "1600000000", Whole(0, 2_100_000_000)),
    ("vacuum_freeze_min_age", "50000000", Whole(0, 1_000_000_000)),
    ("vacuum_freeze_table_age", "150000000", Whole(0, 2_000_000_000)),
    ("vacuum_multixact_failsafe_age", "1600000000", Whole(0, 2_100_000_000)),
    ("vacuum_multixact_freeze_min_age", "5000000", Whole(0, 1_000_000_000)),
    ("vacuum_multixact_freeze_table_age", "150000000", Whole(0, 2_000_000_000)),
    ("wal_compression", "off", Choice(&["off", "pglz", "lz4", "zstd", "on"])),
    ("wal_skip_threshold", "2MB", Memory(1)),
    ("work_mem", "4MB", Memory(1)),
    ("xmlbinary", "base64", Choice(&["base64", "hex"])),
    ("zero_damaged_pages", "off", Stays(false)),
];

/// A value as SHOW prints it; `None` inside for one that the setting cannot have, outside for other settings. Errors: 0A000 for
/// one that PostgreSQL has and that would mean something here.
pub(super) fn shown(name: &str, value: &str) -> Option<SqlResult<Option<String>>> {
    match refused(name, value) {
        Some(error) => Some(Err(error)),
        None => read(name, value).map(Ok),
    }
}

fn read(name: &str, value: &str) -> Option<Option<String>> {
    let (_, _, kind) = SETTINGS.iter().find(|(known, ..)| *known == name)?;
    let text = value.trim();
    Some(match kind {
        Flag => super::boolean(text).map(|is_on| if is_on { "on" } else { "off" }.to_string()),
        Whole(low, high) => {
            let number = text.parse::<i64>().ok();
            number.filter(|n| (low..=high).contains(&n)).map(|n| n.to_string())
        }
        Number => text.parse::<f64>().ok().filter(|n| *n >= 0.0 && n.is_finite()).map(|n| n.to_string()),
        Memory(unit_kib) => kibibytes(text, *unit_kib).map(of_kibibytes),
        Choice(of) => one_of(of, text),
        Time => super::durations::milliseconds(name, text).ok().map(super::durations::shown_ms),
        Stays(on) => {
            super::boolean(text).filter(|is_on| is_on == on).map(|on| if on { "on" } else { "off" }.into())
        }
        Only(taken, _) => one_of(taken, text),
        Fixed => usual_of(name).filter(|usual| *usual == text).map(str::to_string),
    })
}

fn refused(name: &str, value: &str) -> Option<SqlError> {
    let (_, usual, kind) = SETTINGS.iter().find(|(known, ..)| *known == name)?;
    let text = value.trim();
    let is_refused = match kind {
        Stays(on) => super::boolean(text).is_some_and(|is_on| is_on != *on),
        Only(taken, others) if others.is_empty() => one_of(taken, text).is_none(),
        Only(_, others) => one_of(others, text).is_some(),
        Fixed => text != *usual,
        _ => false,
    };
    is_refused.then(|| SqlError::unsupported(format!("{name} = {text}")))
}

fn one_of(words: &[&str], text: &str) -> Option<String> {
    words.iter().find(|known| known.eq_ignore_ascii_case(text)).map(ToString::to_string)
}

fn usual_of(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|(known, ..)| *known == name).map(|(_, usual, _)| *usual)
}

/// Units of memory in KiB, the largest first.
const UNITS: [(&str, u64); 4] = [("TB", 1 << 30), ("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1)];

fn kibibytes(text: &str, unit_kib: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse::<u64>().ok()?;
    let unit = match text[end..].trim() {
        "" => unit_kib,
        name => UNITS.iter().find(|(known, _)| *known == name)?.1,
    };
    number.checked_mul(unit).filter(|kib| *kib <= i32::MAX as u64 * unit_kib)
}

fn of_kibibytes(kib: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| kib.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    if kib == 0 { "0".into() } else { format!("{}{name}", kib / unit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_shown_as_postgresql_does() {
        let of = |name, value| read(name, value).unwrap();
        assert_eq!(of("enable_seqscan", "f"), Some("off".into()));
        assert_eq!(of("work_mem", "64"), Some("64kB".into()));
        assert_eq!(of("work_mem", "2048 kB"), Some("2MB".into()));
        assert_eq!(of("min_parallel_table_scan_size", "0"), Some("0".into()));
        assert_eq!(of("parallel_setup_cost", "0.50"), Some("0.5".into()));
        assert_eq!(of("plan_cache_mode", "Force_Custom_Plan"), Some("force_custom_plan".into()));
        assert_eq!(of("deadlock_timeout", "1500"), Some("1500ms".into()));
        for (name, value) in [
            ("session_replication_role", "replica"),
            ("array_nulls", "off"),
            ("temp_tablespaces", "x"),
            ("lc_numeric", "de_DE"),
        ] {
            assert_eq!(refused(name, value).unwrap().state.as_str(), "0A000", "{name} = {value}");
        }
        assert!(refused("session_replication_role", "other").is_none());
        assert!(SETTINGS.iter().all(|(name, usual, _)| refused(name, usual).is_none()));
        for (name, value) in
            [("work_mem", "much"), ("work_mem", "1 mb"), ("jit", "maybe"), ("geqo_threshold", "1")]
        {
            assert_eq!(of(name, value), None, "{name} = {value}");
        }
        assert!(shown("search_path", "public").is_none());
        assert!(SETTINGS.iter().all(|(name, usual, _)| of(name, usual).as_deref() == Some(*usual)));
    }
}
