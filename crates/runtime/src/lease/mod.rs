//! One leader among several processes. Those that wait keep their watches warm; the one that leads and loses its lease
//! stops writing at once and waits again, instead of ending: an API server that hiccups is no reason to restart.

mod claim;
mod record;

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::claim::{Claim, NotLeading};
use self::record::Sight;
use crate::metrics::{ByName, Metrics};
use crate::progress::Progress;

/// Which Lease, and how long things take.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are: unique among the processes that want it.
    pub identity: String,
    /// How long others wait after our last renewal before they take it.
    pub duration: Duration,
    /// How long after our last renewal we still write. The rest of the duration is for a write that is on its way, and
    /// for clocks that run at different speeds.
    pub write_for: Duration,
    /// Time between two looks or renewals.
    pub every: Duration,
}

impl Config {
    /// The house's times: a lease is not lost by an API server that is away for half a minute.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(60),
            write_for: Duration::from_secs(45),
            every: Duration::from_secs(5),
        }
    }

    /// Refuses times that do not keep leaders apart.
    pub fn check(&self) -> Result<(), String> {
        if self.every.is_zero() || self.every >= self.write_for || self.write_for >= self.duration {
            return Err(format!(
                "lease times must grow: between renewals ({:?}) < writing after the last renewal ({:?}) < duration ({:?})",
                self.every, self.write_for, self.duration
            ));
        }
        Ok(())
    }
}

/// Who leads, as far as this process knows.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// Nothing is known yet.
    Unknown,
    /// Another process, or nobody; we wait.
    Waiting(Option<String>),
    /// This process.
    Leading(Claim),
}

/// Campaigns for a Lease until it is stopped.
#[derive(Debug)]
pub struct Campaign {
    api: Api<LeaseObject>,
    config: Config,
    told: watch::Sender<Leadership>,
    metrics: Metrics,
    progress: Progress,
}

impl Campaign {
    /// A campaign, and the place to read who leads.
    #[must_use]
    pub fn new(client: Client, config: Config, metrics: &Metrics) -> (Self, watch::Receiver<Leadership>) {
        let (told, reader) = watch::channel(Leadership::Unknown);
        let api = Api::namespaced(client, &config.namespace);
        let progress =
            Progress::new(format!("lease {}/{}", config.namespace, config.name), config.duration * 5);
        (Self { api, config, told, metrics: metrics.clone(), progress }, reader)
    }

    /// How it is doing.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Campaigns until `stop`, then gives the Lease back if it is ours.
    pub async fn run(self, stop: CancellationToken) {
        let mut sight = Sight::default();
        while !stop.is_cancelled() {
            let sent = Instant::now();
            if let Some(lease) = self.try_to_take(&mut sight).await {
                let claim = Claim::until(sent + self.config.write_for);
                self.lead(lease, claim, &stop).await;
                sight = Sight::default();
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.config.every) => {}
            }
        }
    }

    /// Looks at the Lease and takes it if it may be taken.
    async fn try_to_take(&self, sight: &mut Sight) -> Option<LeaseObject> {
        let seen = match self.within(self.api.get_opt(&self.config.name)).await {
            Ok(seen) => seen,
            Err(why) => return self.trouble(why),
        };
        let taken = match seen {
            None => self.within(self.api.create(&PostParams::default(), &self.ours(self.empty()))).await,
            Some(lease) => {
                let holder = record::holder(&lease).map(str::to_owned);
                let free = holder.as_deref().is_none_or(|holder| holder == self.config.identity)
                    || sight.has_ended(&lease, self.config.duration, Instant::now());
                if !free {
                    self.progress.made();
                    self.tell(Leadership::Waiting(holder));
                    return None;
                }
                let name = self.config.name.clone();
                self.within(self.api.replace(&name, &PostParams::default(), &self.ours(lease))).await
            }
        };
        match taken {
            Ok(lease) => Some(lease),
            Err(why) => self.trouble(why),
        }
    }

    /// Leads until the claim ends: because it could not be renewed in time, somebody else took it, or we are to stop.
    async fn lead(&self, mut lease: LeaseObject, claim: Claim, stop: &CancellationToken) {
        tracing::info!(lease = self.config.name, identity = self.config.identity, "leading");
        self.progress.made();
        self.tell(Leadership::Leading(claim.clone()));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(self.config.every) => {}
            }
            if claim.check().is_err() {
                tracing::warn!(
                    lease = self.config.name,
                    "the lease could not be renewed in time; waiting for it again"
                );
                break;
            }
            let sent = Instant::now();
            match self.renew(lease.clone()).await {
                Ok(Some(renewed)) => {
                    lease = renewed;
                    claim.extend(sent + self.config.write_for);
                    self.progress.made();
                }
                Ok(None) => {
                    tracing::warn!(
                        lease = self.config.name,
                        "another process has taken the lease; waiting for it again"
                    );
                    break;
                }
                Err(why) => drop(self.progress.failed(why)),
            }
        }
        let still_ours = claim.check().is_ok();
        claim.end();
        self.tell(Leadership::Waiting(None));
        if still_ours && stop.is_cancelled() {
            self.give_back(lease).await;
        }
    }

    /// Renews the Lease: the new one, or nothing when it is not ours any more.
    async fn renew(&self, lease: LeaseObject) -> Result<Option<LeaseObject>, String> {
        let name = &self.config.name;
        match self.within(self.api.replace(name, &PostParams::default(), &self.ours(lease))).await {
            Ok(lease) => Ok(Some(lease)),
            // Somebody has written it: perhaps only a label, perhaps it was ourselves and the answer was lost.
            Err(why) => match self.within(self.api.get(name)).await {
                Ok(now) if record::holder(&now) == Some(&self.config.identity) => self
                    .within(self.api.replace(name, &PostParams::default(), &self.ours(now)))
                    .await
                    .map(Some),
                Ok(_) => Ok(None),
                Err(_) => Err(why),
            },
        }
    }

    async fn give_back(&self, lease: LeaseObject) {
        let lease = record::given_back(lease, Timestamp::now());
        match self.within(self.api.replace(&self.config.name, &PostParams::default(), &lease)).await {
            Ok(_) => tracing::info!(lease = self.config.name, "gave the lease back"),
            Err(why) => tracing::warn!(
                lease = self.config.name,
                why,
                "could not give the lease back; it ends by itself"
            ),
        }
    }

    /// One request has as much time as lies between two: a slow answer must not eat the time that the claim has left.
    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
        match tokio::time::timeout(self.config.every, request).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.config.every)),
        }
    }

    fn ours(&self, lease: LeaseObject) -> LeaseObject {
        record::held(lease, &self.config.identity, self.config.duration, Timestamp::now())
    }

    fn empty(&self) -> LeaseObject {
        let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
        LeaseObject { metadata, ..LeaseObject::default() }
    }

    fn tell(&self, leadership: Leadership) {
        let leads = i64::from(matches!(leadership, Leadership::Leading(_)));
        self.metrics.leader.get_or_create(&ByName { name: self.config.name.clone() }).set(leads);
        self.told.send_replace(leadership);
    }

    fn trouble<T>(&self, why: String) -> Option<T> {
        tracing::debug!(lease = self.config.name, why, "the lease cannot be read or taken");
        self.progress.failed(why);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_do_not_keep_leaders_apart_are_refused() {
        let good = Config::new("a", "b", "c");
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Config { write_for: Duration::from_secs(60), ..good.clone() },
            Config { every: Duration::from_secs(45), ..good.clone() },
            Config { every: Duration::ZERO, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
