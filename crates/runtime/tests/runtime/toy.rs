//! A small controller: each Toy owns a ConfigMap with its size, and its status has the size that was last applied.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use runtime::Key;
use runtime::client::ClientOptions;
use runtime::controller::Controller;
use runtime::lease;
use runtime::metrics::Metrics;
use runtime::own_writes::{Freshness, OwnWrites};
use runtime::process::Process;
use runtime::queue::{Backoff, Priority, Queue};
use runtime::settings::LoopbackAddress;
use runtime::telemetry::{self, Format, Options};
use runtime::watch::{Cache, Change, SyncGroup, Watch};
use runtime::write::{WriteOutcome, Writer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The field manager of toys.
pub const MANAGER: &str = "toy-controller";

/// The desired state of a toy.
#[derive(Clone, Debug, PartialEq, Eq, CustomResource, Serialize, Deserialize)]
#[kube(
    group = "test.outrigger.dev",
    version = "v1",
    kind = "Toy",
    namespaced,
    status = "ToyStatus",
    schema = "disabled"
)]
pub struct ToySpec {
    /// The desired size.
    pub size: i64,
}

/// The observed state of a toy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToyStatus {
    /// The size in its ConfigMap.
    pub seen_size: i64,
}

/// Returns the CRD. It accepts any spec, so that tests can store invalid objects.
pub fn crd() -> Value {
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "toys.test.outrigger.dev" },
        "spec": {
            "group": "test.outrigger.dev",
            "scope": "Namespaced",
            "names": { "kind": "Toy", "plural": "toys" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any, "status": any } } },
            }],
        },
    })
}

/// The configuration of the toy controller, passed as JSON in an environment variable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToyConfig {
    /// Path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// Namespace of its toys and its Lease.
    pub namespace: String,
    /// Holder identity, also used as user agent.
    pub identity: String,
    /// Lease duration, renew deadline and retry period in milliseconds.
    pub lease: [u64; 3],
    /// Watch timeout in seconds, if not the default.
    pub watch_timeout: Option<u32>,
    /// OTLP endpoint for traces.
    pub otlp_endpoint: Option<String>,
}

/// The entry point of the toy controller.
pub fn main() -> ExitCode {
    let config = std::env::var(super::fixture::TOY_CONFIG).expect("the configuration is set");
    let config: ToyConfig = serde_json::from_str(&config).expect("the configuration is valid");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be started");
    match runtime.block_on(run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "toy controller failed");
            ExitCode::FAILURE
        }
    }
}

async fn run(config: ToyConfig) -> Result<(), String> {
    let telemetry = telemetry::start(&Options {
        format: Format::Json,
        level: "info",
        otlp_endpoint: config.otlp_endpoint.as_deref(),
        service: "toy",
    })?;
    let metrics = Metrics::new();
    let access = ClientOptions { kubeconfig: Some(config.kubeconfig.clone()), context: None };
    let client = access.connect(&config.identity, &metrics).await.map_err(|error| error.to_string())?;
    let mut process = Process::new(telemetry, client, metrics);
    start(&config, &mut process).map_err(|error| error.to_string())?;
    let metrics = process.serve_metrics(SocketAddr::from(([0, 0, 0, 0], 0))).await;
    let loopback = LoopbackAddress::new(SocketAddr::from(([127, 0, 0, 1], 0))).expect("it is on loopback");
    let admin = process.serve_admin(loopback).await.ok_or("a free port can be bound")?;
    println!("{} {}", metrics.map_err(|error| error.to_string())?.port(), admin.port());
    process.run([], None).await.map_err(|error| error.to_string())
}

