//! Settings of the operator: parsed from flags and the environment, and validated together before anything else happens. An
//! invalid value must not surface only when the first node needs it.

mod address_template;
mod args;
mod parse;

use std::net::SocketAddr;
use std::path::PathBuf;

use api::names::lease::OPERATOR as LEASE;
use plan::node::DisruptionLimit;
use plan::platform::{
    Bucket, Endpoint, ObjectStore, Platform, Resources, ResultExport, SidecarClient, Storage,
};
use runtime::Key;
use runtime::client::ClientOptions;
use runtime::settings::parse::{boolean, count, duration, listen_address, loopback_address, name, namespace};
use runtime::settings::{self, InvalidSettings, LoopbackAddress, Validator, non_empty};
use runtime::telemetry::Format;
use runtime::{lease, setting};

pub use self::address_template::AddressTemplate;
pub use self::args::Args;
use self::args::{PlatformArgs, ProcessArgs, RemovedArgs, SidecarArgs, UpstreamArgs};

/// Validated settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The platform that nodes run on.
    pub platform: Platform,
    /// The Gateway that publishes fleets, if there is one.
    pub gateway: Option<GatewaySettings>,
    /// How to connect to the API server.
    pub access: ClientOptions,
    /// Watched namespaces; empty for all.
    pub watch_namespaces: Vec<String>,
    /// The identity of this process in the Lease: the pod name and a random suffix.
    pub identity: String,
    /// Addresses of metrics and probes.
    pub metrics: Vec<SocketAddr>,
    /// Address of the admin server.
    pub admin: Option<LoopbackAddress>,
    /// The Lease, unless leader election is off.
    pub lease: Option<lease::Config>,
    /// Maximum number of concurrent reconciles.
    pub max_concurrent_reconciles: usize,
    /// How many nodes are updated at a time for changes other than their own edits.
    pub max_platform_disruptions: DisruptionLimit,
    /// Template of sidecar addresses.
    pub sidecar_address: AddressTemplate,
    /// The ServiceAccount whose tokens sidecars get.
    pub token_service_account: Key,
    /// The file with the token for pods of another operator or a previous version, if they get one.
    pub legacy_sidecar_token_file: Option<PathBuf>,
    /// The initial log level.
    pub log_level: String,
    /// The log format.
    pub log_format: Format,
    /// The OTLP endpoint for traces, if there is one.
    pub otlp_endpoint: Option<String>,
    /// Settings that are set and have no effect.
    pub ignored: Vec<IgnoredSetting>,
}

/// A setting that is set and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredSetting {
    /// The flag and the environment variable.
    pub name: String,
    /// Why it has no effect.
    pub reason: String,
}

/// The Gateway that publishes fleets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// The name of the Gateway.
    pub name: String,
    /// The namespace of the Gateway.
    pub namespace: String,
    /// The domain of fleets.
    pub domain: String,
    /// The additional public domain of fleets.
    pub public_domain: Option<String>,
}

impl TryFrom<Args> for Settings {
    type Error = InvalidSettings;

    fn try_from(args: Args) -> Result<Self, InvalidSettings> {
        let Args { platform, process, sidecar, lease, upstream, removed } = args;
        let mut validator = Validator::new::<Args>("operator");
        let own_namespace = own_namespace(&mut validator, &process);
        let gateway = gateway(&mut validator, &platform);
        let clients = clients(&mut validator, &process, &sidecar, own_namespace.as_deref());
        reject_removed(&mut validator, &removed);
        let platform = self::platform(&mut validator, platform, clients);
        let identity = settings::identity(process.pod_name.as_deref());
        let lease_namespace = |validator: &mut Validator| {
            if own_namespace.is_none() {
                validator.add_problem(
                    "pod_namespace",
                    "is required outside of a pod: set the namespace of the Lease, or --leader-elect=false",
                );
            }
            own_namespace
        };
        let lease = lease.resolve(&mut validator, lease_namespace, LEASE, &identity);
        let ignored = ignored(&mut validator, &upstream);
        let settings = Self {
            platform,
            gateway,
            access: ClientOptions {
                kubeconfig: non_empty(process.kubeconfig.as_deref()).map(PathBuf::from),
                context: non_empty(process.context.as_deref()).map(str::to_owned),
            },
            watch_namespaces: validator.list(setting!(process.watch_namespaces), namespace),
            identity,
            metrics: metrics(&mut validator, &process),
            admin: validator.read(setting!(process.admin_bind_address), loopback_address).flatten(),
            lease,
            max_platform_disruptions: validator
                .read(setting!(process.max_platform_disruptions), parse::disruption_limit)
                .unwrap_or(DisruptionLimit::Count(1)),
            max_concurrent_reconciles: validator
                .read(setting!(process.max_concurrent_reconciles), count)
                .unwrap_or_default(),
            sidecar_address: validator
                .read(setting!(sidecar.sidecar_address_template), str::parse)
                .unwrap_or_default(),
            token_service_account: validator
                .required(setting!(sidecar.token_service_account), parse::service_account)
                .unwrap_or_else(|| Key { namespace: String::new(), name: String::new() }),
            legacy_sidecar_token_file: non_empty(sidecar.legacy_sidecar_token_file.as_deref())
                .map(PathBuf::from),
            log_level: validator
                .read(setting!(process.log_level), |level| Ok(level.to_owned()))
                .unwrap_or_default(),
            log_format: validator.read(setting!(process.log_format), str::parse).unwrap_or_default(),
            otlp_endpoint: validator.optional(setting!(process.otlp_endpoint), parse::url),
            ignored,
        };
        validator.finish().map(|()| settings)
    }
}

