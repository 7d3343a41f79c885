//! The resources that hold reports: paths, limits and condition inertia of each.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use plan::kms::removal::ReportLocation;
use plan::kms::union::Inertia;

/// A resource that holds reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// `kubeapiservers.operator.openshift.io`: static pods.
    KubeApiServer,
    /// `openshiftapiservers.operator.openshift.io`: a Deployment.
    OpenShiftApiServer,
    /// `authentications.operator.openshift.io`: the Deployment of the OAuth API server.
    Authentication,
    /// `kmshealths.outrigger.dev`, for clusters without OpenShift's resources.
    KmsHealth,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 4] =
        [Self::KubeApiServer, Self::OpenShiftApiServer, Self::Authentication, Self::KmsHealth];

    /// Returns the name used in flags and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::OpenShiftApiServer => "openshiftapiserver",
            Self::Authentication => "authentication",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Returns the path of typed reports. OpenShift's schemas allow neither an empty list nor an empty object around it.
    pub(super) const fn report_paths(self) -> ReportLocation {
        match self {
            Self::KubeApiServer | Self::OpenShiftApiServer => {
                ReportLocation { holder: "/status/encryptionStatus", remove_when_empty: true }
            }
            Self::Authentication => {
                ReportLocation { holder: "/status/oauthAPIServer/encryptionStatus", remove_when_empty: true }
            }
            Self::KmsHealth => ReportLocation { holder: "/status", remove_when_empty: false },
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|target| target.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::as_str).collect();
            format!("unsupported target {text:?}: expected {}", names.join(", "))
        })
    }
}

/// Returns the schema's limit of typed reports. Further reports are rejected.
pub(super) const fn max_reports(target: Target) -> usize {
    match target {
        Target::KmsHealth => api::kms::MAX_REPORTS,
        _ => 200,
    }
}

/// Returns the number of typed reports from which to warn: three quarters of the limit.
pub(super) const fn report_warning_threshold(target: Target) -> usize {
    max_reports(target) / 4 * 3
}

/// Returns how long conditions of the operator may be bad before they count.
pub(super) fn condition_inertia(target: Target) -> Inertia {
    let special = match target {
        Target::KubeApiServer => ["NodeControllerDegraded", "StaticPodsDegraded", "GuardControllerDegraded"]
            .map(|name| (name, Duration::from_secs(600)))
            .to_vec(),
        Target::OpenShiftApiServer | Target::Authentication => {
            vec![("DeploymentDegraded", Duration::from_secs(1800))]
        }
        Target::KmsHealth => Vec::new(),
    };
    Inertia { special, ..Inertia::default() }
}

/// Identifies an object that holds reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectRef {
    pub(super) target: Target,
    pub(super) name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target, self.name)
    }
}
