//! The aggregator's command line. Values are taken as text and checked together, so that somebody who has three of them wrong is
//! told three times at once, and not once in each of three starts.

use api::names::env::operator as env;
use runtime::settings::LeaseArgs;

/// Settings of the aggregator. Each can be given as a flag or as an environment variable.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) what: WhatArgs,
    #[command(flatten)]
    pub(super) deployed: DeployedArgs,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
}

/// What is looked after, and how it is judged.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Reports")]
pub(super) struct WhatArgs {
    /// Kinds whose reports are rolled up, with commas between: kubeapiserver, openshiftapiserver, authentication, kmshealth
    #[arg(
        long,
        env = "OUTRIGGER_KMS_TARGETS",
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "kmshealth"
    )]
    pub(super) targets: Vec<String>,
    /// Time between two reports of one node, where they do not say it: one that does not change for four times as long is stale
    #[arg(long, env = "OUTRIGGER_KMS_INTERVAL", value_name = "DURATION", default_value = "30s")]
    pub(super) interval: String,
    /// How far clocks of nodes may be off, where only clocks can tell whether a report is fresh
    #[arg(long, env = "OUTRIGGER_KMS_CLOCK_SKEW", value_name = "DURATION", default_value = "60s")]
    pub(super) clock_skew: String,
    /// Whether a sick plugin that only decrypts makes the cluster degraded, or is only told: degrade or tell
    #[arg(long, env = "OUTRIGGER_KMS_SICK_READ_PLUGINS", value_name = "WORD", default_value = "degrade")]
    pub(super) sick_read_plugins: String,
    /// A ClusterOperator that the conditions of the one kind in --targets are put on, where no other operator does it. The Lease
    /// is named after it, so that one aggregator for each may run in one namespace
    #[arg(long, env = "OUTRIGGER_KMS_CLUSTER_OPERATOR", value_name = "NAME")]
    pub(super) cluster_operator: Option<String>,
}

/// Where API servers run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Where API servers run (OpenShift's kinds only)")]
pub(super) struct DeployedArgs {
    /// Namespace of kube-apiserver
    #[arg(
        long,
        env = "OUTRIGGER_KMS_KUBE_APISERVER_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openshift-kube-apiserver"
    )]
    pub(super) kube_apiserver_namespace: String,
    /// Namespace of openshift-apiserver
    #[arg(
        long,
        env = "OUTRIGGER_KMS_OPENSHIFT_APISERVER_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openshift-apiserver"
    )]
    pub(super) openshift_apiserver_namespace: String,
    /// Namespace of the OAuth API server
    #[arg(
        long,
        env = "OUTRIGGER_KMS_OAUTH_APISERVER_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "openshift-oauth-apiserver"
    )]
    pub(super) oauth_apiserver_namespace: String,
    /// Labels of API server pods in these namespaces
    #[arg(
        long,
        env = "OUTRIGGER_KMS_POD_SELECTOR",
        value_name = "SELECTOR",
        default_value = "apiserver=true"
    )]
    pub(super) pod_selector: String,
    /// Secret with the encryption configuration; a revision follows its name
    #[arg(
        long,
        env = "OUTRIGGER_KMS_ENCRYPTION_CONFIG_SECRET",
        value_name = "NAME",
        default_value = "encryption-config"
    )]
    pub(super) encryption_config_secret: String,
}

/// How this process lives.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "This process")]
pub(super) struct ProcessArgs {
    /// A kubeconfig; else KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
    /// A context of the kubeconfig; else its current one
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Name of the aggregator's own pod; else the machine's
    #[arg(long, env = env::POD_NAME, value_name = "NAME")]
    pub(super) pod_name: Option<String>,
    /// Namespace of the aggregator's own pod, where its Lease is; else that of its service account
    #[arg(long, env = env::POD_NAMESPACE, value_name = "NAMESPACE")]
    pub(super) pod_namespace: Option<String>,
    /// Address of metrics, probes and state; 0 for none
    #[arg(long, env = "OUTRIGGER_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub(super) metrics_bind_address: String,
    /// What is logged: a level, or levels by module, like info,kube=debug
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// How log lines look: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
}