/// Returns the namespace of the operator's pod; `None` outside of a pod if it is not set.
fn own_namespace(validator: &mut Validator, process: &ProcessArgs) -> Option<String> {
    if non_empty(process.pod_namespace.as_deref()).is_some() {
        // An invalid one is a problem already.
        return validator
            .optional(setting!(process.pod_namespace), namespace)
            .or_else(|| Some(String::new()));
    }
    settings::own_namespace()
}

fn platform(validator: &mut Validator, args: PlatformArgs, sidecar_clients: Vec<SidecarClient>) -> Platform {
    macro_rules! text {
        ($name:ident) => {
            validator.required(setting!(args.$name), without_spaces)
        };
    }
    macro_rules! quantity {
        ($name:ident) => {
            validator.required(setting!(args.$name), parse::quantity)
        };
    }
    Platform {
        nodepool: text!(nodepool_name),
        nodepool_archive: text!(nodepool_archive),
        nodepool_label: validator.read(setting!(args.nodepool_label), parse::label_key).flatten(),
        toleration_key: text!(toleration_key),
        service_account: text!(service_account),
        storage: Storage { class: text!(storage_class_perf), size: quantity!(storage_size_default) },
        storage_archive: Storage {
            class: text!(storage_class_archive),
            size: quantity!(storage_size_archive),
        },
        resources: Resources {
            cpu: quantity!(resource_cpu_default),
            memory: quantity!(resource_mem_default),
        },
        resources_archive: Resources {
            cpu: quantity!(resource_cpu_archive),
            memory: quantity!(resource_mem_archive),
        },
        snapshot_bucket: Bucket { name: text!(snapshot_bucket), region: text!(snapshot_region) },
        genesis_bucket: Bucket { name: text!(genesis_bucket), region: text!(genesis_region) },
        result_export: result_export(validator, &args),
        object_store: object_store(validator, &args),
        sidecar_image: text!(sidecar_image),
        sidecar_isolation: validator
            .read(setting!(args.sidecar_isolation), parse::isolation)
            .unwrap_or_default(),
        proxy_image: text!(kube_rbac_proxy_image),
        strict_references: validator.read(setting!(args.strict_references), boolean).unwrap_or_default(),
        exporter_image: text!(cosmos_exporter_image),
        chain_halt_timeout: validator.read(setting!(args.chain_halt_timeout), duration).unwrap_or_default(),
        sidecar_clients,
        node_egress: validator.list(setting!(args.node_egress), parse::egress_target),
    }
}

/// Returns the destination of exports: both bucket and region, or none.
fn result_export(validator: &mut Validator, args: &PlatformArgs) -> Option<ResultExport> {
    let name = validator.optional(setting!(args.result_export_bucket), without_spaces);
    let region = validator.optional(setting!(args.result_export_region), without_spaces);
    let prefix = validator.optional(setting!(args.result_export_prefix), without_spaces);
    let name = name?;
    if region.is_none() {
        validator.add_problem("result_export_region", "is required with --result-export-bucket");
    }
    Some(ResultExport { bucket: Bucket { name, region: region? }, prefix })
}

