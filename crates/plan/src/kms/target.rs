//! Resources that KMS reports are published on, and the location of reports in them.

use std::fmt;
use std::str::FromStr;

use super::removal::ReportLocation;

/// Resource that reports are published on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReportTarget {
    /// OpenShift `KubeAPIServer` operator resource.
    KubeApiServer,
    /// OpenShift `OpenShiftAPIServer` operator resource.
    OpenShiftApiServer,
    /// OpenShift `Authentication` operator resource, for the OAuth API server.
    Authentication,
    /// Outrigger's `KMSHealth` resource.
    KmsHealth,
}

impl ReportTarget {
    /// Every target.
    pub const ALL: [Self; 4] =
        [Self::KubeApiServer, Self::OpenShiftApiServer, Self::Authentication, Self::KmsHealth];

    /// Returns the flag value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::OpenShiftApiServer => "openshiftapiserver",
            Self::Authentication => "authentication",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Returns apiVersion and kind.
    #[must_use]
    pub fn api_version_and_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::KubeApiServer => ("operator.openshift.io/v1", "KubeAPIServer"),
            Self::OpenShiftApiServer => ("operator.openshift.io/v1", "OpenShiftAPIServer"),
            Self::Authentication => ("operator.openshift.io/v1", "Authentication"),
            Self::KmsHealth => ("outrigger.dev/v1alpha1", "KMSHealth"),
        }
    }

    /// Returns the API path of an object.
    #[must_use]
    pub fn api_path(self, name: &str) -> String {
        let (version, kind) = self.api_version_and_kind();
        format!("/apis/{version}/{}s/{name}", kind.to_lowercase())
    }

    /// Returns the location of typed reports. The OpenShift schemas allow neither an empty list nor an empty object around it.
    #[must_use]
    pub const fn report_location(self) -> ReportLocation {
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

impl fmt::Display for ReportTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReportTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|target| target.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("unknown target {text:?}: use {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_paths_match_resources() {
        let paths: Vec<String> = ReportTarget::ALL.iter().map(|target| target.api_path("cluster")).collect();
        assert_eq!(
            paths,
            [
                "/apis/operator.openshift.io/v1/kubeapiservers/cluster",
                "/apis/operator.openshift.io/v1/openshiftapiservers/cluster",
                "/apis/operator.openshift.io/v1/authentications/cluster",
                "/apis/outrigger.dev/v1alpha1/kmshealths/cluster",
            ]
        );
    }

    #[test]
    fn target_name_round_trips() {
        for target in ReportTarget::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let error = "pods".parse::<ReportTarget>().unwrap_err();
        assert_eq!(
            error,
            "unknown target \"pods\": use kubeapiserver, openshiftapiserver, authentication, kmshealth"
        );
    }
}
