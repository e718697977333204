//! A cluster of processes: each runs one node, over TCP.
//!
//! [`plan`] reads what is configured and refuses what contradicts itself, [`node`] runs a node that [`coming_back`] brings back, [`probes`] answers
//! health checks, [`replica`] runs a read-only replica, which looks into [`rings`], [`replica_commands`] makes one's configuration and ends it, [`status`] tells an operator how nodes are, [`orders`] ends a node or replaces a lost directory, [`init`]
//! makes the files of a new cluster, [`join`] adds a region to one, [`remove`] takes one away ([`removed`] reads of whom), and
//! [`change`] has its nodes become nodes of the other.

mod change;
mod coming_back;
pub mod init;
mod join;
pub mod node;
mod operator;
mod orders;
pub mod plan;
mod ports;
pub mod probes;
mod remove;
mod removed;
pub mod replica;
pub mod replica_commands;
pub mod rings;
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
    /// Add a region: stops all nodes at one point and writes their new configurations; clients wait until all are started
    Join(join::JoinArgs),
    /// Change distances, or how many regions may be lost, in the same way
    Change(join::ChangeArgs),
    /// Remove a region: stops all nodes at one point; the others are started without it, and one of them has what it had
    Remove(remove::RemoveArgs),
}

pub fn run(command: ClusterCommand) -> anyhow::Result<()> {
    match command {
        ClusterCommand::Init(args) => init::run(&args),
        ClusterCommand::Status(args) => crate::run_async(status::run(args)),
        ClusterCommand::Drain(args) => crate::run_async(orders::drain(args)),
        ClusterCommand::Replace(args) => crate::run_async(orders::replace(args)),
        ClusterCommand::Join(args) => crate::run_async(join::join(args)),
        ClusterCommand::Change(args) => crate::run_async(join::change(args)),
        ClusterCommand::Remove(args) => crate::run_async(remove::remove(args)),
    }
}
