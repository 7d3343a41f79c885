//! What tests stand on: the real API server, the kinds, reporters that are played, and the aggregator as a process.

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
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane, Error, Site};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// How long things that take a moment may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// The user agent of the aggregator.
pub const AGENT: &str = concat!("outrigger-kms-aggregator/", env!("CARGO_PKG_VERSION"));

/// Time between two reports: stale after eight seconds, removed after sixteen.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// A form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Condition,
    Typed,
}

/// A kind that reports stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub target: &'static str,
    pub kind: &'static str,
    /// Where typed reports stand in the status.
    pub typed: &'static [&'static str],
}

pub const KUBE: Kind = Kind { target: "kubeapiserver", kind: "KubeAPIServer", typed: &["encryptionStatus"] };
pub const OPENSHIFT: Kind =
    Kind { target: "openshiftapiserver", kind: "OpenShiftAPIServer", typed: &["encryptionStatus"] };
pub const AUTHENTICATION: Kind =
    Kind { target: "authentication", kind: "Authentication", typed: &["oauthAPIServer", "encryptionStatus"] };
pub const OURS: Kind = Kind { target: "kmshealth", kind: "KMSHealth", typed: &[] };

impl Kind {
    fn resource(self) -> ApiResource {
        if self == OURS {
            let gvk = GroupVersionKind::gvk("outrigger.dev", "v1alpha1", "KMSHealth");
            return ApiResource::from_gvk_with_plural(&gvk, "kmshealths");
        }
        openshift::resource(self.kind)
    }

