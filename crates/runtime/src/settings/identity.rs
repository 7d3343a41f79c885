//! The identity of this process.

use std::path::Path;

use super::non_empty;

/// Holds the namespace of the pod's service account.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Holds the host name, which in a pod is the pod's name.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Returns an identity for leader election: the pod's name with a random suffix. Without the suffix, a restarted container or a
/// second process on the same host would take the other's Lease for its own.
#[must_use]
pub fn identity(pod: Option<&str>) -> String {
    let name = non_empty(pod).map(str::to_owned);
    let name = name.or_else(|| first_line(Path::new(HOST_NAME_FILE))).unwrap_or_else(|| "outrigger".into());
    format!("{name}_{:016x}", fastrand::u64(..))
}

/// Returns the namespace of the pod's service account; `None` outside of a pod.
#[must_use]
pub fn own_namespace() -> Option<String> {
    first_line(Path::new(NAMESPACE_FILE))
}

fn first_line(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    non_empty(text.lines().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_one_pod_have_different_identities() {
        let (one, other) = (identity(Some("pod-0")), identity(Some("pod-0")));
        assert!(one.starts_with("pod-0_") && other.starts_with("pod-0_"), "{one} {other}");
        assert_ne!(one, other);
        assert!(!identity(None).starts_with('_'), "falls back to the host name");
    }
}
