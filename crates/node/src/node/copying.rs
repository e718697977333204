//! Copies of partitions for subscribers that cannot go on from where they were, and leases.
//!
//! KEEPS: a copy that is arriving is not read; a copy is not read below the rank at which it was taken;
//! a node whose cuts or copies were given up for dead fails what depends on them and begins again.

use super::*;
use crate::streams::Feed;
use base::Place;
use base::key::KeyRange;

/// Rows in one item of a copy.
const COPY_ROWS: usize = 256;

impl<E: Engine> Node<E> {
    /// A life begins: those who feed this node are told so.
    pub(super) fn begin_streams(&mut self, now: Time, out: &mut Effects<Self>) {
        for outgoing in self.streams.outgoing.values_mut() {
            outgoing.begin(now);
        }
        for incoming in self.streams.incoming.values_mut() {
            incoming.begin(now);
        }
        self.keep_leases(now, out);
    }

    /// Says how far this node is, and lets go of whoever has not said so for too long.
    pub(super) fn keep_leases(&mut self, now: Time, out: &mut Effects<Self>) {
        let feeders: Vec<PartitionId> = self.streams.incoming.keys().copied().collect();
        feeders.into_iter().for_each(|partition| self.acknowledge(partition, out));
        for outgoing in self.streams.outgoing.values_mut() {
            outgoing.expire(now - self.options.lease_ns);
        }
        self.streams.forget_wanted(now - self.options.lease_ns);
        self.expire_scans(now);
        // Each word is an event of a log where nodes are durable, so not more often than a lease needs.
        out.timer(Timer::Lease, now + (self.options.lease_ns / 8).min(250 * MS));
    }

    pub(super) fn acknowledge(&mut self, partition: PartitionId, out: &mut Effects<Self>) {
        let ack = self.streams.incoming[&partition].ack();
        let to = self.topology.copy_near(partition, self.id);
        self.send(to, Message::StreamAck { partition, ack }, out);
    }

    /// The partition as it stands, for a subscriber that begins here.
    pub(super) fn copy_of(&mut self, now: Time, partition: PartitionId) -> Vec<Feed> {
        let calibration = self.calibration(now, partition);
        let store = self.data.store(partition);
        let catalog = store.catalog().clone();
        let (position, rank) = (calibration.position, calibration.rank);
        let mut copy = vec![Feed::CopyBegins { position, rank, catalog: catalog.clone() }];
        for &table in catalog.tables.keys() {
            let mut rows = Vec::new();
            store.scan_at(table, &KeyRange::all(), Place::end_of(Rank::MAX), false, &mut |key, row| {
                rows.push((key.clone(), row.clone()));
                if rows.len() == COPY_ROWS {
                    copy.push(Feed::CopyRows { table, rows: std::mem::take(&mut rows) });
                }
                true
            });
            if !rows.is_empty() {
                copy.push(Feed::CopyRows { table, rows });
            }
        }
        let graph = self.streams.published.get(&partition).unwrap_or(self.columns.graph());
        let (vertices, logged) = graph.copy_of(partition);
        let vertices = vertices.into_iter().map(base::order::StreamItem::Vertex);
        copy.extend(vertices.map(|vertex| Feed::Item(Arc::new(vertex))));
        let logged = logged.into_iter();
        copy.extend(logged.map(|(position, txn, rank)| Feed::CopyLogged { position, txn, rank }));
        copy.push(Feed::CopyEnds { low: calibration.low });
        copy
    }

    /// A subscriber says how far it is; it gets a copy if it cannot go on from there.
    pub(super) fn subscriber_is_at(
        &mut self,
        now: Time,
        from: NodeId,
        partition: PartitionId,
        ack: crate::streams::Ack,
        out: &mut Effects<Self>,
    ) {
        let patience_ns = streaming::stream_patience_ns(&self.topology, &self.options, self.id, from);
        let Some(outgoing) = self.streams.outgoing.get_mut(&partition) else { return };
        if outgoing.acknowledged(now, from, ack, patience_ns) {
            let copy = self.copy_of(now, partition);
            let outgoing = self.streams.outgoing.get_mut(&partition).expect("just found");
            outgoing.restart(now, from, copy);
            self.flush(now, out);
        }
        let everywhere = self.streams.outgoing[&partition].acknowledged_everywhere();
        self.acknowledged(now, partition, everywhere, out);
    }

    /// The cluster has collected up to here. If that is beyond what this node has, it was taken for dead:
    /// whatever its readers rely on may be gone.
    pub(super) fn check_lease(&mut self, now: Time, below: Rank, out: &mut Effects<Self>) {
        let columns = &self.columns;
        let lapsed = |p: &PartitionId| columns.complete(*p).is_some_and(|low| low < below);
        let lapsed: Vec<PartitionId> = self.streams.incoming.keys().copied().filter(lapsed).collect();
        if lapsed.is_empty() {
            return;
        }
        base::sometimes!("a node finds that it was taken for dead");
        let error = SqlError::new(SqlState::SNAPSHOT_TOO_OLD, "this node was cut off for too long")
            .detail("What the query was about to read has been collected elsewhere.")
            .hint("Run the query again.");
        for id in self.reads.over_columns() {
            self.fail_read(now, id, error.clone(), out);
        }
        lapsed.into_iter().for_each(|partition| self.begin_copy(now, partition, out));
    }

    /// Asks for a copy of a partition; what is here of it is not read any more.
    pub(super) fn begin_copy(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        self.columns.forget(partition);
        self.streams.incoming.get_mut(&partition).expect("it is fed from elsewhere").begin(now);
        self.acknowledge(partition, out);
    }
}
