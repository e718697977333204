//! The whole database as a client meets it: the command itself, three regions, real connections.

#[path = "wire/bytes.rs"]
mod bytes;
#[path = "wire/clients.rs"]
mod clients;
#[path = "wire/clocks.rs"]
mod clocks;
#[path = "wire/config.rs"]
mod config;
#[path = "wire/conflicts.rs"]
mod conflicts;
#[path = "wire/ddl.rs"]
mod ddl;
#[path = "wire/durable.rs"]
mod durable;
#[path = "wire/engines.rs"]
mod engines;
#[path = "wire/expressions.rs"]
mod expressions;
#[path = "wire/protocol.rs"]
mod protocol;
#[path = "wire/regions.rs"]
mod regions;
#[path = "wire/scripts.rs"]
mod scripts;
#[path = "wire/server.rs"]
mod server;
#[path = "wire/vanishing.rs"]
mod vanishing;
