//! GeoGauss: every region executes its own clients' transactions, and all merge each epoch's write sets alike.
//!
//! IN: submissions at any member, messages of other members, closes of readers. OUT: rows through the [`Executor`],
//! answers, each partition's stream. KEEPS:
//! 1. the state after an epoch is the same at all members;
//! 2. a committed transaction is applied wholly, an aborted one not at all;
//! 3. an item has one committed writer in an epoch;
//! 4. who commits does not depend on the order of arrival;
//! 5. nobody enters a closed epoch, and the count of its end matches its write sets;
//! 6. epochs are published in order, without gaps;
//! 7. (epoch, start, clock, member) names a transaction;
//! 8. from SNAPSHOT on a committed transaction has overwritten nothing newer than its snapshot;
//! 9. at SERIALIZABLE everything that was committed, run one after another in the order (epoch, ≺), reads what it read;
//! 10. an answer follows the publication of its epoch here, hence the end of that epoch at every member;
//! 11. where lost members are removed (`removes_lost`), what was published anywhere outlives the loss of any minority of
//!     the members, and who is a member in an epoch is agreed before anybody publishes it ([`membership`]).
//!
//! The way of a transaction: its member evaluates it at the last epoch published there, without a word to anybody. The
//! write set, with what was read, goes to all members at once, as part of the epoch that is open. When the epoch ends
//! each member tells the others how many write sets it has sent. Whoever has everything of an epoch, of all members,
//! merges it ([`merge`]) and has thereby published it; there its clients are answered: one one-way delay and up to an
//! epoch after they asked. What lost is evaluated again, unless it is a block whose reads the client has seen.
//!
//! Epoch e is the interval of ranks `((e − 1) · length, e · length]`, and its transactions have the rank `e · length`. So
//! column copies, replicas and readers need nothing of their own: a cut is closed once all epochs within it are
//! published. Clocks decide when epochs close and how late cuts are, never what is right. In particular whatever was
//! answered anywhere is in an epoch that this member has closed: [`Question::Latest`] needs no message.
//!
//! Exposure. By default an epoch is published once all of it is here (*fast*): every member is needed, and while one is
//! silent nothing is published; what is submitted, and strong reads, are refused by name after a while. With
//! [`Options::removes_lost`] it is published once a majority has all of it as well (*quorum*): one round trip to the
//! nearest members instead of the one-way delay to the farthest, if that is longer. A lost member is then removed, and
//! comes back with a copy, whether or not it kept its memory ([`membership`], `governing`, `joining`). There are no
//! write-set caches beside the members. What is sent, acknowledged or promised is on the sender's disk before (`records`, with
//! [`Options::records`]). `--survive` sets
//! `removes_lost`, and the simulator does where regions lose their memory or are out of reach for long.
//!
//! Parts. Each owns what it remembers, in private fields.
//!
//! | part | owns |
//! |---|---|
//! | `clock` | which epoch is open |
//! | [`membership`] | who is a member; attempts to change that |
//! | `hearing` | nothing: what arrives, and how the others are |
//! | `epochs` | nothing: epochs are filled, closed, kept for others, published |
//! | `governing` | when this member last tried to |
//! | `joining`, `crate::donor` | how far a node without a seat is; copies that others take |
//! | `outbox` | what of all members' epochs is not everywhere |
//! | `inbox` | what has arrived of every member's epochs |
//! | [`merge`] | nothing: it decides an epoch |
//! | `publishing` | the last published epoch, positions of logs, digests of decisions |
//! | `requests` | ends of named requests |
//! | `gateway`, `crate::gate` | transactions of clients, answers |
//! | `readers` (`closing`) | readers that wait |
//! | `peers` | who is silent, who has published what |
//! | `records` | which of the records of this life are on disk |
//!
//! Suggested reading order: [`message`], [`merge`], `clock`, `inbox`, `outbox`, `publishing`, `gateway`, `transactions`, `epochs`, `state`,
//! [`membership`], `governing`, `joining`, `records`.

mod clock;
mod closing;
mod cluster;
mod epochs;
mod gateway;
mod governing;
mod hearing;
mod inbox;
mod joining;
pub mod membership;
pub mod merge;
pub mod message;
pub mod options;
mod outbox;
mod peers;
mod publishing;
mod readers;
mod records;
mod requests;
mod state;
#[cfg(test)]
mod tests;
mod transactions;

