//! What the aggregator is told at its start: read from flags and the environment, and checked as a whole before anything else
//! happens.

mod args;
mod check;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::names::lease::KMS_AGGREGATOR as LEASE;
use runtime::client::Access;
use runtime::lease;
use runtime::telemetry::Format;

pub use self::args::Args;
use self::args::{DeployedArgs, LeaseArgs, ProcessArgs, WhatArgs};
pub use self::check::Problems;
use self::check::{Check, setting};
use super::target::Target;

/// Where a pod finds the namespace of its service account.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Where Linux says the machine's name, which in a pod is the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Everything that the aggregator was told, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kinds whose reports are rolled up.
    pub targets: Vec<Target>,
    /// Time between two reports of one node.
    pub interval: Duration,
    /// How far clocks of nodes may be off.
    pub skew_margin: Duration,
    /// Whether a sick plugin that only decrypts makes the cluster degraded.
    pub read_degrades: bool,
    /// A ClusterOperator, and the kind whose conditions are put on it.
    pub cluster_operator: Option<(String, Target)>,
    /// Namespaces of API servers.
    pub namespaces: BTreeMap<Target, String>,
    /// Labels of API server pods.
    pub pod_selector: String,
    /// The secret with the encryption configuration, without its revision.
    pub secret: String,
    /// The way to the API server.
    pub access: Access,
    /// Who this process is: its pod, and no other process that ever ran in it.
    pub identity: String,
    /// Where the admin server listens.
    pub admin: Option<SocketAddr>,
    /// The Lease that is held while acting; none for an aggregator that is alone.
    pub lease: Option<lease::Config>,
    /// What is logged at first.
    pub log_level: String,
    /// How log lines look.
    pub log_format: Format,
}

impl TryFrom<Args> for Settings {
    type Error = Problems;

    fn try_from(args: Args) -> Result<Self, Problems> {
        let Args { what, deployed, process, lease } = args;
        let mut check = Check::new();
        let targets = targets(&mut check, &what);
        let cluster_operator = cluster_operator(&mut check, &what, &targets);
        let identity = identity(&process);
        let lease = self::lease(&mut check, &lease, &process, &identity);
        let settings = Self {
            interval: check.read(setting!(what.interval), text::duration).unwrap_or_default(),
            skew_margin: check.read(setting!(what.clock_skew), text::duration).unwrap_or_default(),
            read_degrades: check
                .read(setting!(what.sick_read_plugins), text::degrade_or_tell)
                .unwrap_or_default(),
            cluster_operator,
            targets,
            namespaces: namespaces(&mut check, &deployed),
            pod_selector: check
                .read(setting!(deployed.pod_selector), |text| Ok(text.to_owned()))
                .unwrap_or_default(),
            secret: check.read(setting!(deployed.encryption_config_secret), text::name).unwrap_or_default(),
            access: Access {
                kubeconfig: given(process.kubeconfig.as_deref()).map(PathBuf::from),
                context: given(process.context.as_deref()).map(str::to_owned),
            },
            identity,
            admin: check.read(setting!(process.metrics_bind_address), text::listen_address).flatten(),
            lease,
            log_level: check
                .read(setting!(process.log_level), |level| Ok(level.to_owned()))
                .unwrap_or_default(),
            log_format: check.read(setting!(process.log_format), str::parse).unwrap_or_default(),
        };
        check.end().map(|()| settings)
    }
}

/// Text that says something.
fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

fn targets(check: &mut Check, what: &WhatArgs) -> Vec<Target> {
    let mut targets: Vec<Target> = check.each(setting!(what.targets), str::parse);
    targets.sort();
    targets.dedup();
    if what.targets.iter().all(|text| given(Some(text)).is_none()) {
        check.say("targets", "is empty: leave it out for its default");
    }
    targets
}

/// A ClusterOperator is about one operator.
fn cluster_operator(check: &mut Check, what: &WhatArgs, targets: &[Target]) -> Option<(String, Target)> {
    let name = check.optional(setting!(what.cluster_operator), text::name)?;
    let [target] = targets else {
        check.say("cluster_operator", "is about one operator: give one kind in --targets");
        return None;
    };
    Some((name, *target))
}

fn namespaces(check: &mut Check, deployed: &DeployedArgs) -> BTreeMap<Target, String> {
    let mut all = BTreeMap::new();
    let mut add = |target, name: Option<String>| name.and_then(|name| all.insert(target, name));
    add(Target::KubeApiServer, check.read(setting!(deployed.kube_apiserver_namespace), text::name));
    add(Target::OpenShiftApiServer, check.read(setting!(deployed.openshift_apiserver_namespace), text::name));
    add(Target::Authentication, check.read(setting!(deployed.oauth_apiserver_namespace), text::name));
    all
}

/// The pod's name, and something that no other process has: one that was started again in the same pod would else take the
/// other's Lease for its own.
fn identity(process: &ProcessArgs) -> String {
    let name = given(process.pod_name.as_deref()).map(str::to_owned);
    let name = name.or_else(|| first_line(Path::new(HOST_NAME))).unwrap_or_else(|| "outrigger".into());
    format!("{name}_{:016x}", fastrand::u64(..))
}

fn first_line(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    given(text.lines().next()).map(str::to_owned)
}

fn lease(
    check: &mut Check,
    args: &LeaseArgs,
    process: &ProcessArgs,
    identity: &str,
) -> Option<lease::Config> {
    let elect = check.read(setting!(args.leader_elect), text::boolean);
    let duration = check.read(setting!(args.leader_elect_lease_duration), text::duration);
    let write_for = check.read(setting!(args.leader_elect_renew_deadline), text::duration);
    let every = check.read(setting!(args.leader_elect_retry_period), text::duration);
    let given_namespace = check.optional(setting!(process.pod_namespace), text::name);
    if elect == Some(false) {
        return None;
    }
    let namespace = given_namespace.or_else(|| first_line(Path::new(OWN_NAMESPACE)));
    if namespace.is_none() && given(process.pod_namespace.as_deref()).is_none() {
        check.say(
            "pod_namespace",
            "is missing, and this is no pod: give the namespace that the Lease is to be in",
        );
    }
    let config = lease::Config {
        duration: duration?,
        write_for: write_for?,
        every: every?,
        ..lease::Config::new(namespace?, LEASE, identity)
    };
    if let Err(why) = config.check() {
        check.say("leader_elect_lease_duration", why);
    }
    Some(config)
}
