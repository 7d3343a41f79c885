//! A real control plane: etcd, kube-apiserver and optionally kube-controller-manager and kube-scheduler, with its own
//! network namespace and CA.

mod api_server;
mod audit;
mod encryption;
mod etcd;
mod kubeconfig;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::Client;

pub(crate) use self::audit::is_stored;
pub use self::audit::{Audit, AuditReader, AuditedRequest};
pub use self::encryption::KmsProvider;
pub use self::kubeconfig::User;
use crate::cluster::address;
use crate::cluster::parts::{Kubernetes, Part};
use crate::cluster::pki::{CertificateAuthority, ServerNames};
use crate::cluster::site::Site;
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;
use crate::process::supervised::SupervisedProcess;
use crate::process::{Process, Program};
use crate::sync::lock;

/// Startup timeout; with warm caches, startup takes three seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// After SIGTERM, an API server with open watches runs for up to a minute; it is killed after this time.
const GRACE: Duration = Duration::from_secs(2);

/// Configuration of a control plane to start.
#[derive(Debug)]
pub struct Builder {
    site: Arc<Site>,
    controllers: bool,
    scheduler: bool,
    kms: Option<KmsProvider>,
    api_server_flags: Vec<String>,
    controller_flags: Vec<String>,
}

impl Builder {
    /// Adds kube-controller-manager.
    #[must_use]
    pub fn controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// Adds kube-scheduler.
    #[must_use]
    pub fn scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// Encrypts Secrets with a KMS v2 plugin, which must be running.
    #[must_use]
    pub fn kms_provider(mut self, provider: KmsProvider) -> Self {
        self.kms = Some(provider);
        self
    }

    /// Adds a flag of kube-apiserver: `--name=value`.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }

    /// Adds a flag of kube-controller-manager: `--name=value`. Benchmarks with many objects raise the default client rate limit
    /// of 20 requests per second, which would dominate their results.
    #[must_use]
    pub fn controller_flag(mut self, flag: impl Into<String>) -> Self {
        self.controller_flags.push(flag.into());
        self
    }

    /// Starts the control plane and returns when it is ready.
    pub async fn start(self) -> Result<ControlPlane> {
        ControlPlane::start(self).await
    }
}

/// A running control plane; stopped on drop.
#[derive(Debug)]
pub struct ControlPlane {
    // Drop order: each field depends on the ones after it.
    controller_manager: Option<SupervisedProcess>,
    scheduler: Option<SupervisedProcess>,
    api_server: Mutex<Process>,
    etcd: Process,
    api_server_program: api_server::ApiServer,
    ca: CertificateAuthority,
    front_proxy_ca: CertificateAuthority,
    kubernetes: Kubernetes,
    admin: User,
    started_in: Duration,
    site: Arc<Site>,
}

impl ControlPlane {
    /// Configures a control plane on a site.
    #[must_use]
    pub fn builder(site: &Arc<Site>) -> Builder {
        Builder {
            site: site.clone(),
            controllers: false,
            scheduler: false,
            kms: None,
            api_server_flags: Vec::new(),
            controller_flags: Vec::new(),
        }
    }

