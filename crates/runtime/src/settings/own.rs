//! Who a process is.

use std::path::Path;

use super::given;

/// Where a pod finds the namespace of its service account.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Where Linux says the machine's name, which in a pod is the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The pod's name, and something that no other process has: one that was started again in the same pod, or two on one machine,
/// would else take each other's Lease for their own.
#[must_use]
pub fn identity(pod: Option<&str>) -> String {
    let name = given(pod).map(str::to_owned);
    let name = name.or_else(|| first_line(Path::new(HOST_NAME))).unwrap_or_else(|| "outrigger".into());
    format!("{name}_{:016x}", fastrand::u64(..))
}

/// The namespace of the process's service account, if it runs in a pod.
#[must_use]
pub fn own_namespace() -> Option<String> {
    first_line(Path::new(OWN_NAMESPACE))
}

fn first_line(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    given(text.lines().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_processes_of_one_pod_are_the_same() {
        let (one, other) = (identity(Some("pod-0")), identity(Some("pod-0")));
        assert!(one.starts_with("pod-0_") && other.starts_with("pod-0_"), "{one} {other}");
        assert_ne!(one, other);
        assert!(!identity(None).starts_with('_'), "it has a name in any case");
    }
}
