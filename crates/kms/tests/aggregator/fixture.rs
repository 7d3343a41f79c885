//! The test fixture: a real API server with the CRDs, scripted reporters, and the aggregator as a process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::kms::condition_type;
use api::names::manager;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::cluster::control_plane::{AuditedRequest, User};
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::demo::kms_health;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane, Error, Site};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::encryption_config::encryption_config;

/// Timeout for expected changes, on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// User agent of the aggregator.
pub const AGENT: &str = concat!("outrigger-kms-aggregator/", env!("CARGO_PKG_VERSION"));

/// Time between two reports. Reports are stale after eight seconds and removed after sixteen.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Condition,
    Typed,
}

/// A resource that holds reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub target: &'static str,
    pub kind: &'static str,
    /// Path of typed reports in the status.
    pub typed: &'static [&'static str],
}

pub const KUBE: Kind = Kind { target: "kubeapiserver", kind: "KubeAPIServer", typed: &["encryptionStatus"] };
pub const OPENSHIFT: Kind =
    Kind { target: "openshiftapiserver", kind: "OpenShiftAPIServer", typed: &["encryptionStatus"] };
pub const AUTHENTICATION: Kind =
    Kind { target: "authentication", kind: "Authentication", typed: &["oauthAPIServer", "encryptionStatus"] };
pub const KMS_HEALTH: Kind = Kind { target: "kmshealth", kind: "KMSHealth", typed: &[] };

impl Kind {
    fn resource(self) -> ApiResource {
        if self == KMS_HEALTH {
            let gvk = GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth");
            return ApiResource::from_gvk_with_plural(&gvk, "kmshealths");
        }
        openshift::resource(self.kind)
    }

    fn api_version(self) -> &'static str {
        if self == KMS_HEALTH { "outrigger.dev/v1alpha1" } else { "operator.openshift.io/v1" }
    }

    pub fn api(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// Returns the apply body with one node's reports.
    pub fn report_body(self, name: &str, form: Form, node: &str, reports: &[Report]) -> Value {
        let mut body =
            json!({ "apiVersion": self.api_version(), "kind": self.kind, "metadata": { "name": name } });
        body["status"] = match form {
            Form::Condition => {
                let entries: Vec<Value> = reports.iter().map(Report::in_condition).collect();
                json!({ "conditions": [{
                    "type": condition_type(node), "status": "True", "reason": "AsExpected",
                    "message": Value::from(entries).to_string(), "lastTransitionTime": "2026-01-01T00:00:00Z",
                }] })
            }
            Form::Typed => {
                let entries: Vec<Value> = reports.iter().map(|report| report.typed(node)).collect();
                let list = json!({ "healthReports": entries });
                self.typed.iter().rev().fold(list, |inner, name| json!({ *name: inner }))
            }
        };
        body
    }
}

/// One plugin's report by a scripted reporter.
#[derive(Clone, Debug)]
pub struct Report {
    pub key: &'static str,
    pub status: &'static str,
    /// Clock skew of the node, in seconds.
    pub clock_skew: i64,
    pub id: &'static str,
}

pub fn healthy(key: &'static str) -> Report {
    Report { key, status: "Healthy", clock_skew: 0, id: "kek-1" }
}

pub fn failing(key: &'static str) -> Report {
    Report { status: "Error", ..healthy(key) }
}

impl Report {
    fn time(&self) -> String {
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
        (now + SignedDuration::from_secs(self.clock_skew)).to_string()
    }

    fn detail(&self) -> Option<&'static str> {
        (self.status != "Healthy").then_some("Timeout: no answer within 5s")
    }

    fn typed(&self, node: &str) -> Value {
        let mut entry = json!({
            "nodeName": node, "keyID": self.key, "status": self.status, "lastCheckedTime": self.time(),
            "remoteKeyID": self.id,
        });
        if let Some(detail) = self.detail() {
            entry["detail"] = json!(detail);
        }
        entry
    }

    fn in_condition(&self) -> Value {
        let mut entry = json!({
            "keyID": self.key, "kekID": self.id, "status": self.status.to_lowercase(), "lastChecked": self.time(),
        });
        if let Some(detail) = self.detail() {
            entry["detail"] = json!(detail);
        }
        entry
    }
}

