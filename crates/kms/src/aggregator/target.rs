//! Limits and condition inertia of each target, and references to its objects.

use std::fmt;
use std::time::Duration;

use api::kms::KmsTarget;
use plan::kms::union::Inertia;

/// `maxItems` of `encryptionStatus.healthReports` in the CRDs of OpenShift.
const MAX_OPENSHIFT_REPORTS: usize = 200;

/// Returns the schema's limit of typed reports. Further reports are rejected.
pub(super) const fn max_reports(target: KmsTarget) -> usize {
    match target {
        KmsTarget::KmsHealth => api::kms::MAX_REPORTS,
        KmsTarget::KubeApiServer | KmsTarget::OpenShiftApiServer | KmsTarget::Authentication => {
            MAX_OPENSHIFT_REPORTS
        }
    }
}

/// Returns the number of typed reports from which to warn: three quarters of the limit.
pub(super) const fn report_warning_threshold(target: KmsTarget) -> usize {
    max_reports(target) / 4 * 3
}

/// Returns how long conditions of the operator may be bad before they count.
pub(super) fn condition_inertia(target: KmsTarget) -> Inertia {
    let special = match target {
        KmsTarget::KubeApiServer => {
            ["NodeControllerDegraded", "StaticPodsDegraded", "GuardControllerDegraded"]
                .map(|name| (name, Duration::from_secs(600)))
                .to_vec()
        }
        KmsTarget::OpenShiftApiServer | KmsTarget::Authentication => {
            vec![("DeploymentDegraded", Duration::from_secs(1800))]
        }
        KmsTarget::KmsHealth => Vec::new(),
    };
    Inertia { by_suffix: special, ..Inertia::default() }
}

/// Identifies an object that holds reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectRef {
    pub(super) target: KmsTarget,
    pub(super) name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target, self.name)
    }
}
