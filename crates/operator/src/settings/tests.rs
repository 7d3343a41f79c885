//! Tests of all settings together.

use std::time::Duration;

use clap::Parser;
use plan::platform::{ResultExport, SidecarIsolation};

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

const VALID: [&str; 21] = [
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
    "--token-service-account=sei-system/operator",
];

/// Parses the valid settings, without those that have a prefix in `without`, and with `more`.
fn settings(without: &[&str], more: &[&str]) -> Result<Settings, InvalidSettings> {
    let valid = VALID.into_iter().filter(|flag| !without.iter().any(|prefix| flag.starts_with(prefix)));
    let line = ["operator"].into_iter().chain(valid).chain(more.iter().copied());
    Settings::try_from(Cli::try_parse_from(line).unwrap().args)
}

fn problems(without: &[&str], more: &[&str]) -> Vec<String> {
    settings(without, more).unwrap_err().lines().to_vec()
}

#[test]
fn required_settings_are_sufficient() {
    let settings = settings(&[], &[]).unwrap();
    assert_eq!(settings.platform.storage, Storage { class: "gp3-10k-750".into(), size: "2000Gi".into() });
    assert_eq!(settings.platform.resources_archive.memory, "448Gi");
    let own = SidecarClient { namespace: "sei-system".into(), labels: [].into() };
    assert_eq!(settings.platform.sidecar_clients, [own], "the operator's pod is allowed");
    assert_eq!(
        settings.metrics.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["0.0.0.0:8080", "0.0.0.0:8081"]
    );
    assert_eq!(settings.admin.map(|address| address.to_string()).as_deref(), Some("127.0.0.1:8082"));
    let lease = settings.lease.unwrap();
    assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("sei-system", "bc1f5b0a.sei.io"));
    assert_eq!((lease.duration, lease.retry_period), (Duration::from_secs(60), Duration::from_secs(5)));
    assert_eq!((settings.max_concurrent_reconciles, settings.gateway), (64, None));
    assert_eq!(settings.watch_namespaces, Vec::<String>::new());
    assert_eq!(settings.ignored, []);
}

#[test]
fn all_invalid_settings_are_reported_together() {
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
    let problems = problems(&without, &more);
    assert_eq!(
        problems,
        [
            "--sidecar-clients (OUTRIGGER_SIDECAR_CLIENTS): invalid namespace \"Ops\": use at most 63 lower-case letters, digits and -",
            "--nodepool-name (SEI_NODEPOOL_NAME): required: Karpenter NodePool for all nodes except archive nodes",
            "--storage-size-default (SEI_STORAGE_SIZE_DEFAULT): \"2000Gib\" is not a valid quantity: use, for example, 4, 500m or 2000Gi",
            "--resource-cpu-default (SEI_RESOURCE_CPU_DEFAULT): \"0\" is not a positive quantity: use, for example, 4, 500m or 2000Gi",
            "--resource-cpu-archive (SEI_RESOURCE_CPU_ARCHIVE): \"many\" is not a valid quantity: use, for example, 4, 500m or 2000Gi",
            "--cosmos-exporter-image (SEI_COSMOS_EXPORTER_IMAGE): required: Image of the Cosmos metrics exporter",
            "--leader-elect-lease-duration (OUTRIGGER_LEADER_ELECT_LEASE_DURATION): invalid duration \"soon\": use one like 500ms, 90s or 1m30s",
            "--metrics-bind-address (OUTRIGGER_METRICS_BIND_ADDRESS): invalid address \"here\": use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 to disable",
            "--max-concurrent-reconciles (OUTRIGGER_MAX_CONCURRENT_RECONCILES): invalid number \"0\": use one from 1 to 10000, like 64",
            "--sidecar-address-template (OUTRIGGER_SIDECAR_ADDRESS_TEMPLATE): \"{pod}:8443\" has the unknown placeholder {pod}: use, for example, {podIP}:8443 or {node}-0.{node}.{namespace}.svc:8443",
        ]
    );
    let message = settings(&without, &more).unwrap_err().to_string();
    let (headline, lines) = message.split_once('\n').unwrap();
    assert_eq!(headline, "invalid settings of the operator:", "{message}");
    assert!(lines.lines().map(str::trim).eq(&problems), "{message}");
}

#[test]
fn every_required_setting_is_reported_when_missing() {
    let missing = problems(&["--"], &["--pod-namespace=a"]);
    let required = VALID.iter().filter_map(|flag| Some(flag.split_once('=')?.0));
    let required: Vec<&str> = required.filter(|flag| *flag != "--pod-namespace").collect();
    assert_eq!(missing.len(), required.len(), "{missing:?}");
    for flag in required {
        let reported = missing.iter().filter(|line| line.starts_with(&format!("{flag} (")));
        assert_eq!(reported.count(), 1, "{flag}: {missing:?}");
    }
    assert!(missing.iter().all(|line| line.contains("): required: ")), "{missing:?}");
}

