//! A small controller: each Toy wants a ConfigMap that says its size, and its status says what was seen.

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
use runtime::admin::Admin;
use runtime::client::Access;
use runtime::controller::Controller;
use runtime::lease::{self, Campaign, Claim, Leadership};
use runtime::metrics::Metrics;
use runtime::own_writes::{OwnWrites, Sight};
use runtime::queue::{Backoff, Priority, Queue};
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Format, Options};
use runtime::watch::{Cache, Change, Watch};
use runtime::write::{Outcome, Writer};
use runtime::{Key, while_leading};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The field manager of toys.
pub const MANAGER: &str = "toy-controller";

/// What is wanted.
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
    /// How large it is to be.
    pub size: i64,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToyStatus {
    /// The size that its ConfigMap says.
    pub seen_size: i64,
}

/// The CRD: it lets any size pass, so that a test can store one that the controller cannot read.
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

/// How a toy controller is told what to do: by one environment variable, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// How to reach the API server.
    pub kubeconfig: PathBuf,
    /// Where its toys and its Lease are.
    pub namespace: String,
    /// Who it is, also as user agent.
    pub identity: String,
    /// The Lease's times, in milliseconds: duration, writing after a renewal, between renewals.
    pub lease: [u64; 3],
    /// How long its watches live, in seconds, when not the usual time.
    pub watch_life: Option<u32>,
    /// Who collects its traces.
    pub traces_to: Option<String>,
}

/// The whole program.
pub fn main() -> ExitCode {
    let orders = std::env::var(super::process::ROLE).expect("orders are given");
    let orders: Orders = serde_json::from_str(&orders).expect("orders can be read");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be started");
    match runtime.block_on(live(orders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "ending");
            ExitCode::FAILURE
        }
    }
}

async fn live(orders: Orders) -> Result<(), String> {
    let told = telemetry::start(&Options {
        format: Format::Json,
        level: "info",
        traces_to: orders.traces_to.as_deref(),
        service: "toy",
    })?;
    let metrics = Metrics::new();
    let access = Access { kubeconfig: Some(orders.kubeconfig.clone()), context: None };
    let client = access.connect(&orders.identity, &metrics).await.map_err(|error| error.to_string())?;
    let backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(5) };
    let queue = Queue::new(16, backoff, metrics.queue("toy"));
    let admin = Admin::new(&metrics, Some(told.level()));
    let mut tasks = Tasks::new();

    let config = watcher::Config { timeout: orders.watch_life, ..watcher::Config::default() };
    let toys = Watch::<Toy>::of(Api::namespaced(client.clone(), &orders.namespace), config.clone(), &metrics);
    let toys = toys.map_err(|error| error.to_string())?.tell({
        let queue = queue.clone();
        move |change| {
            let priority = if matches!(change, Change::Listed(_)) { Priority::Low } else { Priority::High };
            queue.add(Key::of(&**change.object()), priority);
        }
    });
    let ours = config.labels("toy=yes");
    let maps = Watch::<ConfigMap>::of(Api::namespaced(client.clone(), &orders.namespace), ours, &metrics);
    let maps = maps.map_err(|error| error.to_string())?.tell({
        let queue = queue.clone();
        move |change| {
            if !matches!(change, Change::Listed(_)) {
                queue.add(Key::of(&**change.object()), Priority::High);
            }
        }
    });
    let world =
        World { toys: toys.cache(), maps: maps.cache(), own: Arc::new(OwnWrites::new("toy", &metrics)) };
    for progress in [toys.progress(), maps.progress()] {
        admin.lives_by(progress);
    }
    tasks.spawn_until_stopped(Phase::Intake, "watch toys", toys.run());
    tasks.spawn_until_stopped(Phase::Intake, "watch configmaps", maps.run());

    let [duration, write_for, every] = orders.lease.map(Duration::from_millis);
    let config = lease::Config {
        duration,
        write_for,
        every,
        ..lease::Config::new(&orders.namespace, "toys", &orders.identity)
    };
    config.check()?;
    let (campaign, leadership) = Campaign::new(client.clone(), config, &metrics);
    admin.lives_by(campaign.progress());
    let release = tasks.stop(Phase::Release);
    tasks.spawn(Phase::Release, "lease", campaign.run(release));

    admin.ready_when("caches", {
        let world = world.clone();
        move || if world.is_synced() { Ok(()) } else { Err("the first lists are not complete".into()) }
    });
    admin.shows("queue", {
        let queue = queue.clone();
        move || {
            let state = queue.state();
            let failing: BTreeMap<String, u32> =
                state.failing.into_iter().map(|(key, count)| (key.to_string(), count)).collect();
            json!({ "waiting": state.waiting, "running": state.running, "failing": failing })
        }
    });
    admin.shows("leading", {
        let leadership = leadership.clone();
        move || json!(matches!(*leadership.borrow(), Leadership::Leading(_)))
    });
    admin.shows("broken", {
        let world = world.clone();
        move || {
            json!(
                world
                    .toys
                    .broken()
                    .into_iter()
                    .map(|(key, why)| (key.to_string(), why))
                    .collect::<BTreeMap<_, _>>()
            )
        }
    });
    let work = tasks.stop(Phase::Work);
    let controller = Controller::new("toy", queue, Duration::from_secs(30), &metrics);
    tasks.spawn(Phase::Work, "controller", {
        let metrics = metrics.clone();
        async move {
            world.synced().await;
            while_leading(leadership, work, |claim: Claim, stop| {
                let writer = Writer::new(client.clone(), MANAGER, claim, &metrics);
                let world = world.clone();
                controller.clone().run(stop, move |key| reconcile(world.clone(), writer.clone(), key))
            })
            .await;
        }
    });

    let bound = admin.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.map_err(|error| error.to_string())?;
    println!("{}", bound.address());
    let watchman = tasks.stop(Phase::Watchman);
    tasks.spawn(Phase::Watchman, "admin", bound.serve(watchman));
    let ended = tasks.run_until_signal().await.map_err(|error| error.to_string());
    told.end().await;
    ended
}

