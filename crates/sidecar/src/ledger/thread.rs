//! The one thread that reads and changes the ledger. It takes all orders that wait, does them in one transaction, and answers
//! when that is on disk: many tasks share one sync.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use tokio::sync::mpsc::Receiver;

use super::error::Error;
use super::live::Live;
use super::moment::Clock;
use super::order::{Done, Order};

/// As many as one transaction holds.
const GROUP: usize = 256;

pub(super) struct Thread {
    pub(super) connection: Connection,
    pub(super) clock: Clock,
    pub(super) live: Live,
    pub(super) orders: Receiver<Order>,
}

impl Thread {
    /// Lives until it is told to close, or nobody can order any more; then everything is moved from the log into the file.
    pub(super) fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        while let Some(first) = self.orders.blocking_recv() {
            let mut next = Some(first);
            while let Some(order) = next.take() {
                if matches!(order, Order::Close) {
                    self.orders.close();
                } else {
                    group.push(order);
                }
                if group.len() < GROUP {
                    next = self.orders.try_recv().ok();
                }
            }
            self.work(&mut group);
        }
        if let Err(error) = self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::warn!(%error, "the ledger's log stays beside it: the next start reads it");
        }
    }

    fn work(&mut self, group: &mut Vec<Order>) {
        match self.transact(group) {
            Ok(done) => {
                for (order, done) in group.drain(..).zip(done) {
                    order.answer(Ok(done), &mut self.live);
                }
            }
            // Somebody else holds the file: it was waited for, and the rest would wait as long again.
            Err(error) if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy)) => {
                for order in group.drain(..) {
                    order.answer(Err(Error::Store(error.to_string())), &mut self.live);
                }
            }
            // One of them cannot be done, or the disk is full: each for itself.
            Err(_) => {
                for order in group.drain(..) {
                    let done = self.transact(std::slice::from_ref(&order)).map_err(Error::from);
                    let done = done.and_then(|mut done| done.pop().ok_or(Error::Closed));
                    order.answer(done, &mut self.live);
                }
            }
        }
    }

    fn transact(&mut self, orders: &[Order]) -> rusqlite::Result<Vec<Done>> {
        let transaction = Transaction::new(&mut self.connection, TransactionBehavior::Deferred)?;
        let mut done = Vec::with_capacity(orders.len());
        for order in orders {
            done.push(order.apply(&transaction, &mut self.clock, &self.live)?);
        }
        transaction.commit()?;
        Ok(done)
    }
}
