//! Settings as a whole.

use std::time::Duration;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

const GOOD: [&str; 20] = [
    "--nodepool-name=sei-node",
    "--nodepool-archive=sei-archive",
    "--toleration-key=sei.io/workload",
    "--service-account=seid-node",
    "--storage-class-perf=gp3-10k-750",
    "--storage-class-archive=gp3-archive",
    "--storage-size-default=2000Gi",
    "--storage-size-archive=40Ti",
    "--resource-cpu-default=4",
    "--resource-mem-default=32Gi",
    "--resource-cpu-archive=48",
    "--resource-mem-archive=448Gi",
    "--snapshot-bucket=snapshots",
    "--snapshot-region=us-east-2",
    "--genesis-bucket=genesis",
    "--genesis-region=us-east-2",
    "--sidecar-image=images.example/sidecar:1",
    "--kube-rbac-proxy-image=images.example/proxy:1",
    "--cosmos-exporter-image=images.example/exporter:1",
    "--pod-namespace=sei-system",
];

/// The good settings without those that begin like one of `without`, and with `more`.
fn settings(without: &[&str], more: &[&str]) -> Result<Settings, Problems> {
    let good = GOOD.into_iter().filter(|flag| !without.iter().any(|start| flag.starts_with(start)));
    let line = ["operator"].into_iter().chain(good).chain(more.iter().copied());
    Settings::try_from(Cli::try_parse_from(line).unwrap().args)
}

fn lines(without: &[&str], more: &[&str]) -> Vec<String> {
    settings(without, more).unwrap_err().lines().to_vec()
}

#[test]
fn what_must_be_given_is_enough() {
    let settings = settings(&[], &[]).unwrap();
    assert_eq!(settings.platform.storage, Storage { class: "gp3-10k-750".into(), size: "2000Gi".into() });
    assert_eq!(settings.platform.resources_archive.memory, "448Gi");
    let own = Client { namespace: "sei-system".into(), labels: [].into() };
    assert_eq!(settings.platform.sidecar_clients, [own], "the operator's own pod is let through");
    assert_eq!(
        settings.admin.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["0.0.0.0:8080", "0.0.0.0:8081"]
    );
    let lease = settings.lease.unwrap();
    assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("sei-system", "bc1f5b0a.sei.io"));
    assert_eq!((lease.duration, lease.every), (Duration::from_secs(60), Duration::from_secs(5)));
    assert_eq!((settings.max_concurrent, settings.gateway), (64, None));
    assert_eq!(settings.watch_namespaces, Vec::<String>::new());
    assert_eq!(settings.without_effect, Vec::<String>::new());
}

#[test]
fn defect_14_every_problem_is_told_at_once_with_flag_variable_and_cure() {
    let without = ["--nodepool-name", "--storage-size-default", "--cosmos-exporter-image", "--resource-cpu"];
    let more = [
        "--storage-size-default=2000Gib",
        "--cosmos-exporter-image=   ",
        "--resource-cpu-default=0",
        "--resource-cpu-archive=many",
        "--leader-elect-lease-duration=soon",
        "--metrics-bind-address=here",
        "--sidecar-address-template={pod}:8443",
        "--sidecar-clients=Ops",
        "--max-concurrent-reconciles=0",
    ];
    assert_eq!(
        lines(&without, &more),
        [
            "--sidecar-clients (OUTRIGGER_SIDECAR_CLIENTS): \"Ops\" is no namespace: use lower-case letters, digits and -, 63 at most",
            "--nodepool-name (SEI_NODEPOOL_NAME): is missing: Pool of machines for most nodes",
            "--storage-size-default (SEI_STORAGE_SIZE_DEFAULT): \"2000Gib\" is no quantity: use one like 4, 500m or 2000Gi",
            "--resource-cpu-default (SEI_RESOURCE_CPU_DEFAULT): \"0\" is no quantity of more than nothing: use one like 4, 500m or 2000Gi",
            "--resource-cpu-archive (SEI_RESOURCE_CPU_ARCHIVE): \"many\" is no quantity: use one like 4, 500m or 2000Gi",
            "--cosmos-exporter-image (SEI_COSMOS_EXPORTER_IMAGE): is missing: Image of the exporter of the chain's metrics",
            "--leader-elect-lease-duration (OUTRIGGER_LEADER_ELECT_LEASE_DURATION): \"soon\" is no duration: use one like 500ms, 90s or 1m30s",
            "--metrics-bind-address (OUTRIGGER_METRICS_BIND_ADDRESS): \"here\" is no address: use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 for none",
            "--max-concurrent-reconciles (OUTRIGGER_MAX_CONCURRENT_RECONCILES): \"0\" is no number from 1 to 10000: use one like 64",
            "--sidecar-address-template (OUTRIGGER_SIDECAR_ADDRESS_TEMPLATE): \"{pod}:8443\" has {pod}, which stands for nothing: use one like {podIP}:8443 or {node}-0.{node}.{namespace}.svc:8443",
        ]
    );
    let message = settings(&without, &more).unwrap_err().to_string();
    assert!(message.starts_with("the operator cannot start with these settings:\n  --"), "{message}");
}

