//! The whole database as a client meets it: the command itself, three regions, real connections.

#[path = "wire/admission.rs"]
mod admission;
#[path = "wire/advisory.rs"]
mod advisory;
#[path = "wire/authentication.rs"]
mod authentication;
#[path = "wire/backups.rs"]
mod backups;
#[path = "wire/bytes.rs"]
mod bytes;
#[path = "wire/changed_catalogs.rs"]
mod changed_catalogs;
#[path = "wire/clients.rs"]
mod clients;
#[path = "wire/clocks.rs"]
mod clocks;
#[path = "wire/column_types.rs"]
mod column_types;
#[path = "wire/computed_indexes.rs"]
mod computed_indexes;
#[path = "wire/computed_types.rs"]
mod computed_types;
#[path = "wire/computed_writes.rs"]
mod computed_writes;
#[path = "wire/config.rs"]
mod config;
#[path = "wire/conflicts.rs"]
mod conflicts;
#[path = "wire/databases.rs"]
mod databases;
#[path = "wire/ddl.rs"]
mod ddl;
#[path = "wire/depth.rs"]
mod depth;
#[path = "wire/dice.rs"]
mod dice;
#[path = "wire/documented_features.rs"]
mod documented_features;
#[path = "wire/dumps.rs"]
mod dumps;
#[path = "wire/durable.rs"]
mod durable;
#[path = "wire/engines.rs"]
mod engines;
#[path = "wire/enums.rs"]
mod enums;
#[path = "wire/epochs.rs"]
mod epochs;
#[path = "wire/expressions.rs"]
mod expressions;
#[path = "wire/full_disk.rs"]
mod full_disk;
#[path = "wire/functions.rs"]
mod functions;
#[path = "wire/generated_columns.rs"]
mod generated_columns;
#[path = "wire/index_builds.rs"]
mod index_builds;
#[path = "wire/isolation.rs"]
mod isolation;
#[path = "wire/join.rs"]
mod join;
#[path = "wire/materialized_views.rs"]
mod materialized_views;
#[path = "wire/memory.rs"]
mod memory;
#[path = "wire/merge_and_with.rs"]
mod merge_and_with;
#[path = "wire/named.rs"]
mod named;
#[path = "wire/notifications.rs"]
mod notifications;
#[path = "wire/older_directories.rs"]
mod older_directories;
#[path = "wire/pgbench.rs"]
mod pgbench;
#[path = "wire/pipelines.rs"]
mod pipelines;
#[path = "wire/processes.rs"]
mod processes;
#[path = "wire/programs.rs"]
mod programs;
#[path = "wire/protocol.rs"]
mod protocol;
#[path = "wire/psql.rs"]
mod psql;
#[path = "wire/raw.rs"]
mod raw;
#[path = "wire/read_only_blocks.rs"]
mod read_only_blocks;
#[path = "wire/reads.rs"]
mod reads;
#[path = "wire/receive_goods.rs"]
mod receive_goods;
#[path = "wire/regions.rs"]
mod regions;
#[path = "wire/remove.rs"]
mod remove;
#[path = "wire/replicas.rs"]
mod replicas;
#[path = "wire/role_settings.rs"]
mod role_settings;
#[path = "wire/roles.rs"]
mod roles;
#[path = "wire/row_locks.rs"]
mod row_locks;
#[path = "wire/rows_and_columns.rs"]
mod rows_and_columns;
#[path = "wire/scripts.rs"]
mod scripts;
#[path = "wire/server.rs"]
mod server;
#[path = "wire/shapes.rs"]
mod shapes;
#[path = "wire/signals.rs"]
mod signals;
#[path = "wire/statements.rs"]
mod statements;
#[path = "wire/table_locks.rs"]
mod table_locks;
#[path = "wire/temporary_tables.rs"]
mod temporary_tables;
#[path = "wire/tls.rs"]
mod tls;
#[path = "wire/triggers.rs"]
mod triggers;
#[path = "wire/utilities.rs"]
mod utilities;
#[path = "wire/vanishing.rs"]
mod vanishing;
#[path = "wire/vodka.rs"]
mod vodka;
#[path = "wire/zones.rs"]
mod zones;
