//! The resources that reports of KMS plugins are published on, and where in them reports stand.

/// What reports are published on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// OpenShift's operator of kube-apiserver.
    KubeApiServer,
    /// OpenShift's operator of its own API server.
    OpenShiftApiServer,
    /// OpenShift's operator of authentication, which has an API server too.
    Authentication,
    /// Our own kind.
    KmsHealth,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 4] =
        [Self::KubeApiServer, Self::OpenShiftApiServer, Self::Authentication, Self::KmsHealth];

    /// The word that flags have for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kubeapiserver",
            Self::OpenShiftApiServer => "openshiftapiserver",
            Self::Authentication => "authentication",
            Self::KmsHealth => "kmshealth",
        }
    }

    /// Its API version and its kind.
    #[must_use]
    pub fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::KubeApiServer => ("operator.openshift.io/v1", "KubeAPIServer"),
            Self::OpenShiftApiServer => ("operator.openshift.io/v1", "OpenShiftAPIServer"),
            Self::Authentication => ("operator.openshift.io/v1", "Authentication"),
            Self::KmsHealth => ("outrigger.dev/v1alpha1", "KMSHealth"),
        }
    }

    /// The path of one of its objects.
    #[must_use]
    pub fn path(self, name: &str) -> String {
        let (version, kind) = self.kind();
        format!("/apis/{version}/{}s/{name}", kind.to_lowercase())
    }

    /// The fields below which typed reports stand.
    pub(super) fn typed_place(self) -> &'static [&'static str] {
        match self {
            Self::KubeApiServer | Self::OpenShiftApiServer => &["status", "encryptionStatus"],
            Self::Authentication => &["status", "oauthAPIServer", "encryptionStatus"],
            Self::KmsHealth => &["status"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_resources() {
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
}
