//! Settings, good and bad.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn settings(flags: &[&str]) -> Result<Settings, Problems> {
    let line = ["kms-aggregator", "--pod-namespace=kms"].iter().chain(flags);
    Settings::try_from(Line::try_parse_from(line).unwrap().args)
}

#[test]
fn the_arguments_are_sound() {
    <Args as clap::Args>::augment_args(clap::Command::new("kms-aggregator")).debug_assert();
}

#[test]
fn without_flags_our_own_kind_is_looked_after() {
    let settings = settings(&[]).unwrap();
    assert_eq!(settings.targets, [Target::KmsHealth]);
    assert_eq!((settings.interval, settings.skew_margin), (Duration::from_secs(30), Duration::from_secs(60)));
    assert!(settings.read_degrades && settings.cluster_operator.is_none());
    assert_eq!(settings.namespaces[&Target::Authentication], "openshift-oauth-apiserver");
    let lease = settings.lease.unwrap();
    assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("kms", "outrigger-kms-aggregator"));
}

#[test]
fn every_problem_is_told_at_once_with_flag_variable_and_cure() {
    let refused = settings(&[
        "--targets=kubeapiserver,etcd",
        "--interval=0s",
        "--sick-read-plugins=maybe",
        "--kube-apiserver-namespace=Kube",
        "--metrics-bind-address=here",
        "--leader-elect-lease-duration=30s",
        "--log-format=loud",
    ]);
    let refused = refused.unwrap_err();
    assert_eq!(
        refused.lines(),
        [
            "--targets (OUTRIGGER_KMS_TARGETS): \"etcd\" is no kind with reports: use kubeapiserver, openshiftapiserver, authentication, kmshealth",
            "--leader-elect-lease-duration (OUTRIGGER_LEADER_ELECT_LEASE_DURATION): lease times must grow: between renewals (5s) < writing after the last renewal (45s) < duration (30s)",
            "--interval (OUTRIGGER_KMS_INTERVAL): \"0s\" is no duration: use one like 500ms, 90s or 1m30s",
            "--sick-read-plugins (OUTRIGGER_KMS_SICK_READ_PLUGINS): \"maybe\" is neither degrade nor tell",
            "--kube-apiserver-namespace (OUTRIGGER_KMS_KUBE_APISERVER_NAMESPACE): \"Kube\" is no name: use lower-case letters, digits, - and ., like openshift-kube-apiserver",
            "--metrics-bind-address (OUTRIGGER_METRICS_BIND_ADDRESS): \"here\" is no address: use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 for none",
            "--log-format (OUTRIGGER_LOG_FORMAT): \"loud\" is no log format: json or pretty",
        ]
    );
    assert!(refused.to_string().starts_with("the aggregator cannot start with these settings:\n  --targets"));
}

#[test]
fn a_cluster_operator_is_about_one_kind() {
    let good = settings(&["--targets=kubeapiserver", "--cluster-operator=kube-apiserver"]).unwrap();
    assert_eq!(good.cluster_operator, Some(("kube-apiserver".into(), Target::KubeApiServer)));
    let bad =
        settings(&["--targets=kubeapiserver,kmshealth", "--cluster-operator=kube-apiserver"]).unwrap_err();
    assert!(bad.lines()[0].contains("is about one operator: give one kind in --targets"), "{bad}");
}

#[test]
fn those_that_write_on_different_cluster_operators_hold_different_leases() {
    let lease = |operator: &str| {
        let flags = ["--targets=kubeapiserver", &format!("--cluster-operator={operator}")];
        settings(&flags).map(|settings| settings.lease.unwrap().name)
    };
    assert_eq!(lease("kube-apiserver").unwrap(), "outrigger-kms-aggregator-kube-apiserver");
    assert_eq!(lease("authentication").unwrap(), "outrigger-kms-aggregator-authentication");
    assert_eq!(lease(&"o".repeat(228)).unwrap().len(), 253);
    let refused = lease(&"o".repeat(229)).unwrap_err();
    assert!(refused.lines()[0].ends_with("use at most 228 characters"), "{refused}");
}

#[test]
fn an_aggregator_may_be_alone() {
    assert!(settings(&["--leader-elect=false"]).unwrap().lease.is_none());
}

#[test]
fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
    let mut page = String::from(
        "# Settings of the KMS aggregator\n\n\
         Generated from the code; a test compares. Every setting is a flag of `outrigger kms-aggregator` or an environment variable; a\n\
         flag wins. All of them are checked before anything else is done: what is wrong is told at once, one line each, with exit code 2.\n",
    );
    let command = <Args as clap::Args>::augment_args(clap::Command::new("kms-aggregator"));
    page.push_str(&testbed::harness::generated::settings(&command));
    testbed::harness::generated::check("docs/reference/kms-aggregator-settings.md", &page)
}
