//! One reconcile: observe, decide, act, write status.

use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, ResourceExt};
use plan::kms::plugin::InvalidKmsConfig;
use plan::kms::preflight::{
    Decision, PreflightAction, PreflightInput, PreflightPod, PreflightProblem, decide,
};
use runtime::lease::Claim;
use runtime::write::Writer;

use super::args::Settings;
use super::observe::{Observed, list_nodes, observe};
use super::status;
use super::workload::{Attempt, clean_up, deploy};

/// Why a reconcile failed. The next one starts over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// An object could not be read.
    #[error("reading {what}: {source}")]
    Read { what: &'static str, source: Box<kube::Error> },
    /// An object could not be written.
    #[error("{0}")]
    Write(String),
    /// The check could not be rendered.
    #[error(transparent)]
    Refused(#[from] InvalidKmsConfig),
    /// A request could not be sent.
    #[error(transparent)]
    Unsent(#[from] runtime::write::Error),
    /// Another process is the leader.
    #[error(transparent)]
    NotLeading(#[from] runtime::lease::NotLeading),
}

impl Error {
    pub(super) fn reading(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Read { what, source: Box::new(source) }
    }
}

/// State kept between reconciles. Losing it with the process only costs a wait.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Value of the retry annotation that was last acted on.
    honored_retry: Option<String>,
    /// Hash and number of an attempt that waits for the pods of the previous one to be gone.
    started: Option<(String, u32)>,
    /// Hash of a failed result, and when it was first observed.
    failed_since: Option<(String, Timestamp)>,
}

/// The preflight controller.
pub(super) struct Controller {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) claim: Claim,
    pub(super) memory: Memory,
}

impl Controller {
    /// Reconciles once. Returns after what time at most to reconcile again.
    pub(super) async fn reconcile(&mut self) -> Result<Option<Duration>, Error> {
        let (observed, refusal) = observe(&self.client, &self.settings).await?;
        let decision = match refusal {
            // The configuration cannot be checked. Nothing is deleted: it may be half written.
            Some(InvalidKmsConfig(why)) => {
                let degraded = Some(PreflightProblem { reason: "Error".into(), message: why });
                Decision {
                    action: PreflightAction::Nothing,
                    result: None,
                    degraded,
                    progressing: None,
                    requeue_after: None,
                }
            }
            None => self.decide(&observed),
        };
        self.claim.check()?;
        self.store_result(&observed, &decision).await?;
        let acted = self.act(&observed, &decision.action).await;
        let (degraded, progressing) = match &acted {
            Ok(()) => (decision.degraded, decision.progressing),
            Err(error) => {
                (Some(PreflightProblem { reason: "Error".into(), message: error.to_string() }), None)
            }
        };
        // Storing the result changed the resource: read it again, so that conditions are compared with the current ones.
        let operator = if decision.result.is_some() {
            let resource = self.settings.kind.api(&self.client).get(super::operator_resource::NAME).await;
            resource.map_err(Error::reading("the operator resource"))?
        } else {
            observed.operator
        };
        let (client, kind) = (&self.client, self.settings.kind);
        status::apply_conditions(client, kind, &operator, degraded.as_ref(), progressing.as_deref()).await?;
        acted.map(|()| decision.requeue_after)
    }

    fn decide(&mut self, observed: &Observed) -> Decision {
        let desired = observed.candidate.as_ref().map(|(desired, _)| desired);
        let stored = self.settings.kind.stored_result(&observed.operator);
        let hash = desired.map(|desired| desired.hash.as_str());
        let failed =
            stored.as_ref().is_some_and(|stored| !stored.succeeded && Some(stored.hash.as_str()) == hash);
        let now = Timestamp::now();
        self.update_memory(hash, failed, now);
        let pods: Vec<PreflightPod> = observed.pods.iter().map(PreflightPod::from_pod).collect();
        decide(&PreflightInput {
            requested: desired,
            stored: stored.as_ref(),
            pods: &pods,
            retry: observed.operator.annotations().get(names::RETRY_ANNOTATION).map(String::as_str),
            handled_retry: self.memory.honored_retry.as_deref(),
            pending_attempt: self.memory.started.as_ref().map(|(_, attempt)| *attempt),
            failed_since: self.memory.failed_since.as_ref().map(|(_, since)| *since),
            retry_after: &self.settings.retry_after,
            now,
        })
    }

    /// Drops state of other hashes, and records when a failure was first observed.
    fn update_memory(&mut self, hash: Option<&str>, failed: bool, now: Timestamp) {
        let Memory { started, failed_since, .. } = &mut self.memory;
        *started = started.take().filter(|(of, _)| Some(of.as_str()) == hash);
        *failed_since = failed_since.take().filter(|(of, _)| failed && Some(of.as_str()) == hash);
        if let (true, None, Some(hash)) = (failed, &failed_since, hash) {
            *failed_since = Some((hash.to_owned(), now));
        }
    }

    async fn store_result(&self, observed: &Observed, decision: &Decision) -> Result<(), Error> {
        let (Some(result), Some((desired, _))) = (&decision.result, &observed.candidate) else {
            return Ok(());
        };
        status::store_result(&self.client, self.settings.kind, &observed.operator, &desired.hash, result)
            .await?;
        tracing::info!(hash = desired.hash, succeeded = result.succeeded, "preflight check completed");
        Ok(())
    }

    async fn act(&mut self, observed: &Observed, act: &PreflightAction) -> Result<(), Error> {
        match act {
            PreflightAction::Nothing => Ok(()),
            PreflightAction::CleanUp => clean_up(&self.writer, observed).await,
            PreflightAction::Deploy { attempt } => {
                let Some((desired, content)) = &observed.candidate else { return Ok(()) };
                let retry = observed.operator.annotations().get(names::RETRY_ANNOTATION).cloned();
                clean_up(&self.writer, observed).await?;
                self.memory.started = Some((desired.hash.clone(), *attempt));
                if !observed.pods.is_empty() {
                    // Pod names are fixed. The deletion of the old pods triggers the reconcile that creates the new ones.
                    return Ok(());
                }
                let nodes = list_nodes(&self.client, &self.settings.pod_config).await?;
                let this = Attempt { number: *attempt, retry: retry.as_deref() };
                deploy(&self.writer, &self.settings.pod_config, &nodes, desired, content, &this).await?;
                tracing::info!(hash = desired.hash, attempt, ?nodes, "preflight check started");
                self.memory.started = None;
                self.memory.honored_retry = retry;
                Ok(())
            }
        }
    }
}
