//! Settings of PostgreSQL's about planning, memory and maintenance: they are taken and checked, and change nothing here.

/// What a setting's values are.
pub(super) enum Kind {
    Flag,
    /// A whole number, from here to there.
    Whole(i64, i64),
    Number,
    /// An amount of memory; the unit of a bare number in KiB.
    Memory(u64),
    Choice(&'static [&'static str]),
}

use Kind::{Choice, Flag, Memory, Number, Whole};

/// Names, defaults and values.
pub(super) const SETTINGS: &[(&str, &str, Kind)] = &[
    ("constraint_exclusion", "partition", Choice(&["partition", "on", "off"])),
    ("cpu_index_tuple_cost", "0.005", Number),
    ("cpu_operator_cost", "0.0025", Number),
    ("cpu_tuple_cost", "0.01", Number),
    ("cursor_tuple_fraction", "0.1", Number),
    ("default_statistics_target", "100", Whole(1, 10_000)),
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
    ("force_parallel_mode", "off", Choice(&["off", "on", "regress"])),
    ("from_collapse_limit", "8", Whole(1, i32::MAX as i64)),
    ("geqo", "on", Flag),
    ("geqo_threshold", "12", Whole(2, i32::MAX as i64)),
    ("hash_mem_multiplier", "2", Number),
    ("jit", "on", Flag),
    ("jit_above_cost", "100000", Number),
    ("join_collapse_limit", "8", Whole(1, i32::MAX as i64)),
    ("maintenance_work_mem", "64MB", Memory(1)),
    ("max_parallel_maintenance_workers", "2", Whole(0, 1_024)),
    ("max_parallel_workers", "8", Whole(0, 1_024)),
    ("max_parallel_workers_per_gather", "2", Whole(0, 1_024)),
    ("min_parallel_index_scan_size", "512kB", Memory(8)),
    ("min_parallel_table_scan_size", "8MB", Memory(8)),
    ("parallel_leader_participation", "on", Flag),
    ("parallel_setup_cost", "1000", Number),
    ("parallel_tuple_cost", "0.1", Number),
    ("plan_cache_mode", "auto", Choice(&["auto", "force_generic_plan", "force_custom_plan"])),
    ("random_page_cost", "4", Number),
    ("seq_page_cost", "1", Number),
    ("stats_fetch_consistency", "cache", Choice(&["none", "cache", "snapshot"])),
    ("temp_buffers", "8MB", Memory(8)),
    ("vacuum_cost_delay", "0", Number),
    ("vacuum_cost_limit", "200", Whole(1, 10_000)),
    ("work_mem", "4MB", Memory(1)),
];

/// A value as SHOW prints it; `None` inside for one that the setting cannot have, outside for other settings.
pub(super) fn shown(name: &str, value: &str) -> Option<Option<String>> {
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
        Choice(of) => of.iter().find(|known| known.eq_ignore_ascii_case(text)).map(ToString::to_string),
    })
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
        let of = |name, value| shown(name, value).unwrap();
        assert_eq!(of("enable_seqscan", "f"), Some("off".into()));
        assert_eq!(of("work_mem", "64"), Some("64kB".into()));
        assert_eq!(of("work_mem", "2048 kB"), Some("2MB".into()));
        assert_eq!(of("min_parallel_table_scan_size", "0"), Some("0".into()));
        assert_eq!(of("parallel_setup_cost", "0.50"), Some("0.5".into()));
        assert_eq!(of("plan_cache_mode", "Force_Custom_Plan"), Some("force_custom_plan".into()));
        for (name, value) in
            [("work_mem", "much"), ("work_mem", "1 mb"), ("jit", "maybe"), ("geqo_threshold", "1")]
        {
            assert_eq!(of(name, value), None, "{name} = {value}");
        }
        assert!(shown("search_path", "public").is_none());
        assert!(SETTINGS.iter().all(|(name, usual, _)| of(name, usual).as_deref() == Some(*usual)));
    }
}
