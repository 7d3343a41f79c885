//! The ledger thread, the only one that uses the database. It runs all pending commands in one transaction and replies after the
//! commit: many submissions share one fsync.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use tokio::sync::mpsc::Receiver;

use super::command::{Applied, Command};
use super::error::Error;
use super::execution::RunningExecutions;
use super::time::Clock;

/// Maximum number of commands per transaction.
const MAX_BATCH: usize = 256;

pub(super) struct Worker {
    pub(super) connection: Connection,
    pub(super) clock: Clock,
    pub(super) running: RunningExecutions,
    pub(super) commands: Receiver<Command>,
}

impl Worker {
    /// Runs until it is closed or all handles are dropped, then checkpoints the WAL.
    pub(super) fn run(mut self) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while let Some(first) = self.commands.blocking_recv() {
            let mut next = Some(first);
            while let Some(command) = next.take() {
                if matches!(command, Command::Close) {
                    self.commands.close();
                } else {
                    batch.push(command);
                }
                if batch.len() < MAX_BATCH {
                    next = self.commands.try_recv().ok();
                }
            }
            self.run_batch(&mut batch);
        }
        if let Err(error) = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::warn!(%error, "WAL checkpoint failed; the next start recovers the WAL");
        }
    }

    fn run_batch(&mut self, batch: &mut Vec<Command>) {
        match self.transact(batch) {
            Ok(applied) => {
                for (command, applied) in batch.drain(..).zip(applied) {
                    command.reply(Ok(applied), &mut self.running);
                }
            }
            // Another process holds the lock. The busy timeout has passed once; retrying each command would wait as long again.
            Err(error) if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy)) => {
                for command in batch.drain(..) {
                    command.reply(Err(Error::Sqlite(error.to_string())), &mut self.running);
                }
            }
            // One command failed or the disk is full: run each command alone.
            Err(_) => {
                for command in batch.drain(..) {
                    let applied = self.transact(std::slice::from_ref(&command)).map_err(Error::from);
                    let applied = applied.and_then(|mut applied| applied.pop().ok_or(Error::Closed));
                    command.reply(applied, &mut self.running);
                }
            }
        }
    }

    fn transact(&mut self, commands: &[Command]) -> rusqlite::Result<Vec<Applied>> {
        let transaction = Transaction::new(&mut self.connection, TransactionBehavior::Deferred)?;
        let mut applied = Vec::with_capacity(commands.len());
        for command in commands {
            applied.push(command.apply(&transaction, &mut self.clock, &self.running)?);
        }
        transaction.commit()?;
        Ok(applied)
    }
}
