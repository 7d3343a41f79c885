//! What the operator is told at its start: read from flags and the environment, and checked as a whole before anything else
//! happens. A value that is wrong must not be found by the first node that needs it.

mod args;
mod template;
mod text;

use std::net::SocketAddr;
use std::path::PathBuf;

use api::names::lease::OPERATOR as LEASE;
use plan::platform::{Bucket, Client, Endpoint, ObjectStore, Platform, Resources, Storage};
use runtime::client::Access;
use runtime::settings::text::{boolean, count, listen_address, name, namespace};
use runtime::settings::{self, Check, Problems, given};
use runtime::telemetry::Format;
use runtime::{lease, setting};

pub use self::args::Args;
use self::args::{OWN_TOKEN, PlatformArgs, ProcessArgs, SidecarArgs, UpstreamArgs};
pub use self::template::AddressTemplate;

/// Everything that the operator was told, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The platform that nodes run on.
    pub platform: Platform,
    /// Where fleets are published, if they can be.
    pub gateway: Option<Gateway>,
    /// The way to the API server.
    pub access: Access,
    /// Namespaces to look after; none for all of them.
    pub watch_namespaces: Vec<String>,
    /// Who this process is: its pod, and no other process that ever ran in it.
    pub identity: String,
    /// Where the admin server listens.
    pub admin: Vec<SocketAddr>,
    /// The Lease that is held while acting; none for an operator that is alone.
    pub lease: Option<lease::Config>,
    /// How many nodes are worked on at once.
    pub max_concurrent: usize,
    /// Where sidecars are connected to.
    pub sidecar_address: AddressTemplate,
    /// The file with the token that sidecars are shown.
    pub sidecar_token_file: PathBuf,
    /// What is logged at first.
    pub log_level: String,
    /// How log lines look.
    pub log_format: Format,
    /// Where traces go, if anywhere.
    pub traces_to: Option<String>,
    /// What was given and has no effect, one sentence each: to be logged, so that nobody relies on it.
    pub without_effect: Vec<String>,
}

/// Where fleets are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The gateway.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The domain of fleets.
    pub domain: String,
    /// A second domain of fleets.
    pub public_domain: Option<String>,
}

impl TryFrom<Args> for Settings {
    type Error = Problems;

    fn try_from(args: Args) -> Result<Self, Problems> {
        let Args { platform, process, sidecar, lease, upstream } = args;
        let mut check = Check::of::<Args>("operator");
        let own_namespace = own_namespace(&mut check, &process);
        let gateway = gateway(&mut check, &platform);
        let clients = clients(&mut check, &process, &sidecar, &own_namespace);
        let audience = audience(&mut check, &sidecar);
        let platform = self::platform(&mut check, platform, clients, audience);
        let identity = settings::identity(process.pod_name.as_deref());
        let lease = lease.read(&mut check, |_| Some(own_namespace.clone()), LEASE, &identity);
        let without_effect = without_effect(&mut check, &upstream);
        let settings = Self {
            platform,
            gateway,
            access: Access {
                kubeconfig: given(process.kubeconfig.as_deref()).map(PathBuf::from),
                context: given(process.context.as_deref()).map(str::to_owned),
            },
            watch_namespaces: check.each(setting!(process.watch_namespaces), namespace),
            identity,
            admin: admin(&mut check, &process),
            lease,
            max_concurrent: check
                .read(setting!(process.max_concurrent_reconciles), count)
                .unwrap_or_default(),
            sidecar_address: check
                .read(setting!(sidecar.sidecar_address_template), str::parse)
                .unwrap_or_default(),
            sidecar_token_file: check
                .read(setting!(sidecar.sidecar_token_file), |file| Ok(PathBuf::from(file)))
                .unwrap_or_default(),
            log_level: check
                .read(setting!(process.log_level), |level| Ok(level.to_owned()))
                .unwrap_or_default(),
            log_format: check.read(setting!(process.log_format), str::parse).unwrap_or_default(),
            traces_to: check.optional(setting!(process.otlp_endpoint), text::url),
            without_effect,
        };
        check.end().map(|()| settings)
    }
}

fn own_namespace(check: &mut Check, process: &ProcessArgs) -> String {
    if given(process.pod_namespace.as_deref()).is_some() {
        return check.optional(setting!(process.pod_namespace), namespace).unwrap_or_default();
    }
    let Some(namespace) = settings::own_namespace() else {
        check.say(
            "pod_namespace",
            "is missing, and this is no pod: give the namespace that the Lease is to be in",
        );
        return String::new();
    };
    namespace
}