#[test]
fn incomplete_gateway_is_rejected() {
    let missing = problems(&[], &["--gateway-name=a", "--gateway-public-domain=b.example"]);
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("--gateway-namespace (SEI_GATEWAY_NAMESPACE): required: "), "{missing:?}");
    assert!(missing[0].ends_with("Namespace of the Gateway"), "{missing:?}");
    let whole = settings(&[], &["--gateway-name=a", "--gateway-namespace=b", "--gateway-domain=c.example"]);
    assert_eq!(whole.unwrap().gateway.unwrap().domain, "c.example");
}

#[test]
fn s3_endpoint_replaces_aws() {
    assert_eq!(settings(&[], &[]).unwrap().platform.object_store, ObjectStore::default());
    let more = ["--s3-endpoint=http://s3.store.svc:9000", "--s3-credentials-secret=bucket-key"];
    let store = settings(&[], &more).unwrap().platform.object_store;
    let endpoint = Endpoint { url: "http://s3.store.svc:9000".into(), is_path_style: true };
    assert_eq!(store, ObjectStore { endpoint: Some(endpoint), credentials: Some("bucket-key".into()) });
    let by_host = settings(&[], &[more[0], "--s3-path-style=false"]).unwrap().platform.object_store;
    assert!(by_host.endpoint.is_some_and(|endpoint| !endpoint.is_path_style));
    assert_eq!(
        problems(
            &[],
            &["--s3-endpoint=s3.store.svc", "--s3-credentials-secret=Key", "--s3-path-style=maybe"]
        )
        .len(),
        3
    );
}

#[test]
fn unsafe_lease_durations_are_rejected() {
    let rejected = problems(&[], &["--leader-elect-lease-duration=30s"]);
    assert!(rejected[0].contains("invalid lease timing"), "{rejected:?}");
}

#[test]
fn leader_election_can_be_disabled() {
    assert!(settings(&[], &["--leader-elect=false"]).unwrap().lease.is_none());
    assert!(settings(&[], &["--leader-elect"]).unwrap().lease.is_some());
    assert_eq!(problems(&[], &["--leader-elect=maybe"]).len(), 1);
}

#[test]
fn namespace_is_required_for_leader_election_only() {
    let without = ["--pod-namespace"];
    let rejected = problems(&without, &[]);
    assert!(
        rejected[0].starts_with("--pod-namespace (POD_NAMESPACE): is required outside of a pod"),
        "{rejected:?}"
    );
    let settings = settings(&without, &["--leader-elect=false"]).unwrap();
    assert!(settings.lease.is_none());
    assert_eq!(settings.platform.sidecar_clients, []);
}

#[test]
fn upstream_flags_are_accepted_and_reported_as_ignored() {
    let more =
        ["--zap-log-level=debug", "--metrics-secure=false", "--enable-http2", "--storage-class-default=c"];
    let ignored = |name: &str, reason: &str| IgnoredSetting { name: name.into(), reason: reason.into() };
    assert_eq!(
        settings(&[], &more).unwrap().ignored,
        [
            ignored("--storage-class-default (SEI_STORAGE_CLASS_DEFAULT)", "No node kind uses it"),
            ignored("--enable-http2", "Metrics are served over HTTP/1.1"),
            ignored("--zap-log-level", "Use --log-level"),
        ]
    );
    // Serving over plain HTTP what was meant for TLS would be a security downgrade.
    let rejected = problems(&[], &["--metrics-secure"]);
    assert!(rejected[0].starts_with("--metrics-secure: metrics are not served over TLS"), "{rejected:?}");
}

#[test]
fn exports_need_bucket_and_region() {
    let read = |more: &[&str]| settings(&[], more).unwrap().platform.result_export;
    let bucket = Bucket { name: "b".into(), region: "r".into() };
    let region = "--result-export-region=r";
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[region, "--result-export-prefix=p/", "--result-export-bucket="]), None);
    assert_eq!(
        read(&["--result-export-bucket=b", region]),
        Some(ResultExport { bucket: bucket.clone(), prefix: None })
    );
    assert_eq!(
        read(&["--result-export-bucket=b", region, "--result-export-prefix=p/"]),
        Some(ResultExport { bucket, prefix: Some("p/".into()) })
    );
    let rejected = problems(&[], &["--result-export-bucket=b"]);
    let region = "--result-export-region (SEI_RESULT_EXPORT_REGION): is required with --result-export-bucket";
    assert_eq!(rejected, [region]);
}

#[test]
fn every_process_has_a_unique_identity() {
    let one = settings(&[], &["--pod-name=operator-0"]).unwrap();
    let other = settings(&[], &["--pod-name=operator-0"]).unwrap();
    assert!(one.identity.starts_with("operator-0_"), "{}", one.identity);
    assert_ne!(one.identity, other.identity);
}

