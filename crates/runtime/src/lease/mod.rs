//! Leader election with a Lease. Standby processes keep their watches running. A leader that loses the Lease stops writing at
//! once and stands by again instead of exiting, so that a short API server outage does not restart the process.

mod claim;
mod leading;
mod record;

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::claim::{Claim, NotLeading};
pub(crate) use self::leading::run_while_leading;
use self::record::RenewalObserver;
use crate::liveness::Liveness;
use crate::metrics::{Metrics, NameLabels};

/// The Lease to hold, and its timing.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Holder identity. It must be unique among all candidates.
    pub identity: String,
    /// How long other candidates wait after our last renewal before they take the Lease.
    pub duration: Duration,
    /// How long after our last renewal we still write. The rest of `duration` covers writes in flight and clock drift.
    pub renew_deadline: Duration,
    /// Time between two attempts to acquire or renew the Lease.
    pub retry_period: Duration,
}

impl Config {
    /// Returns a configuration with default timing, which survives an API server outage of half a minute.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(45),
            retry_period: Duration::from_secs(5),
        }
    }

    /// Rejects timing with which two processes could lead at once.
    pub fn check(&self) -> Result<(), String> {
        if self.retry_period.is_zero()
            || self.retry_period >= self.renew_deadline
            || self.renew_deadline >= self.duration
        {
            return Err(format!(
                "invalid lease timing: expected retry period ({:?}) < renew deadline ({:?}) < lease duration ({:?})",
                self.retry_period, self.renew_deadline, self.duration
            ));
        }
        Ok(())
    }
}

/// The leadership as known to this process.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// The Lease was not read yet.
    Unknown,
    /// This process stands by. Names the current holder, if there is one.
    Waiting(Option<String>),
    /// This process leads.
    Leading(Claim),
}

/// Acquires and renews a Lease until it is stopped.
#[derive(Debug)]
pub struct LeaderElector {
    api: Api<LeaseObject>,
    config: Config,
    leadership: watch::Sender<Leadership>,
    metrics: Metrics,
    progress: Liveness,
}

