//! Transaction control: how blocks begin and end, savepoints and modes.

use super::settings::shown_level;
use super::transaction::Transaction;
use super::{Session, TransactionStatus};
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::txn::{Isolation, TxnProgram};
use node::request::Request;
use sqlparser::ast;
use std::sync::Arc;

impl Session {
    /// A client's statement begins: in a block at READ COMMITTED it reads at a new cut.
    pub(super) fn begin_statement(&mut self) {
        if let Some(open) = &mut self.transaction {
            open.reading.wants_cut = open.pin.is_some() && open.reads_anew();
        }
    }

    /// Errors: 40001 if others have changed a table that the open transaction has written.
    pub(super) fn check_written(&self) -> SqlResult<()> {
        self.transaction.as_ref().map_or(Ok(()), |open| open.check_written(&self.known))
    }

    /// The same before a statement. One that ends the block, or goes back in it, needs no rows.
    pub(super) fn refuse_changed(&self, statement: &ast::Statement) -> SqlResult<()> {
        if super::utility::ends_failure(statement) { Ok(()) } else { self.check_written() }
    }

    pub(super) fn open(&mut self) -> &mut Transaction {
        self.transaction.as_mut().expect("an open transaction")
    }

    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.transaction {
            Some(t) if t.is_implicit => TransactionStatus::Idle,
            Some(t) if t.has_failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::InTransaction,
            None => TransactionStatus::Idle,
        }
    }

    /// Opens a transaction.
    pub(super) fn begin(&mut self, read_only: bool, is_implicit: bool) {
        // As in PostgreSQL, it begins with the statement that opens it.
        let began_us = self.times().statement_us;
        let read_only = read_only || self.cluster().read_only().is_some();
        let mut transaction = Transaction::new(read_only, is_implicit, began_us);
        if !is_implicit {
            transaction.reading.level = self.settings.level();
        }
        transaction.memory = Some(self.gateway.transaction_memory());
        self.transaction = Some(transaction);
    }

    /// What was read and written so far without a block begins one.
    pub(super) fn make_block(&mut self) {
        let level = self.settings.level();
        let open = self.open();
        open.is_implicit = false;
        if !open.has_begun() {
            open.reading.level = level;
        }
    }

    /// What the open transaction reads may change before it commits.
    pub(super) fn read_at_one_cut(&mut self) {
        self.open().reading.level = Isolation::Snapshot;
    }

    /// The isolation level of the open transaction, or of the block that is opened next.
    pub(super) fn isolation(&self) -> &'static str {
        let open = self.transaction.as_ref();
        shown_level(open.map_or_else(|| self.settings.level(), |open| open.reading.level))
    }

    pub(super) fn block(&mut self, word: &str) -> SqlResult<&mut Transaction> {
        match &mut self.transaction {
            Some(t) if !t.is_implicit => Ok(t),
            _ => Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{word} can only be used in transaction blocks"),
            )),
        }
    }

    /// What AND CHAIN keeps of the open block: whether it only reads, and its level. Errors: 25P01.
    pub(super) fn chained(&mut self, word: &str) -> SqlResult<(bool, Isolation)> {
        let open = self.block(&format!("{word} AND CHAIN"))?;
        Ok((open.read_only, open.reading.level))
    }

    /// Opens the block that AND CHAIN asks for.
    pub(super) fn begin_chained(&mut self, kept: Option<(bool, Isolation)>) {
        if let Some((read_only, level)) = kept {
            self.begin(read_only, false);
            self.open().reading.level = level;
        }
    }

    pub(super) fn no_transaction(&mut self) {
        self.notice("WARNING", SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
    }

    /// COMMIT; a failed block is rolled back instead. Returns the tag.
    pub(super) async fn commit_block(&mut self) -> SqlResult<&'static str> {
        match &self.transaction {
            None => {
                self.no_transaction();
                Ok("COMMIT")
            }
            Some(t) if t.has_failed => {
                self.roll_back().await;
                Ok("ROLLBACK")
            }
            Some(t) => {
                if t.is_implicit {
                    self.no_transaction();
                }
                self.end_implicit().await?;
                Ok("COMMIT")
            }
        }
    }

    /// Commits the open transaction, block or not. It is over, whatever the outcome.
    pub(super) async fn end_implicit(&mut self) -> SqlResult<()> {
        let checked = match self.check_written() {
            Ok(()) => Box::pin(self.check_deferred()).await,
            changed => changed,
        };
        let room = match &self.transaction {
            Some(transaction) if checked.is_ok() => self.told.listener.check_room(transaction.said.all()),
            _ => Ok(()),
        };
        if let Err(error) = checked.and(room).and_then(|()| self.end_temporary()) {
            self.roll_back().await;
            return Err(error);
        }
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        // A COMMIT that is cancelled half-way must not keep versions alive.
        let mut pin = Pinned { cluster: self.cluster().clone(), pin: transaction.pin.take() };
        let topology = self.cluster().topology().clone();
        let is_named = self.is_named();
        let changed = transaction.catalog.as_ref().map(|own| (own.base.clone(), transaction.schema.clone()));
        let result = if transaction.needs_validation()
            && let Err(error) = transaction.check_snapshot()
        {
            Err(error)
        } else if transaction.changes_catalog() {
            Box::pin(self.commit_changes(&mut transaction)).await
        } else if transaction.needs_validation() || is_named && transaction.has_reads() {
            // A repetition may find nothing left to write: how the first attempt ended is known where it is ordered.
            // The rows are encoded for their way, beside the buffer.
            let memory = &transaction.memory;
            match memory.as_ref().map_or(Ok(()), |memory| memory.grow(memory.bytes())) {
                Ok(()) => {
                    let threads = self.gateway.threads().filter(|_| transaction.is_large());
                    let (validated, access) =
                        sql::interrupt::aside(threads, || transaction.validated(&topology));
                    self.submit(TxnProgram::Validated(validated), access).await.map(|_| ())
                }
                Err(error) => Err(error),
            }
        } else {
            Ok(())
        };
        if result.as_ref().is_err_and(|e| super::attempts::is_conflict(e) && !super::is_stale(e)) {
            // Where others are nearer, the next one waits for its turn.
            let now = self.cluster().now();
            transaction.wrote_afar.iter().for_each(|table| self.gateway.contention.note(*table, now));
        }
        if result.is_ok() {
            self.told.listener.carry_out(transaction.said.all());
        }
        drop(transaction);
        self.unpin(pin.pin.take()).await;
        self.end_cursors(result.is_ok());
        self.end_transaction_locks().await;
        if let (Ok(()), Some((before, actions))) = (&result, changed) {
            self.bring_indexes(&before, &actions).await?;
        }
        result
    }

    /// Forgets the open transaction.
    pub(super) async fn roll_back(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.unpin(transaction.pin).await;
            self.end_cursors(false);
            self.end_transaction_locks().await;
        }
    }

    pub(super) async fn unpin(&mut self, pin: Option<(node::request::PinId, base::Rank)>) {
        if let Some((pin, rank)) = pin {
            // What was read at the cut was seen.
            self.saw(&base::Token::at(rank));
            // A node that is gone has no pin to remove.
            let _ = self.gateway.cluster.request(Request::Unpin(pin)).await;
        }
    }

    /// SET SESSION CHARACTERISTICS: what later blocks get.
    pub(super) fn session_modes(&mut self, modes: &[ast::TransactionMode]) -> SqlResult<()> {
        for mode in modes {
            match mode {
                ast::TransactionMode::AccessMode(access) => {
                    let read_only = *access == ast::TransactionAccessMode::ReadOnly;
                    self.set("default_transaction_read_only", if read_only { "on" } else { "off" })?;
                }
                ast::TransactionMode::IsolationLevel(level) => {
                    self.set("default_transaction_isolation", &level.to_string())?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn transaction_modes(&mut self, modes: &[ast::TransactionMode]) -> SqlResult<()> {
        for mode in modes {
            match mode {
                ast::TransactionMode::AccessMode(access) => {
                    let read_only = *access == ast::TransactionAccessMode::ReadOnly;
                    if !read_only && let Some(writer) = self.cluster().read_only() {
                        let message = "cannot set transaction read-write mode at a read-only replica";
                        return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message).hint(writer));
                    }
                    if let Some(transaction) = &mut self.transaction {
                        if !read_only && transaction.read_only && transaction.pin.is_some() {
                            return Err(SqlError::new(
                                SqlState::ACTIVE_SQL_TRANSACTION,
                                "transaction read-write mode must be set before any query",
                            ));
                        }
                        transaction.read_only = read_only;
                    }
                }
                ast::TransactionMode::IsolationLevel(level) => {
                    let level = self.settings.gives(&level.to_string());
                    let Some(transaction) = &mut self.transaction else { continue };
                    if level != transaction.reading.level && transaction.has_begun() {
                        return Err(SqlError::new(
                            SqlState::ACTIVE_SQL_TRANSACTION,
                            "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                        ));
                    }
                    transaction.reading.level = level;
                }
            }
        }
        Ok(())
    }
}

/// A pin that goes when this is dropped, unless it was taken out.
struct Pinned {
    cluster: Arc<dyn analytics::Cluster>,
    pin: Option<(node::request::PinId, base::Rank)>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some((pin, _)) = self.pin.take() {
            self.cluster.tell(Request::Unpin(pin));
        }
    }
}

pub(super) fn no_savepoint(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, format!("savepoint \"{name}\" does not exist"))
}
