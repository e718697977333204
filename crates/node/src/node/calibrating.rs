//! Calibrations, shared between the queries of this node; see [`reads::calibration`].

use super::*;
use crate::message::Question;
use crate::questions::Owner;
use base::order::Calibration;
use reads::snapshot::Told;

impl<E: Engine> Node<E> {
    /// A query needs to know how far a partition is.
    pub(super) fn want_calibration(
        &mut self,
        now: Time,
        partition: PartitionId,
        query: RequestId,
        out: &mut Effects<Self>,
    ) {
        if self.calibrations.want(partition, query) {
            self.calibrate(now, partition, out);
        }
    }

    fn calibrate(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        let question = self.questions.next_question();
        self.ask(now, question, partition, Question::Calibrate, Owner::Calibration(now), out);
    }

    /// The answer, for everyone who wanted it in time.
    pub(super) fn calibrated(
        &mut self,
        now: Time,
        partition: PartitionId,
        answer: Result<Calibration, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let (served, again) = self.calibrations.answered(partition);
        for id in served {
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
        if again {
            self.calibrate(now, partition, out);
        }
    }

    /// A query ended or went away.
    pub(super) fn forget_calibrations(&mut self, id: RequestId) {
        for partition in self.calibrations.forget(id) {
            self.questions.forget_calibration(partition);
        }
    }
}
