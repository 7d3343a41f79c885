//! Properties of rendered objects. Unlike golden files, which follow every change, these must not change.

use std::collections::BTreeMap;

use api::SeiNode;
use api::sei_node::SidecarConfig;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, Probe, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use plan::platform::{Bucket, Endpoint, ObjectStore, ResultExport, SidecarIsolation};
use plan::{Platform, render};
use serde_json::{Value, json};

use crate::{cases, node};

fn set(case: &str) -> StatefulSet {
    render::stateful_set(&node(case), &cases::platform()).unwrap()
}

fn pod(case: &str) -> PodSpec {
    set(case).spec.unwrap().template.spec.unwrap()
}

fn bootstrap_pod(case: &str) -> PodSpec {
    let job = render::bootstrap_job(&node(case), &cases::platform()).unwrap();
    job.spec.unwrap().template.spec.unwrap()
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

fn container<'a>(pod: &'a PodSpec, name: &str) -> &'a Container {
    containers(pod).find(|container| container.name == name).unwrap()
}

/// Returns mounts as `volume:path`, with `:file` for one file and `!` for read-only.
fn mounts(container: &Container) -> Vec<String> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts
        .map(|mount| {
            let file = mount.sub_path.as_ref().map(|file| format!(":{file}")).unwrap_or_default();
            let read_only = if mount.read_only == Some(true) { "!" } else { "" };
            format!("{}:{}{file}{read_only}", mount.name, mount.mount_path)
        })
        .collect()
}

fn env(container: &Container) -> BTreeMap<String, Value> {
    let variables = container.env.iter().flatten();
    variables
        .map(|variable| {
            let value =
                variable.value.as_ref().map_or_else(|| json!(variable.value_from), |value| json!(value));
            (variable.name.clone(), value)
        })
        .collect()
}

fn names<'a>(containers: impl IntoIterator<Item = &'a Container>) -> Vec<&'a str> {
    containers.into_iter().map(|container| container.name.as_str()).collect()
}

#[test]
fn containers_are_ordered_and_sidecars_restart() {
    for case in cases::all() {
        let pod = pod(&case.name);
        let init_containers = pod.init_containers.as_deref().unwrap();
        assert_eq!(names(init_containers), ["seid-init", "sei-sidecar", "kube-rbac-proxy"], "{}", case.name);
        assert_eq!(names(&pod.containers), ["seid", "cosmos-exporter"], "{}", case.name);
        let restarts: Vec<_> =
            init_containers.iter().map(|container| container.restart_policy.as_deref()).collect();
        assert_eq!(restarts, [None, Some("Always"), Some("Always")]);
    }
}

#[test]
fn stateful_set_has_one_pod_and_is_updated_on_delete() {
    for case in cases::all() {
        let spec = set(&case.name).spec.unwrap();
        assert_eq!(spec.replicas, Some(1));
        assert_eq!(spec.update_strategy.unwrap().type_.as_deref(), Some("OnDelete"));
        assert_eq!(spec.selector.match_labels, Some([("sei.io/node".into(), "tide-3".into())].into()));
        assert_eq!(spec.volume_claim_templates, None);
        let labels = spec.template.metadata.unwrap().labels.unwrap();
        assert_eq!(labels["sei.io/node"], "tide-3", "{}", case.name);
    }
}

#[test]
fn system_labels_override_those_of_the_spec() {
    let labels = set("pod-labels").metadata.labels.unwrap();
    let expected = [
        ("empty", ""),
        ("sei.io/chain", "atlantic-2"),
        ("sei.io/component", "bootstrap"),
        ("sei.io/node", "tide-3"),
        ("sei.io/role", "node"),
        ("team", "chain"),
    ];
    assert_eq!(labels, expected.map(|(name, value)| (name.into(), value.into())).into());
}

#[test]
fn component_label_of_the_spec_marks_no_bootstrap_object() {
    let node = node("pod-labels");
    assert!(!render::is_bootstrap(&render::service(&node)));
    assert!(!render::is_bootstrap(&set("pod-labels")));
    assert!(render::is_bootstrap(&render::bootstrap_service(&node)));
    let job = render::bootstrap_job(&crate::node("bootstrap"), &cases::platform()).unwrap();
    assert!(render::is_bootstrap(&job));
    assert!(!render::is_bootstrap(&Service::default()));
}

#[test]
fn retained_claim_has_a_label_instead_of_an_owner() {
    for (case, is_retained) in
        [("full", false), ("retained", true), ("validator", true), ("deleted-validator", false)]
    {
        let mut node = node(case);
        let forged =
            ["sei.io/retained-by", "sei.io/set-up"].map(|name| (name.to_owned(), "forged".to_owned()));
        node.spec.pod_labels = forged.into();
        let claim = render::data_claim(&node, &cases::platform()).unwrap().metadata;
        assert_eq!(claim.owner_references.is_none(), is_retained, "{case}");
        let labels = claim.labels.unwrap();
        assert_eq!(labels.get("sei.io/retained-by").map(String::as_str), is_retained.then_some("tide-3"));
        assert!(!labels.contains_key("sei.io/set-up"), "{case}");
    }
}

