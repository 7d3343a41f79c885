//! The fake kubelet with the real API server and real controllers.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes only libtest tests")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::sidecar_wire::{TaskType, path};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerStatus, Event, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount,
};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::cluster::pki::{CertificateAuthority, Identity, ServerNames};
use testbed::fakes::kubelet::{ClaimPolicy, ContainerFailure, FakeKubelet};
use testbed::fakes::sidecars::{FakeSidecar, FakeSidecars};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, TestResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

testbed::suite![
    node_pod_starts_and_is_removed,
    missing_dependencies_block_the_pod,
    pod_spec_decides_sidecar_transport,
    bootstrap_pod_exits_after_sidecar_is_ready,
    claims_are_bound_and_stay_bound,
    fake_kubelet_survives_api_server_restart,
    thousand_pods_start,
];

/// Real controllers take a second or two; only a very busy machine comes close to this.
const TIMEOUT: Duration = Duration::from_secs(60);

const SEID: &str = "images.example/seid:v1";
const SIDECAR: &str = "images.example/sidecar:v1";
const PROXY: &str = "images.example/proxy:v1";

/// A control plane with controllers, fake sidecars, and a fake kubelet for one namespace.
struct Fixture {
    plane: ControlPlane,
    sidecars: FakeSidecars,
    kubelet: FakeKubelet,
    client: Client,
    ns: String,
}

impl Fixture {
    async fn new(cx: &Context) -> testbed::Result<Self> {
        let plane = ControlPlane::builder(&cx.site()?).controllers().start().await?;
        let ns = plane.namespace("sei").await?;
        let sidecars = FakeSidecars::start().await?;
        let kubelet = FakeKubelet::start(&plane, &sidecars, [&ns]).await?;
        let client = plane.client().await?;
        Ok(Self { plane, sidecars, kubelet, client, ns })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    async fn create<K>(&self, object: Value) -> TestResult
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        self.api::<K>().create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Creates everything the pod of a node needs, and its StatefulSet.
    async fn node(&self, name: &str) -> TestResult {
        self.create::<PersistentVolumeClaim>(claim(&format!("data-{name}"), "no-such-class")).await?;
        self.create::<ConfigMap>(json!({
            "metadata": {"name": format!("{name}-rbac-proxy-config")}, "data": {"config.yaml": ""},
        }))
        .await?;
        self.create::<StatefulSet>(stateful_set(name, &pod_spec(name))).await
    }

    async fn wait_for_pod(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Pod) -> bool,
    ) -> testbed::Result<Pod> {
        let pods: Api<Pod> = self.api();
        wait::until(format!("pod {name} {what}"), TIMEOUT, || async {
            let pod = pods.get(name).await.map_err(|error| error.to_string())?;
            if holds(&pod) { Ok(pod) } else { Err(format!("status {:?}", pod.status)) }
        })
        .await
    }

    fn sidecar(&self, node: &str) -> FakeSidecar {
        self.sidecars.node(&self.ns, node)
    }

    /// Sends a request to a sidecar over plain HTTP, as the operator would.
    async fn send(
        &self,
        node: &str,
        request: http::request::Builder,
        body: &str,
    ) -> Result<StatusCode, String> {
        let tcp = TcpStream::connect(self.sidecars.address()).await.map_err(to_text)?;
        self.send_over(tcp, node, request, body).await
    }

