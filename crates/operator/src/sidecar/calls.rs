//! Background calls of sidecars: one of each kind per node, a bounded number at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::sidecar_wire::TaskRequest;
use plan::node::{
    ChainObservation, DryRunObservation, Health, ServingObservation, Submission, TaskObservation,
};
use runtime::Key;
use runtime::lease::Claim;
use runtime::sync::lock;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::client::Client;
use super::connection::Endpoint;

/// How long a reconcile waits for a result.
const WAIT: Duration = Duration::from_millis(250);

/// How long an unread result stays valid: the reconcile that it triggers follows immediately.
const RESULT_TTL: Duration = Duration::from_secs(10);

/// How many calls run at a time; the others are queued. A thousand sidecars that hang must not hold a thousand connections.
const MAX_CONCURRENT: usize = 256;

/// How many calls are kept, running or with an unread result. A call beyond that is made by a later reconcile.
const MAX_ENTRIES: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallKind {
    ProbeHealth,
    GetTask,
    SubmitTask,
    ProbeServing,
    GetChain,
    DryRun,
}

impl CallKind {
    const ALL: [Self; 6] = [
        Self::ProbeHealth,
        Self::GetTask,
        Self::SubmitTask,
        Self::ProbeServing,
        Self::GetChain,
        Self::DryRun,
    ];
}

/// A call with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    ProbeHealth,
    GetTask(String),
    SubmitTask(FencedTask),
    ProbeServing,
    GetChain(Option<i64>),
    DryRun(TaskRequest),
}

/// A task, and the claim that permits to submit it.
#[derive(Clone, Debug)]
pub(super) struct FencedTask {
    pub(super) task: TaskRequest,
    pub(super) claim: Claim,
}

/// The same task is submitted once, whichever claim permits it.
impl PartialEq for FencedTask {
    fn eq(&self, other: &Self) -> bool {
        self.task == other.task
    }
}

impl Call {
    fn kind(&self) -> CallKind {
        match self {
            Self::ProbeHealth => CallKind::ProbeHealth,
            Self::GetTask(_) => CallKind::GetTask,
            Self::SubmitTask(_) => CallKind::SubmitTask,
            Self::ProbeServing => CallKind::ProbeServing,
            Self::GetChain(_) => CallKind::GetChain,
            Self::DryRun(_) => CallKind::DryRun,
        }
    }

