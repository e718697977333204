//! Caerus §5: Caerus, SLOG and Calvin side by side, on the same nodes under the same clients.
//!
//! Six regions with a full copy each, four nodes in a region. Clients come in an open loop, as many transactions
//! from each as in the paper, whether or not earlier ones were answered.
//!
//! Reading order: [`scene`] (machines, systems, workloads), [`load`] (clients and what they saw), [`figures`]
//! (figures 5 to 10), [`fault`] (a region is lost under load).

pub mod fault;
pub mod figures;
pub mod load;
pub mod scene;
mod touched;
