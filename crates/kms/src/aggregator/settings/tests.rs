//! Tests of settings validation.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

fn settings(flags: &[&str]) -> Result<Settings, InvalidSettings> {
    let args = ["kms-aggregator", "--pod-namespace=kms"].iter().chain(flags);
    Settings::try_from(CommandLine::try_parse_from(args).unwrap().args)
}

#[test]
fn clap_definition_is_valid() {
    <Args as clap::Args>::augment_args(clap::Command::new("kms-aggregator")).debug_assert();
}

#[test]
fn defaults_target_kms_health() {
    let settings = settings(&[]).unwrap();
    assert_eq!(settings.targets, [KmsTarget::KmsHealth]);
    assert_eq!((settings.interval, settings.skew_margin), (Duration::from_secs(30), Duration::from_secs(60)));
    assert!(settings.read_degrades && settings.cluster_operator.is_none());
    assert_eq!(settings.namespaces[&KmsTarget::Authentication], "openshift-oauth-apiserver");
    let lease = settings.lease.unwrap();
    assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("kms", "outrigger-kms-aggregator"));
}

#[test]
fn all_invalid_settings_are_reported_together() {
    let problems = settings(&[
        "--targets=kubeapiserver,etcd",
        "--interval=0s",
        "--sick-read-plugins=maybe",
        "--kube-apiserver-namespace=Kube",
        "--metrics-bind-address=here",
        "--leader-elect-lease-duration=30s",
        "--log-format=loud",
    ]);
    let problems = problems.unwrap_err();
    assert_eq!(
        problems.lines(),
        [
            "--targets (OUTRIGGER_KMS_TARGETS): unsupported target \"etcd\": expected one of kubeapiserver, openshiftapiserver, authentication, kmshealth",
            "--leader-elect-lease-duration (OUTRIGGER_LEADER_ELECT_LEASE_DURATION): invalid lease timing: expected retry period (5s) < renew deadline (45s) < lease duration (30s)",
            "--interval (OUTRIGGER_KMS_INTERVAL): invalid duration \"0s\": use one like 500ms, 90s or 1m30s",
            "--sick-read-plugins (OUTRIGGER_KMS_SICK_READ_PLUGINS): invalid value \"maybe\": expected degrade or tell",
            "--kube-apiserver-namespace (OUTRIGGER_KMS_KUBE_APISERVER_NAMESPACE): invalid name \"Kube\": use lower-case letters, digits, - and ., like openshift-kube-apiserver",
            "--metrics-bind-address (OUTRIGGER_METRICS_BIND_ADDRESS): invalid address \"here\": use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 to disable",
            "--log-format (OUTRIGGER_LOG_FORMAT): invalid log format \"loud\": use json or pretty",
        ]
    );
    assert!(problems.to_string().starts_with("invalid settings of the aggregator:\n  --targets"));
}

#[test]
fn cluster_operator_requires_one_target() {
    let valid = settings(&["--targets=kubeapiserver", "--cluster-operator=kube-apiserver"]).unwrap();
    assert_eq!(valid.cluster_operator, Some(("kube-apiserver".into(), KmsTarget::KubeApiServer)));
    let problems =
        settings(&["--targets=kubeapiserver,kmshealth", "--cluster-operator=kube-apiserver"]).unwrap_err();
    assert!(problems.lines()[0].contains("requires exactly one kind in --targets"), "{problems}");
}

#[test]
fn each_cluster_operator_has_its_own_lease() {
    let lease = |operator: &str| {
        let flags = ["--targets=kubeapiserver", &format!("--cluster-operator={operator}")];
        settings(&flags).map(|settings| settings.lease.unwrap().name)
    };
    assert_eq!(lease("kube-apiserver").unwrap(), "outrigger-kms-aggregator-kube-apiserver");
    assert_eq!(lease("authentication").unwrap(), "outrigger-kms-aggregator-authentication");
    assert_eq!(lease(&"o".repeat(228)).unwrap().len(), 253);
    let problems = lease(&"o".repeat(229)).unwrap_err();
    assert!(problems.lines()[0].ends_with("use at most 228 characters"), "{problems}");
}

#[test]
fn leader_election_can_be_disabled() {
    assert!(settings(&["--leader-elect=false"]).unwrap().lease.is_none());
}

#[test]
fn settings_page_matches_code() -> testbed::Result<()> {
    let mut page = String::from(
        "# KMS aggregator settings\n\n\
         Generated from the code; do not edit. Every setting of `outrigger kms-aggregator` is a flag or an environment variable; flags take\n\
         precedence. All invalid settings are reported together, one line each, with exit code 2.\n",
    );
    let command = <Args as clap::Args>::augment_args(clap::Command::new("kms-aggregator"));
    page.push_str(&testbed::harness::generated::flag_tables(&command));
    testbed::harness::generated::check("docs/reference/kms-aggregator-settings.md", &page)
}