fn platform(
    check: &mut Check,
    args: PlatformArgs,
    sidecar_clients: Vec<Client>,
    proxy_token_audience: Option<String>,
) -> Platform {
    macro_rules! text {
        ($name:ident) => {
            check.required(setting!(args.$name), text_without_spaces)
        };
    }
    macro_rules! amount {
        ($name:ident) => {
            check.required(setting!(args.$name), text::quantity)
        };
    }
    Platform {
        nodepool: text!(nodepool_name),
        nodepool_archive: text!(nodepool_archive),
        toleration_key: text!(toleration_key),
        service_account: text!(service_account),
        storage: Storage { class: text!(storage_class_perf), size: amount!(storage_size_default) },
        storage_archive: Storage { class: text!(storage_class_archive), size: amount!(storage_size_archive) },
        resources: Resources { cpu: amount!(resource_cpu_default), memory: amount!(resource_mem_default) },
        resources_archive: Resources {
            cpu: amount!(resource_cpu_archive),
            memory: amount!(resource_mem_archive),
        },
        snapshot_bucket: Bucket { name: text!(snapshot_bucket), region: text!(snapshot_region) },
        genesis_bucket: Bucket { name: text!(genesis_bucket), region: text!(genesis_region) },
        object_store: object_store(check, &args),
        sidecar_image: text!(sidecar_image),
        proxy_image: text!(kube_rbac_proxy_image),
        proxy_token_audience,
        exporter_image: text!(cosmos_exporter_image),
        sidecar_clients,
    }
}

fn object_store(check: &mut Check, args: &PlatformArgs) -> ObjectStore {
    let is_path_style = check.read(setting!(args.s3_path_style), boolean).unwrap_or_default();
    let url = check.optional(setting!(args.s3_endpoint), text::url);
    ObjectStore {
        endpoint: url.map(|url| Endpoint { url, is_path_style }),
        credentials: check.optional(setting!(args.s3_credentials_secret), name),
    }
}

fn text_without_spaces(text: &str) -> Result<String, String> {
    if text.contains(char::is_whitespace) {
        return Err(format!("{text:?} has a space in it: take it out"));
    }
    Ok(text.to_owned())
}

/// Published fleets need all three, and an operator without them is complete, too. Two of three are a mistake.
fn gateway(check: &mut Check, args: &PlatformArgs) -> Option<Gateway> {
    let all = [&args.gateway_name, &args.gateway_namespace, &args.gateway_domain];
    let public_domain = check.optional(setting!(args.gateway_public_domain), text_without_spaces);
    if all.iter().all(|one| given(one.as_deref()).is_none()) && public_domain.is_none() {
        return None;
    }
    Some(Gateway {
        name: check.required(setting!(args.gateway_name), text_without_spaces),
        namespace: check.required(setting!(args.gateway_namespace), namespace),
        domain: check.required(setting!(args.gateway_domain), text_without_spaces),
        public_domain,
    })
}

/// Who may speak to sidecars: the operator's own pod first, since a policy that shuts it out would stop every plan.
fn clients(
    check: &mut Check,
    process: &ProcessArgs,
    sidecar: &SidecarArgs,
    own_namespace: &str,
) -> Vec<Client> {
    let labels = check.optional(setting!(process.pod_labels), text::labels).unwrap_or_default();
    let mut clients = vec![Client { namespace: own_namespace.to_owned(), labels }];
    clients.extend(check.each(setting!(sidecar.sidecar_clients), text::client));
    clients
}

/// Proxies that ask for an audience turn the token of the operator's own account away: it is for the API server.
fn audience(check: &mut Check, sidecar: &SidecarArgs) -> Option<String> {
    let audience = check.optional(setting!(sidecar.proxy_token_audience), text::audience)?;
    if sidecar.sidecar_token_file.trim() == OWN_TOKEN {
        check.say(
            "proxy_token_audience",
            "needs --sidecar-token-file: the file of a projected token of this audience",
        );
    }
    Some(audience)
}

/// Metrics and probes are served at both addresses, once when they are the same.
fn admin(check: &mut Check, process: &ProcessArgs) -> Vec<SocketAddr> {
    let metrics = check.read(setting!(process.metrics_bind_address), listen_address).flatten();
    let probes = check.read(setting!(process.health_probe_bind_address), listen_address).flatten();
    let mut addresses: Vec<SocketAddr> = metrics.into_iter().chain(probes).collect();
    addresses.dedup();
    addresses
}

fn without_effect(check: &mut Check, args: &UpstreamArgs) -> Vec<String> {
    if check.optional(setting!(args.metrics_secure), boolean) == Some(true) {
        check
            .say("metrics_secure", "metrics are not served by TLS: leave it out, or put a proxy before them");
    }
    macro_rules! each {
        ($($name:ident),*) => {
            [$((stringify!($name), &args.$name)),*]
        };
    }
    let all = each![
        storage_class_default,
        result_export_bucket,
        result_export_region,
        result_export_prefix,
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
    let set = all.into_iter().filter(|(_, value)| given(value.as_deref()).is_some());
    set.map(|(id, _)| format!("{} has no effect: {}", check.name(id), check.help(id))).collect()
}

#[cfg(test)]
mod tests;
