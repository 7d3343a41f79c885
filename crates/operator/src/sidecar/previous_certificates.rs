//! Certificates that the Secrets of sidecars had before.
//!
//! A renewed certificate is in the Secret immediately, and the sidecar serves it a minute or two later. In between, a sidecar
//! whose certificate is self-signed, or whose CA was renewed with it, would fail verification. Therefore the previous
//! certificate stays accepted for the same pod and a bounded time, until the sidecar serves the new one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use runtime::sync::lock;
use tokio::time::Instant;

/// How long a renewed certificate may take to reach the sidecar: kubelets of large clusters sync a Secret every six minutes.
const ACCEPTED_FOR: Duration = Duration::from_mins(10);

/// How many certificates are kept for one Secret.
const MAX_PREVIOUS: usize = 4;

/// The previous certificates of all sidecars, by host name.
#[derive(Debug, Default)]
pub(super) struct PreviousCertificates {
    hosts: Mutex<HashMap<String, HostCertificates>>,
}

#[derive(Debug)]
struct HostCertificates {
    /// Another address is another pod, which starts with the new certificate.
    address: String,
    /// The certificate in the Secret.
    current: String,
    /// The certificates before it, and when each was replaced.
    previous: Vec<(String, Instant)>,
}

impl PreviousCertificates {
    /// Records the current certificate of a host, and returns the previous ones that are still accepted.
    pub(super) fn update(&self, host: &str, address: &str, certificate: &str, now: Instant) -> Vec<String> {
        let mut hosts = lock(&self.hosts);
        let known = hosts.get_mut(host).filter(|known| known.address == address);
        let Some(known) = known else {
            let (address, current) = (address.to_owned(), certificate.to_owned());
            hosts.insert(host.to_owned(), HostCertificates { address, current, previous: Vec::new() });
            return Vec::new();
        };
        if known.current != certificate {
            let replaced = std::mem::replace(&mut known.current, certificate.to_owned());
            known.previous.push((replaced, now));
        }
        known.previous.retain(|(previous, replaced_at)| {
            previous != certificate && now.duration_since(*replaced_at) < ACCEPTED_FOR
        });
        let surplus = known.previous.len().saturating_sub(MAX_PREVIOUS);
        known.previous.drain(..surplus);
        known.previous.iter().map(|(previous, _)| previous.clone()).collect()
    }

    /// Records the certificate that a sidecar served. Once it is the current one, the previous ones are no longer accepted.
    pub(super) fn record_served(&self, host: &str, certificate: &str) {
        let mut hosts = lock(&self.hosts);
        if let Some(known) = hosts.get_mut(host).filter(|known| known.current == certificate) {
            known.previous.clear();
        }
    }

    /// Drops a host.
    pub(super) fn forget(&self, host: &str) {
        lock(&self.hosts).remove(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "a-0.a.sei.svc";
    const POD: &str = "10.0.0.1:8443";

    #[test]
    fn previous_certificate_is_accepted_for_its_pod_and_ten_minutes() {
        let (certificates, now) = (PreviousCertificates::default(), Instant::now());
        let none = Vec::<String>::new();
        assert_eq!(certificates.update(HOST, POD, "a", now), none, "no previous certificate");
        let later = now + Duration::from_hours(1);
        assert_eq!(
            certificates.update(HOST, POD, "b", later),
            ["a"],
            "counted from its replacement, not from when it was first recorded"
        );
        let half = later + ACCEPTED_FOR / 2;
        assert_eq!(
            certificates.update(HOST, POD, "c", half),
            ["a", "b"],
            "renewed twice before the first renewal was served"
        );
        assert_eq!(certificates.update(HOST, POD, "c", later + ACCEPTED_FOR), ["b"]);
        assert_eq!(certificates.update(HOST, POD, "c", half + ACCEPTED_FOR), none);
        assert_eq!(certificates.update(HOST, POD, "d", later), ["c"]);
        assert_eq!(certificates.update(HOST, "10.0.0.2:8443", "d", later), none, "another pod");
        assert_eq!(certificates.update(HOST, POD, "d", later), none);
    }

    #[test]
    fn previous_certificate_is_dropped_once_the_current_is_served() {
        let (certificates, now) = (PreviousCertificates::default(), Instant::now());
        for certificate in ["a", "b", "c"] {
            certificates.update(HOST, POD, certificate, now);
        }
        certificates.record_served(HOST, "b");
        assert_eq!(certificates.update(HOST, POD, "c", now), ["a", "b"], "b is a previous certificate, too");
        certificates.record_served(HOST, "c");
        assert_eq!(certificates.update(HOST, POD, "c", now), Vec::<String>::new());
        for certificate in ["d", "e", "f", "g", "h", "i"] {
            certificates.update(HOST, POD, certificate, now);
        }
        assert_eq!(certificates.update(HOST, POD, "i", now).len(), MAX_PREVIOUS);
        certificates.forget(HOST);
        assert_eq!(certificates.update(HOST, POD, "j", now), Vec::<String>::new());
    }
}
