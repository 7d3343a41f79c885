//! Resources that KMS reports are published on, and the location of reports in them.

use std::fmt;
use std::str::FromStr;

use super::removal::Places;

/// Resource that reports are published on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// OpenShift `KubeAPIServer` operator resource.
    KubeApiServer,
    /// OpenShift `OpenShiftAPIServer` operator resource.
    OpenShiftApiServer,
    /// OpenShift `Authentication` operator resource, for the OAuth API server.
    Authentication,
    /// Outrigger's `KMSHealth` resource.
    KmsHealth,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 4] =
        [Self::KubeApiServer, Self::OpenShiftApiServer, Self::Authentication, Self::KmsHealth];

    /// Returns the flag value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::OpenShiftApiServer => "openshiftapiserver",
            Self::Authentication => "authentication",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Returns apiVersion and kind.
    #[must_use]
    pub fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::KubeApiServer => ("operator.openshift.io/v1", "KubeAPIServer"),
            Self::OpenShiftApiServer => ("operator.openshift.io/v1", "OpenShiftAPIServer"),
            Self::Authentication => ("operator.openshift.io/v1", "Authentication"),
            Self::KmsHealth => ("outrigger.dev/v1alpha1", "KMSHealth"),
        }
    }

    /// Returns the API path of an object.
    #[must_use]
    pub fn path(self, name: &str) -> String {
        let (version, kind) = self.kind();
        format!("/apis/{version}/{}s/{name}", kind.to_lowercase())
    }

    /// Returns the location of typed reports. The OpenShift schemas allow neither an empty list nor an empty object around it.
    #[must_use]
    pub const fn report_location(self) -> Places {
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
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::word).collect();
            format!("unknown target {text:?}: use {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_paths_match_resources() {
        let paths: Vec<String> = Target::ALL.iter().map(|target| target.path("cluster")).collect();
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
        for target in Target::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let error = "pods".parse::<Target>().unwrap_err();
        assert_eq!(
            error,
            "unknown target \"pods\": use kubeapiserver, openshiftapiserver, authentication, kmshealth"
        );
    }
}
