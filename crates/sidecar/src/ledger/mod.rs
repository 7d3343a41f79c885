//! The task ledger in `sidecar.db`: every task and its outcome. A command is durable before its reply is sent.

mod accepted;
mod command;
mod error;
mod execution;
mod row;
mod schema;
mod time;
mod worker;

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use api::sidecar_wire::TaskType;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use self::command::SubmitOutcome;
pub use self::error::{Error, OpenError};
pub use self::execution::{Execution, Progress, UnfinishedTask};
pub use self::row::{RawJson, TaskRow};
pub use self::schema::canonical_id;
pub use self::time::StoredTime;

use self::accepted::{AcceptedTasks, RecordName};
use self::command::{Command, Reply};
use self::execution::RunningExecutions;
use self::time::Clock;
use self::worker::Worker;

/// The file name in the node's home.
pub const FILE: &str = "sidecar.db";

/// Maximum number of listed tasks.
const LIST_LIMIT: u32 = 100;

/// Capacity of the command queue. Senders wait while it is full.
const QUEUE_CAPACITY: usize = 1024;

/// Timeout of a command. A slower disk counts as failed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(8);

/// A handle of the ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    commands: mpsc::Sender<Command>,
}

/// The ledger thread.
#[derive(Debug)]
pub struct LedgerThread {
    commands: mpsc::Sender<Command>,
    thread: JoinHandle<()>,
}

impl LedgerThread {
    /// Runs the pending commands, checkpoints the WAL and ends the thread. Later commands fail.
    pub async fn close(self) {
        // The thread may have ended already.
        let _ = self.commands.send(Command::Close).await;
        match tokio::task::spawn_blocking(move || self.thread.join()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => tracing::error!("ledger thread panicked"),
        }
    }
}

impl Ledger {
    /// Opens the ledger, creating or migrating it. Accepted tasks are recorded in the private directory, if there is one. Cancelling
    /// `shutdown` cancels all executions.
    pub fn open(
        path: &Path,
        private_dir: Option<&Path>,
        shutdown: CancellationToken,
    ) -> Result<(Self, LedgerThread), OpenError> {
        let connection = schema::open(path)?;
        let unusable = |error| OpenError::Unusable { path: path.to_owned(), error };
        let newest = row::newest_submission(&connection).map_err(unusable)?;
        let unfinished = row::list_running(&connection).map_err(unusable)?;
        let accepted = AcceptedTasks::open(private_dir)
            .and_then(|accepted| {
                accepted.retain(&unfinished.iter().map(RecordName::of).collect()).map(|()| accepted)
            })
            .map_err(|error| OpenError::PrivateDir {
                dir: private_dir.unwrap_or(Path::new("")).to_owned(),
                error,
            })?;
        let (commands, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let clock = Clock::after(newest.as_ref());
        let running = RunningExecutions::new(accepted, shutdown);
        let worker = Worker { connection, clock, running, commands: receiver };
        let builder = std::thread::Builder::new().name("ledger".into()).stack_size(512 << 10);
        let thread = builder.spawn(move || worker.run()).map_err(OpenError::Thread)?;
        Ok((Self { commands: commands.clone() }, LedgerThread { commands, thread }))
    }

    async fn request_with_timeout<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let reply = self.request(command);
        tokio::time::timeout(COMMAND_TIMEOUT, reply).await.map_err(|_| Error::Timeout)?
    }

    async fn request<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let (sender, reply) = oneshot::channel();
        self.commands.send(command(sender)).await.map_err(|_| Error::Closed)?;
        reply.await.map_err(|_| Error::Closed)?
    }

    /// Submits a task with a canonical ID, unless `max_running` executions are in progress. The caller must wait for the reply,
    /// however long it takes: a started task that is never executed would stay running forever.
    pub async fn submit(
        &self,
        id: String,
        task_type: TaskType,
        params: Option<RawJson>,
        caller: Option<String>,
        max_running: u32,
    ) -> Result<SubmitOutcome, Error> {
        self.request(|reply| Command::Submit { id, task_type, params, caller, max_running, reply }).await
    }

    /// Resumes the execution of a task that a previous process did not finish.
    pub async fn resume(&self, row: TaskRow) -> Result<Execution, Error> {
        self.request_with_timeout(|reply| Command::Resume { row, reply }).await
    }

    /// Stores the result of an execution; an error marks the task as failed. Returns false if the task was deleted or submitted
    /// again since.
    pub async fn finish(
        &self,
        execution: &Execution,
        result: Option<RawJson>,
        error: Option<String>,
    ) -> Result<bool, Error> {
        let (id, submitted_at) = (execution.id.clone(), execution.submitted_at.clone());
        self.request_with_timeout(|reply| Command::Finish { id, submitted_at, result, error, reply }).await
    }

    /// Returns a task.
    pub async fn get(&self, id: &str) -> Result<Option<TaskRow>, Error> {
        self.request_with_timeout(|reply| Command::Get { id: id.to_owned(), reply }).await
    }

    /// Returns the newest 100 tasks, newest first.
    pub async fn list_newest(&self) -> Result<Vec<TaskRow>, Error> {
        self.request_with_timeout(|reply| Command::ListNewest { limit: LIST_LIMIT, reply }).await
    }

    /// Returns the tasks that are running according to the ledger, oldest first.
    pub async fn list_unfinished(&self) -> Result<Vec<UnfinishedTask>, Error> {
        self.request_with_timeout(|reply| Command::ListUnfinished { reply }).await
    }

    /// Returns the last submission time of a task type, whatever the state of the task.
    pub async fn last_submitted(&self, task_type: TaskType) -> Result<Option<StoredTime>, Error> {
        self.request_with_timeout(|reply| Command::LastSubmitted { task_type, reply }).await
    }

    /// Deletes and cancels a task; returns false if it does not exist.
    pub async fn delete(&self, id: &str) -> Result<bool, Error> {
        self.request_with_timeout(|reply| Command::Delete { id: id.to_owned(), reply }).await
    }

    /// Deletes and cancels all tasks of a type; returns how many.
    pub async fn delete_type(&self, task_type: TaskType) -> Result<usize, Error> {
        self.request_with_timeout(|reply| Command::DeleteType { task_type, reply }).await
    }

    /// Deletes a batch of tasks that finished before a time, except the newest task of one type; returns how many.
    pub async fn prune(&self, before: StoredTime, keep_newest: TaskType) -> Result<usize, Error> {
        self.request_with_timeout(|reply| Command::Prune { before, keep_newest, reply }).await
    }

    /// Fails if the ledger does not respond in time.
    pub async fn ping(&self, timeout: Duration) -> Result<(), Error> {
        let reply = self.request_with_timeout(|reply| Command::Ping { reply });
        tokio::time::timeout(timeout, reply).await.map_err(|_| Error::Timeout)?
    }
}