impl LeaderElector {
    /// Creates an elector and a receiver for its leadership.
    #[must_use]
    pub fn new(client: Client, config: Config, metrics: &Metrics) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, receiver) = watch::channel(Leadership::Unknown);
        let api = Api::namespaced(client, &config.namespace);
        let progress =
            Liveness::new(format!("lease {}/{}", config.namespace, config.name), config.duration * 5);
        (Self { api, config, leadership, metrics: metrics.clone(), progress }, receiver)
    }

    /// Returns its liveness, for the admin server.
    #[must_use]
    pub fn progress(&self) -> Liveness {
        self.progress.clone()
    }

    /// Runs until `stop` is cancelled, then releases the Lease if this process holds it.
    pub async fn run(self, stop: CancellationToken) {
        let mut observer = RenewalObserver::default();
        while !stop.is_cancelled() {
            let sent = Instant::now();
            if let Some(lease) = self.try_acquire(&mut observer).await {
                let claim = Claim::until(sent + self.config.renew_deadline);
                self.lead(lease, claim, &stop).await;
                observer = RenewalObserver::default();
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.config.retry_period) => {}
            }
        }
    }

    /// Reads the Lease and acquires it if it is free or expired.
    async fn try_acquire(&self, observer: &mut RenewalObserver) -> Option<LeaseObject> {
        let current = match self.send(self.api.get_opt(&self.config.name)).await {
            Ok(current) => current,
            Err(error) => return self.record_failure(error),
        };
        let acquired = match current {
            None => self.send(self.api.create(&PostParams::default(), &self.hold(self.new_lease()))).await,
            Some(lease) => {
                let holder = record::holder(&lease).map(str::to_owned);
                let is_free = holder.as_deref().is_none_or(|holder| holder == self.config.identity)
                    || observer.observe_expiry(&lease, self.config.duration, Instant::now());
                if !is_free {
                    self.progress.record_success();
                    self.publish(Leadership::Waiting(holder));
                    return None;
                }
                let name = self.config.name.clone();
                self.send(self.api.replace(&name, &PostParams::default(), &self.hold(lease))).await
            }
        };
        match acquired {
            Ok(lease) => Some(lease),
            Err(error) => self.record_failure(error),
        }
    }

    /// Leads until the claim expires, another process takes the Lease, or `stop` is cancelled.
    async fn lead(&self, mut lease: LeaseObject, claim: Claim, stop: &CancellationToken) {
        tracing::info!(lease = self.config.name, identity = self.config.identity, "acquired lease");
        self.progress.record_success();
        self.publish(Leadership::Leading(claim.clone()));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(self.config.retry_period) => {}
            }
            if claim.check().is_err() {
                tracing::warn!(lease = self.config.name, "lost lease: renew deadline exceeded");
                break;
            }
            let sent = Instant::now();
            match self.renew(lease.clone()).await {
                Ok(Some(renewed)) => {
                    lease = renewed;
                    claim.extend(sent + self.config.renew_deadline);
                    self.progress.record_success();
                }
                Ok(None) => {
                    tracing::warn!(lease = self.config.name, "lost lease: another process holds it");
                    break;
                }
                Err(error) => drop(self.progress.record_failure(error)),
            }
        }
        let is_ours = claim.check().is_ok();
        claim.release();
        self.publish(Leadership::Waiting(None));
        if is_ours && stop.is_cancelled() {
            self.release(lease).await;
        }
    }

    /// Renews the Lease. Returns `None` if another process holds it.
    async fn renew(&self, lease: LeaseObject) -> Result<Option<LeaseObject>, String> {
        let name = &self.config.name;
        match self.send(self.api.replace(name, &PostParams::default(), &self.hold(lease))).await {
            Ok(lease) => Ok(Some(lease)),
            // The Lease may have changed without changing hands: a label was set, or the response to our own renewal was lost.
            Err(error) => match self.send(self.api.get(name)).await {
                Ok(current) if record::holder(&current) == Some(&self.config.identity) => self
                    .send(self.api.replace(name, &PostParams::default(), &self.hold(current)))
                    .await
                    .map(Some),
                Ok(_) => Ok(None),
                Err(_) => Err(error),
            },
        }
    }

    async fn release(&self, lease: LeaseObject) {
        let lease = record::release(lease, Timestamp::now());
        match self.send(self.api.replace(&self.config.name, &PostParams::default(), &lease)).await {
            Ok(_) => tracing::info!(lease = self.config.name, "released lease"),
            Err(error) => {
                tracing::warn!(lease = self.config.name, error, "failed to release lease; it will expire");
            }
        }
    }

    /// Sends a request with the retry period as its timeout: a slow response must not use up the time that the claim has left.
    async fn send<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
        match tokio::time::timeout(self.config.retry_period, request).await {
            Ok(response) => response.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no response within {:?}", self.config.retry_period)),
        }
    }

    fn hold(&self, lease: LeaseObject) -> LeaseObject {
        record::hold(lease, &self.config.identity, self.config.duration, Timestamp::now())
    }

    fn new_lease(&self) -> LeaseObject {
        let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
        LeaseObject { metadata, ..LeaseObject::default() }
    }

    fn publish(&self, leadership: Leadership) {
        let is_leader = i64::from(matches!(leadership, Leadership::Leading(_)));
        self.metrics.leader.get_or_create(&NameLabels { name: self.config.name.clone() }).set(is_leader);
        self.leadership.send_replace(leadership);
    }

    fn record_failure<T>(&self, error: String) -> Option<T> {
        tracing::debug!(lease = self.config.name, error, "failed to read or acquire lease");
        self.progress.record_failure(error);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_that_allows_two_leaders_is_rejected() {
        let good = Config::new("a", "b", "c");
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Config { renew_deadline: Duration::from_secs(60), ..good.clone() },
            Config { retry_period: Duration::from_secs(45), ..good.clone() },
            Config { retry_period: Duration::ZERO, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
