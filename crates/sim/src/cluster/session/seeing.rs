//! What came back: whether the answer can be true of that request, and what of it goes into the book.

use super::super::book::{Book, Entry, Writes};
use super::super::columns::rows_of;
use super::super::layout::{Content, Item, Kind, Target, read_row, table_of};
use super::{Doing, Part, Pinned, Plan, Seen, Session};
use crate::world::client::ClientEffects;
use base::cut::Consistency;
use base::process::Process;
use base::txn::{Isolation, Outcome, StatementResult};
use base::{Row, SqlState, Time, Token};
use node::request::{PinId, ReadRows, Reply, Request, Rows, Snapshot, Submitted};

impl Session {
    /// A read-only operation ends.
    pub(super) fn seen(&mut self, now: Time, entry: Entry, seen: Vec<(Target, Seen)>, token: &Token) {
        let mut book = self.book.open();
        seen.iter().for_each(|(target, rows)| book.read(entry, target, rows));
        book.commit(entry, now);
        self.token.join(token);
        self.sources = vec![entry];
    }

    /// Whether the gateway was cut off beyond its lease and has missed how its transaction ended, or has given it up while
    /// another gateway may not have.
    pub(super) fn is_unknown(&self, outcome: &Outcome) -> bool {
        let unknown = SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        let may_be = self.habits.may_be_too_late || self.habits.may_be_undeliverable;
        may_be && matches!(outcome, Outcome::Aborted(error) if error.state == unknown)
    }