#[test]
fn every_setting_that_must_be_given_is_missed() {
    let platform = GOOD.len() - 1;
    let missing = lines(&["--"], &["--pod-namespace=a"]);
    assert_eq!(missing.len(), platform, "{missing:?}");
    assert!(
        missing.iter().all(|line| line.contains("(SEI_") && line.contains("is missing: ")),
        "{missing:?}"
    );
}

#[test]
fn half_a_gateway_is_a_mistake() {
    let missing = lines(&[], &["--gateway-name=a", "--gateway-public-domain=b.example"]);
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("--gateway-namespace (SEI_GATEWAY_NAMESPACE): is missing"), "{missing:?}");
    let whole = settings(&[], &["--gateway-name=a", "--gateway-namespace=b", "--gateway-domain=c.example"]);
    assert_eq!(whole.unwrap().gateway.unwrap().domain, "c.example");
}

#[test]
fn buckets_may_be_on_another_server_than_aws() {
    assert_eq!(settings(&[], &[]).unwrap().platform.object_store, ObjectStore::default());
    let more = ["--s3-endpoint=http://s3.store.svc:9000", "--s3-credentials-secret=bucket-key"];
    let store = settings(&[], &more).unwrap().platform.object_store;
    let endpoint = Endpoint { url: "http://s3.store.svc:9000".into(), is_path_style: true };
    assert_eq!(store, ObjectStore { endpoint: Some(endpoint), credentials: Some("bucket-key".into()) });
    let by_host = settings(&[], &[more[0], "--s3-path-style=false"]).unwrap().platform.object_store;
    assert!(by_host.endpoint.is_some_and(|endpoint| !endpoint.is_path_style));
    assert_eq!(
        lines(&[], &["--s3-endpoint=s3.store.svc", "--s3-credentials-secret=Key", "--s3-path-style=maybe"])
            .len(),
        3
    );
}

#[test]
fn lease_times_that_do_not_keep_leaders_apart_are_refused() {
    let refused = lines(&[], &["--leader-elect-lease-duration=30s"]);
    assert!(refused[0].contains("lease times must grow"), "{refused:?}");
}

#[test]
fn an_operator_may_be_alone() {
    assert!(settings(&[], &["--leader-elect=false"]).unwrap().lease.is_none());
    assert!(settings(&[], &["--leader-elect"]).unwrap().lease.is_some());
    assert_eq!(lines(&[], &["--leader-elect=maybe"]).len(), 1);
}

#[test]
fn manifests_of_the_operator_before_start_and_are_told_what_has_no_effect() {
    let more =
        ["--zap-log-level=debug", "--metrics-secure=false", "--enable-http2", "--result-export-bucket=b"];
    assert_eq!(
        settings(&[], &more).unwrap().without_effect,
        [
            "--result-export-bucket (SEI_RESULT_EXPORT_BUCKET) has no effect: Nothing is exported",
            "--enable-http2 has no effect: Metrics are served by HTTP/1.1",
            "--zap-log-level has no effect: Use --log-level",
        ]
    );
    // In the clear what was meant to be secret is no small difference.
    let refused = lines(&[], &["--metrics-secure"]);
    assert!(refused[0].starts_with("--metrics-secure: metrics are not served by TLS"), "{refused:?}");
}

#[test]
fn two_processes_never_have_the_same_identity() {
    let one = settings(&[], &["--pod-name=operator-0"]).unwrap();
    let other = settings(&[], &["--pod-name=operator-0"]).unwrap();
    assert!(one.identity.starts_with("operator-0_"), "{}", one.identity);
    assert_ne!(one.identity, other.identity);
}

#[test]
fn one_address_for_both_is_listened_on_once() {
    let both = ["--metrics-bind-address=:9000", "--health-probe-bind-address=:9000"];
    assert_eq!(settings(&[], &both).unwrap().admin.len(), 1);
    assert!(
        settings(&[], &["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .unwrap()
            .admin
            .is_empty()
    );
}

#[test]
fn namespaces_and_clients_are_lists() {
    let more = ["--watch-namespaces=a,b", "--sidecar-clients=ops;jobs:app=x", "--pod-labels=app=outrigger"];
    let settings = settings(&[], &more).unwrap();
    assert_eq!(settings.watch_namespaces, ["a", "b"]);
    let clients: Vec<_> =
        settings.platform.sidecar_clients.iter().map(|client| client.namespace.as_str()).collect();
    assert_eq!(clients, ["sei-system", "ops", "jobs"]);
    assert_eq!(settings.platform.sidecar_clients[0].labels["app"], "outrigger");
}

/// W12.
#[test]
fn an_audience_needs_a_token_of_its_own() {
    let audience = "--proxy-token-audience=sidecars.sei.io";
    let missing = lines(&[], &[audience]);
    assert_eq!(
        missing,
        [
            "--proxy-token-audience (OUTRIGGER_PROXY_TOKEN_AUDIENCE): needs --sidecar-token-file: the file of a projected token of this audience"
        ]
    );
    let file = "--sidecar-token-file=/var/run/secrets/outrigger/sidecar-token";
    let own = settings(&[], &[audience, file]).unwrap();
    assert_eq!(own.platform.proxy_token_audience.as_deref(), Some("sidecars.sei.io"));
    assert_eq!(settings(&[], &[file]).unwrap().platform.proxy_token_audience, None);
    let list = lines(&[], &["--proxy-token-audience=a,b", file]);
    assert!(list[0].contains("\"a,b\" is no audience"), "{list:?}");
}
