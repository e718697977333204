//! One server as a pure state machine.

pub mod request;
