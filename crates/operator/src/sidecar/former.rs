//! Certificates that the Secrets of sidecars had before.
//!
//! A renewed certificate is in the Secret at once and served a minute or two later. In between, a sidecar whose certificate has
//! no authority, or whose authority was renewed with it, could not be told from a stranger, and the operator would not reach
//! it. So what the Secret had before stays good, to the same pod and for a bounded time, until the new one is served.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a renewed certificate may take to be served: kubelets of large clusters look at a Secret every six minutes.
const ON_ITS_WAY_FOR: Duration = Duration::from_mins(10);

/// How many are kept of one Secret. Whoever renews more often is not waited for.
const MOST: usize = 4;

/// By host name.
#[derive(Debug, Default)]
pub(super) struct Formers {
    hosts: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    /// Another address is another pod, which starts with the new certificate.
    address: String,
    /// That of the Secret.
    certificate: String,
    /// Those before, and when each was replaced.
    before: Vec<(String, Instant)>,
}

impl Formers {
    /// Those that are still good beside the one that the Secret has now.
    pub(super) fn of(&self, host: &str, address: &str, certificate: &str, now: Instant) -> Vec<String> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = hosts.get_mut(host).filter(|known| known.address == address);
        let Some(known) = known else {
            let (address, certificate) = (address.to_owned(), certificate.to_owned());
            hosts.insert(host.to_owned(), Known { address, certificate, before: Vec::new() });
            return Vec::new();
        };
        if known.certificate != certificate {
            let before = std::mem::replace(&mut known.certificate, certificate.to_owned());
            known.before.push((before, now));
        }
        known
            .before
            .retain(|(one, replaced)| one != certificate && now.duration_since(*replaced) < ON_ITS_WAY_FOR);
        let surplus = known.before.len().saturating_sub(MOST);
        known.before.drain(..surplus);
        known.before.iter().map(|(one, _)| one.clone()).collect()
    }

    /// A sidecar has served this certificate. Once it is that of the Secret, those before have had their time.
    pub(super) fn served(&self, host: &str, certificate: &str) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get_mut(host).filter(|known| known.certificate == certificate) {
            known.before.clear();
        }
    }

    /// Forgets a host.
    pub(super) fn forget(&self, host: &str) {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "a-0.a.sei.svc";
    const POD: &str = "10.0.0.1:8443";

    #[test]
    fn a_replaced_certificate_is_good_to_its_pod_and_for_ten_minutes() {
        let (formers, now) = (Formers::default(), Instant::now());
        let none = Vec::<String>::new();
        assert_eq!(formers.of(HOST, POD, "a", now), none, "nothing was there before");
        let later = now + Duration::from_hours(1);
        assert_eq!(
            formers.of(HOST, POD, "b", later),
            ["a"],
            "from when it was replaced, not from when it was seen"
        );
        let half = later + ON_ITS_WAY_FOR / 2;
        assert_eq!(
            formers.of(HOST, POD, "c", half),
            ["a", "b"],
            "renewed twice, before the first was served"
        );
        assert_eq!(formers.of(HOST, POD, "c", later + ON_ITS_WAY_FOR), ["b"]);
        assert_eq!(formers.of(HOST, POD, "c", half + ON_ITS_WAY_FOR), none);
        assert_eq!(formers.of(HOST, POD, "d", later), ["c"]);
        assert_eq!(formers.of(HOST, "10.0.0.2:8443", "d", later), none, "another pod");
        assert_eq!(formers.of(HOST, POD, "d", later), none);
    }

    #[test]
    fn a_replaced_certificate_ends_when_the_next_is_served() {
        let (formers, now) = (Formers::default(), Instant::now());
        for certificate in ["a", "b", "c"] {
            formers.of(HOST, POD, certificate, now);
        }
        formers.served(HOST, "b");
        assert_eq!(formers.of(HOST, POD, "c", now), ["a", "b"], "that one is old, too");
        formers.served(HOST, "c");
        assert_eq!(formers.of(HOST, POD, "c", now), Vec::<String>::new());
        for certificate in ["d", "e", "f", "g", "h", "i"] {
            formers.of(HOST, POD, certificate, now);
        }
        assert_eq!(formers.of(HOST, POD, "i", now).len(), MOST);
        formers.forget(HOST);
        assert_eq!(formers.of(HOST, POD, "j", now), Vec::<String>::new());
    }
}
