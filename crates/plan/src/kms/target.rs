//! API paths of the resources that KMS reports are published on, and the location of reports in them.

use api::kms::KmsTarget;

use super::removal::ReportLocation;

/// Returns the API path of an object.
#[must_use]
pub fn api_path(target: KmsTarget, name: &str) -> String {
    let (version, kind) = target.api_version_and_kind();
    format!("/apis/{version}/{}s/{name}", kind.to_lowercase())
}

/// Returns the location of typed reports. The OpenShift schemas allow neither an empty list nor an empty object around it.
#[must_use]
pub const fn report_location(target: KmsTarget) -> ReportLocation {
    match target {
        KmsTarget::KubeApiServer | KmsTarget::OpenShiftApiServer => {
            ReportLocation { holder: "/status/encryptionStatus", remove_when_empty: true }
        }
        KmsTarget::Authentication => {
            ReportLocation { holder: "/status/oauthAPIServer/encryptionStatus", remove_when_empty: true }
        }
        KmsTarget::KmsHealth => ReportLocation { holder: "/status", remove_when_empty: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_paths_match_resources() {
        assert_eq!(
            KmsTarget::ALL.map(|target| api_path(target, "cluster")),
            [
                "/apis/operator.openshift.io/v1/kubeapiservers/cluster",
                "/apis/operator.openshift.io/v1/openshiftapiservers/cluster",
                "/apis/operator.openshift.io/v1/authentications/cluster",
                "/apis/outrigger.dev/v1alpha1/kmshealths/cluster",
            ]
        );
    }
}