#[test]
fn every_object_is_owned_by_its_node() {
    for case in cases::all() {
        let node = crate::node(&case.name);
        let objects = cases::own_objects(&node).into_iter().chain(cases::bootstrap_objects(&node));
        let is_retained = |object: &Value| !object["metadata"]["labels"]["sei.io/retained-by"].is_null();
        for object in objects.filter(|object| !is_retained(object)) {
            assert_eq!(
                object["metadata"]["ownerReferences"],
                json!([{
                    "apiVersion": "sei.io/v1alpha1", "kind": "SeiNode", "name": "tide-3",
                    "uid": "5e1f0000-0000-4000-8000-000000000003", "controller": true, "blockOwnerDeletion": true,
                }]),
                "{} of {}",
                object["kind"],
                case.name
            );
            assert_eq!(object["metadata"]["namespace"], "reef");
        }
    }
}

#[test]
fn service_has_eight_ports_without_the_sidecar() {
    for case in cases::all() {
        let spec = render::service(&node(&case.name)).spec.unwrap();
        let ports: Vec<_> =
            spec.ports.iter().flatten().map(|port| (port.name.as_deref().unwrap(), port.port)).collect();
        assert_eq!(
            ports,
            [
                ("evm-rpc", 8545),
                ("evm-ws", 8546),
                ("grpc", 9090),
                ("rest", 1317),
                ("p2p", 26656),
                ("rpc", 26657),
                ("metrics", 26660),
                ("api", 8443)
            ],
            "{}",
            case.name
        );
        assert_eq!(spec.cluster_ip.as_deref(), Some("None"));
        assert_eq!(spec.publish_not_ready_addresses, Some(true));
    }
}

/// Returns the configuration that the proxies of both pods read.
fn proxy_config(node: &SeiNode, isolation: SidecarIsolation) -> Value {
    let data = render::proxy_config(node).data.unwrap();
    let key = match isolation {
        SidecarIsolation::Isolated => "config-by-kind.yaml",
        // Also the key of upstream.
        SidecarIsolation::Shared => "config.yaml",
    };
    for pod in pods("bootstrap", isolation) {
        let args = container(&pod, "kube-rbac-proxy").args.clone().unwrap();
        assert!(args.contains(&format!("--config-file=/etc/kube-rbac-proxy/{key}")), "{args:?}");
    }
    serde_saphyr::from_str(&data[key]).unwrap()
}

#[test]
fn proxy_authorizes_by_the_header_that_the_sidecar_checks() {
    let config = proxy_config(&node("full"), SidecarIsolation::Isolated);
    let header = config["authorization"]["subresourceFromHeader"].as_str().unwrap();
    assert!(header.eq_ignore_ascii_case(api::sidecar_wire::TASK_KIND_HEADER), "{header}");
}

#[test]
fn proxy_config_quotes_names_that_yaml_would_misread() {
    for name in ["tide-3", "1e3", "null", "0123", "true"] {
        let mut node = node("full");
        node.metadata.name = Some(name.into());
        let attributes = json!({
            "apiGroup": "sei.io", "resource": "seinodetasks", "namespace": "reef", "name": name,
        });
        assert_eq!(
            proxy_config(&node, SidecarIsolation::Isolated),
            json!({ "authorization": { "resourceAttributes": attributes, "subresourceFromHeader": "X-Sei-Task-Kind" } })
        );
        // The sidecar of upstream does not check the header.
        assert_eq!(
            proxy_config(&node, SidecarIsolation::Shared),
            json!({ "authorization": { "resourceAttributes": attributes } })
        );
    }
}

#[test]
fn proxy_config_change_changes_the_template() {
    let node = node("full");
    let template = set("full").spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    let hash = |node: &SeiNode| render::proxy_config_hash(node, &cases::platform());
    assert_eq!(template["outrigger.dev/proxy-config-hash"], hash(&node));
    let shared = Platform { sidecar_isolation: SidecarIsolation::Shared, ..cases::platform() };
    assert_ne!(render::proxy_config_hash(&node, &shared), hash(&node));
    assert_eq!(template["karpenter.sh/do-not-disrupt"], "true");
    let mut other = node.clone();
    other.metadata.namespace = Some("lagoon".into());
    assert_ne!(hash(&other), hash(&node));
}