#[test]
fn equal_bind_addresses_are_bound_once() {
    let both = ["--metrics-bind-address=:9000", "--health-probe-bind-address=:9000"];
    assert_eq!(settings(&[], &both).unwrap().metrics.len(), 1);
    assert!(
        settings(&[], &["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .unwrap()
            .metrics
            .is_empty()
    );
}

#[test]
fn admin_server_listens_on_loopback_only() {
    assert_eq!(settings(&[], &["--admin-bind-address=0"]).unwrap().admin, None);
    for open in [":8082", "0.0.0.0:8082", "[::]:8082"] {
        let problems = problems(&[], &[&format!("--admin-bind-address={open}")]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].starts_with("--admin-bind-address (OUTRIGGER_ADMIN_BIND_ADDRESS): ")
                && problems[0].ends_with("use a loopback address like 127.0.0.1:8082, or 0 to disable"),
            "{problems:?}"
        );
    }
}

#[test]
fn namespaces_and_clients_accept_lists() {
    let more = ["--watch-namespaces=a,b", "--sidecar-clients=ops;jobs:app=x", "--pod-labels=app=outrigger"];
    let settings = settings(&[], &more).unwrap();
    assert_eq!(settings.watch_namespaces, ["a", "b"]);
    let clients: Vec<_> =
        settings.platform.sidecar_clients.iter().map(|client| client.namespace.as_str()).collect();
    assert_eq!(clients, ["sei-system", "ops", "jobs"]);
    assert_eq!(settings.platform.sidecar_clients[0].labels["app"], "outrigger");
}

#[test]
fn platform_disruptions_are_a_number_or_a_percentage() {
    let limit = |value: &str| settings(&[], &[&format!("--max-platform-disruptions={value}")]);
    assert_eq!(settings(&[], &[]).unwrap().max_platform_disruptions, DisruptionLimit::Percent(10));
    assert_eq!(limit("3").unwrap().max_platform_disruptions, DisruptionLimit::Count(3));
    assert_eq!(limit("100%").unwrap().max_platform_disruptions, DisruptionLimit::Percent(100));
    for invalid in ["0", "0%", "101%", "-1", "ten", "10 %", "1.5"] {
        let problems = limit(invalid).unwrap_err().to_string();
        assert!(
            problems.contains("--max-platform-disruptions") && problems.contains("3 or 10%"),
            "{problems}"
        );
    }
}

#[test]
fn sidecars_are_isolated_unless_shared_mode_is_set() {
    assert_eq!(settings(&[], &[]).unwrap().platform.sidecar_isolation, SidecarIsolation::Isolated);
    let shared = settings(&[], &["--sidecar-isolation=shared"]).unwrap();
    assert_eq!(shared.platform.sidecar_isolation, SidecarIsolation::Shared);
    assert_eq!(
        problems(&[], &["--sidecar-isolation=Shared"]),
        [
            "--sidecar-isolation (OUTRIGGER_SIDECAR_ISOLATION): \"Shared\" is not an isolation mode: use isolated or shared"
        ]
    );
}

#[test]
fn references_and_egress_are_unrestricted_by_default() {
    let open = settings(&[], &[]).unwrap().platform;
    assert_eq!((open.strict_references, open.node_egress), (false, Vec::new()));
    let more = ["--strict-references", "--node-egress=10.96.0.1/32:443,10.0.0.0/8", "--node-egress=fd00::/8"];
    let limited = settings(&[], &more).unwrap().platform;
    assert!(limited.strict_references);
    let targets: Vec<_> = limited.node_egress.iter().map(|one| (one.cidr.as_str(), one.port)).collect();
    assert_eq!(targets, [("10.96.0.1/32", Some(443)), ("10.0.0.0/8", None), ("fd00::/8", None)]);
    assert!(
        problems(&[], &["--node-egress=10.0.0.1/8"])[0].starts_with("--node-egress (OUTRIGGER_NODE_EGRESS)")
    );
}

#[test]
fn service_account_for_tokens_is_required() {
    let settings = settings(&[], &[]).unwrap();
    assert_eq!(settings.token_service_account.to_string(), "sei-system/operator");
    assert_eq!(settings.legacy_sidecar_token_file, None);
    let without = ["--token-service-account"];
    let missing = problems(&without, &[]);
    assert!(
        missing[0].starts_with("--token-service-account (OUTRIGGER_TOKEN_SERVICE_ACCOUNT): required: "),
        "{missing:?}"
    );
    for invalid in ["operator", "/operator", "Sei/operator", "sei/", "a/b/c", "$(POD_NAMESPACE)/operator"] {
        let rejected = problems(&without, &[&format!("--token-service-account={invalid}")]);
        assert_eq!(rejected.len(), 1, "{rejected:?}");
    }
}

#[test]
fn removed_token_settings_are_rejected_with_their_replacement() {
    assert_eq!(
        problems(&[], &["--sidecar-token-file=/token", "--proxy-token-audience=sidecars.sei.io"]),
        [
            "--sidecar-token-file (OUTRIGGER_SIDECAR_TOKEN_FILE): was removed: set --token-service-account, and --legacy-sidecar-token-file until pods of previous versions are replaced",
            "--proxy-token-audience (OUTRIGGER_PROXY_TOKEN_AUDIENCE): was removed: remove it, since each node has an audience of its own with --token-service-account",
        ]
    );
}
