//! Nodes: real containers of our image on several nodes, each in its own namespaces.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes only libtest tests")]

use std::time::Duration;

use futures_util::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use libtest_mimic::Failed;
use serde_json::{Value, json};
use testbed::harness::footprint;
use testbed::harness::wait;
use testbed::{Cluster, Context, ControlPlane, Error, Image, Node, TestResult};

testbed::suite![
    pods_reach_each_other_and_the_api_server,
    native_sidecar_starts_first_and_exits_last,
    pod_logs_are_kept_and_served,
    missing_image_is_reported,
    static_pod_runs,
    removed_node_leaves_nothing,
];

/// Timeout for pod changes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Directory with the service account credentials of a pod.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A StatefulSet of web servers, one per node, with a headless Service of the same name.
fn servers(replicas: usize) -> (Service, StatefulSet) {
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "clusterIP": "None", "selector": { "app": "web" }, "ports": [{ "port": 8080 }] },
    });
    let set = json!({
        "metadata": { "name": "web" },
        "spec": {
            "serviceName": "web",
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": { "matchLabels": { "app": "web" } },
                    }],
                    "containers": [server("server", 8080)],
                },
            },
        },
    });
    (parse(service), parse(set))
}

fn server(name: &str, port: u16) -> Value {
    json!({
        "name": name,
        "image": "outrigger.dev/outrigger:dev",
        "imagePullPolicy": "Never",
        "command": ["testbed-pod", "serve", format!("--port={port}")],
        "readinessProbe": { "httpGet": { "path": "/healthz", "port": port }, "periodSeconds": 1 },
    })
}

fn pod(name: &str, spec: Value) -> Pod {
    parse(json!({ "metadata": { "name": name }, "spec": spec }))
}

fn parse<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("valid object")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

async fn ready_pods(pods: &Api<Pod>, count: usize) -> Result<Vec<Pod>, Error> {
    wait::until(format!("{count} ready pods"), TIMEOUT, || async {
        let all = pods.list(&ListParams::default()).await?.items;
        if all.len() == count && all.iter().all(is_ready) {
            return Ok(all);
        }
        let seen: Vec<_> = all.iter().map(|pod| (&pod.metadata.name, &pod.status)).collect();
        Err(Error::Other(format!("{} pods: {}", all.len(), json!(seen))))
    })
    .await
}

/// Runs our HTTP client in a pod.
fn get_from(plane: &ControlPlane, ns: &str, pod: &str, args: &[&str]) -> Result<String, String> {
    let mut command = plane.kubectl().map_err(|error| error.to_string())?;
    command.args(["exec", "--namespace", ns, pod, "--", "testbed-pod", "get"]).args(args);
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

async fn pods_reach_each_other_and_the_api_server(cx: Context) -> TestResult {
    let cluster = cx.cluster().await?;
    let plane = cluster.plane();
    assert_eq!(cluster.nodes().len(), 3);
    for node in cluster.nodes() {
        println!("{}: ready in {:.1} s", node.name(), node.started_in().as_secs_f64());
    }
    let ns = plane.namespace(cx.name()).await?;
    let client = plane.client().await?;
    let (service, set) = servers(3);
    Api::<Service>::namespaced(client.clone(), &ns).create(&PostParams::default(), &service).await?;
    Api::<StatefulSet>::namespaced(client.clone(), &ns).create(&PostParams::default(), &set).await?;
    let pods = ready_pods(&Api::namespaced(client, &ns), 3).await?;
    let mut nodes: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "expected one pod per node: {nodes:?}");

    let token = format!("--token={SERVICE_ACCOUNT_DIR}/token");
    let authority = format!("--authority={SERVICE_ACCOUNT_DIR}/ca.crt");
    for (index, pod) in pods.iter().enumerate() {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        for other in ["web-0", "web-1", "web-2"] {
            // DNS knows the endpoint shortly after the pod is ready.
            let answer = wait::until(format!("{other} reachable from {name}"), TIMEOUT, || async {
                get_from(plane, &ns, name, &[&format!("http://{other}.web:8080/")])
            })
            .await?;
            assert_eq!(answer, format!("hello from {other}"));
        }
        let neighbor = format!("web-{}", (index + 1) % 3);
        let answer = get_from(plane, &ns, &neighbor, &[&format!("http://{address}:8080/")])?;
        assert_eq!(answer, format!("hello from {name}"), "by address, from {neighbor}");

        let version = get_from(plane, &ns, name, &["https://203.0.113.1/version", &authority, &token])?;
        assert!(version.contains("v1.36.3"), "by the service's address: {version}");
        let version =
            get_from(plane, &ns, name, &["https://kubernetes.default.svc/version", &authority, &token])?;
        assert!(version.contains("v1.36.3"), "by the service's name: {version}");
        let path = format!("https://203.0.113.1/api/v1/namespaces/{ns}/secrets");
        let refused = get_from(plane, &ns, name, &[&path, &authority, &token]).expect_err("no permissions");
        assert!(refused.contains(&format!("system:serviceaccount:{ns}:default")), "{refused}");
    }
    cluster.check_alive()?;
    Ok(())
}