    /// Returns whether the result of this call is also one of `other`. The height of an app hash does not matter: it may differ in
    /// every reconcile, and a call that each reconcile replaces would never return a result.
    fn is_result_for(&self, other: &Self) -> bool {
        self == other || matches!((self, other), (Self::GetChain(_), Self::GetChain(_)))
    }
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(super) enum CallResult {
    Health(Health),
    Task(TaskObservation),
    Submission(Submission),
    Serving(ServingObservation),
    Chain(ChainObservation),
    DryRun(DryRunObservation),
}

/// A node, and the kind of call: the key of an entry.
type EntryKey = (Key, CallKind);

/// A call that is running or has an unread result.
struct Entry {
    /// Distinguishes this call from a later one under the same key.
    number: u64,
    endpoint: Endpoint,
    call: Call,
    /// Whether the reconcile stopped waiting for the result.
    is_late: bool,
    result: Option<(CallResult, Instant)>,
    finished: Arc<Notify>,
    task: Option<AbortHandle>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        match &self.result {
            Some((_, at)) => at.elapsed() < RESULT_TTL,
            // A task that ended without a result never has one.
            None => self.task.as_ref().is_none_or(|task| !task.is_finished()),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[derive(Default)]
struct Entries {
    last_number: u64,
    by_key: HashMap<EntryKey, Entry>,
}

/// The background calls of all nodes.
pub(super) struct Calls {
    client: Client,
    wake: Box<dyn Fn(Key) + Send + Sync>,
    entries: Mutex<Entries>,
    permits: Semaphore,
}

impl Calls {
    pub(super) fn new(client: Client, wake: impl Fn(Key) + Send + Sync + 'static) -> Self {
        Self {
            client,
            wake: Box::new(wake),
            entries: Mutex::default(),
            permits: Semaphore::new(MAX_CONCURRENT),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        lock(&self.entries).by_key.len()
    }

    /// Starts a call and waits a moment for its result. If there is none by then, the node is woken when it arrives.
    pub(super) async fn run(
        self: &Arc<Self>,
        node: &Key,
        endpoint: Endpoint,
        call: Call,
    ) -> Option<CallResult> {
        let key = (node.clone(), call.kind());
        let pending = self.start(&key, endpoint, call)?;
        // A timeout needs no handling: the entry has the result, or is still pending.
        let _ = timeout(WAIT, pending.wait()).await;
        self.take_result(&key)
    }

    /// Cancels the calls of a node, and drops what is kept for it.
    pub(super) fn forget(&self, node: &Key) {
        let mut entries = lock(&self.entries);
        for kind in CallKind::ALL {
            entries.by_key.remove(&(node.clone(), kind));
        }
        drop(entries);
        self.client.forget(node);
    }

    /// Discards the result of a submission, once the sidecar knows the task. A kept one would be taken for the response to the
    /// next attempt of the same task.
    pub(super) fn discard_submission(&self, node: &Key, id: &str) {
        let mut entries = lock(&self.entries);
        let key = (node.clone(), CallKind::SubmitTask);
        let is_outdated = entries.by_key.get(&key).is_some_and(|entry| {
            let same =
                matches!(&entry.call, Call::SubmitTask(fenced) if fenced.task.id.as_deref() == Some(id));
            same && entry.result.is_some()
        });
        if is_outdated {
            entries.by_key.remove(&key);
        }
    }

    /// Starts a call, unless the same one is running or has a fresh result. Returns `None` when there are too many entries.
    fn start(self: &Arc<Self>, key: &EntryKey, endpoint: Endpoint, call: Call) -> Option<Pending> {
        let mut entries = lock(&self.entries);
        let Entries { last_number, by_key } = &mut *entries;
        if let Some(entry) = by_key.get_mut(key) {
            if entry.endpoint == endpoint && entry.call.is_result_for(&call) && entry.is_fresh() {
                entry.is_late = false;
                return Some(Pending {
                    finished: entry.finished.clone(),
                    is_finished: entry.result.is_some(),
                });
            }
            by_key.remove(key);
        }
        if by_key.len() >= MAX_ENTRIES {
            by_key.retain(|_, entry| entry.is_fresh());
        }
        if by_key.len() >= MAX_ENTRIES {
            return None;
        }
        *last_number += 1;
        let number = *last_number;
        // A Notify stores one permit, so that a wait after the notification returns, too.
        let finished = Arc::new(Notify::new());
        let mut entry = Entry {
            number,
            endpoint: endpoint.clone(),
            call: call.clone(),
            is_late: false,
            result: None,
            finished: finished.clone(),
            task: None,
        };
        let task = tokio::spawn(self.clone().execute(key.clone(), number, endpoint, call));
        entry.task = Some(task.abort_handle());
        by_key.insert(key.clone(), entry);
        Some(Pending { finished, is_finished: false })
    }

    async fn execute(self: Arc<Self>, key: EntryKey, number: u64, endpoint: Endpoint, call: Call) {
        // The semaphore is never closed.
        let Ok(_permit) = self.permits.acquire().await else { return };
        let client = &self.client;
        let result = match &call {
            Call::ProbeHealth => CallResult::Health(client.probe_health(&endpoint).await),
            Call::GetTask(id) => CallResult::Task(client.get_task(&endpoint, id).await),
            // Checked after the wait for a permit: this process may have lost the Lease in the meantime.
            Call::SubmitTask(FencedTask { task, claim }) => CallResult::Submission(match claim.check() {
                Ok(()) => client.submit_task(&endpoint, task).await,
                Err(error) => Submission::Unknown(error.to_string()),
            }),
            Call::ProbeServing => CallResult::Serving(client.probe_serving(&endpoint).await),
            Call::GetChain(app_hash_at) => CallResult::Chain(client.get_chain(&endpoint, *app_hash_at).await),
            Call::DryRun(task) => CallResult::DryRun(client.dry_run(&endpoint, task).await),
        };
        let is_late = {
            let mut entries = lock(&self.entries);
            let entry = entries.by_key.get_mut(&key).filter(|entry| entry.number == number);
            // The call was replaced or cancelled.
            let Some(entry) = entry else { return };
            entry.result = Some((result, Instant::now()));
            entry.finished.notify_one();
            entry.is_late
        };
        if is_late {
            (self.wake)(key.0);
        }
    }

    /// Takes the result of a call, or marks the call as late.
    fn take_result(&self, key: &EntryKey) -> Option<CallResult> {
        let mut entries = lock(&self.entries);
        let entry = entries.by_key.get_mut(key)?;
        match entry.result.take() {
            Some((result, _)) => {
                entries.by_key.remove(key);
                Some(result)
            }
            None => {
                entry.is_late = true;
                None
            }
        }
    }
}

/// Waits for the result of a call.
struct Pending {
    finished: Arc<Notify>,
    /// The result is already there.
    is_finished: bool,
}

impl Pending {
    async fn wait(self) {
        if !self.is_finished {
            self.finished.notified().await;
        }
    }
}
