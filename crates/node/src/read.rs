//! The one read path: choose a cut, wait until it is closed, wait until it is applied here, fetch at it, answer.
//!
//! ```text
//!             rule                          rule
//!  Goal ──► Choosing ──chosen──┬──────────► Closing ──► Applying ──► columns of this node
//!                              ├──► rows, read by read, each closed by the copy that reads it
//!                              ├──► pieces of other readers, each of them a read there ──► Shipping
//!                              └──► a pin
//! ```
//!
//! IN: what is wanted ([`Goal`], or a part of another node's query), answers of partitions and readers. OUT: questions,
//! then one answer ([`Step`]). KEEPS: a read goes through its phases in order and never back; from the moment at which
//! its cut is known its floor is held, until it ends; whatever ends a read, its floor is released once.
//!
//! Which rule a read follows is `reads::rule::levels`' to say; nothing here knows levels.

pub mod floors;
pub mod gather;
pub mod goal;
pub mod rows;
pub mod shipment;
pub mod under_way;

#[cfg(test)]
mod tests;

use crate::message::{AnswerBody, QuestionId, ScanPart};
use crate::request::{OpenSnapshot, ReadRows};
use base::{LogPosition, NodeId, PartitionId, Rank, RequestId, SqlError, Time};
use gather::Gather;
use goal::Goal;
use reads::rule::{Ask, Chosen, Followed, Progress, Readable, Rule, Told, View};
use rows::RowFetch;
use shipment::Shipment;
use std::collections::BTreeSet;

/// Names a read at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadId {
    /// Of a client of this node.
    Client(RequestId),
    /// A part of a query, by its coordinator's name for it.
    Part { coordinator: NodeId, scan: QuestionId },
}

/// One read on its way to its answer.
pub struct Read {
    arrived: Time,
    stage: Stage,
    /// Nothing from this rank on may be collected.
    floor: Option<Rank>,
}

enum Stage {
    /// The cut of a read that others will close is found by asking them.
    Choosing {
        rule: Box<dyn Rule>,
        goal: Goal,
    },
    /// The rule chooses, closes and waits for a cut in the columns here.
    Columns {
        rule: Box<dyn Rule>,
        target: Target,
    },
    Rows(RowFetch),
    Pieces(Box<Gather>),
    /// Pieces are sent to the coordinator as it asks for them.
    Shipping(Shipment),
}

/// For whom columns of this node are read, or rows of its replicas.
pub enum Target {
    Client(OpenSnapshot),
    Rows(ReadRows),
    Coordinator(ScanPart),
}

/// What follows from how far a read is.
#[derive(Debug)]
pub enum Step {
    /// Its rule's open questions have to be answered, or columns to arrive.
    Wait,
    /// The cut is known at which other nodes read.
    Fetch(Chosen),
    /// The columns here are readable at this cut.
    Open(Readable),
    /// All rows are here.
    Answer,
}

impl Read {
    /// The cut of this read has to be found by asking.
    pub fn choosing(arrived: Time, rule: Box<dyn Rule>, goal: Goal) -> Read {
        Read { arrived, stage: Stage::Choosing { rule, goal }, floor: None }
    }
    /// Columns of this node.
    pub fn columns(arrived: Time, followed: Followed, target: Target) -> Read {
        let Followed { rule, floor } = followed;
        Read { arrived, stage: Stage::Columns { rule, target }, floor: Some(floor) }
    }
    /// Rows at a cut that partitions close by themselves.
    pub fn rows(arrived: Time, rows: RowFetch) -> Read {
        Read { arrived, floor: Some(rows.at()), stage: Stage::Rows(rows) }
    }
    /// Pieces of several readers.
    pub fn pieces(arrived: Time, gather: Gather) -> Read {
        Read { arrived, floor: Some(gather.at()), stage: Stage::Pieces(Box::new(gather)) }
    }

    pub fn arrived(&self) -> Time {
        self.arrived
    }
    pub fn floor(&self) -> Option<Rank> {
        self.floor
    }
    /// Whether it waits for the columns here.
    pub fn is_over_columns(&self) -> bool {
        matches!(self.stage, Stage::Columns { .. })
    }

    /// Questions of its rule to begin with.
    pub fn asks(&self) -> Vec<Ask> {
        match &self.stage {
            Stage::Choosing { rule, .. } | Stage::Columns { rule, .. } => rule.asks(),
            Stage::Rows(_) | Stage::Pieces(_) | Stage::Shipping(_) => Vec::new(),
        }
    }
    /// Questions that an answer, or a look at what is here, has led to.
    pub fn follow_up(&mut self) -> Vec<Ask> {
        match &mut self.stage {
            Stage::Columns { rule, .. } => rule.follow_up(),
            // Others close the cut once it is chosen.
            Stage::Choosing { .. } | Stage::Rows(_) | Stage::Pieces(_) | Stage::Shipping(_) => Vec::new(),
        }
    }

