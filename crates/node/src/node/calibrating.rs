//! Calibrations, shared between the queries of this node; see [`reads::calibration`].

use super::*;
use crate::questions::Owner;
use base::order::Calibration;
use reads::calibration::Want;
use reads::snapshot::Told;

const CALIBRATIONS_UNDER_WAY: u64 = 8;

impl<E: Engine> Node<E> {
    /// A query needs to know how far a partition is.
    pub(super) fn want_calibration(
        &mut self,
        now: Time,
        partition: PartitionId,
        query: RequestId,
        out: &mut Effects<Self>,
    ) {
        let node = self.topology.copy_near(partition, self.id);
        if node != self.id {
            self.questions.note_asked(query, node);
        }
        // At most so many questions are under way to one partition.
        let gap_ns = 2 * self.columns.delays.one_way_ns(partition) / CALIBRATIONS_UNDER_WAY;
        match self.calibrations.want(now, gap_ns, partition, query) {
            Want::Ask => self.calibrate(now, partition, out),
            Want::AskAt(at) => out.timer(Timer::Calibrate { partition }, at),
            Want::Join => {}
        }
    }

    /// Queries have gathered for a calibration of this partition.
    pub(super) fn calibrate_again(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        if self.calibrations.due(now, partition) {
            self.calibrate(now, partition, out);
        }
    }

    fn calibrate(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        let question = self.questions.next_question();
        self.ask(now, question, partition, Question::Calibrate, Owner::Calibration(now), out);
    }

    /// The answer to a question sent at `sent_at`, for everyone who had wanted it by then.
    pub(super) fn calibrated(
        &mut self,
        now: Time,
        partition: PartitionId,
        sent_at: Time,
        answer: Result<Calibration, SqlError>,
        out: &mut Effects<Self>,
    ) {
        for id in self.calibrations.answered(partition, sent_at) {
            let Some(query) = self.queries.get_mut(&id) else { continue };
            match &answer {
                Ok(calibration) => {
                    query.rule.told(now, Told::Calibrated { partition, calibration: *calibration });
                    self.ask_on(now, id, out);
                    self.finish_query(now, id, out);
                }
                Err(error) => {
                    self.vanished(id);
                    out.reply(id, Reply::Snapshot(Err(error.clone())));
                }
            }
        }
    }

    /// A query ended or went away.
    pub(super) fn forget_calibrations(&mut self, id: RequestId) {
        for (partition, sent_at) in self.calibrations.forget(id) {
            self.questions.forget_calibration(partition, sent_at);
        }
    }
}
