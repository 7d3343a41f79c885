//! The test fixture: an object that holds reports, plugins in a directory, and reporters.

use std::path::PathBuf;
use std::time::Duration;

use api::KMSHealth;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::demo::kms_health;
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error};
use tokio::sync::OnceCell;

use crate::reporter_process::{Reporter, ReporterBuilder};

/// Timeout for expected changes.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The interval of reporters in tests.
pub const INTERVAL: &str = "300ms";

/// All targets with all their report formats.
pub const FORMS: [(&str, &str); 7] = [
    ("kubeapiserver", "condition"),
    ("openshiftapiserver", "condition"),
    ("authentication", "condition"),
    ("kubeapiserver", "typed"),
    ("openshiftapiserver", "typed"),
    ("authentication", "typed"),
    ("kmshealth", "kmshealth"),
];

/// One report, in any format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedReport {
    pub key: String,
    pub status: String,
    pub id: Option<String>,
    pub checked: String,
    pub detail: String,
}

/// The test fixture.
pub struct Fixture<'a> {
    pub plane: &'a ControlPlane,
    pub client: Client,
    /// Name of the test's own object that holds reports.
    pub name: String,
    pub dir: TempDir,
    /// Directory of the test's logs and files.
    pub logs: PathBuf,
}

impl<'a> Fixture<'a> {
    /// Installs the CRDs once per control plane, and creates an object of each kind.
    pub async fn on(cx: &Context, plane: &'a ControlPlane) -> Result<Self, Error> {
        static SHARED: OnceCell<()> = OnceCell::const_new();
        SHARED.get_or_try_init(|| async { install_crds(plane, FeatureSet::TechPreview) }).await?;
        Self::on_own_plane(cx, plane).await
    }

    /// Creates the objects on a control plane of the test's own, whose CRDs are installed.
    pub async fn on_own_plane(cx: &Context, plane: &'a ControlPlane) -> Result<Self, Error> {
        let fixture = Self {
            plane,
            client: plane.client().await?,
            name: cx.name().replace('_', "-"),
            dir: tempfile::tempdir()
                .map_err(|source| Error::Io { what: "creating a directory".into(), source })?,
            logs: cx.logs().to_owned(),
        };
        for kind in ["kubeapiserver", "openshiftapiserver", "authentication", "kmshealth"] {
            fixture.create(kind).await?;
        }
        Ok(fixture)
    }

    /// Creates the test's object of a kind.
    pub async fn create(&self, target: &str) -> Result<(), Error> {
        let resource = resource(target);
        let spec = if target == "kmshealth" { json!({}) } else { json!({ "managementState": "Managed" }) };
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": self.name }, "spec": spec,
        });
        let installer = PatchParams::apply("installer").force();
        wait::until("the object", TIMEOUT, || async {
            self.api(target).patch(&self.name, &installer, &Patch::Apply(&object)).await.map(drop)
        })
        .await
    }

    /// Returns the API of a kind.
    pub fn api(&self, target: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(target))
    }

    /// Returns the test's object of a kind.
    pub async fn object(&self, target: &str) -> Result<Value, Error> {
        Ok(serde_json::to_value(self.api(target).get(&self.name).await?)?)
    }

    /// Starts the plugin of a key.
    pub fn start_plugin(&self, number: u32) -> Result<FakeKmsPlugin, Error> {
        FakeKmsPlugin::start(&format!("kms-{number}"), self.dir.path())
    }

    /// Configures a reporter for one node and one plugin, on the test's KubeAPIServer.
    pub fn reporter(&self, node: &str) -> ReporterBuilder<'_> {
        ReporterBuilder::new(self, node)
    }

    /// Returns the reports of a node.
    pub async fn reports(&self, target: &str, form: &str, node: &str) -> Result<Vec<ObservedReport>, Error> {
        let object = self.object(target).await?;
        Ok(if form == "condition" {
            condition_reports(&object, node)?
        } else {
            typed_reports(target, &object, node)
        })
    }

    /// Waits until a node's report of a key matches, and returns it.
    pub async fn until_report(
        &self,
        reporter: &Reporter,
        number: u32,
        what: &str,
        matches: impl Fn(&ObservedReport) -> bool,
    ) -> Result<ObservedReport, Error> {
        let Reporter { target, form, node, .. } = reporter;
        wait::until(format!("{what} in {form} of {target}"), TIMEOUT, || async {
            reporter.process.check_alive()?;
            let reports = self.reports(target, form, node).await?;
            let report = reports.iter().find(|report| report.key == number.to_string());
            match report.filter(|report| matches(report)) {
                Some(report) => Ok(report.clone()),
                None => Err(Error::Other(format!("{reports:?}"))),
            }
        })
        .await
    }

    /// Waits until a node's report of a key has a status, and returns it.
    pub async fn until_status(
        &self,
        reporter: &Reporter,
        number: u32,
        status: &str,
    ) -> Result<ObservedReport, Error> {
        self.until_report(reporter, number, status, |report| report.status == status).await
    }
}

/// Installs OpenShift's CRDs and KMSHealth.
pub fn install_crds(plane: &ControlPlane, features: FeatureSet) -> Result<(), Error> {
    openshift::install(plane, features)?;
    kms_health::install_crd(plane)
}

fn resource(target: &str) -> ApiResource {
    match target {
        "kmshealth" => ApiResource {
            group: KMSHealth::group(&()).into(),
            version: KMSHealth::version(&()).into(),
            api_version: KMSHealth::api_version(&()).into(),
            kind: KMSHealth::kind(&()).into(),
            plural: KMSHealth::plural(&()).into(),
        },
        target => {
            let kinds = openshift::KINDS.iter();
            let kind = kinds.map(|(kind, _)| *kind).find(|kind| kind.eq_ignore_ascii_case(target));
            openshift::resource(kind.unwrap_or_default())
        }
    }
}

fn condition_reports(object: &Value, node: &str) -> Result<Vec<ObservedReport>, Error> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let type_ = format!("KMSHealthReporter_{node}");
    let Some(condition) = conditions.iter().find(|one| one["type"] == type_.as_str()) else {
        return Ok(Vec::new());
    };
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("AsExpected")));
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.len() <= api::kms::MESSAGE_BUDGET, "{} bytes", message.len());
    let entries =
        api::kms::parse_message(message).map_err(|error| Error::Other(format!("{error}: {message}")))?;
    let reports = entries.into_iter().map(|entry| ObservedReport {
        key: entry.key_id,
        status: entry.status.as_str().into(),
        id: entry.kek_id,
        checked: json!(entry.last_checked).as_str().unwrap_or_default().into(),
        detail: entry.detail.unwrap_or_default(),
    });
    Ok(reports.collect())
}

/// Returns the object around the typed reports.
pub fn report_holder<'v>(target: &str, object: &'v Value) -> &'v Value {
    match target {
        "kmshealth" => &object["status"],
        "authentication" => &object["status"]["oauthAPIServer"]["encryptionStatus"],
        _ => &object["status"]["encryptionStatus"],
    }
}

fn typed_reports(target: &str, object: &Value, node: &str) -> Vec<ObservedReport> {
    let list = report_holder(target, object)["healthReports"].as_array().cloned().unwrap_or_default();
    let own = list.iter().filter(|report| report["nodeName"] == node);
    own.map(|report| {
        let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
        ObservedReport {
            key: text("keyID"),
            status: text("status"),
            id: report["remoteKeyID"].as_str().map(Into::into),
            checked: text("lastCheckedTime"),
            detail: text("detail"),
        }
    })
    .collect()
}