    pub(super) fn one_shot_ended(&mut self, now: Time, entry: Entry, plan: &Plan, answer: Submitted) {
        let mut book = self.book.open();
        if self.is_unknown(&answer.outcome) {
            base::sometimes!("a client is told that the end of its transaction is not known");
            return lose_plan(&mut book, entry, plan);
        }
        match (&answer.outcome, plan) {
            (Outcome::Committed { results }, Plan::Statements { parts, fails }) => {
                assert!(!fails, "a duplicate key was accepted");
                assert_eq!(results.len(), parts.len(), "one result for each statement");
                for (part, result) in parts.iter().zip(results) {
                    match part {
                        Part::Append(item, value) => {
                            let mut rows = read_rows(Kind::List, &result.rows);
                            assert_eq!((rows.len(), result.affected), (1, 1), "an append has one row");
                            let (found, Content::List(mut items)) = rows.remove(0) else {
                                panic!("a list is a list")
                            };
                            assert_eq!((found, items.pop()), (*item, Some(*value)), "returned as appended");
                            book.read(entry, &Target::row(*item), &[(*item, Content::List(items))]);
                            book.write(entry, item, Some(*value));
                        }
                        Part::Read(target) => book.read(entry, target, &read_rows(target.kind, &result.rows)),
                        Part::Doomed => unreachable!("checked above"),
                    }
                }
                book.count("one-shot commits");
            }
            (Outcome::Committed { results }, Plan::Procedure { targets, value }) => {
                let told = agreed(results);
                let mut by_partition = targets.clone();
                // Values arrive by participant, and in the call's order inside one.
                by_partition.sort_by_key(|t| self.layout.partition_of(t.shelf));
                assert_eq!(told.len(), targets.len(), "a participant was not told of every list");
                for (target, content) in by_partition.iter().zip(told) {
                    let item = target.item().expect("appends go to rows");
                    book.read(entry, target, &[(item, content)]);
                    book.write(entry, &item, Some(*value));
                }
                book.count("procedures");
            }
            (Outcome::Aborted(error), plan) => {
                let is_undeliverable =
                    self.habits.may_be_undeliverable && error.state == SqlState::SERIALIZATION_FAILURE;
                if is_undeliverable {
                    base::sometimes!(
                        "a client is told that its transaction cannot be brought to all its participants"
                    );
                }
                match plan {
                    Plan::Statements { parts, fails } => {
                        assert!(*fails || is_undeliverable, "a one-shot transaction aborts: {error}");
                        assert!(is_undeliverable || error.state == SqlState::UNIQUE_VIOLATION, "{error}");
                        for part in parts {
                            if let Part::Append(item, value) = part {
                                book.write(entry, item, Some(*value));
                            }
                        }
                    }
                    Plan::Procedure { targets, value } => {
                        assert!(is_undeliverable || error.state == SqlState::CHECK_VIOLATION, "{error}");
                        for target in targets {
                            book.write(entry, &target.item().expect("a row"), Some(*value));
                        }
                    }
                }
                book.count("one-shot aborts");
                book.abort(entry, now);
                drop(book);
                self.token.join(&answer.token);
                return;
            }
        }
        book.commit(entry, now);
        drop(book);
        self.answered(entry, &answer.token);
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn pinned_rows<P>(
        &mut self,
        now: Time,
        entry: Entry,
        pin: PinId,
        targets: Vec<Target>,
        then: Pinned,
        rows: Rows,
        out: &mut ClientEffects<P>,
    ) where
        P: Process<Request = Request, Reply = Reply>,
    {
        let seen = seen_rows(&targets, &rows);
        match then {
            Pinned::Compare => {
                let open = self.open(Some(rows.at), Consistency::Rss, &targets);
                out.ask(self.analyst, Request::OpenSnapshot(open));
                self.doing = Doing::Comparing { entry, pin, targets, rows: seen.into_iter().collect() };
            }
            Pinned::ReadOnly => {
                self.book.open().count("read-only transactions");
                self.seen(now, entry, seen, &rows.token);
                out.ask(self.at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            Pinned::Write(false) if self.habits.blocks == Isolation::ReadCommitted => {
                seen.iter().for_each(|(target, rows)| self.book.open().read(entry, target, rows));
                let reads = targets.iter().map(|t| self.layout.row_read(t)).collect();
                let (consistency, token) = (self.habits.consistency, self.token.clone());
                out.ask(self.at, Request::ReadRows(ReadRows { at: None, consistency, token, reads }));
                self.doing = Doing::Reading { entry, pin, targets, then: Pinned::Write(true) };
            }
            Pinned::Write(_) => {
                let writes = self.choose_writes(&seen);
                let mut book = self.book.open();
                seen.iter().for_each(|(target, rows)| book.read(entry, target, rows));
                drop(book);
                let full: Vec<_> = writes.iter().map(|(w, _)| w.clone()).collect();
                let reads = match self.habits.blocks < Isolation::Serializable {
                    true => full.iter().map(|(item, _, _)| Target::row(*item)).collect(),
                    false => targets,
                };
                let submission = self.layout.validated(rows.at, &reads, &full, self.token.clone());
                out.ask(self.at, Request::Submit(submission));
                let writes: Writes = writes.into_iter().map(|((item, _, _), value)| (item, value)).collect();
                self.book.open().submitted(entry, writes.clone());
                self.doing = Doing::Committing { entry, pin, writes };
            }
        }
    }

    pub(super) fn committed(
        &mut self,
        now: Time,
        entry: Entry,
        writes: &[(Item, Option<u64>)],
        answer: Submitted,
    ) {
        let mut book = self.book.open();
        writes.iter().for_each(|(item, value)| book.write(entry, item, *value));
        match answer.outcome {
            outcome if self.is_unknown(&outcome) => book.unknown(entry),
            Outcome::Committed { .. } => {
                book.count("interactive commits");
                book.commit(entry, now);
                drop(book);
                self.answered(entry, &answer.token);
            }
            Outcome::Aborted(error) => {
                assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE, "{error}");
                book.count("interactive aborts");
                book.abort(entry, now);
                drop(book);
                self.token.join(&answer.token);
            }
        }
    }

    pub(super) fn answered(&mut self, entry: Entry, token: &Token) {
        self.token.join(token);
        self.sources = vec![entry];
        if self.shares() {
            self.book.open().leave(self.token.clone(), entry);
        }
    }
}

/// Nobody knows whether a one-shot transaction took effect.
pub(super) fn lose_plan(book: &mut Book, entry: Entry, plan: &Plan) {
    plan.writes().iter().for_each(|(item, value)| book.write(entry, item, *value));
    book.unknown(entry);
}

impl Plan {
    /// What it writes if it takes effect.
    pub(super) fn writes(&self) -> Writes {
        match self {
            Plan::Statements { parts, .. } => {
                let append = |part: &Part| match part {
                    Part::Append(item, value) => Some((*item, Some(*value))),
                    Part::Read(_) | Part::Doomed => None,
                };
                parts.iter().filter_map(append).collect()
            }
            Plan::Procedure { targets, value } => {
                targets.iter().map(|target| (target.item().expect("a row"), Some(*value))).collect()
            }
        }
    }
}

pub(super) fn read_rows(kind: Kind, rows: &[Row]) -> Seen {
    rows.iter().map(|row| read_row(kind, &row.to_vec())).collect()
}
pub(super) fn seen_rows(targets: &[Target], rows: &Rows) -> Vec<(Target, Seen)> {
    assert_eq!(rows.reads.len(), targets.len(), "one answer for each read");
    let seen = targets.iter().zip(&rows.reads).map(|(target, rows)| {
        (*target, rows.iter().map(|(_, row)| read_row(target.kind, &row.to_vec())).collect())
    });
    seen.collect()
}
/// A shelf as the snapshot's columns have it, in key order.
pub(super) fn columns_of(snapshot: &Snapshot, target: &Target) -> Seen {
    let table = &snapshot.tables[&table_of(target.kind)];
    let rows = rows_of(table).into_iter().map(|values| read_row(target.kind, &values));
    let mut rows: Seen = rows.filter(|(item, _)| item.shelf == target.shelf).collect();
    rows.sort_by_key(|(item, _)| *item);
    rows
}
/// What every participant of a procedure says it was told: the same, everywhere.
pub(super) fn agreed(results: &[StatementResult]) -> Vec<Content> {
    let rows: Vec<&Row> = results.iter().flat_map(|r| &r.rows).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| *row == rows[0]), "participants disagree: {rows:?}");
    let told = rows[0].to_vec();
    told.iter()
        .map(|datum| read_row(Kind::List, &[base::Datum::Int(0), base::Datum::Int(0), datum.clone()]).1)
        .collect()
}