/// Returns the field manager of a node's reporter.
pub fn reporter_manager(node: &str) -> String {
    let digest: String = Sha256::digest(node.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}{digest}", manager::KMS_REPORTER_PREFIX)
}

/// Scripted reporters of several nodes, which report every half interval until dropped.
pub struct Reporters {
    nodes: Arc<Mutex<BTreeMap<String, Vec<Report>>>>,
    task: JoinHandle<()>,
}

impl Reporters {
    /// Sets what a node reports from now on. An empty list stops its reporter.
    pub fn set(&self, node: &str, reports: &[Report]) {
        let mut nodes = self.nodes.lock().unwrap();
        if reports.is_empty() {
            nodes.remove(node);
        } else {
            nodes.insert(node.into(), reports.to_vec());
        }
    }
}

impl Drop for Reporters {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The test fixture. Each test has its own control plane, because OpenShift's kinds have one object per cluster.
pub struct Fixture {
    pub plane: ControlPlane,
    pub client: Client,
    pub site: Arc<Site>,
    pub ns: String,
}

impl Fixture {
    pub async fn new(cx: &Context) -> Result<Self, Error> {
        let site = cx.site()?;
        let plane = ControlPlane::builder(&site).start().await?;
        install(&plane)?;
        let client = plane.client().await?;
        let ns = plane.namespace(cx.name()).await?;
        Ok(Self { plane, client, site, ns })
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete(&self, kind: Kind, name: &str) -> Result<(), Error> {
        let api = kind.api(&self.client);
        api.delete(name, &DeleteParams::default()).await?;
        wait::until("the deletion", TIMEOUT, || async {
            match api.get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Creates an object.
    pub async fn create(&self, kind: Kind, name: &str, spec: Value) -> Result<(), Error> {
        let api = kind.api(&self.client);
        let object = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name }, "spec": spec });
        api.patch(name, &PatchParams::apply("installer").force(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// Starts reporters of an object.
    pub fn reporters(&self, kind: Kind, name: &str, form: Form, first: &[(&str, Vec<Report>)]) -> Reporters {
        let nodes: Arc<Mutex<BTreeMap<String, Vec<Report>>>> =
            Arc::new(Mutex::new(first.iter().map(|(node, all)| ((*node).to_owned(), all.clone())).collect()));
        let (api, name, all) = (kind.api(&self.client), name.to_owned(), nodes.clone());
        let task = tokio::spawn(async move {
            let mut rounds = tokio::time::interval(INTERVAL / 2);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                rounds.tick().await;
                let now = all.lock().unwrap().clone();
                for (node, reports) in now {
                    let body = kind.report_body(&name, form, &node, &reports);
                    let params = PatchParams::apply(&reporter_manager(&node)).force();
                    // A lost report is followed by the next one.
                    let _ = api.patch_status(&name, &params, &Patch::Apply(&body)).await;
                }
            }
        });
        Reporters { nodes, task }
    }

    /// Publishes one node's reports once.
    pub async fn report(
        &self,
        kind: Kind,
        name: &str,
        form: Form,
        node: &str,
        reports: &[Report],
    ) -> kube::Result<DynamicObject> {
        let params = PatchParams::apply(&reporter_manager(node)).force();
        let body = kind.report_body(name, form, node, reports);
        kind.api(&self.client).patch_status(name, &params, &Patch::Apply(&body)).await
    }

    /// Starts the aggregator without leader election and with a short interval.
    pub fn aggregator(&self, targets: &str) -> Result<Process, Error> {
        let user = self.plane.user("kms-aggregator", Some("system:masters"))?;
        self.aggregator_as("aggregator", &user, targets, |program| self.without_election(program))
    }

    /// Configures the test's namespace for API servers and the Lease.
    pub fn in_namespace(&self, program: Program) -> Program {
        let all = [
            "pod-namespace",
            "kube-apiserver-namespace",
            "openshift-apiserver-namespace",
            "oauth-apiserver-namespace",
        ];
        all.into_iter().fold(program, |program, flag| program.flag(flag, &self.ns))
    }

    /// Also disables leader election.
    pub fn without_election(&self, program: Program) -> Program {
        self.in_namespace(program).flag("leader-elect", "false")
    }

    /// Starts the aggregator as a user, with other settings.
    pub fn aggregator_as(
        &self,
        name: &str,
        user: &User,
        targets: &str,
        change: impl FnOnce(Program) -> Program,
    ) -> Result<Process, Error> {
        let dir = self.site.dir().join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
        let program = Program::new(name, binaries::path("outrigger")?)
            .arg("kms-aggregator")
            .flag("kubeconfig", user.write_kubeconfig(&dir)?)
            .flag("targets", targets)
            .flag("interval", format!("{}s", INTERVAL.as_secs()))
            .flag("metrics-bind-address", "0")
            .flag("admin-bind-address", "0")
            .flag("log-level", "info,kms=debug");
        change(program).start(&self.site)
    }

    /// Returns a condition's status, reason and message.
    pub async fn condition(
        &self,
        kind: Kind,
        name: &str,
        type_: &str,
    ) -> Result<(String, String, String), Error> {
        let object = kind.api(&self.client).get(name).await?;
        let none = Vec::new();
        let conditions = object.data["status"]["conditions"].as_array().unwrap_or(&none);
        let found = conditions.iter().find(|one| one["type"] == type_);
        let text = |name: &str| found.and_then(|one| one[name].as_str()).unwrap_or_default().to_owned();
        Ok((text("status"), text("reason"), text("message")))
    }

    /// Waits until a condition has a reason (empty: is removed), and returns its message.
    pub async fn until(&self, kind: Kind, name: &str, type_: &str, reason: &str) -> Result<String, Error> {
        wait::until(format!("{type_} for {reason:?}"), TIMEOUT, || async {
            let condition = self.condition(kind, name, type_).await.map_err(|error| error.to_string())?;
            if condition.1 == reason { Ok(condition.2) } else { Err(format!("{condition:?}")) }
        })
        .await
    }

    /// Returns node and key of all typed reports.
    pub async fn reports(&self, kind: Kind, name: &str) -> Result<Vec<String>, Error> {
        let object = kind.api(&self.client).get(name).await?;
        let holder = kind.typed.iter().fold(&object.data["status"], |at, name| &at[*name]);
        let all = holder["healthReports"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> =
            all.iter().map(|one| format!("{}/{}", text(one, "nodeName"), text(one, "keyID"))).collect();
        names.sort();
        Ok(names)
    }

    /// Waits until exactly these typed reports exist.
    pub async fn until_reports(&self, kind: Kind, name: &str, expected: &[&str]) -> Result<(), Error> {
        wait::until(format!("the reports {expected:?}"), TIMEOUT, || async {
            let reports = self.reports(kind, name).await.map_err(|error| error.to_string())?;
            if reports == expected { Ok(()) } else { Err(format!("{reports:?}")) }
        })
        .await
    }

    /// Patches the status of an object, as its operator does.
    pub async fn patch_status(&self, kind: Kind, name: &str, status: Value) -> Result<(), Error> {
        let patch = Patch::Merge(json!({ "status": status }));
        kind.api(&self.client).patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Applies the Secret with an encryption configuration: KMS keys, the first of which encrypts.
    pub async fn deploy_keys(&self, secret: &str, keys: &[u64]) -> Result<(), Error> {
        use k8s_openapi::api::core::v1::Secret;
        let document = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret },
            "stringData": { "encryption-config": encryption_config(keys).to_string() },
        });
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.ns);
        api.patch(secret, &PatchParams::apply("installer").force(), &Patch::Apply(&document)).await?;
        Ok(())
    }

    /// Sets the revisions of static pods. The schema does not allow a revision for a new node, nor to unset one, so this takes two steps.
    pub async fn set_static_pods(&self, nodes: &[(&str, i64)]) -> Result<(), Error> {
        let object = KUBE.api(&self.client).get("cluster").await?;
        let known = object.data["status"]["nodeStatuses"].as_array().cloned().unwrap_or_default();
        let entry = |(node, _): &(&str, i64)| {
            let before = known.iter().find(|one| one["nodeName"] == **node);
            before.cloned().unwrap_or_else(|| json!({ "nodeName": node }))
        };
        let entries: Vec<Value> = nodes.iter().map(entry).collect();
        self.patch_status(KUBE, "cluster", json!({ "nodeStatuses": entries })).await?;
        self.roll_out(nodes).await
    }

    /// Changes the revisions of static pods.
    pub async fn roll_out(&self, nodes: &[(&str, i64)]) -> Result<(), Error> {
        let entry = |(node, revision): &(&str, i64)| json!({ "nodeName": node, "currentRevision": revision });
        let all: Vec<Value> = nodes.iter().map(entry).collect();
        self.patch_status(KUBE, "cluster", json!({ "nodeStatuses": all })).await
    }

    /// Creates ready pods of an API server that runs as a Deployment.
    pub async fn create_ready_pods(&self, nodes: &[&str], revision: &str) -> Result<(), Error> {
        use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.ns);
        let params = PatchParams::apply("installer").force();
        accounts.patch("default", &params, &Patch::Apply(&account)).await?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.ns);
        for node in nodes {
            let name = format!("apiserver-{node}");
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "labels": { "apiserver": "true", "revision": revision } },
                "spec": { "nodeName": node, "containers": [{ "name": "apiserver", "image": "images.example/apiserver" }] },
            });
            api.patch(&name, &params, &Patch::Apply(&pod)).await?;
            let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await?;
        }
        Ok(())
    }

    /// Returns the writes of the aggregator so far, without those of its Lease.
    pub fn writes(&self) -> Result<Vec<AuditedRequest>, Error> {
        self.plane.audit().requests(|request| {
            request.user_agent == AGENT && request.is_write() && request.resource != "leases"
        })
    }

    /// Waits for the last write, then asserts that the aggregator writes nothing for a while although reports arrive.
    pub async fn assert_no_writes_for(&self, time: Duration) -> Result<(), Error> {
        // Events are written a moment after the change they are about.
        let last = Mutex::new((self.writes()?.len(), Instant::now()));
        let before = wait::until("writes to stop", TIMEOUT, || async {
            let now = self.writes().map_err(|error| error.to_string())?.len();
            let mut last = last.lock().unwrap();
            if last.0 != now {
                *last = (now, Instant::now());
            }
            let quiet = last.1.elapsed();
            if quiet >= INTERVAL { Ok(now) } else { Err(format!("{now} writes, none for {quiet:?}")) }
        })
        .await?;
        wait::throughout("no writes", time, || async {
            let now = self.writes().map_err(|error| error.to_string())?;
            if now.len() == before { Ok(()) } else { Err(format!("{:?}", now.last())) }
        })
        .await
    }

    /// Returns reason and note of all events about an object.
    pub async fn events(&self, name: &str) -> Result<Vec<(String, String)>, Error> {
        use k8s_openapi::api::events::v1::Event;
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = api.list(&kube::api::ListParams::default()).await?.items;
        let about =
            |event: &Event| event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(name);
        let mut found: Vec<Event> = all.into_iter().filter(about).collect();
        found.sort_by_key(ResourceExt::creation_timestamp);
        let text = |event: Event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default());
        Ok(found.into_iter().map(text).collect())
    }
}

