//! Residences as another node can take them over.

use super::super::cluster::Cluster;
use super::{Era, Partition, Residence, Residences};
use crate::graph::conflict::{self, ConflictIndex, Flaws};
use crate::graph::vertex::Ref;
use base::txn::Home;
use base::{Rank, RegionId, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

impl Residences {
    /// Of each partition, as another node can take it over.
    pub fn image(&self, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Vec<(Resided, Vec<(TableId, Resided)>)> {
        let tables = |known: &Partition| {
            known.tables.iter().map(|(id, known)| (*id, Resided::of(known, id_of))).collect()
        };
        self.partitions.iter().map(|known| (Resided::of(&known.rest, id_of), tables(known))).collect()
    }

    /// Goes on from another node's.
    pub fn take_over(
        &mut self,
        cluster: &Cluster,
        image: Vec<(Resided, Vec<(TableId, Resided)>)>,
        at_of: &impl Fn(TxnId) -> Ref,
    ) {
        let flaws = cluster.flaws();
        for (known, (rest, tables)) in self.partitions.iter_mut().zip(image) {
            let table = |(id, known): (TableId, Resided)| (id, known.restored(flaws, at_of));
            known.rest = rest.restored(flaws, at_of);
            known.tables = tables.into_iter().map(table).collect();
        }
    }
}

/// Where something is homed, and who touched it last in each of its homes, as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resided {
    home: Option<Home>,
    moved_at: Rank,
    eras: Vec<(Home, conflict::Image, BTreeSet<TableId>)>,
    reached: u32,
}

impl Resided {
    /// The same where regions have left the cluster. What was homed in one is homed at its heir's: its sequence goes on from
    /// whom the other had ordered. Where something has moved before, that counts as a further move, so that the heir's home is
    /// none that a rejected move has opened.
    pub fn inherited(self, heir: &impl Fn(RegionId) -> Option<RegionId>) -> Resided {
        let Resided { home, moved_at, eras, mut reached } = self;
        let left = home.and_then(|home| Some((home, heir(home.region)?)));
        let next = left.map(|(home, region)| {
            reached += u32::from(home.moves > 0);
            Home { region, moves: if home.moves > 0 { reached } else { 0 } }
        });
        let era = |(at, index, tables): (Home, conflict::Image, BTreeSet<TableId>)| match heir(at.region) {
            None => Some((at, index, tables)),
            Some(_) if home == Some(at) => Some((next?, index, tables)),
            // A rejected move has opened it.
            Some(_) => None,
        };
        Resided { home: next.or(home), moved_at, eras: eras.into_iter().filter_map(era).collect(), reached }
    }
    fn of(known: &Residence, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Resided {
        let eras = known.eras.iter().map(|era| (era.home, era.index.image(id_of), era.left.clone()));
        let Residence { home, moved_at, reached, .. } = *known;
        Resided { home, moved_at, eras: eras.collect(), reached }
    }
    fn restored(self, flaws: Flaws, at_of: &impl Fn(TxnId) -> Ref) -> Residence {
        let Resided { home, moved_at, eras, reached } = self;
        let era =
            |(home, index, left)| Era { home, index: ConflictIndex::restored(index, flaws, at_of), left };
        Residence { home, moved_at, eras: eras.into_iter().map(era).collect(), reached }
    }
}
