//! Programs run against a host that is a script: what they ask, in which order, and how they end.

mod flow;
mod host;
mod statements;
