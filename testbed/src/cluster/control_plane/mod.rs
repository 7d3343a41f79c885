//! A real control plane: etcd and kube-apiserver, on request controller-manager and scheduler, in a network namespace of
//! its own, with an authority of its own.

mod api_server;
mod audit;
mod encryption;
mod etcd;
mod kubeconfig;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;

pub use self::audit::{Audit, AuditReader, AuditedRequest};
pub use self::encryption::KmsProvider;
pub use self::kubeconfig::User;
use crate::cluster::address;
use crate::cluster::parts::{Kubernetes, Part};
use crate::cluster::pki::{Authority, ServerNames};
use crate::cluster::site::Site;
use crate::error::{Error, IoContext, Result};
use crate::harness::wait;
use crate::process::supervised::Supervised;
use crate::process::{Process, Program};

/// How long a part of the control plane may take to become ready; a warm one takes three seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A SIGTERMed API server with open watches lingers for up to a minute; nobody waits that long.
const GRACE: Duration = Duration::from_secs(2);

/// What a control plane is to have.
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
    /// With kube-controller-manager.
    #[must_use]
    pub fn controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// With kube-scheduler.
    #[must_use]
    pub fn scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// Secrets are encrypted by a KMS v2 plugin, which must be listening already.
    #[must_use]
    pub fn encrypted_by(mut self, provider: KmsProvider) -> Self {
        self.kms = Some(provider);
        self
    }

    /// One more flag for kube-apiserver, as `--name=value`.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }

    /// One more flag for kube-controller-manager, as `--name=value`. By default each of its controllers asks the API server
    /// twenty times a second: a measurement of many objects would measure that.
    #[must_use]
    pub fn controller_flag(mut self, flag: impl Into<String>) -> Self {
        self.controller_flags.push(flag.into());
        self
    }

    /// Starts it and returns when it serves.
    pub async fn start(self) -> Result<ControlPlane> {
        ControlPlane::start(self).await
    }
}

/// A running control plane; it ends when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    // Dropped in this order: who depends on the next ends first.
    controller_manager: Option<Supervised>,
    scheduler: Option<Supervised>,
    api_server: Mutex<Process>,
    etcd: Process,
    api_server_program: api_server::ApiServer,
    authority: Authority,
    front_proxy_authority: Authority,
    kubernetes: Kubernetes,
    admin: User,
    started_in: Duration,
    site: Arc<Site>,
}

impl ControlPlane {
    /// A control plane on a site, which may hold more than that.
    #[must_use]
    pub fn on(site: &Arc<Site>) -> Builder {
        Builder {
            site: site.clone(),
            controllers: false,
            scheduler: false,
            kms: None,
            api_server_flags: Vec::new(),
            controller_flags: Vec::new(),
        }
    }

    async fn start(wanted: Builder) -> Result<Self> {
        let Builder { site, controllers, scheduler, kms, api_server_flags, controller_flags } = wanted;
        let kubernetes = Part::kubernetes()?;
        let begin = Instant::now();
        let folder = site.dir().join("control-plane");
        std::fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;

        let authority = Authority::new(&format!("outrigger-testbed-{}", site.number()))?;
        let front_proxy_authority =
            Authority::new(&format!("outrigger-testbed-{}-front-proxy", site.number()))?;
        let etcd = etcd::start(&site, &kubernetes, &authority, &folder)?;
        let program =
            api_server::ApiServer::prepare(&site, &authority, &front_proxy_authority, kms, api_server_flags)?;
        let api_server = program.start(&site, &kubernetes)?;
        let admin = User::issue(&authority, &program.url(), "admin", Some("system:masters"))?;

        let mut plane = Self {
            controller_manager: None,
            scheduler: None,
            api_server: Mutex::new(api_server),
            etcd,
            api_server_program: program,
            authority,
            front_proxy_authority,
            kubernetes,
            admin,
            started_in: Duration::ZERO,
            site,
        };
        plane.wait_until_ready().await?;
        if controllers {
            plane.controller_manager = Some(plane.start_controller_manager(&folder, &controller_flags)?);
        }
        if scheduler {
            plane.scheduler = Some(plane.start_scheduler(&folder)?);
        }
        plane.started_in = begin.elapsed();
        Ok(plane)
    }

    /// The site it stands on.
    #[must_use]
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// How long it took from the first process to a server that answers "ready".
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// The Kubernetes programs it was started from.
    #[must_use]
    pub fn kubernetes(&self) -> &Kubernetes {
        &self.kubernetes
    }

    /// The API server's address, reachable from this process, from nodes and from pods.
    #[must_use]
    pub fn url(&self) -> String {
        self.api_server_program.url()
    }

    /// The cluster's authority.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The authority whose clients may speak for other users: what an authenticating proxy in front of the API server
    /// presents itself with.
    #[must_use]
    pub fn front_proxy_authority(&self) -> &Authority {
        &self.front_proxy_authority
    }

    /// The user who may do everything.
    #[must_use]
    pub fn admin(&self) -> &User {
        &self.admin
    }

    /// A new user with a client certificate; what it may do is up to RBAC.
    pub fn user(&self, name: &str, group: Option<&str>) -> Result<User> {
        User::issue(&self.authority, &self.url(), name, group)
    }

