//! A node whose engine has lost its memory and is not whole again answers nobody; then its columns and whoever
//! follows its logs begin with a copy. The same copies are made, later, by a node that has come back with its records, and
//! goes on, while its logs lack what those of its former lives had.
//!
//! KEEPS: until a node has all of its rows again, it refuses clients with the reason and leaves readers that ask unanswered;
//! they ask again.
//! Nothing is streamed or copied while logs lack something, so who reads what follows them waits: a copy holds all that a
//! position or an answer of a former life may name.

use super::clock::refusal;
use super::*;

impl<E: Engine> Node<E> {
    /// Hands on what the engine needs to become whole, and nothing that would be answered from what is not here.
    pub(super) fn while_absent(
        &mut self,
        now: Time,
        event: Event<Self>,
        out: &mut Effects<Self>,
    ) -> Option<Event<Self>> {
        let Some(reason) = self.engine.absent() else { return Some(event) };
        match event {
            Event::Request { id, request } => match refusal(&request, &reason) {
                Some(reply) => {
                    out.reply(id, reply);
                    None
                }
                None => Some(Event::Request { id, request }),
            },
            Event::Message { message: Message::Ask { .. } | Message::StreamAck { .. }, .. } => None,
            Event::Message { message: Message::Scan { .. } | Message::Lock(_), .. } => None,
            Event::Timer(Timer::Low) => {
                out.timer(Timer::Low, now + self.options.streaming.low_interval_ns);
                None
            }
            other => Some(other),
        }
    }

    /// A life begins: if its logs lack something, what follows them is not read.
    pub(super) fn fall_behind(&mut self) {
        self.told.is_behind = self.engine.is_behind();
        if self.told.is_behind {
            base::sometimes!("logs lack what former lives may have told of");
            let own: Vec<PartitionId> =
                self.topology.copies_at(self.id).filter(|partition| self.subscribes(*partition)).collect();
            own.into_iter().for_each(|partition| self.columns.forget(partition));
        }
    }

    /// The rows are here, and the logs go on behind them.
    pub(super) fn restored(&mut self, now: Time, out: &mut Effects<Self>) {
        self.told.is_behind = false;
        let partitions: Vec<PartitionId> = self.topology.copies_at(self.id).collect();
        for partition in partitions {
            if self.subscribes(partition) {
                self.copy_to(now, partition, self.id, out);
            }
            if let Some(outgoing) = self.streams.outgoing.get_mut(&partition) {
                outgoing.begin_anew();
            }
        }
        self.tell_floor();
        self.flush(now, out);
    }
}
