//! What all of them stand on: one API server with callers and their rights, and one upstream.

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

/// How long things that take a moment may take.
pub const SOON: Duration = Duration::from_secs(60);

/// The path that nobody is asked for, and one that is authorized.
pub const OPEN: &str = "/open";
pub const CLOSED: &str = "/v0/tasks/1";

const NAMESPACE: &str = "nodes";

/// How many callers are made at once.
const AT_ONCE: usize = 16;

/// What all of them stand on.
pub struct World {
    // Dropped in this order: who depends on the next ends first.
    _upstream: Process,
    pub plane: ControlPlane,
    /// `HOST:PORT` of the upstream.
    pub upstream: String,
    pub of_upstream: [SocketAddr; 2],
    /// The configuration of proxies: that of a node's pod.
    pub config: PathBuf,
    /// Tokens, each of another caller.
    pub tokens: Vec<String>,
    /// The last address that was given away.
    last: AtomicU8,
    pub site: Arc<Site>,
}

impl World {
    /// Without anybody who is measured.
    pub async fn new(settings: &Settings, tools: &Tools) -> Result<Self, Error> {
        let site = Site::claim(logs::folder("bench-proxy", "all"))?;
        let plane = ControlPlane::on(&site).start().await?;
        let client = plane.client().await?;
        println!("{} callers are made (1,000 in 5 s)", settings.users);
        let tokens = callers(&client, settings.users).await?;
        let config = site.dir().join("proxy.yaml");
        let content = format!(
            "authorization:\n  resourceAttributes:\n    apiGroup: sei.io\n    resource: seinodetasks\n    \
             namespace: {NAMESPACE}\n    name: node-0\n"
        );
        std::fs::write(&config, content)
            .map_err(|source| Error::Io { what: format!("writing {}", config.display()), source })?;
        let of_upstream = [address(1, 7777), address(1, 7778)];
        let process =
            nginx::upstream(&site, &tools.nginx, &of_upstream[0].to_string(), &of_upstream[1].to_string())?;
        Ok(Self {
            _upstream: process,
            plane,
            upstream: of_upstream[0].to_string(),
            of_upstream,
            config,
            tokens,
            last: AtomicU8::new(1),
            site,
        })
    }

    /// Where the next contender listens. Each address is used once: what lingers of one must not meet the next.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        [address(number, 8443), address(number, 8444)]
    }

    /// The token of the first caller.
    pub fn token(&self) -> &str {
        &self.tokens[0]
    }
}

/// An address of this machine that belongs to no other run.
fn address(number: u8, port: u16) -> SocketAddr {
    let run = u8::try_from(std::process::id() % 250).unwrap_or_default() + 1;
    SocketAddr::from((Ipv4Addr::new(127, 77, run, number), port))
}

/// Makes callers who may do what the operator may do, and returns a token of each.
async fn callers(client: &Client, count: usize) -> Result<Vec<String>, Error> {
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
        .map(|number| caller(&accounts, format!("caller-{number}")))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    until_allowed(client, &group).await?;
    Ok(tokens)
}

async fn caller(accounts: &Api<ServiceAccount>, name: String) -> Result<String, Error> {
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request: TokenRequest =
        serde_json::from_value(json!({ "spec": { "audiences": [], "expirationSeconds": 7200 } }))?;
    let made = accounts.create_token_request(&name, &PostParams::default(), &request).await?;
    made.status.map(|status| status.token).ok_or_else(|| Error::Refused(format!("no token for {name}")))
}

/// The API server's own view of RBAC lags behind what was written.
async fn until_allowed(client: &Client, group: &str) -> Result<(), Error> {
    let spec: Value = json!({
        "user": "anybody", "groups": [group],
        "resourceAttributes":
            { "namespace": NAMESPACE, "group": "sei.io", "resource": "seinodetasks", "verb": "get", "name": "node-0" },
    });
    let review: SubjectAccessReview = serde_json::from_value(json!({ "metadata": {}, "spec": spec }))?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    wait::until("rights of callers", SOON, || async {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if answer.status.is_some_and(|status| status.allowed) {
            Ok(())
        } else {
            Err(Error::Refused("they have none yet".into()))
        }
    })
    .await
}
