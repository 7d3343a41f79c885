//! The benchmark environment: one API server with callers and permissions, and one upstream.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use testbed::harness::logs;
use testbed::harness::wait;
use testbed::process::Process;
use testbed::{ControlPlane, Error, Site};

use crate::nginx;
use crate::settings::Settings;
use crate::tools::Tools;

/// Deadline for events that normally take a moment.
pub const SOON: Duration = Duration::from_secs(60);

/// An ignored path, and an authorized one.
pub const IGNORED_PATH: &str = "/open";
pub const AUTHORIZED_PATH: &str = "/v0/tasks/1";

const NAMESPACE: &str = "nodes";

/// Callers created concurrently.
const CONCURRENCY: usize = 16;

/// The benchmark environment.
pub struct Environment {
    // Dropped in this order: dependents first.
    _upstream: Process,
    pub plane: ControlPlane,
    /// `HOST:PORT` of the upstream.
    pub upstream: String,
    pub upstream_addresses: [SocketAddr; 2],
    /// The same upstream over HTTP/1.1.
    pub upstream_socket: PathBuf,
    /// Proxy configuration: that of a node's pod.
    pub config: PathBuf,
    /// One token per caller.
    pub tokens: Vec<String>,
    /// The last address in use.
    last_address: AtomicU8,
    pub site: Arc<Site>,
}

impl Environment {
    /// Starts the environment, without any measured program.
    pub async fn new(settings: &Settings, tools: &Tools) -> Result<Self, Error> {
        let site = Site::claim(logs::test_dir("bench-proxy", "all"))?;
        let plane = ControlPlane::builder(&site).start().await?;
        let client = plane.client().await?;
        println!("creating {} callers (1,000 take 5 s)", settings.users);
        let tokens = create_callers(&client, settings.users).await?;
        let config = site.dir().join("proxy.yaml");
        let yaml = format!(
            "authorization:\n  resourceAttributes:\n    apiGroup: sei.io\n    resource: seinodetasks\n    \
             namespace: {NAMESPACE}\n    name: node-0\n"
        );
        std::fs::write(&config, yaml)
            .map_err(|source| Error::Io { what: format!("writing {}", config.display()), source })?;
        let upstream_addresses = [address(1, 7777), address(1, 7778)];
        let upstream_socket = site.dir().join("upstream.sock");
        let process = nginx::upstream(
            &site,
            &tools.nginx,
            &upstream_addresses[0].to_string(),
            &upstream_socket,
            &upstream_addresses[1].to_string(),
        )?;
        Ok(Self {
            _upstream: process,
            plane,
            upstream: upstream_addresses[0].to_string(),
            upstream_addresses,
            upstream_socket,
            config,
            tokens,
            last_address: AtomicU8::new(1),
            site,
        })
    }

    /// Returns addresses for the next program. Each is used once, so that leftover connections of one program
    /// do not reach the next.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        let number = self.last_address.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        [address(number, 8443), address(number, 8444)]
    }

    /// Returns the token of the first caller.
    pub fn token(&self) -> &str {
        &self.tokens[0]
    }
}

/// Returns a loopback address that no other run uses.
fn address(number: u8, port: u16) -> SocketAddr {
    let run = u8::try_from(std::process::id() % 250).unwrap_or_default() + 1;
    SocketAddr::from((Ipv4Addr::new(127, 77, run, number), port))
}

/// Creates callers with the permissions of the operator, and returns a token of each.
async fn create_callers(client: &Client, count: usize) -> Result<Vec<String>, Error> {
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "callers" },
        "rules": [{ "apiGroups": ["sei.io"], "resources": ["seinodetasks"], "verbs": ["get", "create"] }],
    }))?;
    Api::<Role>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &role).await?;
    let group = format!("system:serviceaccounts:{NAMESPACE}");
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "callers" },
        "subjects": [{ "kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "callers" },
    }))?;
    Api::<RoleBinding>::namespaced(client.clone(), NAMESPACE)
        .create(&PostParams::default(), &binding)
        .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let tokens: Vec<String> = stream::iter(0..count)
        .map(|number| create_caller(&accounts, format!("caller-{number}")))
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    wait_until_allowed(client, &group).await?;
    Ok(tokens)
}

async fn create_caller(accounts: &Api<ServiceAccount>, name: String) -> Result<String, Error> {
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request: TokenRequest =
        serde_json::from_value(json!({ "spec": { "audiences": [], "expirationSeconds": 7200 } }))?;
    let issued = accounts.create_token_request(&name, &PostParams::default(), &request).await?;
    issued.status.map(|status| status.token).ok_or_else(|| Error::Other(format!("no token for {name}")))
}

/// The API server's RBAC cache lags behind writes.
async fn wait_until_allowed(client: &Client, group: &str) -> Result<(), Error> {
    let spec: Value = json!({
        "user": "anybody", "groups": [group],
        "resourceAttributes":
            { "namespace": NAMESPACE, "group": "sei.io", "resource": "seinodetasks", "verb": "get", "name": "node-0" },
    });
    let review: SubjectAccessReview = serde_json::from_value(json!({ "metadata": {}, "spec": spec }))?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    wait::until("permissions of callers", SOON, || async {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if answer.status.is_some_and(|status| status.allowed) {
            Ok(())
        } else {
            Err(Error::Other("not allowed yet".into()))
        }
    })
    .await
}
