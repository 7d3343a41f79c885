//! What a Lease says, and whether it may be taken. Pure: what was seen when is an argument.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

/// The last change of a Lease, by our own clock. Other machines' clocks are not trusted: a lease has ended when it was not
/// renewed for its duration while we looked.
#[derive(Debug, Default)]
pub(super) struct Sight {
    seen: Option<(String, Instant)>,
}

impl Sight {
    /// Notes a look at the Lease, and says whether its holder has let it end.
    pub(super) fn has_ended(&mut self, lease: &Lease, ours: Duration, now: Instant) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != version) {
            self.seen = Some((version, now));
        }
        let theirs = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration =
            theirs.and_then(|seconds| u64::try_from(seconds).ok()).map_or(ours, Duration::from_secs);
        self.seen.as_ref().is_some_and(|(_, since)| now.saturating_duration_since(*since) >= duration)
    }
}

/// Who holds it; nobody when it was given back.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The Lease as `identity` takes or renews it.
pub(super) fn held(mut lease: Lease, identity: &str, duration: Duration, now: Timestamp) -> Lease {
    let before = lease.spec.take().unwrap_or_default();
    let same = before.holder_identity.as_deref() == Some(identity);
    let transitions = before.lease_transitions.unwrap_or(0);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if same { before.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if same { transitions } else { transitions.saturating_add(1) }),
        ..LeaseSpec::default()
    });
    lease
}

/// The Lease given back, so that nobody has to wait for its end.
pub(super) fn given_back(mut lease: Lease, now: Timestamp) -> Lease {
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
        let mut lease = held(Lease::default(), holder, Duration::from_secs(60), Timestamp::UNIX_EPOCH);
        lease.metadata.resource_version = Some(version.into());
        lease
    }

    #[test]
    fn a_lease_ends_when_it_was_not_renewed_while_we_looked_whatever_its_times_say() {
        let mut sight = Sight::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let ours = Duration::from_secs(5);
        assert!(!sight.has_ended(&lease("1", "a"), ours, begin), "its times are from 1970, and say nothing");
        assert!(
            !sight.has_ended(&lease("1", "a"), ours, after(59)),
            "its holder's duration counts, not ours"
        );
        assert!(!sight.has_ended(&lease("2", "a"), ours, after(59)), "renewed");
        assert!(!sight.has_ended(&lease("2", "a"), ours, after(118)));
        assert!(sight.has_ended(&lease("2", "a"), ours, after(119)));
    }

    #[test]
    fn a_change_of_hands_is_counted_and_a_renewal_is_not() {
        let first = lease("1", "a");
        let renewed = held(first.clone(), "a", Duration::from_secs(60), Timestamp::UNIX_EPOCH);
        let taken = held(first.clone(), "b", Duration::from_secs(60), Timestamp::UNIX_EPOCH);
        let count = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        assert_eq!((count(&renewed), count(&taken)), (count(&first), count(&first).map(|n| n + 1)));
        assert_eq!(holder(&given_back(taken, Timestamp::UNIX_EPOCH)), None);
    }
}