    fn api_version(self) -> &'static str {
        if self == OURS { "outrigger.dev/v1alpha1" } else { "operator.openshift.io/v1" }
    }

    pub fn api(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// The apply of one node's reports.
    pub fn report(self, name: &str, form: Form, node: &str, reports: &[Report]) -> Value {
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

/// One plugin, as a played reporter sees it.
#[derive(Clone, Debug)]
pub struct Report {
    pub key: &'static str,
    pub status: &'static str,
    /// Seconds that the node's clock is off.
    pub clock: i64,
    pub id: &'static str,
}

pub fn well(key: &'static str) -> Report {
    Report { key, status: "Healthy", clock: 0, id: "kek-1" }
}

pub fn sick(key: &'static str) -> Report {
    Report { status: "Error", ..well(key) }
}

impl Report {
    fn time(&self) -> String {
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
        (now + SignedDuration::from_secs(self.clock)).to_string()
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

/// The field manager of a node's reporter.
pub fn reporter_manager(node: &str) -> String {
    let digest: String = Sha256::digest(node.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}{digest}", manager::KMS_REPORTER_PREFIX)
}

/// Reporters of several nodes, which report every half interval until they are stopped.
pub struct Reporters {
    nodes: Arc<Mutex<BTreeMap<String, Vec<Report>>>>,
    task: JoinHandle<()>,
}

impl Reporters {
    /// What a node reports from here on; nothing stops its reporter.
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

/// What a test stands on: a control plane of its own, since the objects of OpenShift's kinds are one for the whole cluster.
pub struct Ground {
    pub plane: ControlPlane,
    pub client: Client,
    pub site: Arc<Site>,
    pub ns: String,
}

impl Ground {
    pub async fn of(cx: &Context) -> Result<Self, Error> {
        let site = cx.site()?;
        let plane = ControlPlane::on(&site).start().await?;
        install(&plane).await?;
        let client = plane.client().await?;
        let ns = plane.namespace(cx.name()).await?;
        Ok(Self { plane, client, site, ns })
    }

    /// Removes an object, and waits until it is gone.
    pub async fn remove(&self, kind: Kind, name: &str) -> Result<(), Error> {
        let api = kind.api(&self.client);
        api.delete(name, &DeleteParams::default()).await?;
        wait::until("its end", SOON, || async {
            match api.get_opt(name).await {
                Ok(None) => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        })
        .await
    }

    /// A new object of a kind.
    pub async fn object(&self, kind: Kind, name: &str, spec: Value) -> Result<(), Error> {
        let api = kind.api(&self.client);
        let object = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name }, "spec": spec });
        api.patch(name, &PatchParams::apply("installer").force(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// Reporters of an object.
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
                    let body = kind.report(&name, form, &node, &reports);
                    let params = PatchParams::apply(&reporter_manager(&node)).force();
                    // One that is lost is followed by the next.
                    let _ = api.patch_status(&name, &params, &Patch::Apply(&body)).await;
                }
            }
        });
        Reporters { nodes, task }
    }

    /// One report of one node.
    pub async fn report(
        &self,
        kind: Kind,
        name: &str,
        form: Form,
        node: &str,
        reports: &[Report],
    ) -> kube::Result<DynamicObject> {
        let params = PatchParams::apply(&reporter_manager(node)).force();
        let body = kind.report(name, form, node, reports);
        kind.api(&self.client).patch_status(name, &params, &Patch::Apply(&body)).await
    }

    /// Starts the aggregator, alone and with a short interval.
    pub fn aggregator(&self, targets: &str) -> Result<Process, Error> {
        let user = self.plane.user("kms-aggregator", Some("system:masters"))?;
        self.aggregator_as("aggregator", &user, targets, |program| self.alone(program))
    }

    /// API servers and the Lease are in the test's namespace.
    pub fn here(&self, program: Program) -> Program {
        let all = [
            "pod-namespace",
            "kube-apiserver-namespace",
            "openshift-apiserver-namespace",
            "oauth-apiserver-namespace",
        ];
        all.into_iter().fold(program, |program, flag| program.flag(flag, &self.ns))
    }

    /// And there is no election.
    pub fn alone(&self, program: Program) -> Program {
        self.here(program).flag("leader-elect", "false")
    }

    /// The same as somebody, with other settings.
    pub fn aggregator_as(
        &self,
        name: &str,
        user: &User,
        targets: &str,
        change: impl FnOnce(Program) -> Program,
    ) -> Result<Process, Error> {
        let folder = self.site.dir().join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|source| Error::Io { what: "making a folder".into(), source })?;
        let program = Program::new(name, binaries::path("outrigger")?)
            .arg("kms-aggregator")
            .flag("kubeconfig", user.write_kubeconfig(&folder)?)
            .flag("targets", targets)
            .flag("interval", format!("{}s", INTERVAL.as_secs()))
            .flag("metrics-bind-address", "0")
            .flag("log-level", "info,kms=debug");
        change(program).start(&self.site)
    }

    /// A condition's status, reason and message.
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

    /// Waits until a condition has a reason; none for one that is gone.
    pub async fn until(&self, kind: Kind, name: &str, type_: &str, reason: &str) -> Result<String, Error> {
        wait::until(format!("{type_} for {reason:?}"), SOON, || async {
            let seen = self.condition(kind, name, type_).await.map_err(|error| error.to_string())?;
            if seen.1 == reason { Ok(seen.2) } else { Err(format!("{seen:?}")) }
        })
        .await
    }

    /// Nodes and keys of the typed reports that stand.
    pub async fn entries(&self, kind: Kind, name: &str) -> Result<Vec<String>, Error> {
        let object = kind.api(&self.client).get(name).await?;
        let holder = kind.typed.iter().fold(&object.data["status"], |at, name| &at[*name]);
        let all = holder["healthReports"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> =
            all.iter().map(|one| format!("{}/{}", text(one, "nodeName"), text(one, "keyID"))).collect();
        names.sort();
        Ok(names)
    }

    /// Waits until exactly these typed reports stand.
    pub async fn until_entries(&self, kind: Kind, name: &str, expected: &[&str]) -> Result<(), Error> {
        wait::until(format!("the entries {expected:?}"), SOON, || async {
            let seen = self.entries(kind, name).await.map_err(|error| error.to_string())?;
            if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await
    }

    /// Changes the status of an object as the operator that owns it does.
    pub async fn operator_writes(&self, kind: Kind, name: &str, status: Value) -> Result<(), Error> {
        let patch = Patch::Merge(json!({ "status": status }));
        kind.api(&self.client).patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Makes, or replaces, the secret with an encryption configuration: keys of a KMS, of which the first encrypts.
    pub async fn deploy(&self, secret: &str, keys: &[u64]) -> Result<(), Error> {
        use k8s_openapi::api::core::v1::Secret;
        let provider = |key: &u64| {
            let (name, endpoint) =
                (format!("{key}_secrets"), format!("unix:///var/run/kmsplugin/kms-{key}.sock"));
            json!({ "kms": { "apiVersion": "v2", "name": name, "endpoint": endpoint, "timeout": "10s" } })
        };
        let mut providers: Vec<Value> = keys.iter().map(provider).collect();
        providers.push(json!({ "identity": {} }));
        let config = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{ "resources": ["secrets"], "providers": providers }],
        });
        let document = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret },
            "stringData": { "encryption-config": config.to_string() },
        });
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.ns);
        api.patch(secret, &PatchParams::apply("installer").force(), &Patch::Apply(&document)).await?;
        Ok(())
    }

    /// Static pods at revisions, as the operator says. A revision cannot be told with the node's first mention, nor be unset.
    pub async fn static_pods(&self, nodes: &[(&str, i64)]) -> Result<(), Error> {
        let object = KUBE.api(&self.client).get("cluster").await?;
        let known = object.data["status"]["nodeStatuses"].as_array().cloned().unwrap_or_default();
        let first = |(node, _): &(&str, i64)| {
            let before = known.iter().find(|one| one["nodeName"] == **node);
            before.cloned().unwrap_or_else(|| json!({ "nodeName": node }))
        };
        let first: Vec<Value> = nodes.iter().map(first).collect();
        self.operator_writes(KUBE, "cluster", json!({ "nodeStatuses": first })).await?;
        self.roll_out(nodes).await
    }

    /// Static pods at other revisions than before.
    pub async fn roll_out(&self, nodes: &[(&str, i64)]) -> Result<(), Error> {
        let both = |(node, revision): &(&str, i64)| json!({ "nodeName": node, "currentRevision": revision });
        let all: Vec<Value> = nodes.iter().map(both).collect();
        self.operator_writes(KUBE, "cluster", json!({ "nodeStatuses": all })).await
    }

    /// Ready pods of an API server that is a Deployment.
    pub async fn pods(&self, nodes: &[&str], revision: &str) -> Result<(), Error> {
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

    /// Writes of the aggregator that were answered well, so far.
    pub fn writes(&self) -> Result<Vec<AuditedRequest>, Error> {
        self.plane.audit().requests(|request| {
            request.user_agent == AGENT && request.is_write() && request.resource != "leases"
        })
    }

    /// Whether nothing was written for a while, although reports come.
    pub async fn rests_for(&self, time: Duration) -> Result<(), Error> {
        // Events come a moment after what they tell of.
        let last = Mutex::new((self.writes()?.len(), Instant::now()));
        let before = wait::until("the last write", SOON, || async {
            let now = self.writes().map_err(|error| error.to_string())?.len();
            let mut last = last.lock().unwrap();
            if last.0 != now {
                *last = (now, Instant::now());
            }
            let quiet = last.1.elapsed();
            if quiet >= INTERVAL { Ok(now) } else { Err(format!("{now} writes, and none for {quiet:?}")) }
        })
        .await?;
        wait::throughout("rest", time, || async {
            let now = self.writes().map_err(|error| error.to_string())?;
            if now.len() == before { Ok(()) } else { Err(format!("{:?}", now.last())) }
        })
        .await
    }

    /// Reasons and notes of events about an object.
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

/// Defines the kinds.
async fn install(plane: &ControlPlane) -> Result<(), Error> {
    openshift::install(plane, FeatureSet::TechPreview)?;
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/outrigger.dev_kmshealths.yaml");
    kubectl(plane, &["apply", "--server-side", "-f", ours])?;
    let established = ["wait", "--for=condition=Established", "--timeout=30s", "-f", ours];
    kubectl(plane, &established).map(drop)
}

/// What kubectl of the administrator says.
pub fn kubectl(plane: &ControlPlane, args: &[&str]) -> Result<String, Error> {
    let output = plane.kubectl()?.args(args).output();
    let output = output.map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Refused(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Installs files of `deploy/kms`.
pub fn ship(plane: &ControlPlane, files: &[&str]) -> Result<(), Error> {
    for file in files {
        let path = format!("{}/../../deploy/kms/{file}", env!("CARGO_MANIFEST_DIR"));
        kubectl(plane, &["apply", "--server-side", "-f", &path])?;
    }
    Ok(())
}

/// Defines ClusterOperator, as OpenShift publishes it.
pub async fn cluster_operators(ground: &Ground) -> Result<Api<DynamicObject>, Error> {
    let file = openshift::cluster_operator_crd()?.display().to_string();
    kubectl(&ground.plane, &["apply", "--server-side", "-f", &file])?;
    kubectl(&ground.plane, &["wait", "--for=condition=Established", "--timeout=30s", "-f", &file])?;
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "clusteroperators");
    let operators: Api<DynamicObject> = Api::all_with(ground.client.clone(), &resource);
    let everything = kube::api::ListParams::default();
    wait::until("the kind", SOON, || operators.list(&everything)).await?;
    Ok(operators)
}