    async fn send_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        node: &str,
        request: http::request::Builder,
        body: &str,
    ) -> Result<StatusCode, String> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(to_text)?;
        // Errors surface in the request.
        tokio::spawn(async move { drop(connection.await) });
        let request: Request<Full<Bytes>> = request
            .header("host", self.sidecar(node).name().host())
            .header("authorization", "Bearer token")
            .body(Full::from(body.to_owned()))
            .map_err(to_text)?;
        let answer = sender.send_request(request).await.map_err(to_text)?;
        let code = answer.status();
        answer.into_body().collect().await.map_err(to_text)?;
        Ok(code)
    }

    async fn health(&self, node: &str) -> Result<StatusCode, String> {
        self.send(node, Request::get(path::HEALTHZ), "").await
    }

    async fn mark_ready(&self, node: &str) -> TestResult {
        let task = json!({"type": TaskType::MarkReady}).to_string();
        assert_eq!(self.send(node, Request::post(path::TASKS), &task).await?, StatusCode::CREATED);
        Ok(())
    }

    async fn certificate(&self, secret: &str, identity: &Identity) -> TestResult {
        let data = [("tls.crt", &identity.certificate), ("tls.key", &identity.key)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
        let metadata = ObjectMeta { name: Some(secret.into()), ..ObjectMeta::default() };
        let secret_object = Secret { metadata, data: Some(BTreeMap::from(data)), ..Secret::default() };
        let apply = PatchParams::apply("test").force();
        self.api::<Secret>().patch(secret, &apply, &Patch::Apply(secret_object)).await?;
        Ok(())
    }

    /// Sends a health request over TLS and verifies the certificate.
    async fn health_over_tls(
        &self,
        node: &str,
        authority: &CertificateAuthority,
    ) -> Result<StatusCode, String> {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).map_err(to_text)?)
            .map_err(to_text)?;
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(self.sidecar(node).name().host()).map_err(to_text)?;
        let tcp = TcpStream::connect(self.sidecars.address()).await.map_err(to_text)?;
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(to_text)?;
        self.send_over(tls, node, Request::get(path::HEALTHZ), "").await
    }
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The containers of a node's pod, as far as the kubelet cares.
fn pod_spec(node: &str) -> Value {
    let health = json!({"httpGet": {"path": path::HEALTHZ, "port": 8443}});
    json!({
        "terminationGracePeriodSeconds": 30,
        "initContainers": [
            {"name": "seid-init", "image": SEID},
            {"name": "sei-sidecar", "image": SIDECAR, "restartPolicy": "Always"},
            {
                "name": "kube-rbac-proxy", "image": PROXY, "restartPolicy": "Always",
                "args": ["--insecure-listen-address=0.0.0.0:8443"], "readinessProbe": health,
            },
        ],
        "containers": [
            {"name": "seid", "image": SEID, "startupProbe": health},
            {"name": "cosmos-exporter", "image": "images.example/exporter:v1"},
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{node}")}},
            {"name": "sidecar-tmp", "emptyDir": {}},
            {"name": "rbac-proxy-config", "configMap": {"name": format!("{node}-rbac-proxy-config")}},
        ],
    })
}

