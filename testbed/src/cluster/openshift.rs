//! OpenShift's operator resources, with the schemas that OpenShift publishes: what a reporter writes must be storable there.

use std::path::PathBuf;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use crate::cluster::control_plane::ControlPlane;
use crate::cluster::parts::Part;
use crate::error::{Error, Result};
use crate::process::tool;

/// The kinds that tell how an API server is encrypted, with the resources' names. An object of each is called `cluster`.
pub const KINDS: [(&str, &str); 3] = [
    ("KubeAPIServer", "kubeapiservers"),
    ("OpenShiftAPIServer", "openshiftapiservers"),
    ("Authentication", "authentications"),
];

/// The name of the one object of each kind.
pub const NAME: &str = "cluster";

/// Which variant of the schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSet {
    /// Without `encryptionStatus`.
    Default,
    /// With `encryptionStatus`, and health reports in it.
    TechPreview,
}

/// The resource that configures encryption, of the group `config.openshift.io`.
const CONFIG: &str = "apiservers";

/// The published files of the three kinds.
pub fn crds(features: FeatureSet) -> Result<Vec<PathBuf>> {
    files(features, &KINDS.map(|(_, plural)| plural))
}

fn files(features: FeatureSet, plurals: &[&str]) -> Result<Vec<PathBuf>> {
    let folder = Part::OpenShift.ensure()?.join("crds");
    let variant = match features {
        FeatureSet::Default => "Default",
        FeatureSet::TechPreview => "TechPreviewNoUpgrade",
    };
    plurals
        .iter()
        .map(|plural| {
            let ending = format!("_01_{plural}-{variant}.crd.yaml");
            let files = std::fs::read_dir(&folder)
                .map_err(|source| Error::Io { what: format!("reading {}", folder.display()), source })?;
            let mut paths = files.flatten().map(|entry| entry.path());
            paths
                .find(|path| path.to_string_lossy().ends_with(&ending))
                .ok_or_else(|| Error::Refused(format!("{} has no *{ending}", folder.display())))
        })
        .collect()
}

/// Defines the three kinds, or defines them anew with other features; returns when they are served.
pub fn install(plane: &ControlPlane, features: FeatureSet) -> Result<()> {
    define(plane, &crds(features)?)
}

/// Defines `APIServer`, which configures encryption; returns when it is served.
pub fn install_config(plane: &ControlPlane, features: FeatureSet) -> Result<()> {
    define(plane, &files(features, &[CONFIG])?)
}

fn define(plane: &ControlPlane, files: &[PathBuf]) -> Result<()> {
    let named = || files.iter().flat_map(|file| ["--filename".into(), file.clone().into_os_string()]);
    let mut apply = plane.kubectl()?;
    apply.args(["apply", "--server-side", "--force-conflicts"]).args(named());
    tool::output_of(apply)?;
    let mut established = plane.kubectl()?;
    established.args(["wait", "--for=condition=Established", "--timeout=30s"]).args(named());
    tool::output_of(established).map(drop)
}

/// The published file of ClusterOperator.
pub fn cluster_operator_crd() -> Result<PathBuf> {
    let name = "crds/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml";
    Ok(Part::OpenShift.ensure()?.join(name))
}

/// The resource of a kind of [`KINDS`].
#[must_use]
pub fn resource(kind: &str) -> ApiResource {
    let plural = KINDS
        .iter()
        .find(|(known, _)| *known == kind)
        .map_or_else(String::new, |(_, plural)| (*plural).into());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("operator.openshift.io", "v1", kind), &plural)
}

/// Makes the object `cluster` of a kind, as a cluster's installer does.
pub async fn create(client: &kube::Client, kind: &str) -> Result<DynamicObject> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
    let object = json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": kind,
        "metadata": { "name": NAME },
        "spec": { "managementState": "Managed" },
    });
    Ok(api.patch(NAME, &PatchParams::apply("installer").force(), &Patch::Apply(&object)).await?)
}
