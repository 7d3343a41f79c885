//! The test fixture: a namespace, callers with tokens and permissions, and proxies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::{Value, json};
use testbed::faults::fault_proxy::FaultProxy;
use testbed::harness::binaries;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, ControlPlane, Error};

/// Deadline for events that normally take a moment.
pub const SOON: Duration = Duration::from_secs(30);

/// The fixture of a test.
pub struct Fixture<'a> {
    plane: &'a ControlPlane,
    client: Client,
    pub namespace: String,
    pub logs: PathBuf,
}

impl<'a> Fixture<'a> {
    /// Creates the fixture with a namespace of its own.
    pub async fn new(cx: &'a Context) -> Result<Self, Error> {
        let plane = cx.control_plane().await?;
        std::fs::create_dir_all(cx.logs())
            .map_err(|source| Error::Io { what: "creating the log directory".into(), source })?;
        Ok(Self {
            plane,
            client: plane.client().await?,
            namespace: cx.namespace().await?,
            logs: cx.logs().to_owned(),
        })
    }

    /// Creates a service account that may get `path` (nothing when it is empty) and returns a token.
    pub async fn token(&self, name: &str, path: &str) -> Result<String, Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        accounts
            .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
            .await?;
        if !path.is_empty() {
            self.allow(&format!("{}-{name}", self.namespace), self.account(name), path_rule(path)).await?;
        }
        self.issue(name, Vec::new()).await
    }

    /// Creates a service account that may create one subresource of a resource in all namespaces, waits until that is in
    /// effect, and returns a token.
    pub async fn token_for_subresource(
        &self,
        name: &str,
        group: &str,
        (resource, subresource): (&str, &str),
    ) -> Result<String, Error> {
        let token = self.token(name, "").await?;
        let rule = PolicyRule {
            api_groups: Some(vec![group.into()]),
            resources: Some(vec![format!("{resource}/{subresource}")]),
            verbs: vec!["create".into()],
            ..PolicyRule::default()
        };
        self.allow(&format!("{}-{name}", self.namespace), self.account(name), rule).await?;
        let review: SubjectAccessReview = serde_json::from_value(json!({ "metadata": {}, "spec": {
            "user": format!("system:serviceaccount:{}:{name}", self.namespace),
            "resourceAttributes":
                { "group": group, "resource": resource, "subresource": subresource, "verb": "create" },
        } }))?;
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        wait::until("the RBAC permission", SOON, || async {
            let reviewed = reviews.create(&PostParams::default(), &review).await?;
            if reviewed.status.is_some_and(|status| status.allowed) {
                Ok(())
            } else {
                Err(Error::Other("not allowed yet".into()))
            }
        })
        .await?;
        Ok(token)
    }

    fn account(&self, name: &str) -> Subject {
        Subject {
            kind: "ServiceAccount".into(),
            name: name.into(),
            namespace: Some(self.namespace.clone()),
            ..Subject::default()
        }
    }

    /// Returns a token of an existing service account for an audience.
    pub async fn token_for(&self, name: &str, audience: &str) -> Result<String, Error> {
        self.issue(name, vec![audience.to_owned()]).await
    }

    async fn issue(&self, name: &str, audiences: Vec<String>) -> Result<String, Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let issued = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        issued
            .status
            .map(|status| status.token)
            .ok_or_else(|| Error::Other("TokenRequest has no status".into()))
    }

    /// Returns `HOST:PORT` of the API server.
    pub fn api_server(&self) -> String {
        self.plane.url().trim_start_matches("https://").trim_end_matches('/').to_owned()
    }

    /// Returns the administrator's kubeconfig with another server address.
    pub fn kubeconfig_at(&self, server: &str) -> String {
        self.plane.admin().at(server).kubeconfig()
    }

    /// Allows a user to get a path.
    pub async fn allow_user(&self, user: &str, path: &str) -> Result<(), Error> {
        let subject = Subject { kind: "User".into(), name: user.into(), ..Subject::default() };
        self.allow(user, subject, path_rule(path)).await
    }

    /// Starts a fault proxy between proxies and the API server.
    pub async fn faults(&self) -> Result<FaultProxy, Error> {
        FaultProxy::start_with_journal(self.plane, self.logs.join("journal.jsonl")).await
    }

    async fn allow(&self, name: &str, subject: Subject, rule: PolicyRule) -> Result<(), Error> {
        let metadata = || ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let role = ClusterRole { metadata: metadata(), rules: Some(vec![rule]), ..ClusterRole::default() };
        Api::<ClusterRole>::all(self.client.clone()).create(&PostParams::default(), &role).await?;
        let role_ref = RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "ClusterRole".into(),
            name: name.into(),
        };
        let binding = ClusterRoleBinding { metadata: metadata(), role_ref, subjects: Some(vec![subject]) };
        Api::<ClusterRoleBinding>::all(self.client.clone()).create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    /// Configures a proxy.
    pub fn proxy(&self, name: &str) -> ProxyBuilder<'_> {
        ProxyBuilder { fixture: self, name: name.into(), flags: Vec::new(), wrapper: Vec::new() }
    }
}

