//! Reads and edits Lease objects. Pure: the current time is an argument.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

/// When a Lease was last seen to change, by our own clock. The timestamps in the Lease are ignored because clocks of other
/// machines may be wrong: a Lease has expired if it was not renewed for its duration while we observed it.
#[derive(Debug, Default)]
pub(super) struct RenewalObserver {
    last_change: Option<(String, Instant)>,
}

impl RenewalObserver {
    /// Records an observation of the Lease and returns whether it has expired. `default_duration` applies to a Lease that
    /// does not state its own.
    pub(super) fn observe_expiry(&mut self, lease: &Lease, default_duration: Duration, now: Instant) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if self.last_change.as_ref().is_none_or(|(known, _)| *known != version) {
            self.last_change = Some((version, now));
        }
        let stated = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = stated
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(default_duration, Duration::from_secs);
        self.last_change.as_ref().is_some_and(|(_, since)| now.saturating_duration_since(*since) >= duration)
    }
}

/// Returns the holder; `None` if the Lease was released.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Acquires or renews the Lease for `identity`.
pub(super) fn hold(mut lease: Lease, identity: &str, duration: Duration, now: Timestamp) -> Lease {
    let previous = lease.spec.take().unwrap_or_default();
    let is_renewal = previous.holder_identity.as_deref() == Some(identity);
    let transitions = previous.lease_transitions.unwrap_or(0);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if is_renewal { previous.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if is_renewal { transitions } else { transitions.saturating_add(1) }),
        ..LeaseSpec::default()
    });
    lease
}

/// Removes the holder from the Lease, so that the next process need not wait for its expiry.
pub(super) fn release(mut lease: Lease, now: Timestamp) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(now));
        spec.lease_duration_seconds = Some(1);
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(version: &str, holder: &str) -> Lease {
        let mut lease = hold(Lease::default(), holder, Duration::from_secs(60), Timestamp::UNIX_EPOCH);
        lease.metadata.resource_version = Some(version.into());
        lease
    }

    #[test]
    fn expiry_ignores_the_timestamps_in_the_lease() {
        let mut observer = RenewalObserver::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let default = Duration::from_secs(5);
        assert!(!observer.observe_expiry(&lease("1", "a"), default, start), "its timestamps are from 1970");
        assert!(
            !observer.observe_expiry(&lease("1", "a"), default, after(59)),
            "the duration in the Lease applies, not the default"
        );
        assert!(!observer.observe_expiry(&lease("2", "a"), default, after(59)), "renewed");
        assert!(!observer.observe_expiry(&lease("2", "a"), default, after(118)));
        assert!(observer.observe_expiry(&lease("2", "a"), default, after(119)));
    }

    #[test]
    fn acquiring_counts_a_transition_and_renewing_does_not() {
        let first = lease("1", "a");
        let renewed = hold(first.clone(), "a", Duration::from_secs(60), Timestamp::UNIX_EPOCH);
        let acquired = hold(first.clone(), "b", Duration::from_secs(60), Timestamp::UNIX_EPOCH);
        let count = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        assert_eq!((count(&renewed), count(&acquired)), (count(&first), count(&first).map(|n| n + 1)));
        assert_eq!(holder(&release(acquired, Timestamp::UNIX_EPOCH)), None);
    }
}
