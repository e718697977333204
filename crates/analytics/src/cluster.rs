//! How a session reaches its node.
//!
//! The runtime implements [`Cluster`] for each of its hosts; a session knows nothing else of it.

use async_trait::async_trait;
use base::cut::Incarnation;
use base::error::SqlResult;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::{NodeId, RegionId, Time};
use node::request::{RegionHealth, Reply, Request};
use std::sync::Arc;

/// One node of the cluster, as its clients see it.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// Asks the node. Dropping the future tells the node that its client vanished. Errors: 57P01 or
    /// 08006 when the node is gone; everything else comes inside the reply.
    async fn request(&self, request: Request) -> SqlResult<Reply>;
    /// Tells the node something that needs no reply, from where nothing can be awaited.
    fn tell(&self, request: Request);
    /// The node that answers.
    fn node(&self) -> NodeId;
    fn topology(&self) -> &Arc<Topology>;
    /// The newest catalog this node knows. Called for every statement, so it must be cheap.
    fn catalog(&self) -> Arc<Catalog>;
    fn procedures(&self) -> &Arc<Procedures>;
    /// The node's clock, counted from 1970-01-01 UTC.
    fn now(&self) -> Time;
    /// The life of the cluster's logs, which tokens name.
    fn incarnation(&self) -> Incarnation {
        Incarnation::default()
    }
    /// Name of the engine that orders transactions.
    /// How each region is, as far as the node can tell; nothing if it does not look.
    fn regions(&self) -> Vec<RegionHealth> {
        Vec::new()
    }
    fn engine(&self) -> &str;

    /// K: how many other regions must have a transaction before it is answered.
    fn copies_elsewhere(&self) -> usize {
        0
    }

    /// The node's region.
    fn region(&self) -> RegionId {
        self.topology().region_of(self.node())
    }
}