#[test]
fn proxy_accepts_only_the_audience_of_its_node() {
    for isolation in BOTH {
        for (name, template) in templates("bootstrap", isolation) {
            let annotations = template.metadata.unwrap().annotations.unwrap();
            assert_eq!(annotations["outrigger.dev/sidecar-audience"], "sidecar.sei.io/reef/tide-3", "{name}");
            let pod = template.spec.unwrap();
            let args = container(&pod, "kube-rbac-proxy").args.clone().unwrap();
            let audiences: Vec<_> = args.iter().filter(|arg| arg.contains("audience")).collect();
            assert_eq!(audiences, ["--auth-token-audiences=sidecar.sei.io/reef/tide-3"], "{name}");
        }
    }
}

const BOTH: [SidecarIsolation; 2] = [SidecarIsolation::Isolated, SidecarIsolation::Shared];

/// Returns the templates of both pods of a case.
fn templates(case: &str, isolation: SidecarIsolation) -> [(&'static str, PodTemplateSpec); 2] {
    let platform = Platform { sidecar_isolation: isolation, ..cases::platform() };
    let own = render::stateful_set(&node(case), &platform).unwrap().spec.unwrap().template;
    let bootstrap = render::bootstrap_job(&node(case), &platform).unwrap().spec.unwrap().template;
    [("own", own), ("bootstrap", bootstrap)]
}

fn pods(case: &str, isolation: SidecarIsolation) -> [PodSpec; 2] {
    templates(case, isolation).map(|(_, template)| template.spec.unwrap())
}

/// Returns the containers that mount a volume, with the path.
fn mounted_by(pod: &PodSpec, volume: &str) -> Vec<(String, String)> {
    let of = |container: &Container| {
        let mounts = container.volume_mounts.iter().flatten().filter(|mount| mount.name == volume);
        mounts.map(|mount| (container.name.clone(), mount.mount_path.clone())).collect::<Vec<_>>()
    };
    containers(pod).flat_map(of).collect()
}

#[test]
fn isolated_containers_share_only_socket_and_control_directory() {
    for pod in pods("bootstrap", SidecarIsolation::Isolated) {
        assert_eq!(pod.share_process_namespace, None);
        let own = |container: &str, path: &str| (container.to_owned(), path.to_owned());
        assert_eq!(
            mounted_by(&pod, "sidecar-socket"),
            [own("sei-sidecar", "/run/sei-sidecar"), own("kube-rbac-proxy", "/run/sei-sidecar")]
        );
        assert_eq!(
            mounted_by(&pod, "seid-control"),
            [own("sei-sidecar", "/run/seid-control"), own("seid", "/run/seid-control")]
        );
        for name in ["sidecar-socket", "seid-control"] {
            let volume = pod.volumes.iter().flatten().find(|volume| volume.name == name).unwrap();
            assert_eq!(json!(volume), json!({ "name": name, "emptyDir": {} }));
        }
        let args = container(&pod, "kube-rbac-proxy").args.clone().unwrap();
        assert!(args.contains(&"--upstream=unix:///run/sei-sidecar/api.sock".to_owned()), "{args:?}");
        let sidecar = env(container(&pod, "sei-sidecar"));
        assert_eq!(sidecar["OUTRIGGER_SIDECAR_LISTEN"], "unix:/run/sei-sidecar/api.sock");
        assert_eq!(sidecar["OUTRIGGER_SEID_CONTROL_DIR"], "/run/seid-control");
        assert_eq!(env(container(&pod, "seid"))["OUTRIGGER_SEID_CONTROL_DIR"], "/run/seid-control");
    }
}

/// What the sidecar has accepted is recorded where no other container can write.
#[test]
fn private_directory_is_mounted_by_the_sidecar_only() {
    for pod in pods("bootstrap", SidecarIsolation::Isolated) {
        let private = env(container(&pod, "sei-sidecar"))["OUTRIGGER_SIDECAR_PRIVATE_DIR"].clone();
        let mounts = mounted_by(&pod, "sidecar-tmp");
        assert_eq!(json!(mounts), json!([["sei-sidecar", private]]));
        let volume = pod.volumes.iter().flatten().find(|volume| volume.name == "sidecar-tmp").unwrap();
        assert_eq!(json!(volume), json!({ "name": "sidecar-tmp", "emptyDir": {} }), "it ends with the pod");
    }
}

#[test]
fn uploads_of_a_previous_pod_continue_only_if_the_node_publishes() {
    let publishes = |case: &str, isolation| {
        let platform = Platform { sidecar_isolation: isolation, ..cases::platform() };
        let pod = render::stateful_set(&node(case), &platform).unwrap().spec.unwrap().template.spec.unwrap();
        env(container(&pod, "sei-sidecar")).remove("OUTRIGGER_PUBLISH_SNAPSHOTS")
    };
    let (isolated, shared) = (SidecarIsolation::Isolated, SidecarIsolation::Shared);
    assert_eq!(publishes("snapshot-generation", isolated), Some(json!("true")));
    assert_eq!(publishes("snapshot-generation", shared), None);
    assert_eq!(publishes("full", isolated), None);
    let mut node = node("snapshot-generation");
    let generation = node.spec.full_node.as_mut().unwrap().snapshot_generation.as_mut().unwrap();
    generation.tendermint.as_mut().unwrap().publish = None;
    let set = render::stateful_set(&node, &cases::platform()).unwrap();
    assert!(!json!(set).to_string().contains("PUBLISH_SNAPSHOTS"));
}

#[test]
fn shared_containers_use_loopback_and_signals() {
    for pod in pods("bootstrap", SidecarIsolation::Shared) {
        assert_eq!(pod.share_process_namespace, Some(true));
        let text = json!(pod.volumes).to_string() + &json!(container(&pod, "sei-sidecar")).to_string();
        for absent in [
            "sidecar-socket",
            "seid-control",
            "OUTRIGGER_SIDECAR_LISTEN",
            "OUTRIGGER_SEID_CONTROL_DIR",
            "PRIVATE_DIR",
        ] {
            assert!(!text.contains(absent), "{absent}");
        }
        assert!(!env(container(&pod, "seid")).contains_key("OUTRIGGER_SEID_CONTROL_DIR"));
        let args = container(&pod, "kube-rbac-proxy").args.clone().unwrap();
        assert!(args.contains(&"--upstream=http://127.0.0.1:7777/".to_owned()), "{args:?}");
    }
}

#[test]
fn spec_overrides_the_isolation_of_the_platform() {
    for [platform, own] in [BOTH, [BOTH[1], BOTH[0]]] {
        let platform = Platform { sidecar_isolation: platform, ..cases::platform() };
        let mut node = node("full");
        node.spec.sidecar = Some(SidecarConfig { isolation: Some(own), ..SidecarConfig::default() });
        let pod = render::stateful_set(&node, &platform).unwrap().spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.share_process_namespace == Some(true), own == SidecarIsolation::Shared);
    }
}