#[derive(Clone)]
struct World {
    toys: Cache<Toy>,
    maps: Cache<ConfigMap>,
    own: Arc<OwnWrites>,
}

impl World {
    fn is_synced(&self) -> bool {
        self.toys.is_synced() && self.maps.is_synced()
    }

    async fn synced(&self) {
        self.toys.synced().await;
        self.maps.synced().await;
    }
}

async fn reconcile(world: World, writer: Writer, key: Key) -> Result<Option<Duration>, String> {
    let Some(toy) = world.toys.get(&key) else { return Ok(None) };
    let map = world.maps.get(&key);
    match world.own.sight(&key, map.as_deref()) {
        Sight::Current => {}
        Sight::Behind => return Ok(Some(Duration::from_millis(200))),
        // This toy has nothing better to read: what it believed to have written is written once more.
        Sight::Lost => world.own.forget(&key),
    }
    match writer.apply(&wanted(&toy), map.as_deref()).await.map_err(|error| error.to_string())? {
        Outcome::Unchanged => {}
        Outcome::Applied(map) => world.own.wrote(&map),
        Outcome::Stale(_) => return Ok(Some(Duration::from_millis(100))),
        other => return Err(format!("its ConfigMap: {other:?}")),
    }
    let status = ToyStatus { seen_size: toy.spec.size };
    match writer.pass(&*toy).record(&status).await.map_err(|error| error.to_string())? {
        Outcome::Unchanged | Outcome::Applied(_) | Outcome::Missing => Ok(None),
        Outcome::Stale(_) => Ok(Some(Duration::from_millis(100))),
        other => Err(format!("its status: {other:?}")),
    }
}

/// The ConfigMap that a Toy wants.
pub fn wanted(toy: &Toy) -> ConfigMap {
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

/// A client for tests, of the same making as the controller's.
pub async fn connect(kubeconfig: PathBuf, agent: &str) -> Client {
    let access = Access { kubeconfig: Some(kubeconfig), context: None };
    access.connect(agent, &Metrics::new()).await.expect("the kubeconfig is good")
}
