//! The certificate that each sidecar was last seen to serve.
//!
//! A renewed certificate is in the Secret at once and served a minute or two later. In between, a sidecar whose certificate has
//! no authority, or whose authority was renewed with it, could not be told from a stranger, and the operator would not reach
//! it. So the very certificate that it served when the Secret had it stays good, to the same pod and for a bounded time, until
//! the new one is served.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a renewed certificate may take to be served: kubelets of large clusters look at a Secret every six minutes.
const ON_ITS_WAY_FOR: Duration = Duration::from_mins(10);

/// By host name.
#[derive(Debug, Default)]
pub(super) struct LastServed {
    hosts: Mutex<HashMap<String, Served>>,
}

#[derive(Debug)]
struct Served {
    /// Another address is another pod, which starts with the new certificate.
    address: String,
    certificate: String,
    /// Since when the Secret has another one.
    replaced: Option<Instant>,
}

impl LastServed {
    /// A sidecar has served a certificate that the Secret vouches for.
    pub(super) fn saw(&self, host: &str, address: &str, certificate: &str) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = hosts.get(host);
        if known.is_some_and(|known| known.address == address && known.certificate == certificate) {
            return;
        }
        let (address, certificate) = (address.to_owned(), certificate.to_owned());
        hosts.insert(host.to_owned(), Served { address, certificate, replaced: None });
    }

    /// The certificate that is still good beside that of the Secret.
    pub(super) fn before(&self, host: &str, address: &str, of_secret: &str, now: Instant) -> Option<String> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let served = hosts.get_mut(host)?;
        if served.certificate == of_secret {
            served.replaced = None;
            return None;
        }
        let replaced = *served.replaced.get_or_insert(now);
        if served.address != address || now.duration_since(replaced) >= ON_ITS_WAY_FOR {
            hosts.remove(host);
            return None;
        }
        Some(served.certificate.clone())
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
        let (served, now) = (LastServed::default(), Instant::now());
        assert_eq!(served.before(HOST, POD, "new", now), None, "nothing was served yet");
        served.saw(HOST, POD, "old");
        assert_eq!(served.before(HOST, POD, "old", now), None, "the Secret has it");
        let later = now + Duration::from_hours(1);
        let old = Some("old".to_owned());
        assert_eq!(served.before(HOST, POD, "new", later), old, "what was served is not what was replaced");
        assert_eq!(served.before(HOST, POD, "newer", later + ON_ITS_WAY_FOR / 2), old);
        assert_eq!(served.before(HOST, POD, "newer", later + ON_ITS_WAY_FOR), None);
        assert_eq!(served.before(HOST, POD, "newer", later), None, "and not again");
    }

    #[test]
    fn a_replaced_certificate_ends_with_its_pod_and_with_the_next() {
        let (served, now) = (LastServed::default(), Instant::now());
        served.saw(HOST, POD, "old");
        assert_eq!(served.before(HOST, "10.0.0.2:8443", "new", now), None, "another pod");
        assert_eq!(served.before(HOST, POD, "new", now), None);
        served.saw(HOST, POD, "old");
        served.saw(HOST, POD, "new");
        assert_eq!(served.before(HOST, POD, "new", now), None);
        assert_eq!(served.before(HOST, POD, "newest", now).as_deref(), Some("new"));
        served.forget(HOST);
        assert_eq!(served.before(HOST, POD, "newest", now), None);
    }
}