#[test]
fn only_the_proxy_has_a_token() {
    for pod in BOTH.into_iter().flat_map(|isolation| pods("bootstrap", isolation)) {
        assert_eq!(pod.automount_service_account_token, Some(false));
        let own = ("kube-rbac-proxy".to_owned(), "/var/run/secrets/kubernetes.io/serviceaccount".to_owned());
        assert_eq!(mounted_by(&pod, "proxy-token"), [own]);
        let projected: Vec<_> =
            pod.volumes.iter().flatten().filter(|volume| volume.projected.is_some()).collect();
        assert_eq!(
            json!(projected),
            json!([{ "name": "proxy-token", "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } },
            ] } }])
        );
    }
}

/// The webhook of EKS gives the credentials of a ServiceAccount to all other containers. It splits the list at commas and trims nothing.
#[test]
fn only_the_sidecar_gets_the_identity_of_the_pod() {
    for (name, template) in BOTH.into_iter().flat_map(|isolation| templates("bootstrap", isolation)) {
        let annotations = template.metadata.unwrap().annotations.unwrap();
        let skipped: Vec<_> = annotations["eks.amazonaws.com/skip-containers"].split(',').collect();
        let pod = template.spec.unwrap();
        let mut expected = names(containers(&pod));
        expected.retain(|container| *container != "sei-sidecar");
        assert_eq!(skipped, expected, "{name}");
        assert!(skipped.contains(&"seid") && skipped.contains(&"seid-init"), "{name}: {skipped:?}");
    }
}