    /// A client of the administrator. Made anew at each call: a client belongs to the runtime it was made in.
    pub async fn client(&self) -> Result<Client> {
        self.admin.client("outrigger-testbed").await
    }

    /// What the API server was asked, by whom.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit::at(self.api_server_program.audit_log())
    }

    /// The API server's process.
    pub fn api_server_pid(&self) -> Result<u32> {
        self.api_server().pid()
    }

    /// The scheduler's process.
    pub fn scheduler_pid(&self) -> Result<u32> {
        let scheduler = self.scheduler.as_ref();
        scheduler.ok_or_else(|| Error::Refused("there is no scheduler".into()))?.pid()
    }

    /// A `kubectl` of the administrator, ready for its arguments.
    pub fn kubectl(&self) -> Result<Command> {
        self.kubectl_as(&self.admin)
    }

    /// A `kubectl` of any user, ready for its arguments.
    pub fn kubectl_as(&self, user: &User) -> Result<Command> {
        let kubeconfig = user.write_kubeconfig(self.site.dir())?;
        let mut command = Command::new(self.kubernetes.program("kubectl"));
        command.env("KUBECONFIG", kubeconfig);
        Ok(command)
    }

    /// Value of a key as it lies in etcd, encrypted where the API server encrypts.
    pub async fn stored(&self, key: &str) -> Result<Option<Vec<u8>>> {
        etcd::get(&self.site, &self.authority, key).await
    }

    /// The command line of its API server: for another one beside it, in a pod. A flag that is given again counts.
    #[must_use]
    pub fn api_server_command(&self) -> Vec<String> {
        self.api_server_program.command(&self.kubernetes)
    }

    /// Restarts the API server on the same address with the same storage, and waits until it serves again.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server()?;
        self.start_api_server().await
    }

    /// Stops the API server; its address refuses connections from here on.
    pub fn stop_api_server(&self) -> Result<()> {
        self.api_server().stop(GRACE).map(drop)
    }

    /// Starts a stopped API server again and waits until it serves.
    pub async fn start_api_server(&self) -> Result<()> {
        let started = self.api_server_program.start(&self.site, &self.kubernetes)?;
        *self.api_server() = started;
        self.wait_until_ready().await
    }

    fn api_server(&self) -> std::sync::MutexGuard<'_, Process> {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = self.client().await?;
        wait::until("a ready kube-apiserver", READY_WITHIN, || async {
            // A dead process would otherwise be waited for until the deadline, with "connection refused" as the reason.
            self.etcd.check_alive().map_err(|error| error.to_string())?;
            self.api_server().check_alive().map_err(|error| error.to_string())?;
            let request =
                http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
            client.request_text(request).await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    fn start_controller_manager(&self, folder: &Path, more_flags: &[String]) -> Result<Supervised> {
        let program = self
            .component("kube-controller-manager", folder)?
            .flag("use-service-account-credentials", "true")
            .flag("service-account-private-key-file", self.api_server_program.token_key())
            .flag("root-ca-file", self.api_server_program.authority_file())
            .flag("cluster-signing-cert-file", self.api_server_program.authority_file())
            .flag("cluster-signing-key-file", self.api_server_program.authority_key_file())
            .flag("service-cluster-ip-range", address::SERVICE_RANGE)
            .args(more_flags);
        Supervised::start(program, &self.site)
    }

    fn start_scheduler(&self, folder: &Path) -> Result<Supervised> {
        Supervised::start(self.component("kube-scheduler", folder)?, &self.site)
    }

    /// A component with a name and credentials of its own, and nobody beside it.
    fn component(&self, name: &str, folder: &Path) -> Result<Program> {
        let kubeconfig = self.user(&format!("system:{name}"), None)?.write_kubeconfig(folder)?;
        let (certificate, key) = self.component_certificate(name, folder)?;
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

    /// Without one, a component writes a self-signed pair into a folder of the whole machine.
    fn component_certificate(&self, name: &str, folder: &Path) -> Result<(PathBuf, PathBuf)> {
        let names =
            ServerNames { dns: vec!["localhost".into()], addresses: vec![IpAddr::from([127, 0, 0, 1])] };
        self.authority.server(name, &names)?.write(folder, name)
    }

    /// Fails when a process of the control plane has ended by itself.
    pub fn check_alive(&self) -> Result<()> {
        self.etcd.check_alive()?;
        self.api_server().check_alive()?;
        for process in [&self.controller_manager, &self.scheduler].into_iter().flatten() {
            process.check_alive()?;
        }
        Ok(())
    }
}

/// Where a namespaced test starts: a namespace of its own.
impl ControlPlane {
    /// Makes a namespace whose name begins with `prefix`, and returns its name.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        use k8s_openapi::api::core::v1::Namespace;
        use kube::api::{Api, ObjectMeta, PostParams};

        let api: Api<Namespace> = Api::all(self.client().await?);
        // A namespace's name has 63 characters at most, six of which the API server adds.
        let prefix: String = prefix.replace('_', "-").chars().take(56).collect();
        let generate_name = format!("{}-", prefix.trim_end_matches('-'));
        let metadata = ObjectMeta { generate_name: Some(generate_name), ..ObjectMeta::default() };
        let made =
            api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
        made.metadata
            .name
            .ok_or_else(|| Error::Refused("the API server returned a namespace without a name".into()))
    }
}
