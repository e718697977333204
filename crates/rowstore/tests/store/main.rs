//! The store from outside. One program, since each would have to be compiled with all of the store's code.

mod building;
mod evaluate;
mod follow;
mod migration;
mod model;
mod procedures;
mod statements;
mod support;
mod validated;