#[test]
fn proxy_has_a_memory_limit() {
    for pod in BOTH.into_iter().flat_map(|isolation| pods("bootstrap", isolation)) {
        assert_eq!(
            json!(container(&pod, "kube-rbac-proxy").resources),
            json!({ "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "128Mi" } })
        );
    }
}

#[test]
fn config_change_changes_the_template() {
    let hash = |node: &SeiNode| {
        let set = render::stateful_set(node, &cases::platform()).unwrap();
        let annotations = set.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
        annotations["outrigger.dev/config-hash"].clone()
    };
    let whole = node("settings");
    let mut hashes = vec![hash(&node("full")), hash(&whole), hash(&node("snapshot-generation"))];
    let mut fewer_peers = whole.clone();
    fewer_peers.spec.peers.pop();
    hashes.push(hash(&fewer_peers));
    let mut no_override = whole.clone();
    no_override.spec.overrides.clear();
    hashes.push(hash(&no_override));
    let mut elsewhere = whole.clone();
    elsewhere.spec.external_address = Some("other.example:26656".into());
    hashes.push(hash(&elsewhere));
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
    assert!(hashes.iter().all(|hash| hash.len() == 16), "{hashes:?}");
    let mut other_image = whole.clone();
    other_image.spec.image = "images.example/seid:v7".into();
    assert_eq!(hash(&other_image), hash(&whole), "the image is not a setting");
}

#[test]
fn sidecar_port_is_used_by_all_containers() {
    for pod in [pod("sidecar")].into_iter().chain(pods("bootstrap-validator", SidecarIsolation::Shared)) {
        let is_shared = pod.share_process_namespace == Some(true);
        let sidecar = container(&pod, "sei-sidecar");
        assert_eq!(env(sidecar)["SEI_SIDECAR_PORT"], "7001");
        assert_eq!(sidecar.ports.as_ref().unwrap()[0].container_port, 7001);
        let args = container(&pod, "kube-rbac-proxy").args.clone().unwrap();
        assert_eq!(args.contains(&"--upstream=http://127.0.0.1:7001/".to_owned()), is_shared, "{args:?}");
        assert_eq!(container(&pod, "seid").args.as_ref().unwrap()[1], "7001");
        assert!(!json!(pod).to_string().contains("7777"));
    }
}

#[test]
fn proxy_passes_the_identity_to_the_sidecar_in_both_pods() {
    for pod in [pod("full"), pod("tls-secret"), bootstrap_pod("bootstrap")] {
        let args = container(&pod, "kube-rbac-proxy").args.clone().unwrap();
        for arg in [
            "--auth-header-fields-enabled=true",
            "--ignore-paths=/v0/healthz,/v0/startupz,/v0/livez,/v0/metrics",
            "--config-file=/etc/kube-rbac-proxy/config-by-kind.yaml",
        ] {
            assert!(args.iter().any(|one| one == arg), "{arg} in {args:?}");
        }
        let is_exempted = |one: &String| one.contains("/v0/chain") || one.contains("/v0/tasks");
        assert!(!args.iter().any(is_exempted), "{args:?}");
        let sidecar = env(container(&pod, "sei-sidecar"));
        assert_eq!(sidecar["SEI_SIDECAR_AUTHN_MODE"], "trusted-header");
    }
}

#[test]
fn sidecar_and_proxy_are_identical_in_both_pods() {
    let (own, bootstrap) = (pod("bootstrap"), bootstrap_pod("bootstrap"));
    for name in ["sei-sidecar", "kube-rbac-proxy"] {
        assert_eq!(container(&own, name), container(&bootstrap, name));
    }
    assert_eq!(own.security_context, bootstrap.security_context);
    assert_eq!(container(&own, "seid").security_context, container(&bootstrap, "seid").security_context);
}

#[test]
fn hanging_sidecar_is_restarted_after_the_proxy() {
    for pod in [pod("full"), bootstrap_pod("bootstrap")] {
        let sidecar = container(&pod, "sei-sidecar");
        let probe = sidecar.liveness_probe.clone().unwrap();
        let request = probe.http_get.unwrap();
        assert_eq!((request.path.as_deref(), request.port), (Some("/v0/livez"), IntOrString::Int(8443)));
        // The proxy starts after the sidecar: a startup or readiness probe through it would deadlock.
        assert_eq!((&sidecar.startup_probe, &sidecar.readiness_probe), (&None, &None));
        let tolerance = |probe: &Probe| probe.period_seconds.unwrap() * probe.failure_threshold.unwrap();
        let proxy = container(&pod, "kube-rbac-proxy");
        for probe in [&sidecar.liveness_probe, &proxy.liveness_probe, &proxy.readiness_probe] {
            // The default timeout is one second, and the sidecar reads its ledger for up to two.
            assert_eq!(probe.as_ref().unwrap().timeout_seconds, Some(5));
        }
        let sidecar_tolerance = tolerance(sidecar.liveness_probe.as_ref().unwrap());
        assert!(sidecar_tolerance >= 5 * tolerance(proxy.liveness_probe.as_ref().unwrap()));
        let proxy_startup = tolerance(proxy.startup_probe.as_ref().unwrap());
        assert!(sidecar.liveness_probe.as_ref().unwrap().initial_delay_seconds.unwrap() >= proxy_startup);
    }
}

#[test]
fn tls_is_used_by_the_proxy_and_its_probes() {
    for (pod, secret) in [
        (pod("tls-issuer"), "tide-3-sidecar-tls"),
        (pod("tls-secret"), "given-tls"),
        (bootstrap_pod("bootstrap-validator"), "tide-3-sidecar-tls"),
    ] {
        let proxy = container(&pod, "kube-rbac-proxy");
        let args = proxy.args.clone().unwrap();
        assert_eq!(
            args[..4],
            [
                "--secure-listen-address=0.0.0.0:8443",
                "--tls-cert-file=/etc/tls/tls.crt",
                "--tls-private-key-file=/etc/tls/tls.key",
                "--tls-reload-interval=30s"
            ]
        );
        assert!(!args.iter().any(|arg| arg.contains("insecure")), "{args:?}");
        assert!(mounts(proxy).contains(&"sidecar-tls:/etc/tls!".to_owned()));
        let volume = pod.volumes.iter().flatten().find(|volume| volume.name == "sidecar-tls").unwrap();
        let source = volume.secret.as_ref().unwrap();
        assert_eq!((source.secret_name.as_deref(), source.default_mode), (Some(secret), Some(0o400)));
        for container in containers(&pod) {
            let probes = [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
            for get in probes.into_iter().flatten().filter_map(|probe| probe.http_get.as_ref()) {
                let expected = (get.port == IntOrString::Int(8443)).then_some("HTTPS");
                assert_eq!(get.scheme.as_deref(), expected, "{}", container.name);
            }
        }
    }
    assert!(render::certificate(&node("tls-secret")).is_err(), "the Secret is provided");
    assert!(render::certificate(&node("full")).is_err());
}

#[test]
fn certificate_omits_a_too_long_common_name() {
    let mut node = node("tls-issuer");
    assert!(render::certificate(&node).unwrap().spec.common_name.is_some());
    node.metadata.name = Some("n".repeat(50));
    let spec = render::certificate(&node).unwrap().spec;
    assert_eq!(spec.common_name, None);
    assert_eq!(spec.dns_names.len(), 2);
}

#[test]
fn archive_has_its_own_pool_volume_and_resources() {
    for (case, pool, class, size, cpu, memory) in [
        ("full", "pool-node", "fast", "2000Gi", "4", "32Gi"),
        ("replayer", "pool-node", "fast", "2000Gi", "4", "32Gi"),
        ("validator", "pool-node", "fast", "2000Gi", "4", "32Gi"),
        ("archive", "pool-archive", "deep", "40Ti", "48", "448Gi"),
    ] {
        let pod = pod(case);
        let toleration = &pod.tolerations.as_ref().unwrap()[0];
        assert_eq!(toleration.value.as_deref(), Some(pool));
        assert_eq!(toleration.key.as_deref(), Some("sei.io/workload"));
        assert!(json!(pod.affinity).to_string().contains(&format!("[\"{pool}\"]")), "{case}");
        let resources = json!(container(&pod, "seid").resources);
        assert_eq!(resources, json!({ "requests": { "cpu": cpu, "memory": memory } }));
        let claim = render::data_claim(&node(case), &cases::platform()).unwrap().spec.unwrap();
        assert_eq!(claim.storage_class_name.as_deref(), Some(class));
        assert_eq!(json!(claim.resources), json!({ "requests": { "storage": size } }));
    }
}

#[test]
fn imported_volume_is_mounted_by_both_pods() {
    for pod in [pod("import"), pod("bootstrap-validator"), bootstrap_pod("bootstrap-validator")] {
        let data = pod.volumes.iter().flatten().find(|volume| volume.name == "data").unwrap();
        assert_eq!(data.persistent_volume_claim.as_ref().unwrap().claim_name, "old-volume");
    }
    assert!(render::data_claim(&node("import"), &cases::platform()).is_err());
}

#[test]
fn keys_are_mounted_as_files_by_seid_only() {
    let pod = pod("keys");
    assert_eq!(
        mounts(container(&pod, "seid")),
        [
            "data:/.sei",
            "seid-control:/run/seid-control",
            "signing-key:/.sei/config/priv_validator_key.json:priv_validator_key.json!",
            "node-key:/.sei/config/node_key.json:node_key.json!"
        ]
    );
    for name in ["seid-init", "sei-sidecar", "kube-rbac-proxy", "cosmos-exporter"] {
        assert!(!mounts(container(&pod, name)).iter().any(|mount| mount.contains("-key")), "{name}");
    }
    for (name, key) in [("signing-key", "priv_validator_key.json"), ("node-key", "node_key.json")] {
        let volume = pod.volumes.iter().flatten().find(|volume| volume.name == name).unwrap();
        let source = volume.secret.as_ref().unwrap();
        assert_eq!(source.default_mode, Some(0o400));
        let items: Vec<_> = source.items.iter().flatten().map(|item| item.key.as_str()).collect();
        assert_eq!(items, [key], "no other key of the Secret");
    }
}

#[test]
fn keyring_is_mounted_by_no_container() {
    let text = json!(pod("keyring")).to_string();
    for part in ["tide-ring", "tide-phrase", "KEYRING", "keyring"] {
        assert!(!text.contains(part), "{part}");
    }
}

#[test]
fn object_store_is_configured_in_sidecars_only() {
    let mut platform = cases::platform();
    platform.object_store = ObjectStore {
        endpoint: Some(Endpoint { url: "http://store.example:9000".into(), is_path_style: true }),
        credentials: Some("reef-key".into()),
    };
    let node = node("bootstrap");
    let own = render::stateful_set(&node, &platform).unwrap().spec.unwrap().template.spec.unwrap();
    let bootstrap = render::bootstrap_job(&node, &platform).unwrap().spec.unwrap().template.spec.unwrap();
    for pod in [&own, &bootstrap] {
        let variables = env(container(pod, "sei-sidecar"));
        assert_eq!(variables["AWS_ENDPOINT_URL"], "http://store.example:9000");
        assert_eq!(variables["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"], "false");
        for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            assert_eq!(variables[key], json!({ "secretKeyRef": { "name": "reef-key", "key": key } }));
        }
        assert_eq!(variables["AWS_SESSION_TOKEN"]["secretKeyRef"]["optional"], true);
        for container in containers(pod).filter(|container| container.name != "sei-sidecar") {
            let text = json!(container).to_string();
            assert!(!text.contains("AWS_") && !text.contains("reef-key"), "{}", container.name);
        }
    }
    let pod = self::pod("full");
    let named = env(container(&pod, "sei-sidecar")).into_keys().find(|name| name.starts_with("AWS_"));
    assert_eq!(named, None, "AWS S3 uses the identity of the pod");
}

#[test]
fn destination_of_exports_is_configured_in_sidecars_only() {
    let bucket = Bucket { name: "results".into(), region: "eu-1".into() };
    for prefix in [None, Some("replays/")] {
        let result_export = ResultExport { bucket: bucket.clone(), prefix: prefix.map(str::to_owned) };
        let platform = Platform { result_export: Some(result_export), ..cases::platform() };
        for isolation in BOTH {
            let platform = Platform { sidecar_isolation: isolation, ..platform.clone() };
            let node = node("bootstrap");
            let own = render::stateful_set(&node, &platform).unwrap().spec.unwrap().template;
            let bootstrap = render::bootstrap_job(&node, &platform).unwrap().spec.unwrap().template;
            for pod in [own.spec.unwrap(), bootstrap.spec.unwrap()] {
                let variables = env(container(&pod, "sei-sidecar"));
                assert_eq!(variables["SEI_RESULT_EXPORT_BUCKET"], "results");
                assert_eq!(variables["SEI_RESULT_EXPORT_REGION"], "eu-1");
                assert_eq!(
                    variables.get("SEI_RESULT_EXPORT_PREFIX"),
                    prefix.map(|prefix| json!(prefix)).as_ref()
                );
                for container in containers(&pod).filter(|container| container.name != "sei-sidecar") {
                    assert!(!json!(container).to_string().contains("RESULT_EXPORT"), "{}", container.name);
                }
            }
        }
    }
    let text = json!(pod("full")).to_string();
    assert!(!text.contains("RESULT_EXPORT"), "exports are not configured");
}

#[test]
fn certificate_in_the_keyring_secret_is_rejected() {
    let mut node = node("keyring");
    let tls = api::sei_node::SidecarTls { secret_name: Some("tide-ring".into()), ..Default::default() };
    node.spec.sidecar = Some(api::sei_node::SidecarConfig { tls: Some(tls), ..Default::default() });
    let error = render::stateful_set(&node, &cases::platform()).unwrap_err().to_string();
    assert_eq!(
        error,
        "container kube-rbac-proxy would have access to Secret tide-ring through volumes: no container may"
    );
}

#[test]
fn bootstrap_pod_has_no_signing_keys() {
    let text = json!(bootstrap_pod("bootstrap-validator")).to_string();
    for secret in ["tide-signs", "tide-identifies", "tide-ring", "tide-phrase", "KEYRING"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn bootstrap_job_runs_once_and_has_no_ttl() {
    let job = render::bootstrap_job(&node("bootstrap"), &cases::platform()).unwrap().spec.unwrap();
    assert_eq!(job.backoff_limit, Some(0));
    assert_eq!(job.ttl_seconds_after_finished, None);
    let pod = job.template.spec.unwrap();
    assert_eq!((pod.hostname.as_deref(), pod.subdomain.as_deref()), (Some("tide-3-0"), Some("tide-3")));
    assert_eq!(pod.restart_policy.as_deref(), Some("Never"));
    assert_eq!(pod.termination_grace_period_seconds, Some(120));
    assert_eq!(container(&pod, "seid").image.as_deref(), Some("images.example/seid:v6.0"));
    assert_eq!(container(&pod, "seid-init").image.as_deref(), Some("images.example/seid:v6.0"));
    assert_eq!(names(&pod.containers), ["seid"]);
    for case in ["full", "snapshot", "state-sync", "archive"] {
        assert!(render::bootstrap_job(&node(case), &cases::platform()).is_err(), "{case}");
    }
}

/// seid writes its state for up to two minutes before it exits.
#[test]
fn both_pods_give_seid_two_minutes_to_terminate() {
    for case in ["full", "validator", "archive"] {
        assert_eq!(pod(case).termination_grace_period_seconds, Some(120), "{case}");
    }
    assert_eq!(bootstrap_pod("bootstrap").termination_grace_period_seconds, Some(120));
}

#[test]
fn containers_are_unprivileged_with_read_only_root() {
    for pod in [pod("full"), bootstrap_pod("bootstrap")] {
        assert_eq!(
            json!(pod.security_context),
            json!({ "fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch" })
        );
        for container in containers(&pod) {
            let mut context = json!(container.security_context);
            let read_only = context.as_object_mut().unwrap().remove("readOnlyRootFilesystem");
            assert_eq!(
                context,
                json!({
                    "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "allowPrivilegeEscalation": false,
                    "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
                })
            );
            let is_seid = container.name.starts_with("seid");
            assert_eq!(read_only, (!is_seid).then_some(json!(true)), "{}", container.name);
        }
        // With a read-only root the sidecar needs a writable mount.
        assert!(mounts(container(&pod, "sei-sidecar")).contains(&"sidecar-tmp:/tmp".to_owned()));
    }
}

#[test]
fn seid_has_its_home_and_a_lag_probe() {
    let pod = pod("full");
    let seid = container(&pod, "seid");
    assert!(seid.command.as_ref().unwrap()[2].contains("seid start --home \"$HOME\""));
    let expected = [
        ("HOME", "/.sei"),
        ("TMPDIR", "/.sei/tmp"),
        ("TERMINATION_LOG", "/dev/termination-log"),
        ("OUTRIGGER_SEID_CONTROL_DIR", "/run/seid-control"),
    ];
    assert_eq!(env(seid), expected.map(|(name, value)| (name.into(), json!(value))).into());
    assert_eq!(seid.liveness_probe, None);
    assert_eq!(
        json!(seid.readiness_probe),
        json!({
            "httpGet": { "path": "/lag_status", "port": 26657 },
            "initialDelaySeconds": 30, "periodSeconds": 10, "failureThreshold": 3, "timeoutSeconds": 5,
        })
    );
    assert_eq!(
        json!(seid.startup_probe),
        json!({
            "httpGet": { "path": "/v0/healthz", "port": 8443 },
            "initialDelaySeconds": 5, "periodSeconds": 5, "failureThreshold": 86400, "timeoutSeconds": 5,
        })
    );
}

/// The kubelet replaces `$(NAME)` by a variable, and `$$` by `$`.
#[test]
fn kubelet_expands_nothing_in_scripts() {
    for pod in BOTH.into_iter().flat_map(|isolation| pods("bootstrap", isolation)) {
        for container in containers(&pod) {
            for text in container.command.iter().chain(&container.args).flatten() {
                assert!(!text.contains("$$") && !text.contains("$("), "{}: {text}", container.name);
            }
        }
    }
}

#[test]
fn seid_keeps_its_termination_message() {
    for pod in [pod("full"), bootstrap_pod("bootstrap")] {
        let seid = container(&pod, "seid");
        assert_eq!(seid.termination_message_path.as_deref(), Some("/dev/termination-log"));
        assert_eq!(seid.termination_message_policy.as_deref(), Some("FallbackToLogsOnError"));
    }
}

#[test]
fn exporter_is_not_restarted_without_grpc() {
    let exporter = container(&pod("validator"), "cosmos-exporter").clone();
    assert_eq!(exporter.startup_probe, None);
    assert_eq!(exporter.liveness_probe.unwrap().initial_delay_seconds, Some(600));
    assert_eq!(exporter.readiness_probe.unwrap().failure_threshold, Some(6));
}

#[test]
fn resources_are_rendered_in_canonical_form() {
    assert_eq!(
        json!(container(&pod("sidecar"), "sei-sidecar").resources),
        json!({
            "requests": { "cpu": "500m", "memory": "1536Mi" },
            "limits": { "cpu": "1", "memory": "2Gi", "ephemeral-storage": "1e3" },
        })
    );
    assert_eq!(container(&pod("full"), "sei-sidecar").resources, None);
}

#[test]
fn missing_images_and_invalid_quantities_are_named() {
    type Break = fn(&mut plan::Platform);
    let cases: [(Break, &str); 4] = [
        (|platform| platform.proxy_image.clear(), "the operator has no proxy image configured"),
        (|platform| platform.exporter_image.clear(), "the operator has no exporter image configured"),
        (
            |platform| platform.sidecar_image.clear(),
            "no sidecar image: set spec.sidecar.image, or configure a default in the operator",
        ),
        (
            |platform| platform.resources.memory = "32 GB".into(),
            "resources.requests.memory: \"32 GB\" is not a valid quantity",
        ),
    ];
    for (break_platform, error) in cases {
        let mut platform = cases::platform();
        break_platform(&mut platform);
        assert_eq!(render::stateful_set(&node("full"), &platform).unwrap_err().to_string(), error);
    }
    let mut platform = cases::platform();
    platform.storage.size = "big".into();
    let error = render::data_claim(&node("full"), &platform).unwrap_err();
    assert_eq!(error.to_string(), "volume.storage: \"big\" is not a valid quantity");
    let mut kindless = node("full");
    kindless.spec.full_node = None;
    let error = render::stateful_set(&kindless, &cases::platform()).unwrap_err();
    assert_eq!(error.to_string(), "the spec has none of fullNode, archive, replayer and validator");
}
