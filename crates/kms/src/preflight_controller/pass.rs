//! One pass: observe, decide, act, record.

use std::time::Duration;

use api::names::kms::preflight as names;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, ResourceExt};
use plan::kms::plugin::Refusal;
use plan::kms::preflight::{Act, Decision, SeenPod, Situation, Trouble, decide};
use runtime::lease::Claim;
use runtime::write::Writer;

use super::act::{Try, clean_up, deploy};
use super::args::Settings;
use super::record;
use super::world::{World, nodes, observe};

/// Why a pass was not finished. The next one begins anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Error {
    /// Something could not be read.
    #[error("reading {what}: {source}")]
    Read { what: &'static str, source: Box<kube::Error> },
    /// Something could not be written.
    #[error("{0}")]
    Write(String),
    /// Something could not be rendered.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing was sent.
    #[error(transparent)]
    Unsent(#[from] runtime::write::Error),
    /// Another process leads.
    #[error(transparent)]
    NotLeading(#[from] runtime::lease::NotLeading),
}

impl Error {
    pub(super) fn reading(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Read { what, source: Box::new(source) }
    }
}

/// What is remembered between passes. Lost with the process, it costs a wait.
#[derive(Debug, Default)]
pub(super) struct Memory {
    honoured: Option<String>,
    begun: Option<(String, u32)>,
    failed_since: Option<(String, Timestamp)>,
}

/// What a pass works with.
pub(super) struct Controller {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) writer: Writer,
    pub(super) claim: Claim,
    pub(super) memory: Memory,
}

impl Controller {
    /// One pass; when to look again at the latest.
    pub(super) async fn pass(&mut self) -> Result<Option<Duration>, Error> {
        let (world, refusal) = observe(&self.client, &self.settings).await?;
        let decision = match refusal {
            // What is asked for cannot be checked. Nothing is removed for it: the configuration may be half written.
            Some(Refusal(why)) => {
                let degraded = Some(Trouble { reason: "Error".into(), message: why });
                Decision { act: Act::Nothing, prove: None, degraded, progressing: None, again: None }
            }
            None => self.decide(&world),
        };
        self.claim.check()?;
        self.prove(&world, &decision).await?;
        let acted = self.act(&world, &decision.act).await;
        let (degraded, progressing) = match &acted {
            Ok(()) => (decision.degraded, decision.progressing),
            Err(error) => (Some(Trouble { reason: "Error".into(), message: error.to_string() }), None),
        };
        // What was stored has changed the resource: it is read again, so that a condition is not judged by what was.
        let operator = if decision.prove.is_some() {
            let read = self.settings.kind.api(&self.client).get(super::resource::NAME).await;
            read.map_err(Error::reading("the operator's resource"))?
        } else {
            world.operator
        };
        let (client, kind) = (&self.client, self.settings.kind);
        record::tell(client, kind, &operator, degraded.as_ref(), progressing.as_deref()).await?;
        acted.map(|()| decision.again)
    }

    fn decide(&mut self, world: &World) -> Decision {
        let wanted = world.candidate.as_ref().map(|(wanted, _)| wanted);
        let stored = self.settings.kind.stored(&world.operator);
        let hash = wanted.map(|wanted| wanted.hash.as_str());
        let failed =
            stored.as_ref().is_some_and(|stored| !stored.succeeded && Some(stored.hash.as_str()) == hash);
        let now = Timestamp::now();
        self.remember(hash, failed, now);
        let pods: Vec<SeenPod> = world.pods.iter().map(SeenPod::of).collect();
        decide(&Situation {
            wanted,
            stored: stored.as_ref(),
            pods: &pods,
            retry: world.operator.annotations().get(names::RETRY_ANNOTATION).map(String::as_str),
            honoured: self.memory.honoured.as_deref(),
            begun: self.memory.begun.as_ref().map(|(_, attempt)| *attempt),
            failed_since: self.memory.failed_since.as_ref().map(|(_, since)| *since),
            retry_after: &self.settings.retry_after,
            now,
        })
    }

    /// Forgets what was of another hash.
    fn remember(&mut self, hash: Option<&str>, failed: bool, now: Timestamp) {
        let Memory { begun, failed_since, .. } = &mut self.memory;
        *begun = begun.take().filter(|(of, _)| Some(of.as_str()) == hash);
        *failed_since = failed_since.take().filter(|(of, _)| failed && Some(of.as_str()) == hash);
        if let (true, None, Some(hash)) = (failed, &failed_since, hash) {
            *failed_since = Some((hash.to_owned(), now));
        }
    }

    async fn prove(&self, world: &World, decision: &Decision) -> Result<(), Error> {
        let (Some(proved), Some((wanted, _))) = (&decision.prove, &world.candidate) else { return Ok(()) };
        record::store(&self.client, self.settings.kind, &world.operator, &wanted.hash, proved).await?;
        tracing::info!(hash = wanted.hash, succeeded = proved.succeeded, "the configuration was checked");
        Ok(())
    }

    async fn act(&mut self, world: &World, act: &Act) -> Result<(), Error> {
        match act {
            Act::Nothing => Ok(()),
            Act::CleanUp => clean_up(&self.writer, world).await,
            Act::Deploy { attempt } => {
                let Some((wanted, content)) = &world.candidate else { return Ok(()) };
                let retry = world.operator.annotations().get(names::RETRY_ANNOTATION).cloned();
                clean_up(&self.writer, world).await?;
                self.memory.begun = Some((wanted.hash.clone(), *attempt));
                if !world.pods.is_empty() {
                    // The next look, which their end brings, makes pods anew: two cannot have one name.
                    return Ok(());
                }
                let this = Try { attempt: *attempt, retry: retry.as_deref() };
                let nodes = nodes(&self.client, &self.settings.place).await?;
                deploy(&self.writer, &self.settings.place, &nodes, wanted, content, &this).await?;
                tracing::info!(hash = wanted.hash, attempt, ?nodes, "a check of the configuration has begun");
                self.memory.begun = None;
                self.memory.honoured = retry;
                Ok(())
            }
        }
    }
}