fn object_store(validator: &mut Validator, args: &PlatformArgs) -> ObjectStore {
    let is_path_style = validator.read(setting!(args.s3_path_style), boolean).unwrap_or_default();
    let url = validator.optional(setting!(args.s3_endpoint), parse::url);
    ObjectStore {
        endpoint: url.map(|url| Endpoint { url, is_path_style }),
        credentials: validator.optional(setting!(args.s3_credentials_secret), name),
    }
}

fn without_spaces(text: &str) -> Result<String, String> {
    if text.contains(char::is_whitespace) {
        return Err(format!("{text:?} must not contain spaces"));
    }
    Ok(text.to_owned())
}

/// Returns the Gateway. Name, namespace and domain are required together, or not set at all.
fn gateway(validator: &mut Validator, args: &PlatformArgs) -> Option<GatewaySettings> {
    let required = [&args.gateway_name, &args.gateway_namespace, &args.gateway_domain];
    let public_domain = validator.optional(setting!(args.gateway_public_domain), without_spaces);
    if required.iter().all(|value| non_empty(value.as_deref()).is_none()) && public_domain.is_none() {
        return None;
    }
    Some(GatewaySettings {
        name: validator.required(setting!(args.gateway_name), without_spaces),
        namespace: validator.required(setting!(args.gateway_namespace), namespace),
        domain: validator.required(setting!(args.gateway_domain), without_spaces),
        public_domain,
    })
}

/// Returns the pods that may connect to sidecars. The operator's pod is always one: a network policy that blocks it would stop
/// every plan.
fn clients(
    validator: &mut Validator,
    process: &ProcessArgs,
    sidecar: &SidecarArgs,
    own_namespace: Option<&str>,
) -> Vec<SidecarClient> {
    let labels = validator.optional(setting!(process.pod_labels), parse::labels).unwrap_or_default();
    // Outside of a cluster, the operator has no pod for a network policy to select.
    let own = own_namespace.map(|namespace| SidecarClient { namespace: namespace.to_owned(), labels });
    let mut clients: Vec<SidecarClient> = own.into_iter().collect();
    clients.extend(validator.list(setting!(sidecar.sidecar_clients), parse::client));
    clients
}

/// Rejects settings of previous versions that are set.
fn reject_removed(validator: &mut Validator, args: &RemovedArgs) {
    if non_empty(args.sidecar_token_file.as_deref()).is_some() {
        validator.add_problem(
            "sidecar_token_file",
            "was removed: set --token-service-account, and --legacy-sidecar-token-file until pods of previous versions are replaced",
        );
    }
    if non_empty(args.proxy_token_audience.as_deref()).is_some() {
        validator.add_problem(
            "proxy_token_audience",
            "was removed: remove it, since each node has an audience of its own with --token-service-account",
        );
    }
}

/// Returns the addresses of metrics and probes. Equal addresses are bound once.
fn metrics(validator: &mut Validator, process: &ProcessArgs) -> Vec<SocketAddr> {
    let metrics = validator.read(setting!(process.metrics_bind_address), listen_address).flatten();
    let probes = validator.read(setting!(process.health_probe_bind_address), listen_address).flatten();
    let mut addresses: Vec<SocketAddr> = metrics.into_iter().chain(probes).collect();
    addresses.dedup();
    addresses
}

/// Returns the settings of the upstream controller that are set and have no effect.
fn ignored(validator: &mut Validator, args: &UpstreamArgs) -> Vec<IgnoredSetting> {
    if validator.optional(setting!(args.metrics_secure), boolean) == Some(true) {
        let problem = "metrics are not served over TLS: remove the flag, or put a TLS proxy in front";
        validator.add_problem("metrics_secure", problem);
    }
    macro_rules! each {
        ($($name:ident),*) => {
            [$((stringify!($name), &args.$name)),*]
        };
    }
    let all = each![
        storage_class_default,
        metrics_cert_path,
        metrics_cert_name,
        metrics_cert_key,
        enable_http2,
        zap_devel,
        zap_encoder,
        zap_log_level,
        zap_stacktrace_level,
        zap_time_encoding
    ];
    let set = all.into_iter().filter(|(_, value)| non_empty(value.as_deref()).is_some());
    set.map(|(id, _)| IgnoredSetting { name: validator.flag_name(id), reason: validator.help(id) }).collect()
}

#[cfg(test)]
mod tests;
