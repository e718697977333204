//! Calibrations, shared between the queries of this node; see [`reads::share`].

use super::*;
use crate::questions::Owner;
use base::order::Calibration;
use reads::share::{Stamp, Want};

const CALIBRATIONS_UNDER_WAY: u64 = 8;

impl<E: Engine> Node<E> {
    /// A query needs to know how far a partition is.
    pub(super) fn want_calibration(
        &mut self,
        now: Time,
        partition: PartitionId,
        id: ReadId,
        out: &mut Effects<Self>,
    ) {
        let node = self.topology.copy_near(partition, self.id);
        if let (true, ReadId::Client(query)) = (node != self.id, id) {
            self.questions.note_asked(query, node);
        }
        // At most so many questions are under way to one partition.
        let gap_ns = 2 * self.columns.one_way_ns(partition) / CALIBRATIONS_UNDER_WAY;
        match self.reads.want_calibration(now, gap_ns, partition, id) {
            Want::Ask(sent) => self.calibrate(now, partition, sent, out),
            Want::AskAt(at) => out.timer(Timer::Calibrate { partition }, at),
            Want::Join => {}
            Want::Known(calibration) => {
                let (question, body) = (self.questions.next_question(), AnswerBody::Calibrated(calibration));
                self.read_told(now, id, (question, partition, 0), Ok(body), out);
            }
        }
    }

    /// Queries have gathered for a calibration of this partition.
    pub(super) fn calibrate_again(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        if let Some(sent) = self.reads.calibration_is_due(now, partition) {
            self.calibrate(now, partition, sent, out);
        }
    }

    fn calibrate(&mut self, now: Time, partition: PartitionId, sent: Stamp, out: &mut Effects<Self>) {
        let question = self.questions.next_question();
        self.ask(now, question, partition, Question::Calibrate, Owner::Calibration(sent, now), out);
    }

    /// The answer to a question, for everyone who had wanted it when it was sent.
    pub(super) fn calibrated(
        &mut self,
        now: Time,
        (question, partition): (QuestionId, PartitionId),
        sent: Stamp,
        answer: Result<Calibration, SqlError>,
        out: &mut Effects<Self>,
    ) {
        for id in self.reads.calibrated(partition, sent, answer.as_ref().ok().copied()) {
            let answer = answer.clone().map(AnswerBody::Calibrated);
            self.read_told(now, id, (question, partition, 0), answer, out);
        }
    }

    /// A query ended or went away.
    pub(super) fn forget_calibrations(&mut self, id: ReadId) {
        for (_, sent) in self.reads.forget_calibrations(id) {
            self.questions.forget_calibration(sent);
        }
    }
}
