//! Security contexts of pods and containers.

use api::names::process_id;
use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

/// Returns the context of containers that never write to their root file system.
pub(super) fn hardened() -> SecurityContext {
    SecurityContext { read_only_root_filesystem: Some(true), ..non_root() }
}

/// Returns the context of seid, which writes to its root file system.
pub(super) fn non_root() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
        run_as_group: Some(process_id::NON_ROOT),
        run_as_non_root: Some(true),
        run_as_user: Some(process_id::NON_ROOT),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
        ..SecurityContext::default()
    }
}

/// Returns the context of the pod. The ownership of a volume is only changed on a mismatch: with terabytes that takes
/// half an hour.
pub(super) fn pod() -> PodSecurityContext {
    PodSecurityContext {
        fs_group: Some(process_id::NON_ROOT),
        fs_group_change_policy: Some("OnRootMismatch".into()),
        ..PodSecurityContext::default()
    }
}
