//! The way of a transaction at its own member: submitted, evaluated, asking to commit, decided.
//!
//! KEEPS: a transaction that fails at a state that lacks something answered before it came is evaluated again; what it
//! ships was evaluated at the last epoch published here; one that would lose to another of this gateway is not shipped.

use super::gateway::{Asking, Job};
use super::merge::{Conflict, Isolation, Loss};
use super::message::{Body, Epoch, Payload};
use super::options::Mutant;
use super::publishing::{Ended, rows_of};
use super::state::{Geogauss, Out};
use crate::engine::Executor;
use crate::share::{Share, merge};
use base::txn::{Outcome, Submission, Transaction, TxnProgram, given_up, is_given_up};
use base::write_set::Evaluated;
use base::{Rank, SqlError, SqlState, Time, TxnId};
use std::sync::Arc;

impl Geogauss {
    pub(super) fn submitted(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) -> TxnId {
        self.look(now, out);
        let id = self.gateway.name();
        let Submission { program, access, token, request, isolation } = submission;
        let min_rank = token.rank.max(self.gateway.answered());
        let after = token.rank;
        let is_empty = access.by_partition.is_empty();
        let transaction = Transaction { id, program, access, min_rank, after, homes: None };
        let seen = self.clock.epoch_at(token.rank);
        let answered = match self.cluster.options.removes_lost {
            // See `Geogauss::latest`.
            true => self.clock.open(),
            false => self.clock.open().previous(),
        };
        let current_from = seen.max(answered);
        let request = request.filter(|_| !self.cluster.options.planted(Mutant::ForgetRequests));
        let level = isolation.min(self.cluster.options.isolation);
        let job = Job { transaction, request, level, submitted_at: now, current_from, attempts: 0 };
        let refused = match self.refusal(now, token.rank) {
            Some(error) => Some(Outcome::Aborted(error)),
            None if is_empty => Some(Outcome::Committed { results: Vec::new() }),
            None => None,
        };
        if let Some(outcome) = refused {
            let above = if outcome.is_committed() { min_rank.next() } else { Rank::ZERO };
            self.fail(now, &job, now.rank().max(above), outcome);
        } else {
            self.keep_busy(now, 1);
            // What comes from a cut in the future is ranked above it.
            if self.clock.rank(self.clock.open()) <= token.rank {
                base::sometimes!("epochs are closed early for a token");
                self.close(now, seen, out);
            }
            self.evaluate(now, job, executor, out);
        }
        id
    }

