//! What a transaction that sets out says about homes.

use super::super::cluster::Cluster;
use super::super::options::Mutant;
use super::{Residences, Wish};
use base::txn::{
    AccessMode, AccessSet, ClientRequest, Granule, Home, Homed, Homes, Submission, Transaction, TxnProgram,
};
use base::{PartitionId, RegionId, SqlError, SqlState, Token};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Residences {
    /// What a transaction that sets out now says about homes; `None` if nothing that it touches has ever moved.
    /// `attempt`: how many have set out here, for a planted fault.
    pub fn claims(
        &self,
        cluster: &Cluster,
        (transaction, request): (&Transaction, Option<ClientRequest>),
        attempt: u64,
    ) -> Option<Arc<Homes>> {
        let moved: SmallVec<[PartitionId; 4]> =
            transaction.participants().filter(|p| self.partition(*p).has_moved()).collect();
        if moved.is_empty() {
            return None;
        }
        let told = |home: Home| match cluster.options.planted(Mutant::WrongHomes) {
            // One time it is too few, one time too many, and then it is right.
            true => Home { moves: (home.moves + attempt as u32 % 3).saturating_sub(1), ..home },
            false => home,
        };
        let mut homes = Homes::default();
        for partition in moved {
            let known = self.partition(partition);
            let mut touched = known.touched(transaction.access.at(partition).iter().map(|a| &a.granule));
            if request.is_some() && !touched.contains(&None) {
                touched.push(None);
            }
            for table in touched {
                homes.claims.insert(Homed { partition, table }, told(known.home(table)));
            }
        }
        Some(Arc::new(homes))
    }

    /// The same of a transaction that moves something.
    fn claims_of_move(&self, transaction: &Transaction, moves: Vec<(Homed, RegionId)>) -> Arc<Homes> {
        let mut homes = Homes { moves, ..Homes::default() };
        for partition in transaction.participants() {
            let known = self.partition(partition);
            let touched = known.touched([Granule::Partition].iter());
            homes
                .claims
                .extend(touched.into_iter().map(|table| (Homed { partition, table }, known.home(table))));
        }
        Arc::new(homes)
    }

    /// What a transaction of this gateway says about homes. Errors: it would move what is homed in several regions.
    pub fn says(
        &self,
        cluster: &Cluster,
        (transaction, request): (&Transaction, Option<ClientRequest>),
        wish: Wish,
        attempt: u64,
    ) -> Result<Option<Arc<Homes>>, SqlError> {
        let wished = match wish {
            Some((partition, to)) => vec![(Homed::rest_of(partition), to)],
            None => self.moved_by(cluster, transaction),
        };
        let targets = transaction.program.schema_change().into_iter().flat_map(|change| change.moves());
        if let Some(nowhere) = targets.map(|moved| moved.to).find(|to| !cluster.is_region(*to)) {
            let message = format!("region {nowhere} orders nothing, so nothing can be homed there");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if wished.is_empty() {
            return Ok(self.claims(cluster, (transaction, request), attempt));
        }
        let home = |what: &Homed| self.partition(what.partition).home(what.table).region;
        let from: BTreeSet<RegionId> = wished.iter().map(|(what, _)| home(what)).collect();
        if from.len() > 1 {
            let error = SqlError::unsupported("moving what is homed in several regions at once");
            return Err(error.detail("Some of its partitions have moved by themselves."));
        }
        Ok(Some(self.claims_of_move(transaction, wished)))
    }

    /// What a change of the catalog moves that is not there yet.
    fn moved_by(&self, cluster: &Cluster, transaction: &Transaction) -> Vec<(Homed, RegionId)> {
        let Some(change) = transaction.program.schema_change() else { return Vec::new() };
        if !cluster.has_homes() {
            return Vec::new(); // Everything is ordered in one place.
        }
        let mut moves = Vec::new();
        for moved in change.moves().filter(|moved| cluster.is_region(moved.to)) {
            for &partition in
                moved.partitions.iter().filter(|p| transaction.access.by_partition.contains_key(p))
            {
                let ids = moved.ids.iter().map(|id| Homed { partition, table: Some(*id) });
                let away = ids.filter(|what| self.partition(partition).home(what.table).region != moved.to);
                moves.extend(away.map(|what| (what, moved.to)));
            }
        }
        moves
    }

    /// What a gateway submits to move a partition. Errors: it cannot be moved there.
    pub fn move_of(
        &self,
        cluster: &Cluster,
        partition: PartitionId,
        to: RegionId,
    ) -> Result<Submission, SqlError> {
        let refuse = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if !cluster.has_homes() {
            return Err(SqlError::unsupported("moving homes with this engine"));
        }
        if cluster.topology.partitions.len() <= usize::from(partition.0) {
            return Err(refuse(format!("there is no partition {partition}")));
        }
        if !cluster.is_region(to) {
            return Err(refuse(format!("region {to} orders nothing, so nothing can be homed there")));
        }
        if self.partition(partition).home(None).region == to {
            return Err(refuse(format!("partition {partition} is homed in region {to} already")));
        }
        let mut access = AccessSet::default();
        access.add(partition, Granule::Partition, AccessMode::Write);
        let (program, access) = (Arc::new(TxnProgram::Statements(Vec::new())), Arc::new(access));
        Ok(Submission {
            program,
            access,
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        })
    }
}