    /// A partition has answered; it had held the answer back for `waited_ns`. Whether that leads to anything.
    pub fn told(
        &mut self,
        now: Time,
        question: QuestionId,
        partition: PartitionId,
        waited_ns: u64,
        body: AnswerBody,
    ) -> bool {
        match (&mut self.stage, body) {
            (Stage::Rows(rows), AnswerBody::Rows(found)) => {
                let on_the_way_ns = now.since(self.arrived).saturating_sub(waited_ns);
                rows.found(question, on_the_way_ns, found);
                true
            }
            (Stage::Choosing { rule, .. } | Stage::Columns { rule, .. }, body) => {
                let told = told_of(partition, waited_ns, body);
                let is_news = told.is_some();
                told.into_iter().for_each(|told| rule.told(now, told));
                is_news
            }
            _ => false,
        }
    }

    /// Its rule learns something that no single partition has said.
    pub fn tell(&mut self, now: Time, told: Told) {
        if let Stage::Columns { rule, .. } = &mut self.stage {
            rule.told(now, told);
        }
    }

    /// How it goes on.
    pub fn advance(&mut self, now: Time, view: &dyn View) -> Result<Step, SqlError> {
        match &mut self.stage {
            Stage::Choosing { rule, .. } => Ok(rule.chosen(view).map_or(Step::Wait, Step::Fetch)),
            Stage::Columns { rule, .. } => Ok(match rule.progress(now, view)? {
                Progress::Readable(readable) => Step::Open(readable),
                Progress::Choosing | Progress::Closing | Progress::Applying => Step::Wait,
            }),
            Stage::Rows(rows) if rows.is_complete() => Ok(Step::Answer),
            Stage::Rows(_) | Stage::Pieces(_) | Stage::Shipping(_) => Ok(Step::Wait),
        }
    }

    /// What has to be merged before its columns are read, and what is read of them, for whom.
    pub fn to_open(&self) -> Option<(&Target, Option<&BTreeSet<(PartitionId, LogPosition)>>)> {
        match &self.stage {
            Stage::Columns { rule, target, .. } => Some((target, rule.to_merge())),
            _ => None,
        }
    }
    /// The part of another node's query that it gives.
    pub fn part(&self) -> Option<&ScanPart> {
        match &self.stage {
            Stage::Columns { target: Target::Coordinator(part), .. } => Some(part),
            _ => None,
        }
    }
    /// Whether it waits for replicas of rows here.
    pub fn is_over_replicas(&self) -> bool {
        self.row_read().is_some()
    }
    /// The rows that it reads at replicas.
    pub fn row_read(&self) -> Option<&ReadRows> {
        match &self.stage {
            Stage::Columns { target: Target::Rows(read), .. } => Some(read),
            _ => None,
        }
    }
    pub fn into_row_read(self) -> Option<ReadRows> {
        match self.stage {
            Stage::Columns { target: Target::Rows(read), .. } => Some(read),
            _ => None,
        }
    }
    pub fn gather(&mut self) -> Option<&mut Gather> {
        match &mut self.stage {
            Stage::Pieces(gather) => Some(gather),
            _ => None,
        }
    }
    pub fn shipment(&self) -> Option<&Shipment> {
        match &self.stage {
            Stage::Shipping(shipment) => Some(shipment),
            _ => None,
        }
    }
    /// A part that is open: what it holds does not change any more, so nothing has to be kept for it. Answers the floor
    /// that it had held.
    pub fn ship(&mut self, shipment: Shipment) -> Option<Rank> {
        self.stage = Stage::Shipping(shipment);
        self.floor.take()
    }

    pub fn into_goal(self) -> Option<Goal> {
        match self.stage {
            Stage::Choosing { goal, .. } => Some(goal),
            _ => None,
        }
    }
    pub fn into_rows(self) -> Option<RowFetch> {
        match self.stage {
            Stage::Rows(rows) => Some(rows),
            _ => None,
        }
    }
    pub fn into_gather(self) -> Option<Gather> {
        match self.stage {
            Stage::Pieces(gather) => Some(*gather),
            _ => None,
        }
    }
    /// The answer to its client if it fails.
    pub fn refused(&self, error: SqlError) -> crate::Reply {
        match &self.stage {
            Stage::Choosing { goal, .. } => goal.refused(error),
            Stage::Rows(_) | Stage::Columns { target: Target::Rows(_), .. } => crate::Reply::Rows(Err(error)),
            Stage::Columns { .. } | Stage::Pieces(_) | Stage::Shipping(_) => {
                crate::Reply::Snapshot(Err(error))
            }
        }
    }
}

/// What a rule is told by an answer; nothing if rules do not ask for it.
fn told_of(partition: PartitionId, waited_ns: u64, body: AnswerBody) -> Option<Told> {
    match body {
        AnswerBody::Closed { closed, through } => {
            Some(Told::Closed { partition, closed, through, waited_ns })
        }
        AnswerBody::Calibrated(calibration) => Some(Told::Calibrated { partition, calibration }),
        AnswerBody::Latest(rank) => Some(Told::Latest { partition, rank }),
        AnswerBody::Timestamp(rank) => Some(Told::Timestamp { rank }),
        AnswerBody::Batches(published) => Some(Told::Batches { published }),
        AnswerBody::Rows(_)
        | AnswerBody::Replicated
        | AnswerBody::Streamed
        | AnswerBody::Fetched(_)
        | AnswerBody::Loaded { .. } => None,
    }
}