pub use merge::{Isolation, Rule};
pub use message::Message;
pub use options::{EpochPace, Mutant, Options};
pub use state::Geogauss;

use crate::engine::{
    Answered, Command, Engine, EngineEffects, EngineReport, Executor, Question, Record, Unanswered,
};
use base::order::Calibration;
use base::process::Unreadable;
use base::txn::Submission;
use base::{NodeId, Rank, SqlError, Time, TxnId};
use std::collections::BTreeMap;

impl Engine for Geogauss {
    type Message = Message;

    fn start(&mut self, now: Time, out: &mut EngineEffects<Self>) {
        self.begin_records(out);
        self.look(now, out);
    }

    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId {
        let id = self.submitted(now, submission, executor, out);
        self.settle(now, executor, out);
        id
    }

    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        self.handle(now, from, message, executor, out);
        self.settle(now, executor, out);
    }

    fn next_wake(&self) -> Option<Time> {
        Geogauss::next_wake(self)
    }

    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        self.settle(now, executor, out);
    }

    fn ask(
        &mut self,
        now: Time,
        question: Question,
        _: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<Option<Answered>, Unanswered> {
        let rank = match question {
            Question::Close { ticket, close } => {
                self.open_close(now, ticket, close, out);
                return Ok(None);
            }
            Question::Forget { ticket } => {
                self.forget_reader(ticket);
                return Ok(None);
            }
            // Every member publishes by itself.
            Question::WillClose { .. } => return Ok(None),
            Question::Latest { ticket, .. } => {
                let result = Ok(Answered::Rank(self.latest()));
                out.push(crate::engine::EngineEffect::Answered { ticket, result });
                return Ok(None);
            }
            Question::Calibration { partition } => {
                let (position, rank) = self.published.log(partition);
                let calibration = Calibration { position, rank, low: self.low() };
                return Ok(Some(Answered::Calibration(calibration)));
            }
            Question::SafeRank { .. } => self.low(),
            Question::LeastCut => Rank::ZERO,
            Question::Timestamp => return Err(Unanswered { question: question.name() }),
        };
        Ok(Some(Answered::Rank(rank)))
    }

    fn admin(
        &mut self,
        _: Time,
        command: Command,
        _: &mut dyn Executor,
        _: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError> {
        let Command::MoveHome { .. } = command;
        Err(SqlError::unsupported("moving homes with this engine"))
    }

    fn set_floor(&mut self, floor: Option<Rank>) {
        Geogauss::set_floor(self, floor);
    }

    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>) {
        self.begin_life(now, incarnation);
        self.look(now, out);
    }

    fn stable(
        &mut self,
        now: Time,
        records: u64,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        self.on_synced(now, records);
        self.settle(now, executor, out);
    }

    fn image(&self) -> Vec<u8> {
        self.checkpoint()
    }

    fn restore(&mut self, image: &[u8]) -> Result<(), Unreadable> {
        self.take_checkpoint(image)
    }

    fn replay(&mut self, record: Record, executor: &mut dyn Executor) -> Result<(), Unreadable> {
        self.take_record(record, executor)
    }

    fn recovered(&mut self) -> Time {
        self.come_back()
    }

    fn absent(&self) -> Option<SqlError> {
        Geogauss::absent(self)
    }

    fn report(&self) -> EngineReport {
        let (committed, aborted) = self.published.counts();
        let mut counters = self.gateway.counts();
        counters.extend([("committed", committed), ("aborted", aborted)]);
        let held = BTreeMap::from([
            (
                "epochs not acknowledged",
                self.membership.seat().map_or(0, |seat| self.outbox.len(seat)) as u64,
            ),
            ("write sets not merged", self.inbox.len() as u64),
            ("transactions under way", self.gateway.under_way() as u64),
            ("closes", self.readers.len() as u64),
            ("requests remembered", self.requests.len() as u64),
        ]);
        let regions = self.peers.health(&self.cluster, &self.membership, self.gateway.under_way() as u64);
        EngineReport { counters, held, refused_messages: self.inbox.refused().clone(), regions }
    }
}