async fn native_sidecar_starts_first_and_exits_last(cx: Context) -> TestResult {
    let cluster = cx.cluster().await?;
    let ns = cluster.plane().namespace(cx.name()).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.plane().client().await?, &ns);
    let mut sidecar = server("sidecar", 8081);
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] = sidecar["readinessProbe"].clone();
    let spec = json!({
        "terminationGracePeriodSeconds": 10,
        "initContainers": [sidecar],
        "containers": [server("node", 8080)],
    });
    pods.create(&PostParams::default(), &pod("pair", spec)).await?;
    let ready = ready_pods(&pods, 1).await?;
    let status = ready[0].status.as_ref().expect("ready pod has a status");
    let started = |all: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| {
        let running = all.as_ref()?.first()?.state.as_ref()?.running.as_ref()?;
        running.started_at.clone().map(|time| time.0)
    };
    let (first, second) = (started(&status.init_container_statuses), started(&status.container_statuses));
    assert!(first.is_some() && first <= second, "sidecar started at {first:?}, node at {second:?}");

    let last_log_line = |container: &'static str| {
        let params = LogParams {
            container: Some(container.into()),
            follow: true,
            timestamps: true,
            ..LogParams::default()
        };
        let pods = pods.clone();
        async move {
            let mut lines = pods.log_stream("pair", &params).await?.lines();
            let mut last = None;
            while let Some(line) = lines.try_next().await? {
                last = Some(line);
            }
            Ok::<_, Failed>(last.unwrap_or_default())
        }
    };
    let delete = async { Ok(pods.delete("pair", &DeleteParams::default()).await.map(drop)?) };
    let (node, sidecar, ()) = tokio::try_join!(last_log_line("node"), last_log_line("sidecar"), delete)?;
    assert!(
        node.ends_with("exiting on signal 15") && sidecar.ends_with("exiting on signal 15"),
        "{node}; {sidecar}"
    );
    // Each line starts with an RFC 3339 timestamp in nanoseconds, which sorts lexically.
    assert!(node < sidecar, "node must exit first: {node}; {sidecar}");
    Ok(())
}

async fn pod_logs_are_kept_and_served(cx: Context) -> TestResult {
    let cluster = cx.cluster().await?;
    let ns = cluster.plane().namespace(cx.name()).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.plane().client().await?, &ns);
    pods.create(&PostParams::default(), &pod("talker", json!({ "containers": [server("only", 8080)] })))
        .await?;
    let ready = ready_pods(&pods, 1).await?;
    let said = pods.logs("talker", &Default::default()).await?;
    assert_eq!(said.trim(), "serving on port 8080: hello from talker", "through the API server");

    let node = ready[0].spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let node = cluster.nodes().iter().find(|one| one.name() == node).expect("pod runs on one of the nodes");
    let uid = ready[0].metadata.uid.as_deref().unwrap_or_default();
    let kept = node.pod_logs().join(format!("{ns}_talker_{uid}")).join("only/0.log");
    assert!(std::fs::read_to_string(&kept)?.contains("hello from talker"), "{}", kept.display());
    assert!(kept.starts_with(cx.logs().parent().expect("log directory of a test is in that of its suite")));
    Ok(())
}

