//! Copies of partitions for columns that cannot go on from where they were, here or at a subscriber, and leases.
//!
//! KEEPS: a copy that is arriving is not read; a copy is not read below the rank at which it was taken; it is of the moment
//! when it began, and made and taken a bounded number of rows a step; a node whose cuts or copies were given up for dead
//! fails what depends on them and begins again.

use super::*;
use crate::data::RowPiece;
use crate::streams::{Feed, Turn};
use base::order::StreamItem;
use base::{Key, Row};

/// Rows in one item of a copy.
const COPY_ROWS: usize = 256;

impl<E: Engine> Node<E> {
    /// A life begins: those who feed this node are told so.
    pub(super) fn begin_streams(&mut self, now: Time, out: &mut Effects<Self>) {
        let (topology, later) = (&self.topology, self.options.kept.replicas_come_later);
        for outgoing in self.streams.outgoing.values_mut() {
            outgoing.begin(now);
            outgoing.await_later(|node| later && topology.is_replica(node));
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
        let (me, outgoing) = (self.id, &self.streams.outgoing);
        self.data.retain_row_copies(|partition, to| to == me || outgoing[&partition].is_copying(to));
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

    /// Begins a copy of a partition as it stands, for this node's columns or a subscriber's.
    pub(super) fn copy_to(&mut self, now: Time, partition: PartitionId, to: NodeId, out: &mut Effects<Self>) {
        let calibration = self.calibration(now, partition);
        let (position, rank) = (calibration.position, calibration.rank);
        let catalog = self.data.begin_rows(partition, to, calibration.low);
        let mut head = vec![Feed::CopyBegins { position, rank, catalog }];
        let graph = self.streams.published.get(&partition).unwrap_or(self.columns.graph());
        let (vertices, logged) = graph.copy_of(partition);
        head.extend(vertices.into_iter().map(|vertex| Feed::Item(Arc::new(StreamItem::Vertex(vertex)))));
        let logged = logged.into_iter();
        head.extend(logged.map(|(position, txn, rank)| Feed::CopyLogged { position, txn, rank }));
        if to == self.id {
            self.columns.begin_filling(now, partition, &head);
        } else {
            let outgoing = self.streams.outgoing.get_mut(&partition).expect("it has a subscriber");
            outgoing.restart(now, to, head);
            self.flush(now, out);
        }
        self.go_on_later(Turn::Copy(partition, to), out);
    }

    /// The rest waits for its turn, behind everything that waits for this node.
    pub(super) fn go_on_later(&mut self, turn: Turn, out: &mut Effects<Self>) {
        self.streams.wait_for_turn(turn);
        if self.streams.arms_turn() {
            out.give_way(Timer::StreamOn);
        }
    }

    /// The first of what takes several steps goes on.
    pub(super) fn stream_on(&mut self, now: Time, out: &mut Effects<Self>) {
        match self.streams.next_turn() {
            Some(Turn::Copy(partition, to)) => self.go_on_copying(now, partition, to, out),
            Some(Turn::CatchUp(partition)) => self.catch_up(now, partition, out),
            Some(Turn::Take(partition)) => self.take_streamed(now, partition, false, out),
            None => {}
        }
        if self.streams.arms_turn() {
            out.give_way(Timer::StreamOn);
        }
    }

    /// The next piece of a copy.
    fn go_on_copying(&mut self, now: Time, partition: PartitionId, to: NodeId, out: &mut Effects<Self>) {
        let is_own = to == self.id;
        if !is_own && !self.streams.outgoing[&partition].wants_more(to) {
            return; // It goes on when the subscriber has taken some of it.
        }
        let feeds = match self.data.more_rows(partition, to, self.options.steps.keys) {
            None => return,
            Some(RowPiece::Outdated) => {
                base::sometimes!("a table changes while columns are copied, and another copy is begun");
                return self.copy_to(now, partition, to, out);
            }
            Some(RowPiece::Ends { low }) if is_own => {
                self.columns.filled(partition, low);
                return self.go_on_later(Turn::CatchUp(partition), out);
            }
            Some(RowPiece::Ends { low }) => vec![Feed::CopyEnds { low }],
            Some(RowPiece::Rows(table, rows)) => items_of(table, rows),
        };
        if feeds.iter().all(|feed| !matches!(feed, Feed::CopyEnds { .. })) {
            self.streams.wait_for_turn(Turn::Copy(partition, to));
        }
        if is_own {
            feeds.iter().for_each(|feed| _ = self.columns.take(now, partition, feed));
            return;
        }
        let outgoing = self.streams.outgoing.get_mut(&partition).expect("it has a subscriber");
        feeds.into_iter().for_each(|feed| outgoing.go_on_copying(to, feed));
        self.flush(now, out);
    }

    /// This node's columns of a partition take what was streamed while they were filled.
    fn catch_up(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        if !self.columns.catch_up(now, partition) {
            return self.streams.wait_for_turn(Turn::CatchUp(partition));
        }
        self.tell_floor();
        self.advance_all(now, out);
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
        if self.told.is_behind {
            return; // It asks again.
        }
        let patience_ns = streaming::stream_patience_ns(&self.topology, &self.options, self.id, from);
        let Some(outgoing) = self.streams.outgoing.get_mut(&partition) else { return };
        if outgoing.acknowledged(now, from, ack, patience_ns) {
            self.copy_to(now, partition, from, out);
        } else if outgoing.wants_more(from) {
            self.go_on_later(Turn::Copy(partition, from), out);
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
        if lapsed.is_empty() || self.options.planted() == Some(reads::rule::Mutant::ReadAfterLease) {
            return;
        }
        base::sometimes!("a node finds that it was taken for dead");
        let error = SqlError::new(SqlState::SNAPSHOT_TOO_OLD, "this node was cut off for too long")
            .detail("What the query was about to read has been collected elsewhere.")
            .hint("Run the query again.");
        for id in self.reads.over_columns() {
            match id {
                ReadId::Client(id)
                    if self.reads.get(ReadId::Client(id)).is_some_and(Read::is_over_replicas) =>
                {
                    self.fall_back(now, id, out)
                }
                id => self.fail_read(now, id, error.clone(), out),
            }
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

/// Rows of a piece as items of a stream.
fn items_of(table: TableId, rows: Vec<(Key, Row)>) -> Vec<Feed> {
    let mut rows = rows.into_iter().peekable();
    let mut items = Vec::new();
    while rows.peek().is_some() {
        items.push(Feed::CopyRows { table, rows: rows.by_ref().take(COPY_ROWS).collect() });
    }
    items
}
