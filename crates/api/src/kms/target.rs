//! The resources that KMS reports are published on.

use std::fmt;
use std::str::FromStr;

/// A resource that KMS reports are published on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KmsTarget {
    /// `kubeapiservers.operator.openshift.io`, for kube-apiserver in static pods.
    KubeApiServer,
    /// `openshiftapiservers.operator.openshift.io`, for the Deployment of the OpenShift API server.
    OpenShiftApiServer,
    /// `authentications.operator.openshift.io`, for the Deployment of the OAuth API server.
    Authentication,
    /// `kmshealths.outrigger.dev`, for clusters without OpenShift's resources.
    KmsHealth,
}

impl KmsTarget {
    /// All targets.
    pub const ALL: [Self; 4] =
        [Self::KubeApiServer, Self::OpenShiftApiServer, Self::Authentication, Self::KmsHealth];

    /// Returns the name in flags, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::OpenShiftApiServer => "openshiftapiserver",
            Self::Authentication => "authentication",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Returns apiVersion and kind.
    #[must_use]
    pub const fn api_version_and_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::KubeApiServer => ("operator.openshift.io/v1", "KubeAPIServer"),
            Self::OpenShiftApiServer => ("operator.openshift.io/v1", "OpenShiftAPIServer"),
            Self::Authentication => ("operator.openshift.io/v1", "Authentication"),
            Self::KmsHealth => ("outrigger.dev/v1alpha1", "KMSHealth"),
        }
    }
}

impl fmt::Display for KmsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for KmsTarget {
    /// The valid names. The caller adds the invalid one and where it is set.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|target| target.as_str() == text)
            .ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_name_round_trips() {
        for target in KmsTarget::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        assert_eq!(
            "pods".parse::<KmsTarget>().unwrap_err(),
            "expected one of kubeapiserver, openshiftapiserver, authentication, kmshealth"
        );
    }
}