fn start(config: &ToyConfig, process: &mut Process) -> Result<(), String> {
    let (client, metrics) = (process.client.clone(), process.metrics.clone());
    let backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(5) };
    let queue = Queue::new(16, backoff, metrics.queue("toy"));

    let every = watcher::Config { timeout: config.watch_timeout, ..watcher::Config::default() };
    let toys = Watch::<Toy>::new(Api::namespaced(client.clone(), &config.namespace), every.clone(), &metrics);
    let toys = toys.map_err(|error| error.to_string())?.on_change({
        let queue = queue.clone();
        move |change| {
            let priority = if matches!(change, Change::Listed(_)) { Priority::Low } else { Priority::High };
            queue.add(Key::from_object(&**change.object()), priority);
        }
    });
    let owned = every.labels("toy=yes");
    let maps = Watch::<ConfigMap>::new(Api::namespaced(client.clone(), &config.namespace), owned, &metrics);
    let maps = maps.map_err(|error| error.to_string())?.on_change({
        let queue = queue.clone();
        move |change| {
            if !matches!(change, Change::Listed(_)) {
                queue.add(Key::from_object(&**change.object()), Priority::High);
            }
        }
    });
    let (toys, maps) = (process.spawn_watch(toys), process.spawn_watch(maps));
    let caches = Caches { toys, maps, own_writes: Arc::new(OwnWrites::new("toy", &metrics)) };
    let mut synced = SyncGroup::default();
    synced.add(&caches.toys);
    synced.add(&caches.maps);
    process.ready_when_synced({
        let synced = synced.clone();
        move || synced.is_synced()
    });
    process.admin.add_debug_state("queue", {
        let queue = queue.clone();
        move || queue.state().to_json()
    });
    process.admin.add_debug_state("invalid", {
        let toys = caches.toys.clone();
        move || {
            let invalid = toys.invalid().into_iter().map(|(key, error)| (key.to_string(), error));
            json!(invalid.collect::<BTreeMap<_, _>>())
        }
    });

    let [duration, renew_deadline, retry_period] = config.lease.map(Duration::from_millis);
    let lease = lease::Config {
        duration,
        renew_deadline,
        retry_period,
        ..lease::Config::new(&config.namespace, "toys", &config.identity)
    };
    lease.check()?;
    let controller = Controller::new("toy", queue, Duration::from_secs(30), &metrics);
    process.spawn_leader_elected("controller", Some(lease), move |claim, stop| {
        let writer = Writer::new(client.clone(), MANAGER, claim, &metrics);
        let (caches, synced, controller) = (caches.clone(), synced.clone(), controller.clone());
        async move {
            synced.wait().await;
            controller.run(stop, move |key| reconcile(caches.clone(), writer.clone(), key)).await;
        }
    });
    Ok(())
}

#[derive(Clone)]
struct Caches {
    toys: Cache<Toy>,
    maps: Cache<ConfigMap>,
    own_writes: Arc<OwnWrites>,
}

async fn reconcile(caches: Caches, writer: Writer, key: Key) -> Result<Option<Duration>, String> {
    let Some(toy) = caches.toys.get(&key) else { return Ok(None) };
    let map = caches.maps.get(&key);
    match caches.own_writes.freshness(&key, map.as_deref()) {
        Freshness::Current => {}
        Freshness::Behind => return Ok(Some(Duration::from_millis(200))),
        // Unlike a real controller this one does not read the object from the API server: it repeats the write.
        Freshness::TimedOut => caches.own_writes.forget(&key),
    }
    match writer.apply(&desired_map(&toy), map.as_deref()).await.map_err(|error| error.to_string())? {
        WriteOutcome::Unchanged => {}
        WriteOutcome::Applied(map) => caches.own_writes.record(&map),
        WriteOutcome::Stale(_) => return Ok(Some(Duration::from_millis(100))),
        other => return Err(format!("ConfigMap: {other:?}")),
    }
    let status = ToyStatus { seen_size: toy.spec.size };
    match writer.status_update(&*toy).write(&status).await.map_err(|error| error.to_string())? {
        WriteOutcome::Unchanged | WriteOutcome::Applied(_) | WriteOutcome::Missing => Ok(None),
        WriteOutcome::Stale(_) => Ok(Some(Duration::from_millis(100))),
        other => Err(format!("status: {other:?}")),
    }
}

/// Returns the desired ConfigMap of a toy.
pub fn desired_map(toy: &Toy) -> ConfigMap {
    let owner = OwnerReference {
        api_version: Toy::api_version(&()).into_owned(),
        kind: Toy::kind(&()).into_owned(),
        name: toy.name_any(),
        uid: toy.uid().unwrap_or_default(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    ConfigMap {
        metadata: ObjectMeta {
            name: toy.metadata.name.clone(),
            namespace: toy.metadata.namespace.clone(),
            labels: Some([("toy".to_owned(), "yes".to_owned())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("size".to_owned(), toy.spec.size.to_string())].into()),
        ..ConfigMap::default()
    }
}

/// Creates a client in the same way as the controller.
pub async fn connect(kubeconfig: PathBuf, agent: &str) -> Client {
    let access = ClientOptions { kubeconfig: Some(kubeconfig), context: None };
    access.connect(agent, &Metrics::new()).await.expect("the kubeconfig is valid")
}