/// Returns a rule that allows to get a path.
fn path_rule(path: &str) -> PolicyRule {
    PolicyRule {
        non_resource_urls: Some(vec![path.into()]),
        verbs: vec!["get".into()],
        ..PolicyRule::default()
    }
}

/// The configuration of a proxy to start.
pub struct ProxyBuilder<'g> {
    fixture: &'g Fixture<'g>,
    name: String,
    flags: Vec<String>,
    wrapper: Vec<String>,
}

impl ProxyBuilder<'_> {
    /// Adds a flag.
    pub fn flag(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.flags.push(format!("--{name}={value}"));
        self
    }

    /// Writes a configuration file and sets --config-file.
    pub fn config(self, text: &str) -> Result<Self, Error> {
        let path = self.fixture.logs.join(format!("{}.yaml", self.name));
        std::fs::write(&path, text)
            .map_err(|source| Error::Io { what: "writing a configuration file".into(), source })?;
        Ok(self.flag("config-file", path.display()))
    }

    /// Starts the proxy through a command that takes the proxy and its flags as its last arguments.
    pub fn wrapped_by(mut self, command: &[&str]) -> Self {
        self.wrapper = command.iter().map(|argument| (*argument).to_owned()).collect();
        self
    }

    /// Starts the proxy.
    pub fn start(self) -> Result<Proxy, Error> {
        let mut flags = self.flags;
        if !flags.iter().any(|flag| flag.starts_with("--kubeconfig=")) {
            let kubeconfig = self.fixture.plane.admin().write_kubeconfig(&self.fixture.logs)?;
            flags.push(format!("--kubeconfig={}", kubeconfig.display()));
        }
        // Logs are in one directory for all tests: addresses are read from them.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (name, binary) = (format!("proxy-{}-{number}", self.name), binaries::path("outrigger")?);
        let program = match self.wrapper.split_first() {
            None => Program::new(name, binary),
            Some((command, arguments)) => Program::new(name, command).args(arguments).arg(binary),
        };
        let process = program.arg("proxy").args(flags).start(self.fixture.plane.site())?;
        Ok(Proxy { process })
    }
}

/// A running proxy; killed on drop.
pub struct Proxy {
    pub process: Process,
}

impl Proxy {
    /// Returns its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Waits for a log line that contains all the texts.
    pub async fn wait_for_log(&self, texts: &[&str]) -> Result<(), Error> {
        wait::until(format!("a log line with {texts:?}"), SOON, || async {
            let log = self.log();
            let found = log.lines().any(|line| texts.iter().all(|text| line.contains(text)));
            if found { Ok(()) } else { Err(format!("log:\n{log}")) }
        })
        .await
    }

    /// Returns the socket address of the listener configured by a flag.
    pub async fn socket_address(&self, flag: &str) -> Result<SocketAddr, Error> {
        let address = self.address(flag).await?;
        address.parse().map_err(|error| Error::Other(format!("{address}: {error}")))
    }

    /// Returns the address of the listener configured by a flag.
    pub async fn address(&self, flag: &str) -> Result<String, Error> {
        wait::until(format!("the address of --{flag}"), SOON, || async {
            self.process.check_alive().map_err(|error| error.to_string())?;
            let log = self.log();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let found = lines.rfind(|line| line["message"] == "listening" && line["flag"] == flag);
            found.and_then(|line| line["address"].as_str().map(str::to_owned)).ok_or(format!("log:\n{log}"))
        })
        .await
    }
}
