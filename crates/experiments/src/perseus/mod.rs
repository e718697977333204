//! PERSEUS §V: the deployment of its evaluation, its baselines on the same nodes, and its tables and figures.
//!
//! Five data centres, 2 ms inside and 100 ms across; each with TP nodes (one partition each) and analytical
//! nodes that keep columns of one data centre's TP nodes each, so that a data centre holds a full copy. An
//! analytical node is also the dependency manager of what it subscribes to.
//!
//! Reading order: [`deployment`] (machines), [`systems`] (who runs on them), [`load`] (clients and what they
//! saw), [`scenes`] (what is run), then one module per table or figure.

pub mod deployment;
pub mod load;
pub mod scenes;
pub mod systems;

pub mod fig10;
pub mod fig11;
pub mod fig12;
pub mod fig6;
pub mod fig7;
pub mod fig8;
pub mod fig9;
pub mod hour;
pub mod table3;
pub mod table4;