    async fn start(builder: Builder) -> Result<Self> {
        let Builder { site, controllers, scheduler, kms, api_server_flags, controller_flags } = builder;
        let kubernetes = Part::kubernetes()?;
        let begin = Instant::now();
        let dir = site.dir().join("control-plane");
        std::fs::create_dir_all(&dir).context(|| format!("creating {}", dir.display()))?;

        let ca = CertificateAuthority::new(&format!("outrigger-testbed-{}", site.number()))?;
        let front_proxy_ca =
            CertificateAuthority::new(&format!("outrigger-testbed-{}-front-proxy", site.number()))?;
        let etcd = etcd::start(&site, &kubernetes, &ca, &dir)?;
        let program = api_server::ApiServer::prepare(&site, &ca, &front_proxy_ca, kms, api_server_flags)?;
        let api_server = program.start(&site, &kubernetes)?;
        let admin = User::issue(&ca, &program.url(), "admin", Some("system:masters"))?;

        let mut plane = Self {
            controller_manager: None,
            scheduler: None,
            api_server: Mutex::new(api_server),
            etcd,
            api_server_program: program,
            ca,
            front_proxy_ca,
            kubernetes,
            admin,
            started_in: Duration::ZERO,
            site,
        };
        plane.wait_until_ready().await?;
        if controllers {
            plane.controller_manager = Some(plane.start_controller_manager(&dir, &controller_flags)?);
        }
        if scheduler {
            plane.scheduler = Some(plane.start_scheduler(&dir)?);
        }
        plane.started_in = begin.elapsed();
        Ok(plane)
    }

    /// Returns its site.
    #[must_use]
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Returns the time from the first process to ready.
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Returns the Kubernetes programs it runs.
    #[must_use]
    pub fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// Returns the URL of the API server, reachable from this process, from nodes and from pods.
    #[must_use]
    pub fn url(&self) -> String {
        self.api_server_program.url()
    }

    /// Returns the CA of the cluster.
    #[must_use]
    pub fn ca(&self) -> &CertificateAuthority {
        &self.ca
    }

    /// Returns the front proxy CA (`--requestheader-client-ca-file`), whose clients may act as other users: an authenticating
    /// proxy in front of the API server.
    #[must_use]
    pub fn front_proxy_ca(&self) -> &CertificateAuthority {
        &self.front_proxy_ca
    }

    /// Returns the cluster administrator.
    #[must_use]
    pub fn admin(&self) -> &User {
        &self.admin
    }

    /// Issues a user with a client certificate and no permissions beyond RBAC.
    pub fn user(&self, name: &str, group: Option<&str>) -> Result<User> {
        User::issue(&self.ca, &self.url(), name, group)
    }

    /// Returns a new client of the administrator. Not cached, because a client is bound to the runtime it was created in.
    pub async fn client(&self) -> Result<Client> {
        self.admin.client("outrigger-testbed").await
    }

