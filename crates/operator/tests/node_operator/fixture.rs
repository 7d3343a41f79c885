//! Fixture of black-box tests: the operator binary, a real API server with real controllers, fake kubelets and scripted
//! sidecars.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use operator::install;
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::cluster::kubectl;
use testbed::fakes::kubelet::FakeKubelet;
use testbed::fakes::sidecars::{FakeSidecar, FakeSidecars, Request, Submission};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane, Error, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

#[path = "platform.rs"]
mod platform;
pub use platform::PLATFORM;

/// The timeout of waits, for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The user agent of the operator.
pub const AGENT: &str = concat!("outrigger-operator/", env!("CARGO_PKG_VERSION"));

pub const IMAGE: &str = "images.example/sei:v1";
pub const OTHER_IMAGE: &str = "images.example/sei:v2";

static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// A namespace with fake kubelets and scripted sidecars.
pub struct Fixture<'a> {
    pub plane: &'a ControlPlane,
    pub ns: String,
    pub client: Client,
    pub sidecars: FakeSidecars,
    pub kubelets: FakeKubelet,
    pub site: Arc<Site>,
    /// The API server URL that operators use.
    pub server: String,
}

impl<'a> Fixture<'a> {
    /// Creates the namespace. No operator runs yet.
    pub async fn new(cx: &'a Context) -> Result<Self, Error> {
        let plane = cx.control_plane_with_controllers().await?;
        INSTALLED.get_or_try_init(|| install(plane)).await?;
        let ns = plane.namespace(cx.name()).await?;
        let client = plane.client().await?;
        apply(plane, &install::node_namespace(&ns))?;
        let sidecars = FakeSidecars::start().await?;
        let kubelets = FakeKubelet::start(plane, &sidecars, [&ns]).await?;
        Ok(Self { plane, ns, client, sidecars, kubelets, site: cx.site()?, server: plane.url() })
    }

    /// Starts the operator for this namespace, with the shipped RBAC.
    pub fn start_operator(&self) -> Result<Operator, Error> {
        self.start_operator_with(|program| program)
    }

    /// Starts the operator with changed settings.
    pub fn start_operator_with(&self, change: impl FnOnce(Program) -> Program) -> Result<Operator, Error> {
        self.spawn_operator(|program| {
            change(program.flag("leader-elect", "false").flag("pod-namespace", &self.ns))
        })
    }

