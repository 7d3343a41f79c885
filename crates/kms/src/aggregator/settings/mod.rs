//! Parses and validates the aggregator's flags and environment variables before anything is started.

mod args;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::kms::KmsTarget;
use api::names::lease::KMS_AGGREGATOR as LEASE;
use runtime::client::ClientOptions;
use runtime::settings::parse::{duration, listen_address, loopback_address, name};
use runtime::settings::{self, InvalidSettings, LoopbackAddress, Validator, non_empty};
use runtime::telemetry::Format;
use runtime::{lease, setting};

pub use self::args::Args;
use self::args::{ApiServerArgs, ProcessArgs, ReportArgs};

/// Maximum length of an object name.
const MAX_NAME_LENGTH: usize = 253;

/// Validated settings of the aggregator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kinds whose reports are rolled up.
    pub targets: Vec<KmsTarget>,
    /// Expected time between two reports of a node.
    pub interval: Duration,
    /// Tolerated clock skew of nodes.
    pub skew_margin: Duration,
    /// Whether an unhealthy read-only plugin sets KMSPluginsDegraded.
    pub read_degrades: bool,
    /// ClusterOperator to update, and the kind whose conditions it gets.
    pub cluster_operator: Option<(String, KmsTarget)>,
    /// Namespaces of API servers.
    pub namespaces: BTreeMap<KmsTarget, String>,
    /// Label selector of API server pods.
    pub pod_selector: String,
    /// Secret with the encryption configuration, without the revision suffix.
    pub secret: String,
    /// How to reach the API server.
    pub access: ClientOptions,
    /// Identity of this process, unique also among processes of the same pod.
    pub identity: String,
    /// Address of metrics and probes.
    pub metrics: Option<SocketAddr>,
    /// Address of the admin server.
    pub admin: Option<LoopbackAddress>,
    /// Lease for leader election; `None` without leader election.
    pub lease: Option<lease::Config>,
    /// Initial log filter.
    pub log_level: String,
    /// Log format.
    pub log_format: Format,
}

impl TryFrom<Args> for Settings {
    type Error = InvalidSettings;

    fn try_from(args: Args) -> Result<Self, InvalidSettings> {
        let Args { reports, api_servers, process, lease } = args;
        let mut validator = Validator::new::<Args>("aggregator");
        let targets = parse_targets(&mut validator, &reports);
        let cluster_operator = parse_cluster_operator(&mut validator, &reports, &targets);
        let identity = settings::identity(process.pod_name.as_deref());
        let lease_name = lease_name(&mut validator, cluster_operator.as_ref().map(|(name, _)| name.as_str()));
        let lease = lease.resolve(
            &mut validator,
            |validator| own_namespace(validator, &process),
            &lease_name,
            &identity,
        );
        let settings = Self {
            interval: validator.read(setting!(reports.interval), duration).unwrap_or_default(),
            skew_margin: validator.read(setting!(reports.clock_skew), duration).unwrap_or_default(),
            read_degrades: validator
                .read(setting!(reports.sick_read_plugins), parse_read_degrades)
                .unwrap_or_default(),
            cluster_operator,
            targets,
            namespaces: parse_namespaces(&mut validator, &api_servers),
            pod_selector: validator
                .read(setting!(api_servers.pod_selector), |text| Ok(text.to_owned()))
                .unwrap_or_default(),
            secret: validator.read(setting!(api_servers.encryption_config_secret), name).unwrap_or_default(),
            access: ClientOptions {
                kubeconfig: non_empty(process.kubeconfig.as_deref()).map(PathBuf::from),
                context: non_empty(process.context.as_deref()).map(str::to_owned),
            },
            identity,
            metrics: validator.read(setting!(process.metrics_bind_address), listen_address).flatten(),
            admin: validator.read(setting!(process.admin_bind_address), loopback_address).flatten(),
            lease,
            log_level: validator
                .read(setting!(process.log_level), |level| Ok(level.to_owned()))
                .unwrap_or_default(),
            log_format: validator.read(setting!(process.log_format), str::parse).unwrap_or_default(),
        };
        validator.finish().map(|()| settings)
    }
}

fn parse_targets(validator: &mut Validator, reports: &ReportArgs) -> Vec<KmsTarget> {
    let mut targets: Vec<KmsTarget> = validator.list(setting!(reports.targets), |text| {
        text.parse().map_err(|error| format!("unsupported target {text:?}: {error}"))
    });
    targets.sort();
    targets.dedup();
    if reports.targets.iter().all(|text| non_empty(Some(text)).is_none()) {
        validator.add_problem("targets", "must not be empty");
    }
    targets
}

/// Parses `--cluster-operator`, which requires exactly one target.
fn parse_cluster_operator(
    validator: &mut Validator,
    reports: &ReportArgs,
    targets: &[KmsTarget],
) -> Option<(String, KmsTarget)> {
    let name = validator.optional(setting!(reports.cluster_operator), name)?;
    let [target] = targets else {
        validator.add_problem("cluster_operator", "requires exactly one kind in --targets");
        return None;
    };
    Some((name, *target))
}

/// Returns the name of the Lease. Aggregators of different ClusterOperators have different Leases, so that each can lead.
fn lease_name(validator: &mut Validator, cluster_operator: Option<&str>) -> String {
    let Some(operator) = cluster_operator else { return LEASE.to_owned() };
    let name = format!("{LEASE}-{operator}");
    if name.len() > MAX_NAME_LENGTH {
        let limit = MAX_NAME_LENGTH - LEASE.len() - 1;
        validator.add_problem(
            "cluster_operator",
            format!("is too long for the name of a Lease: use at most {limit} characters"),
        );
    }
    name
}

fn parse_namespaces(validator: &mut Validator, api_servers: &ApiServerArgs) -> BTreeMap<KmsTarget, String> {
    let mut all = BTreeMap::new();
    let mut add = |target, name: Option<String>| name.and_then(|name| all.insert(target, name));
    add(KmsTarget::KubeApiServer, validator.read(setting!(api_servers.kube_apiserver_namespace), name));
    add(
        KmsTarget::OpenShiftApiServer,
        validator.read(setting!(api_servers.openshift_apiserver_namespace), name),
    );
    add(KmsTarget::Authentication, validator.read(setting!(api_servers.oauth_apiserver_namespace), name));
    all
}

/// Returns the namespace of the Lease.
fn own_namespace(validator: &mut Validator, process: &ProcessArgs) -> Option<String> {
    if non_empty(process.pod_namespace.as_deref()).is_some() {
        return validator.optional(setting!(process.pod_namespace), name);
    }
    let namespace = settings::own_namespace();
    if namespace.is_none() {
        validator
            .add_problem("pod_namespace", "is required outside of a pod: set the namespace of the Lease");
    }
    namespace
}

/// Parses `--sick-read-plugins`.
fn parse_read_degrades(text: &str) -> Result<bool, String> {
    match text {
        "degrade" => Ok(true),
        "tell" => Ok(false),
        _ => Err(format!("invalid value {text:?}: expected degrade or tell")),
    }
}
