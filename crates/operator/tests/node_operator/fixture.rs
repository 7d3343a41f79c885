//! What black-box tests of the operator stand on: the real binary, the real API server with real controllers, played kubelets
//! and scripted sidecars.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::sei_node::{SeiNodePhase, SeiNodeStatus};
use api::sidecar_wire::TaskType;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use operator::install;
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::cluster::control_plane::AuditedRequest;
use testbed::fakes::kubelet::KubeletPlayer;
use testbed::fakes::sidecars::{Request, Sidecar, Sidecars, Submission};
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane, Error, Site};
use tokio::sync::OnceCell;

#[path = "platform.rs"]
mod platform;
pub use platform::PLATFORM;

/// How long things that take a moment may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// The user agent of the operator.
pub const AGENT: &str = concat!("outrigger-operator/", env!("CARGO_PKG_VERSION"));

pub const IMAGE: &str = "images.example/sei:v1";
pub const OTHER_IMAGE: &str = "images.example/sei:v2";

static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// What a test stands on.
pub struct Ground<'a> {
    pub plane: &'a ControlPlane,
    pub ns: String,
    pub client: Client,
    pub sidecars: Sidecars,
    pub kubelets: KubeletPlayer,
    pub site: Arc<Site>,
    /// Where operators find the API server.
    pub server: String,
}

impl<'a> Ground<'a> {
    /// A namespace with kubelets and sidecars, and no operator yet.
    pub async fn of(cx: &'a Context) -> Result<Self, Error> {
        let plane = cx.controlled_plane().await?;
        INSTALLED.get_or_try_init(|| install(plane)).await?;
        let ns = plane.namespace(cx.name()).await?;
        let client = plane.client().await?;
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some("seid-node".into()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &ns);
        accounts.create(&PostParams::default(), &account).await?;
        let sidecars = Sidecars::start().await?;
        let kubelets = KubeletPlayer::start(plane, &sidecars, [&ns]).await?;
        Ok(Self { plane, ns, client, sidecars, kubelets, site: cx.site()?, server: plane.url() })
    }

    /// Starts the operator, for this namespace only, with the rights that are shipped.
    pub fn operator(&self) -> Result<Operator, Error> {
        self.operator_with(|program| program)
    }

    /// The same with other settings.
    pub fn operator_with(&self, change: impl FnOnce(Program) -> Program) -> Result<Operator, Error> {
        self.start(|program| change(program.flag("leader-elect", "false").flag("pod-namespace", &self.ns)))
    }

    /// The same without a word about where it runs, and whether it has to be elected.
    pub fn start(&self, change: impl FnOnce(Program) -> Program) -> Result<Operator, Error> {
        let user = self.plane.user(&user(), None)?.at(&self.server);
        let token = self.site.dir().join("token");
        std::fs::write(&token, "a token")
            .map_err(|source| Error::Io { what: "writing a token".into(), source })?;
        let mut program = Program::new("operator", binaries::path("outrigger")?)
            .arg("operator")
            .flag("kubeconfig", user.write_kubeconfig(self.site.dir())?)
            .flag("watch-namespaces", &self.ns)
            .flag("sidecar-address-template", self.sidecars.address().to_string())
            .flag("sidecar-token-file", &token)
            .flag("metrics-bind-address", "0")
            .flag("health-probe-bind-address", "0")
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

    pub fn sidecar(&self, node: &str) -> Sidecar {
        self.sidecars.node(&self.ns, node)
    }

    /// Creates a full node; `change` may make another kind of it.
    pub async fn create(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<SeiNode, Error> {
        let mut node = json!({
            "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "metadata": { "name": name },
            "spec": { "chainId": "arctic-1", "image": IMAGE, "fullNode": {} },
        });
        change(&mut node);
        let node: SeiNode = serde_json::from_value(node).expect("it is a node");
        Ok(self.nodes().create(&PostParams::default(), &node).await?)
    }

    /// Creates a full node and waits until it runs and rests.
    pub async fn running(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<SeiNode, Error> {
        self.create(name, change).await?;
        self.until(name, "it is ready", is_ready).await
    }

    /// Edits a node.
    pub async fn edit(&self, name: &str, patch: Value) -> Result<SeiNode, Error> {
        Ok(self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Waits until a node is as wanted.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&SeiNode, &SeiNodeStatus) -> bool,
    ) -> Result<SeiNode, Error> {
        let nodes = self.nodes();
        let last = std::sync::Mutex::new(String::new());
        let waited = wait::until(format!("{name}: {what}"), SOON, || async {
            let node = nodes.get(name).await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            if wanted(&node, &status) {
                return Ok(node);
            }
            let text = serde_json::to_string(&status).unwrap_or_default();
            last.lock().expect("nobody panicked").clone_from(&text);
            Err(text)
        });
        waited.await
    }

    /// Writes into a node's status as somebody else.
    pub async fn patch_status(&self, name: &str, status: Value) -> Result<SeiNode, Error> {
        let patch = Patch::Merge(json!({ "status": status }));
        Ok(self.nodes().patch_status(name, &PatchParams::default(), &patch).await?)
    }

    /// Makes a Secret, or puts other data into one.
    pub async fn secret(&self, name: &str, data: &[(&str, &str)]) -> Result<(), Error> {
        let text = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            string_data: Some(text.collect()),
            ..Secret::default()
        };
        let secrets = self.api::<Secret>();
        match secrets.create(&PostParams::default(), &secret).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                secrets.replace(name, &PostParams::default(), &secret).await?;
            }
            made => drop(made?),
        }
        Ok(())
    }