    fn refusal(&mut self, now: Time, token: Rank) -> Option<SqlError> {
        let limit = self.cluster.latest_cut(now);
        if let Some(absent) = self.absent() {
            return Some(absent);
        }
        if token > limit {
            let message = "the session's token lies too far in the future";
            let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
            let error = error.detail(format!("Its rank is {token}, the largest acceptable one {limit}."));
            let hint = "A token is valid only in the cluster that gave it; reset it with SET meridian.token.";
            return Some(error.hint(hint));
        }
        if self.gateway.under_way() >= self.cluster.options.outstanding_max {
            let message = "too many transactions are under way at this gateway";
            let error = SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message);
            return Some(error.hint("Nothing was executed; try again later."));
        }
        self.available().err()
    }

    /// A transaction ends without having asked to commit.
    pub(super) fn fail(&mut self, now: Time, job: &Job, rank: Rank, outcome: Outcome) {
        self.gateway.end(now, job, (job.transaction.id, rank), outcome, self.cluster.regions(), None, None);
    }

    /// Executes a transaction at the last published epoch and has it ask to commit in the open one.
    pub(super) fn evaluate(&mut self, now: Time, job: Job, executor: &mut dyn Executor, out: &mut Out) {
        let published = self.published.epoch();
        let at = self.clock.rank(published);
        if let Some((first, rank, outcome)) =
            job.request.and_then(|request| self.requests.end(request)).cloned()
        {
            // What it would run into may be its own effect.
            base::sometimes!("a repeated request has ended before it is evaluated");
            let regions = self.cluster.regions();
            return self.gateway.end(now, &job, (first, rank), outcome, regions, None, None);
        }
        let transaction = &job.transaction;
        let program = &*transaction.program;
        let (body, outcome) = match program {
            _ if program.schema_change().is_some() => {
                // Executed at its place; what it answers is known then.
                (Body::Program(transaction.clone()), Outcome::Committed { results: Vec::new() })
            }
            _ => match executor.evaluate(transaction, at) {
                Ok(evaluated) => self.asks(job.level, evaluated, executor),
                Err(error) if is_given_up(&error) && matches!(program, TxnProgram::GiveUp) => {
                    (Body::GiveUp, Outcome::Aborted(given_up()))
                }
                // It may have run into what has changed since.
                Err(_) if published < job.current_from => {
                    base::sometimes!("a transaction that fails waits for the present state");
                    return self.gateway.park(job.current_from, job);
                }
                Err(error) => {
                    let error = if has_changed(program, executor) {
                        lost(published, Conflict::StaleRead)
                    } else {
                        error
                    };
                    let rank = self.clock.rank(self.clock.open());
                    return self.fail(now, &job, rank, Outcome::Aborted(error));
                }
            },
        };
        let (txn, open) = (transaction.id, self.clock.open());
        if job.level != Isolation::ReadCommitted {
            if self.has_stale_reads(&body, executor) {
                base::sometimes!("a block has read what has changed since");
                let (rank, error) = (self.clock.rank(open), lost(published, Conflict::StaleRead));
                self.gateway.count_loss(true);
                return self.fail(now, &job, rank, Outcome::Aborted(error));
            }
            if let Some(epoch) = self.gateway.writer_ahead(&body) {
                base::sometimes!("a transaction waits for one of its gateway that it would lose to");
                return self.gateway.park(epoch.max(published.next()), job);
            }
        }
        let oldest =
            program.validated().and_then(|validated| validated.reads.iter().map(|read| read.at).min());
        let me = self.membership.seat().expect("only a member evaluates");
        let payload = Arc::new(Payload {
            txn,
            start: oldest.map_or(open, |oldest| self.clock.epoch_at(oldest).min(open)),
            clock: self.gateway.tick(now),
            level: job.level,
            snapshot: at,
            read_at: oldest.map_or(at, |oldest| oldest.min(at)),
            request: job.request.map(|request| (request, outcome.clone())),
            body,
        });
        let epoch = self.ship(now, me, &payload, out);
        if self.cluster.options.planted(Mutant::AnswerEarly) && outcome.is_committed() {
            let rank = self.clock.rank(epoch);
            self.fail(now, &job, rank, outcome.clone());
        }
        self.gateway.ask(Asking { job, asked_at: now, epoch, outcome, payload });
    }

    /// It would lose wherever it is merged: only to be asked of what every member will look at.
    fn has_stale_reads(&self, body: &Body, executor: &dyn Executor) -> bool {
        let Body::Writes { reads, .. } = body else { return false };
        let here = self.low();
        reads.iter().any(|read| read.at < here && !executor.is_unchanged(read))
    }

    /// What an evaluated transaction ships, and what its client is told if it commits.
    fn asks(&self, level: Isolation, evaluated: Evaluated, executor: &mut dyn Executor) -> (Body, Outcome) {
        let Evaluated { results, mut reads, writes } = evaluated;
        let present = rows_of(&writes)
            .filter(|(partition, table, key)| executor.has_row(*partition, *table, key))
            .map(|(partition, table, key)| (partition, table, key.clone()))
            .collect();
        match level {
            Isolation::ReadCommitted => reads.clear(),
            Isolation::Snapshot => {
                // What a block reads to write it, it reads at a newer cut: it has to be as in the block's snapshot.
                let snapshot = reads.iter().map(|read| read.at).min().unwrap_or_default();
                reads.retain(|read| read.at > snapshot);
                reads.iter_mut().for_each(|read| read.at = snapshot);
            }
            Isolation::RepeatableRead | Isolation::Serializable => {}
        }
        let share = Share::Committed(results.into_iter().collect());
        (Body::Writes { reads, writes, present }, merge(std::iter::once(share)))
    }

    /// An epoch has decided a transaction; if it is this gateway's and lost, it may be tried again.
    pub(super) fn decided_here(&mut self, now: Time, ended: Ended, rank: Rank) -> Option<Job> {
        let Ended { txn, decision, outcome, changes_catalog } = ended;
        let Asking { mut job, asked_at, epoch, outcome: evaluated, .. } = self.gateway.decided(txn)?;
        let regions = self.cluster.regions();
        let end = match decision {
            Ok(()) => ((txn, rank), outcome.unwrap_or(evaluated)),
            Err(Loss::Failed(error)) => ((txn, rank), Outcome::Aborted(*error)),
            Err(Loss::Repeated) => {
                let request = job.request.expect("only a named request is repeated");
                let (first, rank, outcome) = self.requests.end(request).expect("it has an end").clone();
                base::sometimes!("a repeated request gets the end that an earlier epoch decided");
                ((first, rank), outcome)
            }
            Err(Loss::Conflict(conflict)) => {
                job.attempts += 1;
                // What a block has read its client has seen.
                let is_fixed = job.transaction.program.validated().is_some();
                let gives_up = is_fixed || job.attempts >= self.cluster.options.attempts_max;
                self.gateway.count_loss(gives_up);
                if !gives_up {
                    base::sometimes!("a transaction that lost is evaluated again");
                    return Some(job);
                }
                ((txn, rank), Outcome::Aborted(lost(epoch, conflict)))
            }
        };
        let taught = (changes_catalog && end.1.is_committed()).then_some(epoch);
        let (end, outcome) = end;
        if !(self.cluster.options.planted(Mutant::AnswerEarly) && outcome.is_committed()) {
            self.gateway.end(now, &job, end, outcome, regions, Some(asked_at), taught);
        }
        None
    }

    /// Transactions that lost are evaluated again with the next look at the gateway, when all that is complete is
    /// published.
    pub(super) fn park(&mut self, until: Epoch, lost: Vec<Job>) {
        lost.into_iter().for_each(|job| self.gateway.park(until, job));
    }
    /// The epochs that these waited for are published.
    pub(super) fn evaluate_parked(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        while let Some(job) = self.gateway.unpark(self.published.epoch()) {
            self.evaluate(now, job, executor, out);
        }
    }
    /// Lets out the answers whose time has come; when the next one may go.
    pub(super) fn answer_clients(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let known = self.peers.published_by_all(&self.membership);
        self.gateway.all_know(self.published.epoch().min(known));
        self.gateway.open_gate(now, self.cluster.clock_bound_ns(), out)
    }
    /// A new life: names of the former one are not given again.
    pub(super) fn resume_gateway(&mut self, incarnation: u32) {
        self.gateway.resume(incarnation);
    }
    /// This node was removed: its clients are told what is known of their transactions. Of what it sent `last` is the last
    /// epoch that counts.
    pub(super) fn give_up_transactions(&mut self, now: Time, last: Epoch) {
        let topology = self.cluster.topology.clone();
        let region = topology.region_name(topology.region_of(self.cluster.me));
        for (job, epoch) in self.gateway.give_up() {
            let error = match epoch {
                Some(epoch) if epoch <= last => SqlError::new(
                    SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                    "the outcome of the transaction is unknown",
                )
                .detail(format!(
                    "Region {region} was removed from the cluster before it learnt the decision."
                ))
                .hint("Ask another region whether it took effect before you repeat it."),
                _ => SqlError::new(
                    SqlState::CANNOT_CONNECT_NOW,
                    format!("region {region} was removed from the cluster"),
                )
                .detail("The transaction took no effect.")
                .hint("Repeat it at another region, or here in a moment."),
            };
            self.fail(now, &job, now.rank(), Outcome::Aborted(error));
        }
    }
}

/// A block has read what has changed since: it is to be retried, whatever it has run into.
fn has_changed(program: &TxnProgram, executor: &dyn Executor) -> bool {
    program.validated().is_some_and(|block| !block.reads.iter().all(|read| executor.is_unchanged(read)))
}

fn lost(epoch: Epoch, conflict: Conflict) -> SqlError {
    let message = "could not serialize access: the transaction lost to a concurrent one";
    let error = SqlError::new(SqlState::SERIALIZATION_FAILURE, message);
    error.detail(format!("In epoch {}: {}.", epoch.0, conflict.reason())).hint("Retry the transaction.")
}
