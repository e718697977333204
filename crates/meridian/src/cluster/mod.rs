//! A cluster of processes: each runs one node, over TCP.
//!
//! [`plan`] reads what is configured and refuses what contradicts itself, [`node`] runs a node, [`probes`] answers
//! health checks, [`replica`] runs a read-only replica, [`replica_commands`] makes one's configuration and ends it, [`status`] tells an operator how nodes are, [`orders`] ends a node or replaces a lost directory, [`init`]
//! makes the files of a new cluster.

pub mod init;
pub mod node;
mod operator;
mod orders;
pub mod plan;
mod ports;
pub mod probes;
pub mod replica;
pub mod replica_commands;
pub mod status;

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Make the files of a new cluster: its name, certificates, a configuration for each node
    Init(init::InitArgs),
    /// Ask every node of a cluster how it is; exit code 1 unless all are ready
    Status(status::StatusArgs),
    /// End a node without losing or refusing anything: it hands over what it leads and ends its sessions first
    Drain(orders::DrainArgs),
    /// Prepare an empty data directory in the place of one that is lost; the node takes a copy from the others
    Replace(orders::ReplaceArgs),
    /// Not supported: nodes are fixed when a cluster is made
    Join(orders::RefusedArgs),
    /// Not supported: nodes are fixed when a cluster is made
    Remove(orders::RefusedArgs),
}

pub fn run(command: ClusterCommand) -> anyhow::Result<()> {
    match command {
        ClusterCommand::Init(args) => init::run(&args),
        ClusterCommand::Status(args) => crate::run_async(status::run(args)),
        ClusterCommand::Drain(args) => crate::run_async(orders::drain(args)),
        ClusterCommand::Replace(args) => crate::run_async(orders::replace(args)),
        ClusterCommand::Join(_) => orders::refuse("join"),
        ClusterCommand::Remove(_) => orders::refuse("remove"),
    }
}