fn stateful_set(node: &str, pod_spec: &Value) -> Value {
    let labels = json!({"sei.io/node": node});
    json!({
        "metadata": {"name": node},
        "spec": {
            "replicas": 1,
            "serviceName": node,
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
        },
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn condition<'a>(pod: &'a Pod, name: &str) -> (&'a str, &'a str) {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let found = conditions.iter().find(|one| one.type_ == name);
    found.map_or(("", ""), |one| (one.status.as_str(), one.message.as_deref().unwrap_or_default()))
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.find(|one| one.name == name)
}

/// Returns reason and message of a waiting container.
fn waiting(pod: &Pod, name: &str) -> Option<(String, String)> {
    let waiting = container(pod, name)?.state.as_ref()?.waiting.clone()?;
    Some((waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default()))
}

fn is_running(pod: &Pod, name: &str) -> bool {
    container(pod, name).and_then(|one| one.state.as_ref()).is_some_and(|state| state.running.is_some())
}

async fn node_pod_starts_and_is_removed(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.health("full").await.expect_err("sidecar responded without a pod");
    fixture.node("full").await?;
    let pod = fixture.wait_for_pod("full-0", "running", |pod| phase(pod) == "Running").await?;
    let init = container(&pod, "seid-init").and_then(|one| one.state.as_ref()?.terminated.as_ref());
    assert_eq!(init.map(|ended| ended.exit_code), Some(0));
    for name in ["sei-sidecar", "kube-rbac-proxy", "seid", "cosmos-exporter"] {
        assert!(is_running(&pod, name), "{name}: {:?}", pod.status);
    }
    let seid = container(&pod, "seid").ok_or("no seid")?;
    assert_eq!((seid.started, seid.ready), (Some(false), false), "starts only after the sidecar is ready");
    assert_eq!(condition(&pod, "Initialized").0, "True");
    assert_eq!(condition(&pod, "Ready").0, "False");
    let address: Ipv4Addr = pod.status.and_then(|status| status.pod_ip).ok_or("no address")?.parse()?;
    assert_eq!((address.octets()[0], address.octets()[1] & !1), (198, 18));
    assert_eq!(fixture.health("full").await?, StatusCode::SERVICE_UNAVAILABLE);

    fixture.mark_ready("full").await?;
    let pod = fixture.wait_for_pod("full-0", "ready", |pod| condition(pod, "Ready").0 == "True").await?;
    let sets: Api<StatefulSet> = fixture.api();
    wait::until("ready replica", TIMEOUT, || async {
        let set = sets.get("full").await.map_err(|error| error.to_string())?;
        let ready = set.status.as_ref().and_then(|status| status.ready_replicas);
        if ready == Some(1) { Ok(()) } else { Err(format!("{:?}", set.status)) }
    })
    .await?;
    let restarts = fixture.sidecar("full").restarts();

    // A deleted pod and its sidecar stay for the configured delay; then a new pod starts.
    let removal_delay = Duration::from_secs(2);
    fixture.kubelet.remove_pods_after(removal_delay);
    let deleted = Instant::now();
    fixture.api::<Pod>().delete("full-0", &DeleteParams::default()).await?;
    let deleting = fixture.api::<Pod>().get("full-0").await?;
    assert_eq!((deleting.uid(), deleting.metadata.deletion_timestamp.is_some()), (pod.uid(), true));
    assert_eq!(fixture.health("full").await?, StatusCode::OK);
    let next = fixture
        .wait_for_pod("full-0", "running again", |next| next.uid() != pod.uid() && phase(next) == "Running")
        .await?;
    assert!(deleted.elapsed() >= removal_delay, "removed after {:?}", deleted.elapsed());
    assert_eq!(condition(&next, "Ready").0, "False", "a new pod starts without readiness");
    assert_eq!(fixture.health("full").await?, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fixture.sidecar("full").restarts(), restarts + 1);
    assert_eq!(fixture.sidecar("full").tasks().len(), 1, "tasks are stored on the volume");

    // Its requests are identifiable and few: binding, creating, running, ready.
    let is_pod_write = |request: &testbed::cluster::control_plane::AuditedRequest| {
        request.user_agent == FakeKubelet::USER_AGENT && request.resource == "pods" && request.is_write()
    };
    let writes = fixture.plane.audit().wait_for(8, TIMEOUT, is_pod_write).await?;
    let verbs: Vec<_> =
        writes.iter().map(|one| (one.verb.as_str(), one.subresource.as_str())).take(5).collect();
    let patch = ("patch", "status");
    assert_eq!(verbs, [("create", "binding"), patch, patch, patch, ("delete", "")]);
    Ok(())
}

async fn missing_dependencies_block_the_pod(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let running = |pod: &Pod| phase(pod) == "Running";

    // Missing in turn: claim, ConfigMap, Secret of the environment, images; then nothing.
    let mut spec = pod_spec("late");
    spec["initContainers"][1]["env"] = json!([{
        "name": "SEI_KEYRING_PASSPHRASE",
        "valueFrom": {"secretKeyRef": {"name": "passphrase", "key": "text"}},
    }]);
    fixture.kubelet.set_claim_policy(ClaimPolicy::Pending);
    let pull_error = || "manifest unknown".to_owned();
    fixture.kubelet.fail_image(PROXY, ContainerFailure::ErrImagePull(pull_error()));
    fixture.create::<StatefulSet>(stateful_set("late", &spec)).await?;
    let unscheduled = |text: &'static str| move |pod: &Pod| condition(pod, "PodScheduled") == ("False", text);
    fixture
        .wait_for_pod("late-0", "without claim", unscheduled("persistentvolumeclaim \"data-late\" not found"))
        .await?;
    fixture.create::<PersistentVolumeClaim>(claim("data-late", "no-such-class")).await?;
    let unbound = unscheduled("pod has unbound immediate PersistentVolumeClaims");
    fixture.wait_for_pod("late-0", "with a pending claim", unbound).await?;
    fixture.kubelet.set_claim_policy(ClaimPolicy::Bound);

    let reason = |name: &'static str, reason: &'static str| {
        move |pod: &Pod| waiting(pod, name).is_some_and(|(seen, _)| seen == reason)
    };
    fixture.wait_for_pod("late-0", "without ConfigMap", reason("seid", "PodInitializing")).await?;
    let events: Api<Event> = fixture.api();
    let message = wait::until("FailedMount event", TIMEOUT, || async {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let found = all.items.into_iter().find(|event| event.reason.as_deref() == Some("FailedMount"));
        found.and_then(|event| event.message).ok_or_else(|| "none".to_owned())
    })
    .await?;
    assert!(message.contains("configmap \"late-rbac-proxy-config\" not found"), "{message}");
    let config = json!({"metadata": {"name": "late-rbac-proxy-config"}, "data": {"config.yaml": ""}});
    fixture.create::<ConfigMap>(config).await?;

    let pod = fixture
        .wait_for_pod("late-0", "without passphrase", reason("sei-sidecar", "CreateContainerConfigError"))
        .await?;
    assert_eq!(
        waiting(&pod, "sei-sidecar").map(|(_, why)| why),
        Some("secret \"passphrase\" not found".into())
    );
    assert_eq!(phase(&pod), "Pending");
    fixture
        .create::<Secret>(json!({"metadata": {"name": "passphrase"}, "stringData": {"text": "x"}}))
        .await?;

    let pod =
        fixture.wait_for_pod("late-0", "without image", reason("kube-rbac-proxy", "ErrImagePull")).await?;
    assert_eq!(waiting(&pod, "kube-rbac-proxy").map(|(_, why)| why), Some(pull_error()));
    assert!(is_running(&pod, "sei-sidecar"), "{:?}", pod.status);
    fixture.health("late").await.expect_err("sidecar responded without its proxy");
    fixture.kubelet.fail_image(PROXY, ContainerFailure::ImagePullBackOff(pull_error()));
    fixture.wait_for_pod("late-0", "backing off", reason("kube-rbac-proxy", "ImagePullBackOff")).await?;
    fixture
        .kubelet
        .fail_image("images.example/exporter:v1", ContainerFailure::CrashLoopBackOff("back-off".into()));
    fixture.kubelet.restore_image(PROXY);
    let pod = fixture.wait_for_pod("late-0", "with a bad exporter", running).await?;
    assert_eq!(waiting(&pod, "cosmos-exporter"), Some(("CrashLoopBackOff".into(), "back-off".into())));
    assert_eq!(fixture.health("late").await?, StatusCode::SERVICE_UNAVAILABLE);
    fixture.kubelet.restore_image("images.example/exporter:v1");
    fixture.wait_for_pod("late-0", "with a good exporter", |pod| is_running(pod, "cosmos-exporter")).await?;

    fixture.kubelet.hold_pods();
    fixture.node("held").await?;
    fixture.wait_for_pod("held-0", "held", reason("seid", "PodInitializing")).await?;
    fixture.health("held").await.expect_err("sidecar responded before its pod was released");
    fixture.kubelet.release_pods();
    fixture.wait_for_pod("held-0", "released", running).await?;

    let delay = Duration::from_secs(2);
    fixture.kubelet.start_pods_after(delay);
    let started = Instant::now();
    fixture.node("slow").await?;
    fixture.wait_for_pod("slow-0", "running", running).await?;
    assert!(started.elapsed() >= delay, "running after {:?}", started.elapsed());
    Ok(())
}

async fn pod_spec_decides_sidecar_transport(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let authority = CertificateAuthority::new("sidecars")?;
    let host = fixture.sidecar("full").name().host();
    let names = ServerNames { dns: vec![host], addresses: Vec::new() };
    fixture.node("full").await?;
    fixture.wait_for_pod("full-0", "running", |pod| phase(pod) == "Running").await?;
    assert_eq!(fixture.health("full").await?, StatusCode::SERVICE_UNAVAILABLE);
    fixture.health_over_tls("full", &authority).await.expect_err("TLS before it was enabled");

    let mut spec = pod_spec("full");
    spec["initContainers"][2]["args"] = json!([
        "--secure-listen-address=0.0.0.0:8443",
        "--tls-cert-file=/etc/tls/tls.crt",
        "--tls-private-key-file=/etc/tls/tls.key",
    ]);
    let volumes = spec["volumes"].as_array_mut().ok_or("no volumes")?;
    volumes.push(json!({"name": "sidecar-tls", "secret": {"secretName": "full-sidecar-tls"}}));
    let sets: Api<StatefulSet> = fixture.api();
    let template = json!({"spec": {"template": {"spec": spec}}});
    sets.patch("full", &PatchParams::default(), &Patch::Merge(template)).await?;
    wait::until("observed generation of the new template", TIMEOUT, || async {
        let set = sets.get("full").await.map_err(|error| error.to_string())?;
        let status = set.status.clone().unwrap_or_default();
        if status.observed_generation == set.metadata.generation {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await?;
    // The transport changes only when the pod is replaced.
    assert_eq!(fixture.health("full").await?, StatusCode::SERVICE_UNAVAILABLE);
    fixture.api::<Pod>().delete("full-0", &DeleteParams::default()).await?;
    let has_volume = |pod: &Pod| {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes.into_iter().any(|volume| volume.name == "sidecar-tls")
    };
    fixture
        .wait_for_pod("full-0", "without certificate", |pod| {
            has_volume(pod) && waiting(pod, "seid-init").is_some()
        })
        .await?;
    fixture.health("full").await.expect_err("sidecar responded without its certificate");
    fixture.certificate("full-sidecar-tls", &authority.issue_server("full", &names)?).await?;
    fixture.wait_for_pod("full-0", "running", |pod| phase(pod) == "Running").await?;
    assert_eq!(fixture.health_over_tls("full", &authority).await?, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fixture.health("full").await?, StatusCode::BAD_REQUEST, "an HTTP request to an HTTPS server");

    // A changed Secret is served by the same pod; an invalid one changes nothing.
    let restarts = fixture.sidecar("full").restarts();
    let other = CertificateAuthority::new("another")?;
    fixture.certificate("full-sidecar-tls", &other.issue_server("full", &names)?).await?;
    wait::until("changed certificate", TIMEOUT, || fixture.health_over_tls("full", &other)).await?;
    fixture.health_over_tls("full", &authority).await.expect_err("previous certificate still served");
    let broken = Identity { certificate: "no certificate".into(), key: "no key".into() };
    fixture.certificate("full-sidecar-tls", &broken).await?;
    wait::throughout("last valid certificate", Duration::from_secs(1), || async {
        fixture.health_over_tls("full", &other).await.map(drop)
    })
    .await?;
    assert_eq!(fixture.sidecar("full").restarts(), restarts);
    Ok(())
}

async fn bootstrap_pod_exits_after_sidecar_is_ready(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let takes = Duration::from_secs(1);
    for (node, exit_code) in [("good", 0), ("bad", 3)] {
        fixture.kubelet.set_bootstrap_exit(takes, exit_code);
        fixture.create::<PersistentVolumeClaim>(claim(&format!("data-{node}"), "no-such-class")).await?;
        let mut spec = pod_spec(node);
        spec["restartPolicy"] = json!("Never");
        spec["volumes"].as_array_mut().ok_or("no volumes")?.truncate(2);
        spec["containers"].as_array_mut().ok_or("no containers")?.truncate(1);
        let labels = json!({"sei.io/node": node, "sei.io/component": "bootstrap"});
        let job = format!("{node}-bootstrap");
        fixture
            .create::<Job>(json!({
                "metadata": {"name": job, "labels": labels},
                "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": spec}},
            }))
            .await?;
        wait::until("sidecar of the bootstrap pod", TIMEOUT, || fixture.health(node)).await?;
        fixture.mark_ready(node).await?;
        let ready = Instant::now();
        let jobs: Api<Job> = fixture.api();
        let ended = wait::until("end of the Job", TIMEOUT, || async {
            let job = jobs.get(&job).await.map_err(|error| error.to_string())?;
            let status = job.status.unwrap_or_default();
            let counts = (status.succeeded.unwrap_or_default(), status.failed.unwrap_or_default());
            if counts == (0, 0) { Err(format!("{status:?}")) } else { Ok(counts) }
        })
        .await?;
        assert_eq!(ended, if exit_code == 0 { (1, 0) } else { (0, 1) });
        assert!(ready.elapsed() >= takes, "exited after {:?}", ready.elapsed());
        fixture.health(node).await.expect_err("sidecar outlived its pod");
        let list = ListParams::default().labels(&format!("sei.io/node={node}"));
        let pods = fixture.api::<Pod>().list(&list).await?;
        let pod = pods.items.first().ok_or("no pod")?;
        assert_eq!(phase(pod), if exit_code == 0 { "Succeeded" } else { "Failed" });
        let seid = container(pod, "seid").and_then(|one| one.state.as_ref()?.terminated.as_ref());
        assert_eq!(seid.map(|ended| ended.exit_code), Some(exit_code));
    }
    Ok(())
}

async fn claims_are_bound_and_stay_bound(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.create::<PersistentVolumeClaim>(claim("light", "no-such-class")).await?;
    let claims: Api<PersistentVolumeClaim> = fixture.api();
    let bound = async |name: &str| {
        let claim = claims.get(name).await.map_err(|error| error.to_string())?;
        let status = claim.status.unwrap_or_default();
        let full = status.phase.as_deref() == Some("Bound") && status.capacity.is_some();
        if full { Ok(claim.spec.and_then(|spec| spec.volume_name)) } else { Err(format!("{status:?}")) }
    };
    wait::until("bound claim", TIMEOUT, || bound("light")).await?;

    fixture.kubelet.set_claim_policy(ClaimPolicy::BoundToVolume);
    fixture.create::<PersistentVolumeClaim>(claim("whole", "no-such-class")).await?;
    let volume = wait::until("claim with a volume", TIMEOUT, || bound("whole")).await?.ok_or("no volume")?;
    let volumes: Api<PersistentVolume> = Api::all(fixture.client.clone());
    wait::until("bound volume", TIMEOUT, || async {
        let volume = volumes.get(&volume).await.map_err(|error| error.to_string())?;
        let phase = volume.status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Bound") { Ok(()) } else { Err(format!("{phase:?}")) }
    })
    .await?;
    // kube-controller-manager resyncs all claims every 15 seconds.
    wait::throughout("bound claims", Duration::from_secs(20), || async {
        bound("light").await?;
        bound("whole").await.map(drop)
    })
    .await?;
    Ok(())
}

async fn fake_kubelet_survives_api_server_restart(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    fixture.node("before").await?;
    let before = fixture.wait_for_pod("before-0", "running", |pod| phase(pod) == "Running").await?;
    fixture.plane.stop_api_server()?;
    // Sidecars do not depend on the API server.
    fixture.mark_ready("before").await?;
    fixture.plane.start_api_server().await?;
    let after = fixture.wait_for_pod("before-0", "ready", |pod| condition(pod, "Ready").0 == "True").await?;
    assert_eq!(before.uid(), after.uid());
    wait::until("a second node", TIMEOUT, || async {
        fixture.node("after").await.map_err(|failed| failed.message().unwrap_or_default().to_owned())
    })
    .await?;
    fixture.wait_for_pod("after-0", "running", |pod| phase(pod) == "Running").await?;
    assert_eq!(fixture.sidecar("before").restarts(), 1, "pod was treated as a new one");
    Ok(())
}

async fn thousand_pods_start(cx: Context) -> TestResult {
    const PODS: usize = 1_000;
    let plane = cx.control_plane().await?;
    let ns = cx.namespace().await?;
    let client = plane.client().await?;
    let account = ObjectMeta { name: Some("default".into()), ..ObjectMeta::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &ns);
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata: account, ..ServiceAccount::default() })
        .await?;
    let sidecars = FakeSidecars::start().await?;
    let _kubelets = FakeKubelet::start(plane, &sidecars, [&ns]).await?;
    let pods: Api<Pod> = Api::namespaced(client, &ns);
    let started = Instant::now();
    let makers = (0..8).map(|maker| {
        let pods = pods.clone();
        tokio::spawn(async move {
            for number in (maker..PODS).step_by(8) {
                let mut spec = pod_spec("any");
                spec["volumes"] = json!([]);
                let node = format!("full-{number}");
                let labels = json!({"sei.io/node": node});
                let pod: Pod = serde_json::from_value(json!({
                    "metadata": {"name": format!("{node}-0"), "labels": labels}, "spec": spec,
                }))
                .map_err(|error| error.to_string())?;
                pods.create(&PostParams::default(), &pod).await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        })
    });
    for maker in makers.collect::<Vec<_>>() {
        maker.await??;
    }
    let made = started.elapsed();
    let running = ListParams::default().fields("status.phase=Running").limit(PODS as u32);
    let seen = wait::until("a thousand running pods", Duration::from_secs(180), || async {
        let list = pods.list_metadata(&running).await.map_err(|error| error.to_string())?;
        if list.items.len() == PODS {
            Ok(list.items.len())
        } else {
            Err(format!("{} running", list.items.len()))
        }
    })
    .await?;
    let took = started.elapsed();
    println!(
        "{seen} pods: created in {:.1} s, running after {:.1} s",
        made.as_secs_f64(),
        took.as_secs_f64()
    );
    let is_pod_write = |request: &testbed::cluster::control_plane::AuditedRequest| {
        request.user_agent == FakeKubelet::USER_AGENT && request.namespace == ns && request.is_write()
    };
    let writes = plane.audit().wait_for(3 * PODS, TIMEOUT, is_pod_write).await?;
    assert_eq!(writes.len(), 3 * PODS, "one each for binding, creating and running");
    Ok(())
}
