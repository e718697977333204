//! Memory for queries.

/// What queries of a region may take.
#[derive(clap::Args, Clone, Debug)]
pub struct MemoryArgs {
    /// Memory for queries and for rows that sessions buffer, per region, in MiB
    #[arg(long, env = "MERIDIAN_QUERY_MEMORY_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    pub query_memory_mib: u64,
}
