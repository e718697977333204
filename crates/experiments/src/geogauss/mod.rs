//! `geogauss-*`: GeoGauss' evaluation (paper §7) beside Calvin, Aria and leaders of shards, on the same nodes.
//!
//! Connections in closed loops ask one transaction at a time of their region's node. What executing and installing
//! cost a node is charged alike for all systems ([`metered`]); a system differs in who executes what, and in which messages
//! come before an answer.
//!
//! Suggested reading order: [`systems`], [`load`], [`metered`], [`scene`], [`figures`].

pub mod figures;
pub mod load;
pub mod metered;
pub mod scene;
pub mod systems;
