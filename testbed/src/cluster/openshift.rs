//! Operator resources of OpenShift with their published CRDs, which must accept what a reporter writes.

use std::path::PathBuf;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::parts::Part;
use crate::error::{Error, Result};
use crate::process::tool;

/// Kinds that report the encryption of an API server, with their resource names. Each has one object, `cluster`.
pub const KINDS: [(&str, &str); 3] = [
    ("KubeAPIServer", "kubeapiservers"),
    ("OpenShiftAPIServer", "openshiftapiservers"),
    ("Authentication", "authentications"),
];

/// Name of the singleton of each kind.
pub const NAME: &str = "cluster";

/// Variant of the CRDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSet {
    /// Without `encryptionStatus`.
    Default,
    /// With `encryptionStatus` and its health reports.
    TechPreview,
}

/// Resource that configures encryption, in group `config.openshift.io`.
const CONFIG: &str = "apiservers";

/// Returns the published CRD files of [`KINDS`].
pub fn crds(features: FeatureSet) -> Result<Vec<PathBuf>> {
    files(features, &KINDS.map(|(_, plural)| plural))
}

fn files(features: FeatureSet, plurals: &[&str]) -> Result<Vec<PathBuf>> {
    let dir = Part::OpenShift.ensure()?.join("crds");
    let variant = match features {
        FeatureSet::Default => "Default",
        FeatureSet::TechPreview => "TechPreviewNoUpgrade",
    };
    plurals
        .iter()
        .map(|plural| {
            let ending = format!("_01_{plural}-{variant}.crd.yaml");
            let files = std::fs::read_dir(&dir)
                .map_err(|source| Error::Io { what: format!("reading {}", dir.display()), source })?;
            let mut paths = files.flatten().map(|entry| entry.path());
            paths
                .find(|path| path.to_string_lossy().ends_with(&ending))
                .ok_or_else(|| Error::Other(format!("{} contains no *{ending}", dir.display())))
        })
        .collect()
}

/// Installs the CRDs of [`KINDS`], or replaces them by another variant; returns when they are established.
pub fn install(plane: &ControlPlane, features: FeatureSet) -> Result<()> {
    install_crds(plane, &crds(features)?)
}

/// Installs the CRD of `APIServer`, which configures encryption; returns when it is established.
pub fn install_config(plane: &ControlPlane, features: FeatureSet) -> Result<()> {
    install_crds(plane, &files(features, &[CONFIG])?)
}

fn install_crds(plane: &ControlPlane, files: &[PathBuf]) -> Result<()> {
    let file_args = || files.iter().flat_map(|file| ["--filename".into(), file.clone().into_os_string()]);
    let mut apply = plane.kubectl()?;
    apply.args(["apply", "--server-side", "--force-conflicts"]).args(file_args());
    tool::output_of(apply)?;
    let mut established = plane.kubectl()?;
    established.args(["wait", "--for=condition=Established", "--timeout=30s"]).args(file_args());
    tool::output_of(established).map(drop)
}

/// Returns the published CRD file of ClusterOperator.
pub fn cluster_operator_crd() -> Result<PathBuf> {
    let name = "crds/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml";
    Ok(Part::OpenShift.ensure()?.join(name))
}

/// Returns the API resource of a kind in [`KINDS`].
#[must_use]
pub fn resource(kind: &str) -> ApiResource {
    let plural = KINDS
        .iter()
        .find(|(known, _)| *known == kind)
        .map_or_else(String::new, |(_, plural)| (*plural).into());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("operator.openshift.io", "v1", kind), &plural)
}

/// Creates the object `cluster` of a kind, like the installer of a cluster.
pub async fn create_singleton(client: &kube::Client, kind: &str) -> Result<DynamicObject> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
    let object = json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": kind,
        "metadata": { "name": NAME },
        "spec": { "managementState": "Managed" },
    });
    Ok(api.patch(NAME, &PatchParams::apply("installer").force(), &Patch::Apply(&object)).await?)
}
