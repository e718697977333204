//! Clusters in the simulator. One program, since each would have to be compiled with the code of whole nodes.

mod badges;
mod baselines;
mod caerus;
mod cluster;
mod durable;
mod failover;
mod geogauss;
mod levels;
mod logs;
mod matrix;
mod poison;
mod readers;
mod replicas;
mod threads;
mod world;