async fn missing_image_is_reported(cx: Context) -> TestResult {
    let cluster = cx.cluster().await?;
    let ns = cluster.plane().namespace(cx.name()).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.plane().client().await?, &ns);
    let mut container = server("only", 8080);
    container["image"] = json!("outrigger.dev/no-such:thing");
    pods.create(&PostParams::default(), &pod("lost", json!({ "containers": [container] }))).await?;
    wait::until("waiting reason", TIMEOUT, || async {
        let status = pods.get("lost").await?.status.unwrap_or_default();
        let waiting = status
            .container_statuses
            .unwrap_or_default()
            .first()
            .cloned()
            .and_then(|one| one.state?.waiting?.reason);
        match waiting.as_deref() {
            Some("ErrImageNeverPull") => Ok(()),
            other => Err(Error::Other(format!("waiting reason is {other:?}"))),
        }
    })
    .await?;
    Ok(())
}

async fn static_pod_runs(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plane = ControlPlane::builder(&site).start().await?;
    let image = Image::outrigger()?;
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "etcd-like", "namespace": "kube-system" },
        "spec": { "hostNetwork": true, "containers": [server("only", 8080)] },
    });
    let node = Node::builder(&plane).image(&image).static_pod(manifest).start().await?;
    let client = http_get(node.address(), 8080);
    let answer = wait::until("response of the static pod", TIMEOUT, client).await?;
    assert!(answer.ends_with(&format!("hello from {}\n", node.name())), "{answer}");
    // The kubelet creates a mirror pod named after the node.
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, "kube-system");
    let name = format!("etcd-like-{}", node.name());
    wait::until("mirror pod", TIMEOUT, || pods.get(&name)).await?;
    Ok(())
}

/// Sends a request from outside the cluster.
fn http_get(
    address: std::net::Ipv4Addr,
    port: u16,
) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<String>> + Send>> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    move || {
        Box::pin(async move {
            let mut stream = tokio::net::TcpStream::connect((address, port)).await?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        })
    }
}

async fn removed_node_leaves_nothing(cx: Context) -> TestResult {
    let site = cx.site()?;
    let cluster = Cluster::start(&site, 1).await?;
    let plane = cluster.plane();
    let ns = plane.namespace(cx.name()).await?;
    let footprint_of = |name: &str| -> Vec<String> {
        let mine = format!("outrigger-{}-{name}", site.number());
        footprint::snapshot_with_live_runs().into_iter().filter(|line| line.contains(&mine)).collect()
    };
    let image = Image::outrigger()?;
    let second = Node::builder(plane).image(&image).start().await?;
    assert_eq!(second.name(), "node-2");
    let spec = json!({ "nodeName": "node-2", "containers": [server("only", 8080)] });
    let pods: Api<Pod> = Api::namespaced(plane.client().await?, &ns);
    pods.create(&PostParams::default(), &pod("passenger", spec)).await?;
    ready_pods(&pods, 1).await?;
    let before = footprint_of("node-2");
    for what in ["process", "network namespace", "cgroup"] {
        assert!(before.iter().any(|line| line.starts_with(what)), "no {what} of the node in {before:?}");
    }
    drop(second);
    assert_eq!(footprint_of("node-2"), Vec::<String>::new());
    assert!(!site.dir().join("node-2").exists(), "state directory was not removed");
    cluster.check_alive()?;
    let again = Node::builder(plane).image(&image).start().await?;
    assert_eq!(again.name(), "node-2", "the number is reused");
    println!("{} again: ready in {:.1} s", again.name(), again.started_in().as_secs_f64());
    assert!(again.started_in() < TIMEOUT / 2, "neighbors kept the route to the removed node");
    Ok(())
}