    /// The types of the tasks that a node's sidecar has begun, in their order.
    pub fn begun(&self, node: &str) -> Vec<String> {
        let name = self.sidecar(node).name().clone();
        let begun = |request: &Request| {
            request.node == name && matches!(request.submission, Some(Submission::Begun { .. }))
        };
        let requests = self.sidecars.journal().requests(begun);
        requests.into_iter().filter_map(|request| request.task_type).collect()
    }

    /// How often a task of a type was given to a node's sidecar, taken or not.
    pub fn given(&self, node: &str, task_type: TaskType) -> usize {
        let name = self.sidecar(node).name().clone();
        self.sidecars.journal().count(|request| {
            request.node == name
                && request.is_submission()
                && request.task_type.as_deref() == Some(task_type.as_str())
        })
    }

    /// Deletes an object as somebody else.
    pub async fn delete<K>(&self, name: &str) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// The node's pod.
    pub async fn pod(&self, name: &str) -> Result<Pod, Error> {
        Ok(self.api::<Pod>().get(&format!("{name}-0")).await?)
    }

    /// Requests of the operator about this namespace, so far.
    pub fn requests(&self) -> Result<Vec<AuditedRequest>, Error> {
        self.plane.audit().requests(|request| request.user_agent == AGENT && request.namespace == self.ns)
    }

    /// Writes of the operator in this namespace, so far.
    pub fn writes(&self) -> Result<Vec<AuditedRequest>, Error> {
        Ok(self.requests()?.into_iter().filter(AuditedRequest::is_write).collect())
    }

    /// How many pods the operator has deleted.
    pub fn pod_deletions(&self) -> Result<usize, Error> {
        let deleted =
            |one: &&AuditedRequest| one.verb == "delete" && one.resource == "pods" && one.code < 300;
        Ok(self.writes()?.iter().filter(deleted).count())
    }

    /// How many pods of one node the operator has deleted, once none has come for a second.
    pub async fn pod_deletions_of(&self, node: &str) -> Result<usize, Error> {
        self.settled_writes().await?;
        let pod = format!("{node}-0");
        let deleted = |one: &&AuditedRequest| {
            one.verb == "delete" && one.resource == "pods" && one.name == pod && one.code < 300
        };
        Ok(self.writes()?.iter().filter(deleted).count())
    }

    /// Fails when the operator writes anything for so long.
    pub async fn rests(&self, time: Duration) -> Result<(), Error> {
        let before = self.settled_writes().await?;
        wait::throughout("no write at rest", time, || async {
            let now = self.writes().map_err(|error| error.to_string())?;
            if now.len() == before { Ok(()) } else { Err(format!("{:?}", &now[before..])) }
        })
        .await
    }

    /// How many writes there were, once none has come for a second: the last of them is logged a moment after its answer.
    async fn settled_writes(&self) -> Result<usize, Error> {
        wait::until("a second without a write", SOON, || async {
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

    /// Events about a node: reason and message.
    pub async fn events(&self, node: &str) -> Result<Vec<(String, String)>, Error> {
        let all = self.api::<Event>().list(&ListParams::default()).await?;
        let about = all.items.into_iter().filter(|event| {
            event.regarding.as_ref().is_some_and(|object| {
                object.kind.as_deref() == Some("SeiNode") && object.name.as_deref() == Some(node)
            })
        });
        Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
    }

    /// Waits until an object is as wanted.
    pub async fn until_object<K>(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&K) -> bool,
    ) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        wait::until(format!("{} {name}: {what}", K::kind(&())), SOON, || async {
            let object = api.get(name).await.map_err(|error| error.to_string())?;
            if wanted(&object) { Ok(object) } else { Err(format!("version {:?}", object.resource_version())) }
        })
        .await
    }
}

/// A running operator; killed when dropped.
pub struct Operator {
    process: Process,
}

impl Operator {
    /// Kills it, as a machine that loses power does.
    pub fn kill(self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }

    /// Asks it to end, and returns its exit code.
    pub fn end(&self) -> Result<Option<i32>, Error> {
        self.process.signal(Signal::TERM)?;
        Ok(self.process.stop(Duration::from_secs(15))?.code())
    }

    pub fn check_alive(&self) -> Result<(), Error> {
        self.process.check_alive()
    }
}

/// Who the operator is to the API server.
pub fn user() -> String {
    format!("system:serviceaccount:{}:{}", install::NAMESPACE, install::ACCOUNT)
}

/// Whether a node runs, as the newest spec says.
pub fn is_ready(node: &SeiNode, status: &SeiNodeStatus) -> bool {
    status.phase == Some(SeiNodePhase::Running)
        && status.reconciled_generation == node.metadata.generation
        && reason(status, "Ready") == "NodeReady"
}

/// The reason of a condition.
pub fn reason<'s>(status: &'s SeiNodeStatus, type_: &str) -> &'s str {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .map_or("", |condition| &condition.reason)
}

/// The message of a condition.
pub fn message<'s>(status: &'s SeiNodeStatus, type_: &str) -> &'s str {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .map_or("", |condition| &condition.message)
}

async fn install(plane: &ControlPlane) -> Result<(), Error> {
    for path in ["crds", "operator/namespace.yaml", "operator/rbac.yaml"] {
        let path = format!("{}/../../deploy/{path}", env!("CARGO_MANIFEST_DIR"));
        let output = plane
            .kubectl()?
            .args(["apply", "--server-side", "-f", &path])
            .output()
            .map_err(|source| Error::Io { what: "starting kubectl".into(), source })?;
        if !output.status.success() {
            return Err(Error::Refused(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
    }
    let nodes: Api<SeiNode> = Api::all(plane.client().await?);
    let one = ListParams::default().limit(1);
    wait::until("the kind SeiNode", SOON, || nodes.list(&one)).await.map(drop)
}
