//! `SHOW SURVIVAL`: what the loss of regions was said to leave, and what it leaves now.

use super::Session;
use base::error::SqlResult;
use base::{Datum, SqlError};
use node::request::{EngineKind, Guarantee, RegionState, Survival};

impl Session {
    /// A row for each guarantee, as the connected region sees the others. Errors: a read-only replica does not see them.
    pub(super) fn survival(&self) -> SqlResult<Vec<Vec<Datum>>> {
        let cluster = self.cluster();
        if let Some(writer) = cluster.read_only() {
            return Err(SqlError::unsupported("SHOW SURVIVAL at a read-only replica").hint(writer));
        }
        let engine = EngineKind::parse(cluster.engine()).ok_or_else(|| {
            SqlError::unsupported(format!("SHOW SURVIVAL with engine {}", cluster.engine()))
        })?;
        let (topology, health) = (cluster.topology(), cluster.regions());
        let (survive, regions) = (cluster.copies_elsewhere(), topology.regions().count());
        let Survival { up, kept, service } = Survival::of(engine, survive, regions, &health);
        let number = |count: Option<u64>| count.map_or(Datum::Null, |count| Datum::Int(count as i64));
        let not_up = health.iter().filter(|health| health.state != RegionState::Up);
        let told = |health: &node::request::RegionHealth| {
            format!("{} ({})", topology.region_name(health.region), health.state.name())
        };
        let not_up = not_up.map(told).collect::<Vec<_>>().join(", ");
        let row = |(name, guarantee): (&str, Guarantee)| {
            vec![
                Datum::text(name),
                Datum::text(engine.name()),
                Datum::Int(survive as i64),
                Datum::Int(regions as i64),
                number(up),
                if up.is_some() { Datum::text(&*not_up) } else { Datum::Null },
                number(guarantee.may_be_lost),
                Datum::text(&*guarantee.if_one_more),
            ]
        };
        let guarantees = [("answered transactions are kept", kept), ("transactions go on", service)];
        Ok(guarantees.into_iter().map(row).collect())
    }
}