    /// Starts the operator without `--leader-elect` and `--pod-namespace`.
    pub fn spawn_operator(&self, change: impl FnOnce(Program) -> Program) -> Result<Operator, Error> {
        let user = self.plane.user(&user(), None)?.at(&self.server);
        let token = self.site.dir().join("token");
        std::fs::write(&token, "a token")
            .map_err(|source| Error::Io { what: "writing the token file".into(), source })?;
        let mut program = Program::new("operator", binaries::path("outrigger")?)
            .arg("operator")
            .flag("kubeconfig", user.write_kubeconfig(self.site.dir())?)
            .flag("watch-namespaces", &self.ns)
            .flag("sidecar-address-template", self.sidecars.address().to_string())
            .env("OUTRIGGER_TOKEN_SERVICE_ACCOUNT", format!("{}/{}", install::NAMESPACE, install::ACCOUNT))
            .env("OUTRIGGER_LEGACY_SIDECAR_TOKEN_FILE", &token)
            .flag("metrics-bind-address", "127.0.0.1:0")
            .flag("health-probe-bind-address", "0")
            .flag("admin-bind-address", "0")
            .flag("log-level", "info,operator=debug");
        for (name, value) in PLATFORM {
            program = program.env(name, value);
        }
        Ok(Operator { process: change(program).start(&self.site)? })
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    pub fn nodes(&self) -> Api<SeiNode> {
        self.api()
    }

    pub fn sidecar(&self, node: &str) -> FakeSidecar {
        self.sidecars.node(&self.ns, node)
    }

    /// Creates a full node, modified by `change`.
    pub async fn create(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<SeiNode, Error> {
        let mut node = json!({
            "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": name },
            "spec": { "chainId": "arctic-1", "image": IMAGE, "fullNode": {} },
        });
        change(&mut node);
        let node: SeiNode = serde_json::from_value(node).expect("a valid node");
        Ok(self.nodes().create(&PostParams::default(), &node).await?)
    }

    /// Creates a full node and waits until it is ready.
    pub async fn create_ready(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<SeiNode, Error> {
        self.create(name, change).await?;
        self.wait_ready(name, "it is ready").await
    }

    /// Edits a node.
    pub async fn edit(&self, name: &str, patch: Value) -> Result<SeiNode, Error> {
        Ok(self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Waits until a node is ready with its newest spec. `what` names the wait in errors.
    pub async fn wait_ready(&self, name: &str, what: &str) -> Result<SeiNode, Error> {
        self.wait_until(name, what, is_ready).await
    }

    /// Waits until a node is in phase Failed.
    pub async fn wait_failed(&self, name: &str) -> Result<SeiNode, Error> {
        self.wait_until(name, "it failed", |_, status| status.phase == Some(SeiNodePhase::Failed)).await
    }

    /// Waits until a node fulfills a condition.
    pub async fn wait_until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&SeiNode, &SeiNodeStatus) -> bool,
    ) -> Result<SeiNode, Error> {
        let nodes = self.nodes();
        wait::until(format!("{name}: {what}"), TIMEOUT, || async {
            let node = nodes.get(name).await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            if condition(&node, &status) {
                return Ok(node);
            }
            Err(serde_json::to_string(&status).unwrap_or_default())
        })
        .await
    }

    /// Patches the status of a node as another client.
    pub async fn patch_status(&self, name: &str, status: Value) -> Result<SeiNode, Error> {
        let patch = Patch::Merge(json!({ "status": status }));
        Ok(self.nodes().patch_status(name, &PatchParams::default(), &patch).await?)
    }

    /// Creates or replaces a Secret.
    pub async fn put_secret(&self, name: &str, data: &[(&str, &str)]) -> Result<(), Error> {
        let entries = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            string_data: Some(entries.collect()),
            ..Secret::default()
        };
        let secrets = self.api::<Secret>();
        match secrets.create(&PostParams::default(), &secret).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                secrets.replace(name, &PostParams::default(), &secret).await?;
            }
            created => drop(created?),
        }
        Ok(())
    }

    /// Returns the types of the tasks that a node's sidecar has started, in order.
    pub fn started_tasks(&self, node: &str) -> Vec<String> {
        let name = self.sidecar(node).name().clone();
        let is_started = |request: &Request| {
            request.node == name && matches!(request.submission, Some(Submission::Started { .. }))
        };
        let requests = self.sidecars.journal().requests(is_started);
        requests.into_iter().filter_map(|request| request.task_type).collect()
    }

    /// Returns how often a task type was submitted to a node's sidecar, accepted or not.
    pub fn submission_count(&self, node: &str, task_type: TaskType) -> usize {
        let name = self.sidecar(node).name().clone();
        self.sidecars.journal().count(|request| {
            request.node == name
                && request.is_submission()
                && request.task_type.as_deref() == Some(task_type.as_str())
        })
    }

    /// Deletes an object as another client.
    pub async fn delete<K>(&self, name: &str) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// Returns the pod of a node.
    pub async fn pod(&self, name: &str) -> Result<Pod, Error> {
        Ok(self.api::<Pod>().get(&format!("{name}-0")).await?)
    }

    /// Returns the operator's requests in this namespace so far.
    pub fn requests(&self) -> Result<Vec<AuditedRequest>, Error> {
        self.plane.audit().requests(|request| request.user_agent == AGENT && request.namespace == self.ns)
    }

    /// Returns the operator's writes in this namespace so far.
    pub fn writes(&self) -> Result<Vec<AuditedRequest>, Error> {
        Ok(self.requests()?.into_iter().filter(AuditedRequest::is_write).collect())
    }

    /// Returns how many pods the operator has deleted.
    pub fn pod_deletion_count(&self) -> Result<usize, Error> {
        Ok(self.writes()?.iter().filter(|write| is_pod_deletion(write)).count())
    }

    /// Returns how many pods of a node the operator has deleted, after a second without writes.
    pub async fn pod_deletion_count_of(&self, node: &str) -> Result<usize, Error> {
        self.settled_writes().await?;
        let pod = format!("{node}-0");
        Ok(self.writes()?.iter().filter(|write| is_pod_deletion(write) && write.name == pod).count())
    }

    /// Fails if the operator writes anything during this time.
    pub async fn assert_no_writes(&self, time: Duration) -> Result<(), Error> {
        let before = self.settled_writes().await?;
        wait::throughout("no writes", time, || async {
            let now = self.writes().map_err(|error| error.to_string())?;
            if now.len() == before { Ok(()) } else { Err(format!("{:?}", &now[before..])) }
        })
        .await
    }

    /// Returns the number of writes, after a second without any: a write is in the audit log a moment after its response.
    async fn settled_writes(&self) -> Result<usize, Error> {
        wait::until("a second without a write", TIMEOUT, || async {
            let before = self.writes()?.len();
            wait::throughout("no write", Duration::from_secs(1), || async {
                let now = self.writes().map_err(|error| error.to_string())?.len();
                if now == before { Ok(()) } else { Err(format!("{} more", now - before)) }
            })
            .await
            .map(|()| before)
        })
        .await
    }

    /// Returns the events of a node: reason and message.
    pub async fn events(&self, node: &str) -> Result<Vec<(String, String)>, Error> {
        let all = self.api::<Event>().list(&ListParams::default()).await?;
        let about = all.items.into_iter().filter(|event| {
            event.regarding.as_ref().is_some_and(|object| {
                object.kind.as_deref() == Some("SeiNode") && object.name.as_deref() == Some(node)
            })
        });
        Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
    }

    /// Waits until an object fulfills a condition.
    pub async fn wait_until_object<K>(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&K) -> bool,
    ) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        wait::until(format!("{} {name}: {what}", K::kind(&())), TIMEOUT, || async {
            let object = api.get(name).await.map_err(|error| error.to_string())?;
            if condition(&object) {
                Ok(object)
            } else {
                Err(format!("version {:?}", object.resource_version()))
            }
        })
        .await
    }
}