/// Installs the CRDs.
fn install(plane: &ControlPlane) -> Result<(), Error> {
    openshift::install(plane, FeatureSet::TechPreview)?;
    kms_health::install_crd(plane)
}

/// Runs kubectl as administrator.
pub fn kubectl(plane: &ControlPlane, args: &[&str]) -> Result<String, Error> {
    testbed::cluster::kubectl::run(plane, args, None)
}

/// Applies files of `deploy/kms`.
pub fn install_manifests(plane: &ControlPlane, files: &[&str]) -> Result<(), Error> {
    for file in files {
        let path = format!("{}/../../deploy/kms/{file}", env!("CARGO_MANIFEST_DIR"));
        kubectl(plane, &["apply", "--server-side", "-f", &path])?;
    }
    Ok(())
}

/// Installs OpenShift's ClusterOperator CRD.
pub async fn install_cluster_operators(fixture: &Fixture) -> Result<Api<DynamicObject>, Error> {
    let file = openshift::cluster_operator_crd()?.display().to_string();
    kubectl(&fixture.plane, &["apply", "--server-side", "-f", &file])?;
    kubectl(&fixture.plane, &["wait", "--for=condition=Established", "--timeout=30s", "-f", &file])?;
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "clusteroperators");
    let operators: Api<DynamicObject> = Api::all_with(fixture.client.clone(), &resource);
    let everything = kube::api::ListParams::default();
    wait::until("the kind", TIMEOUT, || operators.list(&everything)).await?;
    Ok(operators)
}
