//! The ground of a test: an object to report on, plugins in a folder, and reporters.

use std::path::PathBuf;
use std::time::Duration;

use api::KMSHealth;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::fakes::kms_plugin::KmsPlugin;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error};
use tokio::sync::OnceCell;

use crate::reporter::{Orders, Reporter};

/// How long things that take a moment may take.
pub const SOON: Duration = Duration::from_secs(30);

/// The interval of reporters in tests.
pub const INTERVAL: &str = "300ms";

/// Every way to publish.
pub const FORMS: [(&str, &str); 7] = [
    ("kubeapiserver", "condition"),
    ("openshiftapiserver", "condition"),
    ("authentication", "condition"),
    ("kubeapiserver", "typed"),
    ("openshiftapiserver", "typed"),
    ("authentication", "typed"),
    ("kmshealth", "kmshealth"),
];

/// One report, whatever its form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub key: String,
    pub status: String,
    pub id: Option<String>,
    pub checked: String,
    pub detail: String,
}

/// What a test stands on.
pub struct Ground<'a> {
    pub plane: &'a ControlPlane,
    pub client: Client,
    /// The name of the object that is reported on: the test's own.
    pub name: String,
    pub folder: TempDir,
    /// Where files of the test's own are kept.
    pub logs: PathBuf,
}

impl<'a> Ground<'a> {
    /// Defines the kinds, where that was not done yet, and makes an object of each.
    pub async fn on(cx: &Context, plane: &'a ControlPlane) -> Result<Self, Error> {
        static SHARED: OnceCell<()> = OnceCell::const_new();
        SHARED.get_or_try_init(|| async { define(plane, FeatureSet::TechPreview).await }).await?;
        Self::on_own(cx, plane).await
    }

    /// The same on a control plane of the test's own, whose kinds are defined.
    pub async fn on_own(cx: &Context, plane: &'a ControlPlane) -> Result<Self, Error> {
        let ground = Self {
            plane,
            client: plane.client().await?,
            name: cx.name().replace('_', "-"),
            folder: tempfile::tempdir()
                .map_err(|source| Error::Io { what: "making a folder".into(), source })?,
            logs: cx.logs().to_owned(),
        };
        for kind in ["kubeapiserver", "openshiftapiserver", "authentication", "kmshealth"] {
            ground.create(kind).await?;
        }
        Ok(ground)
    }

    /// Makes the test's object of a kind.
    pub async fn create(&self, target: &str) -> Result<(), Error> {
        let resource = resource(target);
        let spec = if target == "kmshealth" { json!({}) } else { json!({ "managementState": "Managed" }) };
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": self.name }, "spec": spec,
        });
        let installer = PatchParams::apply("installer").force();
        wait::until("the object", SOON, || async {
            self.api(target).patch(&self.name, &installer, &Patch::Apply(&object)).await.map(drop)
        })
        .await
    }

    /// Objects of a kind.
    pub fn api(&self, target: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(target))
    }

    /// The test's object of a kind, as it is.
    pub async fn object(&self, target: &str) -> Result<Value, Error> {
        Ok(serde_json::to_value(self.api(target).get(&self.name).await?)?)
    }

    /// A plugin for the key of this number.
    pub fn plugin(&self, number: u32) -> Result<KmsPlugin, Error> {
        KmsPlugin::start(&format!("kms-{number}"), self.folder.path())
    }

    /// A reporter that is about to be started, for one node and one plugin, on the test's KubeAPIServer.
    pub fn reporter(&self, node: &str) -> Orders<'_> {
        Orders::new(self, node)
    }

    /// The reports of a node, as they stand.
    pub async fn reports(&self, target: &str, form: &str, node: &str) -> Result<Vec<Seen>, Error> {
        let object = self.object(target).await?;
        Ok(if form == "condition" { of_condition(&object, node)? } else { of_list(target, &object, node) })
    }

    /// Waits until a node's report of a key is as wanted, and returns it.
    pub async fn until(
        &self,
        reporter: &Reporter,
        number: u32,
        what: &str,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Seen, Error> {
        let Reporter { target, form, node, .. } = reporter;
        wait::until(format!("{what} in {form} of {target}"), SOON, || async {
            reporter.process.check_alive()?;
            let reports = self.reports(target, form, node).await?;
            let report = reports.iter().find(|report| report.key == number.to_string());
            match report.filter(|report| wanted(report)) {
                Some(report) => Ok(report.clone()),
                None => Err(Error::Refused(format!("the reports are {reports:?}"))),
            }
        })
        .await
    }

    /// Waits until a node's report of a key has this status, and returns it.
    pub async fn status(&self, reporter: &Reporter, number: u32, status: &str) -> Result<Seen, Error> {
        self.until(reporter, number, status, |report| report.status == status).await
    }
}

/// Defines the kinds of OpenShift, and ours.
pub async fn define(plane: &ControlPlane, features: FeatureSet) -> Result<(), Error> {
    openshift::install(plane, features)?;
    let client = plane.client().await?;
    let kind = ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    let crds: Api<DynamicObject> = Api::all_with(client, &kind);
    for crd in api::crd::all().into_iter().filter(|crd| crd.spec.names.kind == "KMSHealth") {
        let name = crd.metadata.name.clone().unwrap_or_default();
        crds.patch(&name, &PatchParams::apply("installer").force(), &Patch::Apply(&crd)).await?;
    }
    Ok(())
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

fn of_condition(object: &Value, node: &str) -> Result<Vec<Seen>, Error> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let wanted = format!("KMSHealthReporter_{node}");
    let Some(condition) = conditions.iter().find(|one| one["type"] == wanted.as_str()) else {
        return Ok(Vec::new());
    };
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("AsExpected")));
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.len() <= api::kms::MESSAGE_BUDGET, "{} bytes", message.len());
    let entries = api::kms::parse(message).map_err(|error| Error::Refused(format!("{error}: {message}")))?;
    let seen = entries.into_iter().map(|entry| Seen {
        key: entry.key_id,
        status: match entry.status {
            api::kms::PluginStatus::Healthy => "Healthy".into(),
            api::kms::PluginStatus::Unhealthy => "Unhealthy".into(),
            api::kms::PluginStatus::Error => "Error".into(),
        },
        id: entry.kek_id,
        checked: json!(entry.last_checked).as_str().unwrap_or_default().into(),
        detail: entry.detail.unwrap_or_default(),
    });
    Ok(seen.collect())
}

/// The place of typed reports in an object.
pub fn place<'v>(target: &str, object: &'v Value) -> &'v Value {
    match target {
        "kmshealth" => &object["status"],
        "authentication" => &object["status"]["oauthAPIServer"]["encryptionStatus"],
        _ => &object["status"]["encryptionStatus"],
    }
}

fn of_list(target: &str, object: &Value, node: &str) -> Vec<Seen> {
    let list = place(target, object)["healthReports"].as_array().cloned().unwrap_or_default();
    let own = list.iter().filter(|report| report["nodeName"] == node);
    own.map(|report| {
        let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
        Seen {
            key: text("keyID"),
            status: text("status"),
            id: report["remoteKeyID"].as_str().map(Into::into),
            checked: text("lastCheckedTime"),
            detail: text("detail"),
        }
    })
    .collect()
}