/// A running operator; killed when dropped.
pub struct Operator {
    process: Process,
}

impl Operator {
    /// Sends SIGKILL.
    pub fn kill(self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }

    /// Sends SIGTERM, waits for the exit and returns the exit code.
    pub fn terminate(&self) -> Result<Option<i32>, Error> {
        self.process.signal(Signal::TERM)?;
        Ok(self.process.stop(Duration::from_secs(15))?.code())
    }

    pub fn check_alive(&self) -> Result<(), Error> {
        self.process.check_alive()
    }

    /// Waits until the operator exits by itself. Returns its exit code and its log.
    pub async fn wait_exit(&self) -> Result<(Option<i32>, String), Error> {
        wait::until("the operator to exit", TIMEOUT, || async {
            if self.check_alive().is_err() { Ok(()) } else { Err("it is running") }
        })
        .await?;
        let log = std::fs::read_to_string(self.process.log())
            .map_err(|source| Error::Io { what: "reading the log of the operator".into(), source })?;
        Ok((self.process.stop(Duration::ZERO)?.code(), log))
    }

    /// Scrapes a metric. Returns the value of the series with these labels, if there is one.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<Option<f64>, Error> {
        let failed = |source| Error::Io { what: "reading metrics".into(), source };
        let mut stream = TcpStream::connect(self.admin_address().await?).await.map_err(failed)?;
        let request = "GET /metrics HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.map_err(failed)?;
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let series = response.lines().find(|line| {
            line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label))
        });
        Ok(series.and_then(|line| line.rsplit(' ').next()?.parse().ok()))
    }

    async fn admin_address(&self) -> Result<String, Error> {
        wait::until("the admin address", TIMEOUT, || async {
            let log = std::fs::read_to_string(self.process.log()).unwrap_or_default();
            let line = log.lines().rev().find(|line| line.contains(r#""server":"metrics""#));
            let line: Value = line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
            line["address"].as_str().map(str::to_owned).ok_or_else(|| format!("the log is\n{log}"))
        })
        .await
    }
}

/// Applies objects as the administrator.
pub fn apply(plane: &ControlPlane, objects: &[Value]) -> Result<(), Error> {
    kubectl::apply(plane, &json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string())
}

/// Returns the user name of the operator.
pub fn user() -> String {
    format!("system:serviceaccount:{}:{}", install::NAMESPACE, install::ACCOUNT)
}

/// True when a node is running and ready with its newest spec.
pub fn is_ready(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    status.phase == Some(SeiNodePhase::Running)
        && status.reconciled_generation == node.metadata.generation
        && reason(status, "Ready") == "NodeReady"
}

pub fn is_pod_deletion(request: &AuditedRequest) -> bool {
    request.verb == "delete" && request.resource == "pods" && request.code < 300
}

fn condition<'s>(status: &'s SeiNodeStatus, type_: &str) -> Option<&'s Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns the reason of a condition.
pub fn reason<'s>(status: &'s SeiNodeStatus, type_: &str) -> &'s str {
    condition(status, type_).map_or("", |condition| &condition.reason)
}

/// Returns the message of a condition.
pub fn message<'s>(status: &'s SeiNodeStatus, type_: &str) -> &'s str {
    condition(status, type_).map_or("", |condition| &condition.message)
}

async fn install(plane: &ControlPlane) -> Result<(), Error> {
    for (kind, path) in [("-k", "crds"), ("-f", "operator/namespace.yaml"), ("-f", "operator/rbac.yaml")] {
        let path = format!("{}/../../deploy/{path}", env!("CARGO_MANIFEST_DIR"));
        let output = plane
            .kubectl()?
            .args(["apply", "--server-side", kind, &path])
            .output()
            .map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
        if !output.status.success() {
            return Err(Error::Other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
    }
    let nodes: Api<SeiNode> = Api::all(plane.client().await?);
    let one = ListParams::default().limit(1);
    wait::until("the SeiNode CRD", TIMEOUT, || nodes.list(&one)).await.map(drop)
}
