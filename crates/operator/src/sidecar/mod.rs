//! Calls of sidecars. They run in the background and never block a reconcile: a result that takes longer than a moment is kept
//! for the next reconcile of the node, and triggers it.

mod calls;
mod client;
mod connection;
mod error;
mod legacy_token;
mod previous_certificates;
mod response;
mod token;
mod verifier;

use std::fmt;
use std::sync::Arc;

use api::sidecar_wire::TaskRequest;
use plan::node::{
    ChainObservation, DryRunObservation, Health, SecretObservation, ServingObservation, Submission,
    TaskObservation, Transport,
};
use runtime::Key;
use runtime::lease::Claim;

use self::calls::{Call, CallResult, Calls, FencedTask};
pub use self::client::Client;
pub use self::error::{CallError, TokenError};
pub use self::token::TokenSource;

/// The sidecars of all nodes. Clones share their state.
#[derive(Clone)]
pub struct Sidecars {
    calls: Arc<Calls>,
}

impl Sidecars {
    /// Creates sidecars that are called with this client. `wake` gets the key of a node when a result arrives after its
    /// reconcile stopped waiting for it; it must not block.
    #[must_use]
    pub fn new(client: Client, wake: impl Fn(Key) + Send + Sync + 'static) -> Self {
        Self { calls: Arc::new(Calls::new(client, wake)) }
    }

    /// Probes whether a node's sidecar lets seid run. Returns [`Health::Unknown`] while the response is pending.
    pub async fn probe_health(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
    ) -> Health {
        match self.call(node, to, secret, Call::ProbeHealth).await {
            Ok(Some(CallResult::Health(health))) => health,
            Ok(_) => Health::Unknown,
            Err(error) => Health::Unreachable(error.to_string()),
        }
    }

    /// Reads the state of a task. Returns [`TaskObservation::Unknown`] while the response is pending.
    pub async fn get_task(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
        id: &str,
    ) -> TaskObservation {
        let task = match self.call(node, to, secret, Call::GetTask(id.to_owned())).await {
            Ok(Some(CallResult::Task(task))) => task,
            Ok(_) => TaskObservation::Unknown,
            Err(error) => TaskObservation::Unreachable(error.to_string()),
        };
        if let TaskObservation::Found(_) = task {
            self.calls.discard_submission(node, id);
        }
        task
    }

    /// Submits a task, while the claim is valid: two leaders must not run tasks on one node. Returns [`Submission::Pending`] while the
    /// response is pending; the same call in the next reconcile returns that response and submits nothing twice.
    pub async fn submit_task(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
        task: &TaskRequest,
        claim: &Claim,
    ) -> Submission {
        let fenced = FencedTask { task: task.clone(), claim: claim.clone() };
        match self.call(node, to, secret, Call::SubmitTask(fenced)).await {
            Ok(Some(CallResult::Submission(submission))) => submission,
            Ok(_) => Submission::Pending,
            Err(error) => Submission::Unknown(error.to_string()),
        }
    }

    /// Probes whether a node's sidecar serves as the transport says. Returns [`ServingObservation::Unknown`] while the response is
    /// pending.
    pub async fn probe_serving(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
    ) -> ServingObservation {
        match self.call(node, to, secret, Call::ProbeServing).await {
            Ok(Some(CallResult::Serving(serving))) => serving,
            Ok(_) => ServingObservation::Unknown,
            Err(error) => ServingObservation::Mismatch(error.to_string()),
        }
    }

    /// Reads the state of the chain, and the app hash after the block at `app_hash_at`. Returns [`ChainObservation::Unknown`] while
    /// the response is pending. A response that arrives late is returned by the next call, whatever height that asks for.
    pub async fn get_chain(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
        app_hash_at: Option<i64>,
    ) -> ChainObservation {
        match self.call(node, to, secret, Call::GetChain(app_hash_at)).await {
            Ok(Some(CallResult::Chain(chain))) => chain,
            Ok(_) => ChainObservation::Unknown,
            Err(error) => ChainObservation::Unavailable(error.to_string()),
        }
    }

    /// Asks whether a task would succeed, without executing it. Returns [`DryRunObservation::Unknown`] while the response is pending.
    pub async fn dry_run(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
        task: &TaskRequest,
    ) -> DryRunObservation {
        match self.call(node, to, secret, Call::DryRun(task.clone())).await {
            Ok(Some(CallResult::DryRun(answer))) => answer,
            Ok(_) => DryRunObservation::Unknown,
            Err(error) => DryRunObservation::Unavailable(error.to_string()),
        }
    }

    /// Drops what is kept for a deleted node, and cancels its calls.
    pub fn forget(&self, node: &Key) {
        self.calls.forget(node);
    }

    /// Returns the number of calls that are running or have an unread result: for `/debug/state.json`.
    #[must_use]
    pub fn call_count(&self) -> usize {
        self.calls.len()
    }

    async fn call(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretObservation>,
        call: Call,
    ) -> Result<Option<CallResult>, CallError> {
        let endpoint = self.calls.client().endpoint(node, to, secret)?;
        Ok(self.calls.run(node, endpoint, call).await)
    }
}

impl fmt::Debug for Sidecars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sidecars").field("calls", &self.call_count()).finish_non_exhaustive()
    }
}
