//! What the aggregator is told at its start: read from flags and the environment, and checked as a whole before anything else
//! happens.

mod args;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::names::lease::KMS_AGGREGATOR as LEASE;
use runtime::client::Access;
use runtime::settings::text::{duration, listen_address, name};
use runtime::settings::{self, Check, Problems, given};
use runtime::telemetry::Format;
use runtime::{lease, setting};

pub use self::args::Args;
use self::args::{DeployedArgs, ProcessArgs, WhatArgs};
use super::target::Target;

/// Most characters of an object's name.
const LONGEST_NAME: usize = 253;

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
        let mut check = Check::of::<Args>("aggregator");
        let targets = targets(&mut check, &what);
        let cluster_operator = cluster_operator(&mut check, &what, &targets);
        let identity = settings::identity(process.pod_name.as_deref());
        let name_of_lease = lease_name(&mut check, cluster_operator.as_ref().map(|(name, _)| name.as_str()));
        let lease = lease.read(&mut check, |check| own_namespace(check, &process), &name_of_lease, &identity);
        let settings = Self {
            interval: check.read(setting!(what.interval), duration).unwrap_or_default(),
            skew_margin: check.read(setting!(what.clock_skew), duration).unwrap_or_default(),
            read_degrades: check
                .read(setting!(what.sick_read_plugins), text::degrade_or_tell)
                .unwrap_or_default(),
            cluster_operator,
            targets,
            namespaces: namespaces(&mut check, &deployed),
            pod_selector: check
                .read(setting!(deployed.pod_selector), |text| Ok(text.to_owned()))
                .unwrap_or_default(),
            secret: check.read(setting!(deployed.encryption_config_secret), name).unwrap_or_default(),
            access: Access {
                kubeconfig: given(process.kubeconfig.as_deref()).map(PathBuf::from),
                context: given(process.context.as_deref()).map(str::to_owned),
            },
            identity,
            admin: check.read(setting!(process.metrics_bind_address), listen_address).flatten(),
            lease,
            log_level: check
                .read(setting!(process.log_level), |level| Ok(level.to_owned()))
                .unwrap_or_default(),
            log_format: check.read(setting!(process.log_format), str::parse).unwrap_or_default(),
        };
        check.end().map(|()| settings)
    }
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
    let name = check.optional(setting!(what.cluster_operator), name)?;
    let [target] = targets else {
        check.say("cluster_operator", "is about one operator: give one kind in --targets");
        return None;
    };
    Some((name, *target))
}

/// The Lease follows what is written: those that write on different ClusterOperators must not wait for each other.
fn lease_name(check: &mut Check, cluster_operator: Option<&str>) -> String {
    let Some(operator) = cluster_operator else { return LEASE.to_owned() };
    let name = format!("{LEASE}-{operator}");
    if name.len() > LONGEST_NAME {
        let most = LONGEST_NAME - LEASE.len() - 1;
        check.say(
            "cluster_operator",
            format!("is too long for the name of a Lease: use at most {most} characters"),
        );
    }
    name
}

fn namespaces(check: &mut Check, deployed: &DeployedArgs) -> BTreeMap<Target, String> {
    let mut all = BTreeMap::new();
    let mut add = |target, name: Option<String>| name.and_then(|name| all.insert(target, name));
    add(Target::KubeApiServer, check.read(setting!(deployed.kube_apiserver_namespace), name));
    add(Target::OpenShiftApiServer, check.read(setting!(deployed.openshift_apiserver_namespace), name));
    add(Target::Authentication, check.read(setting!(deployed.oauth_apiserver_namespace), name));
    all
}

/// The namespace of the Lease.
fn own_namespace(check: &mut Check, process: &ProcessArgs) -> Option<String> {
    if given(process.pod_namespace.as_deref()).is_some() {
        return check.optional(setting!(process.pod_namespace), name);
    }
    let found = settings::own_namespace();
    if found.is_none() {
        check.say(
            "pod_namespace",
            "is missing, and this is no pod: give the namespace that the Lease is to be in",
        );
    }
    found
}
