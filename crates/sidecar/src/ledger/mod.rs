//! The ledger: every task that was given, and what became of it, in `sidecar.db`. What was answered is on disk.

mod error;
mod live;
mod moment;
mod order;
mod row;
mod schema;
mod thread;

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use self::error::{Error, OpenError};
pub use self::live::{Execution, Progress};
pub use self::moment::Moment;
pub use self::order::{Ended, Given, Submitted};
pub use self::row::{Json, Task};
pub use self::schema::canonical;

use self::live::Live;
use self::moment::Clock;
use self::order::{Answer, Order};
use self::thread::Thread;

/// The file, in the node's home.
pub const FILE: &str = "sidecar.db";

/// As many tasks as a list holds.
const LISTED: u32 = 100;

/// Orders that may wait. Above that, who orders waits.
const WAITING: usize = 1024;

/// How long an order may take. A disk that takes longer is as good as none.
const ANSWERS_WITHIN: Duration = Duration::from_secs(8);

/// The ledger, to be asked from anywhere.
#[derive(Clone, Debug)]
pub struct Ledger {
    orders: mpsc::Sender<Order>,
}

/// The ledger's thread.
#[derive(Debug)]
pub struct Keeper {
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Does what was ordered so far, and puts everything into the file. What is ordered later is refused.
    pub async fn close(self) {
        // It may have ended already.
        let _ = self.orders.send(Order::Close).await;
        match tokio::task::spawn_blocking(move || self.thread.join()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => tracing::error!("the ledger's thread panicked"),
        }
    }
}

impl Ledger {
    /// Opens the ledger of a node, and makes it if there is none.
    /// What is under way is cancelled with the token.
    pub fn open(path: &Path, end: CancellationToken) -> Result<(Self, Keeper), OpenError> {
        let connection = schema::open(path)?;
        let newest = row::newest_submission(&connection)
            .map_err(|why| OpenError::Unusable { path: path.to_owned(), why })?;
        let (orders, waiting) = mpsc::channel(WAITING);
        let clock = Clock::after(newest.as_ref());
        let thread = Thread { connection, clock, live: Live::until(end), orders: waiting };
        let keeper = std::thread::Builder::new().name("ledger".into()).stack_size(512 << 10);
        let thread = keeper.spawn(move || thread.run()).map_err(OpenError::Thread)?;
        Ok((Self { orders: orders.clone() }, Keeper { orders, thread }))
    }

    async fn ask<T>(&self, order: impl FnOnce(Answer<T>) -> Order) -> Result<T, Error> {
        let asked = self.ask_patiently(order);
        tokio::time::timeout(ANSWERS_WITHIN, asked).await.map_err(|_| Error::Silent)?
    }

    async fn ask_patiently<T>(&self, order: impl FnOnce(Answer<T>) -> Order) -> Result<T, Error> {
        let (to, answer) = oneshot::channel();
        self.orders.send(order(to)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Gives a task, unless so many are under way. Whoever asks must wait for the answer, however long it takes: a task that was
    /// begun and that nobody does would run for ever.
    pub async fn submit(&self, given: Given, most: u32) -> Result<Submitted, Error> {
        self.ask_patiently(|to| Order::Submit(given, most, to)).await
    }

    /// Takes up an execution that a process before this one did not end.
    pub async fn adopt(&self, task: &Task) -> Result<Execution, Error> {
        self.ask(|to| Order::Adopt(task.id.clone(), task.submitted_at.clone(), to)).await
    }

    /// Ends an execution; false if the task was deleted or begun anew since.
    pub async fn end(&self, execution: &Execution, ended: Ended) -> Result<bool, Error> {
        let (id, submitted_at) = (execution.id.clone(), execution.submitted_at.clone());
        self.ask(|to| Order::End(id, submitted_at, ended, to)).await
    }

    /// One task.
    pub async fn get(&self, id: &str) -> Result<Option<Task>, Error> {
        self.ask(|to| Order::Get(id.to_owned(), to)).await
    }

    /// The newest hundred, the newest first.
    pub async fn newest(&self) -> Result<Vec<Task>, Error> {
        self.ask(|to| Order::Newest(LISTED, to)).await
    }

    /// Those that run, the oldest first.
    pub async fn running(&self) -> Result<Vec<Task>, Error> {
        self.ask(Order::Running).await
    }

    /// When a task of a kind was last given, whatever became of it.
    pub async fn last_submitted(&self, kind: TaskType) -> Result<Option<Moment>, Error> {
        self.ask(|to| Order::LastSubmitted(kind, to)).await
    }

    /// Forgets a task and cancels it; false if there is none.
    pub async fn delete(&self, id: &str) -> Result<bool, Error> {
        self.ask(|to| Order::Delete(id.to_owned(), to)).await
    }

    /// Forgets all tasks of a kind and cancels them.
    pub async fn delete_kind(&self, kind: TaskType) -> Result<usize, Error> {
        self.ask(|to| Order::DeleteKind(kind, to)).await
    }

    /// Forgets some of the tasks that ended before a time, and says how many.
    pub async fn prune(&self, before: Moment) -> Result<usize, Error> {
        self.ask(|to| Order::Prune(before, to)).await
    }

    /// Fails when the ledger does not answer in this time.
    pub async fn ping(&self, within: Duration) -> Result<(), Error> {
        tokio::time::timeout(within, self.ask(Order::Ping)).await.map_err(|_| Error::Silent)?
    }
}