    /// Returns the audit log.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit::at(self.api_server_program.audit_log())
    }

    /// Returns the process ID of the API server.
    pub fn api_server_pid(&self) -> Result<u32> {
        self.api_server().pid()
    }

    /// Returns the process ID of the scheduler.
    pub fn scheduler_pid(&self) -> Result<u32> {
        let scheduler = self.scheduler.as_ref();
        scheduler.ok_or_else(|| Error::Other("control plane has no scheduler".into()))?.pid()
    }

    /// Returns a `kubectl` command of the administrator, without arguments.
    pub fn kubectl(&self) -> Result<Command> {
        self.kubectl_as(&self.admin)
    }

    /// Returns a `kubectl` command of a user, without arguments.
    pub fn kubectl_as(&self, user: &User) -> Result<Command> {
        let kubeconfig = user.write_kubeconfig(self.site.dir())?;
        let mut command = Command::new(self.kubernetes.program("kubectl"));
        command.env("KUBECONFIG", kubeconfig);
        Ok(command)
    }

    /// Returns the raw value of a key in etcd, possibly encrypted.
    pub async fn etcd_value(&self, key: &str) -> Result<Option<Vec<u8>>> {
        etcd::get(&self.site, &self.ca, key).await
    }

    /// Returns the command line of the API server, for starting another one in a pod. Repeated flags override earlier ones.
    #[must_use]
    pub fn api_server_command(&self) -> Vec<String> {
        self.api_server_program.command(&self.kubernetes)
    }

    /// Restarts the API server with the same address and storage and waits until it is ready.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server()?;
        self.start_api_server().await
    }

    /// Stops the API server; its address refuses connections afterwards.
    pub fn stop_api_server(&self) -> Result<()> {
        self.api_server().stop(GRACE).map(drop)
    }

    /// Starts a stopped API server and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        let started = self.api_server_program.start(&self.site, &self.kubernetes)?;
        *self.api_server() = started;
        self.wait_until_ready().await
    }

    fn api_server(&self) -> std::sync::MutexGuard<'_, Process> {
        lock(&self.api_server)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = self.client().await?;
        wait::until("kube-apiserver to become ready", READY_WITHIN, || async {
            // Otherwise an exited process would be reported only at the deadline, as "connection refused".
            self.etcd.check_alive().map_err(|error| error.to_string())?;
            self.api_server().check_alive().map_err(|error| error.to_string())?;
            let request =
                http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
            client.request_text(request).await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    fn start_controller_manager(&self, dir: &Path, more_flags: &[String]) -> Result<SupervisedProcess> {
        let program = self
            .component("kube-controller-manager", dir)?
            .flag("use-service-account-credentials", "true")
            .flag("service-account-private-key-file", self.api_server_program.token_key())
            .flag("root-ca-file", self.api_server_program.ca_file())
            .flag("cluster-signing-cert-file", self.api_server_program.ca_file())
            .flag("cluster-signing-key-file", self.api_server_program.ca_key_file())
            .flag("service-cluster-ip-range", address::SERVICE_RANGE)
            .args(more_flags);
        SupervisedProcess::start(program, &self.site)
    }

    fn start_scheduler(&self, dir: &Path) -> Result<SupervisedProcess> {
        SupervisedProcess::start(self.component("kube-scheduler", dir)?, &self.site)
    }

    /// Returns a component with its own credentials, without leader election.
    fn component(&self, name: &str, dir: &Path) -> Result<Program> {
        let kubeconfig = self.user(&format!("system:{name}"), None)?.write_kubeconfig(dir)?;
        let (certificate, key) = self.component_certificate(name, dir)?;
        let program = Program::new(name, self.kubernetes.program(name))
            .flag("kubeconfig", &kubeconfig)
            .flag("authentication-kubeconfig", &kubeconfig)
            .flag("authorization-kubeconfig", &kubeconfig)
            .flag("bind-address", "127.0.0.1")
            .flag("tls-cert-file", certificate)
            .flag("tls-private-key-file", key)
            .flag("leader-elect", "false")
            .in_netns(self.site.netns());
        Ok(program)
    }

    /// Issues the serving certificate of a component, which would otherwise write a self-signed one to a shared directory.
    fn component_certificate(&self, name: &str, dir: &Path) -> Result<(PathBuf, PathBuf)> {
        let names =
            ServerNames { dns: vec!["localhost".into()], addresses: vec![IpAddr::from([127, 0, 0, 1])] };
        self.ca.issue_server(name, &names)?.write(dir, name)
    }

    /// Fails if a process of the control plane has exited.
    pub fn check_alive(&self) -> Result<()> {
        self.etcd.check_alive()?;
        self.api_server().check_alive()?;
        for process in [&self.controller_manager, &self.scheduler].into_iter().flatten() {
            process.check_alive()?;
        }
        Ok(())
    }
}

/// Namespaces of tests.
impl ControlPlane {
    /// Creates a namespace with a generated name that starts with `prefix` and returns the name.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        use k8s_openapi::api::core::v1::Namespace;
        use kube::api::{Api, ObjectMeta, PostParams};

        let api: Api<Namespace> = Api::all(self.client().await?);
        // At most 63 characters, of which the API server adds six.
        let prefix: String = prefix.replace('_', "-").chars().take(56).collect();
        let generate_name = format!("{}-", prefix.trim_end_matches('-'));
        let metadata = ObjectMeta { generate_name: Some(generate_name), ..ObjectMeta::default() };
        let created =
            api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
        created
            .metadata
            .name
            .ok_or_else(|| Error::Other("the API server returned a namespace without a name".into()))
    }
}
