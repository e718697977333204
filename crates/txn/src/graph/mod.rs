//! What dependency-graph engines share: vertices, who touched what last, strongly connected components, and
//! who executes when.
//!
//! Suggested reading order: the modules below, top to bottom.

pub mod component;
pub mod conflict;
pub mod participants;
pub mod seen;
pub mod turns;
pub mod vertex;
