//! The kinds that reports stand on: where in them, where conditions go, and who is expected to report.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use plan::kms::removal::Places;
use plan::kms::union::Inertia;

/// A kind that reports stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// `kubeapiservers.operator.openshift.io`: static pods.
    KubeApiServer,
    /// `openshiftapiservers.operator.openshift.io`: a Deployment.
    OpenShiftApiServer,
    /// `authentications.operator.openshift.io`: the Deployment of the OAuth API server.
    Authentication,
    /// Our own kind, for clusters that have none of the others.
    KmsHealth,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::KubeApiServer, Self::OpenShiftApiServer, Self::Authentication, Self::KmsHealth];

    /// As it is given on the command line, and as metrics name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::OpenShiftApiServer => "openshiftapiserver",
            Self::Authentication => "authentication",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Where typed reports stand. OpenShift's schemas allow neither an empty list nor an empty object around it.
    pub(super) const fn places(self) -> Places {
        match self {
            Self::KubeApiServer | Self::OpenShiftApiServer => {
                Places { holder: "/status/encryptionStatus", never_empty: true }
            }
            Self::Authentication => {
                Places { holder: "/status/oauthAPIServer/encryptionStatus", never_empty: true }
            }
            Self::KmsHealth => Places { holder: "/status", never_empty: false },
        }
    }

    /// Most typed reports that the kind's schema takes: a node that comes beyond them cannot report.
    pub(super) const fn most_reports(self) -> usize {
        match self {
            Self::KmsHealth => api::kms::MAX_REPORTS,
            _ => 200,
        }
    }

    /// So many that somebody should look before a node cannot report: three quarters of the most.
    pub(super) const fn many_reports(self) -> usize {
        self.most_reports() / 4 * 3
    }

    /// Which of an operator's conditions may be bad for longer.
    pub(super) fn inertia(self) -> Inertia {
        let special = match self {
            Self::KubeApiServer => {
                ["NodeControllerDegraded", "StaticPodsDegraded", "GuardControllerDegraded"]
                    .map(|name| (name, Duration::from_secs(600)))
                    .to_vec()
            }
            Self::OpenShiftApiServer | Self::Authentication => {
                vec![("DeploymentDegraded", Duration::from_secs(1800))]
            }
            Self::KmsHealth => Vec::new(),
        };
        Inertia { special, ..Inertia::default() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|target| target.word() == text).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.into_iter().map(Self::word).collect();
            format!("{text:?} is no kind with reports: use {}", words.join(", "))
        })
    }
}

/// One object that is looked after.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) target: Target,
    pub(super) name: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target, self.name)
    }
}
