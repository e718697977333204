//! What dependency-graph engines share: vertices, who touched what last, strongly connected components.
//!
//! Suggested reading order: the modules below, top to bottom.

pub mod component;
pub mod conflict;
pub mod participants;
pub mod seen;
pub mod vertex;
