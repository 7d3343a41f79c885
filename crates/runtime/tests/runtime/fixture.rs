//! The toy controller as a process, and its objects.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::cluster::control_plane::User;
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::toy::{self, Toy, ToyConfig};

/// The environment variable with the [`ToyConfig`]. If set, this program is the toy controller.
pub const TOY_CONFIG: &str = "OUTRIGGER_RUNTIME_TOY";

/// Timeout for anything that normally takes a moment.
pub const SOON: Duration = Duration::from_secs(30);

/// Lease timing in milliseconds: one that is not lost by accident, and one that expires soon.
pub const LONG_LEASE: [u64; 3] = [60_000, 45_000, 1_000];
pub const SHORT_LEASE: [u64; 3] = [6_000, 4_000, 500];

/// A running toy controller; killed when dropped.
pub struct Process {
    child: Child,
    /// Port of metrics and probes, on all addresses.
    pub metrics_port: u16,
    /// Port of the admin server, on loopback.
    pub admin_port: u16,
    log: PathBuf,
}

impl Process {
    /// Starts a toy controller and waits until its servers listen.
    pub fn start(
        cx: &Context,
        user: &User,
        namespace: &str,
        identity: &str,
        lease: [u64; 3],
    ) -> Result<Self, Error> {
        Self::start_with(cx, user, namespace, identity, |config| config.lease = lease)
    }

    /// Like [`start`](Self::start), with a modified configuration.
    pub fn start_with(
        cx: &Context,
        user: &User,
        namespace: &str,
        identity: &str,
        change: impl FnOnce(&mut ToyConfig),
    ) -> Result<Self, Error> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::Io { what, source }
        };
        let folder = cx.logs().to_owned();
        let mut config = ToyConfig {
            kubeconfig: user.write_kubeconfig(&folder)?,
            namespace: namespace.into(),
            identity: identity.into(),
            lease: LONG_LEASE,
            watch_timeout: None,
            otlp_endpoint: None,
        };
        change(&mut config);
        let log = folder.join(format!("{identity}.log"));
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(failed("opening its log"))?;
        let mut child = Command::new(std::env::current_exe().map_err(failed("finding this program"))?)
            .env(TOY_CONFIG, json!(config).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(failed("starting a toy controller"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // On failure the line is empty, which the receiver treats as an error.
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = sender.send(line.trim().to_owned());
        });
        let ports = receiver.recv_timeout(SOON).unwrap_or_default();
        let mut ports = ports.split(' ').map(|port| port.parse().unwrap_or_default());
        let mut port = || ports.next().unwrap_or_default();
        let started = Self { child, metrics_port: port(), admin_port: port(), log };
        if started.admin_port == 0 {
            return Err(Error::Other(format!(
                "{identity} did not start: {}",
                testbed::harness::logs::tail(&started.log, 5)
            )));
        }
        Ok(started)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is running");
    }

    /// Waits for the process to exit.
    pub async fn wait_exit(&mut self, timeout: Duration) -> Result<(ExitStatus, Duration), Error> {
        let start = Instant::now();
        let status = wait::until("the process to exit", timeout, || {
            let exited = self.child.try_wait();
            async move {
                match exited {
                    Ok(Some(status)) => Ok(status),
                    other => Err(format!("{other:?}")),
                }
            }
        })
        .await?;
        Ok((status, start.elapsed()))
    }

    /// Sends a request to the server of metrics and probes. Returns status code and body.
    pub async fn request(&self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        request((Ipv4Addr::LOCALHOST, self.metrics_port), method, path, body).await
    }

    /// Sends a request to the admin server. Returns status code and body.
    pub async fn request_admin(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<(u16, String)> {
        request((Ipv4Addr::LOCALHOST, self.admin_port), method, path, body).await
    }

    /// Returns `/debug/state.json`.
    pub async fn state(&self) -> Result<Value, Error> {
        let response = self.request_admin("GET", "/debug/state.json", "").await;
        let (_, body) =
            response.map_err(|source| Error::Io { what: "reading the debug state".into(), source })?;
        Ok(serde_json::from_str(&body)?)
    }

    /// Waits until the process is the leader.
    pub async fn wait_leading(&self) -> Result<(), Error> {
        wait::until("the process to lead", SOON, || async {
            let state = self.state().await?;
            if state["leading"] == true { Ok(()) } else { Err(Error::Other(format!("its state is {state}"))) }
        })
        .await
    }

    /// Waits until the readiness probe succeeds: a leader may not have read all objects yet.
    pub async fn wait_ready(&self) -> Result<(), Error> {
        wait::until("the process to be ready", SOON, || async {
            match self.request("GET", "/readyz", "").await {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Returns the sum of a metric over all label sets that contain `labels`.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let (_, text) = self.request("GET", "/metrics", "").await.expect("metrics are served");
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Returns the resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request. Returns status code and body.
pub async fn request(
    address: (Ipv4Addr, u16),
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: toy\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let code = response.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((code, body.to_owned()))
}

/// The objects of a test.
pub struct Fixture {
    /// A client without injected faults.
    pub client: Client,
    /// The namespace of the test.
    pub namespace: String,
    /// The toys in it.
    pub toys: Api<Toy>,
    /// The ConfigMaps in it.
    pub maps: Api<ConfigMap>,
}

impl Fixture {
    /// Installs the CRD and creates a namespace.
    pub async fn new(cx: &Context, plane: &ControlPlane) -> Result<Self, Error> {
        let client = plane.client().await?;
        let kind = kube::core::ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&());
        let crds: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        crds.patch("toys.test.outrigger.dev", &PatchParams::apply("test"), &Patch::Apply(&toy::crd()))
            .await?;
        let namespace = plane.namespace(cx.name()).await?;
        let toys: Api<Toy> = Api::namespaced(client.clone(), &namespace);
        let everything = kube::api::ListParams::default();
        wait::until("the kind Toy", SOON, || toys.list(&everything)).await?;
        Ok(Self { maps: Api::namespaced(client.clone(), &namespace), client, namespace, toys })
    }

    /// Creates a toy, or changes its size.
    pub async fn set(&self, name: &str, size: i64) -> Result<Toy, Error> {
        let toy = json!({ "apiVersion": "test.outrigger.dev/v1", "kind": "Toy", "metadata": { "name": name }, "spec": { "size": size } });
        Ok(self.toys.patch(name, &PatchParams::apply("person"), &Patch::Apply(&toy)).await?)
    }

    /// Creates or replaces a toy with an arbitrary spec, which may be invalid.
    pub async fn set_raw(&self, name: &str, spec: Value) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &kube::core::ApiResource::erase::<Toy>(&()),
        );
        let mut toy = DynamicObject::new(name, &kube::core::ApiResource::erase::<Toy>(&()));
        toy.data = json!({ "spec": spec });
        match api.get_opt(name).await? {
            None => drop(api.create(&PostParams::default(), &toy).await?),
            Some(live) => {
                toy.metadata.resource_version = live.resource_version();
                drop(api.replace(name, &PostParams::default(), &toy).await?);
            }
        }
        Ok(())
    }

    /// Waits until a toy's ConfigMap and status have its size. Returns how long that took.
    pub async fn wait_reconciled(&self, name: &str, size: i64, timeout: Duration) -> Result<Duration, Error> {
        let start = Instant::now();
        wait::until(format!("{name} to have size {size}"), timeout, || async {
            let map = self.maps.get_opt(name).await?.and_then(|map| map.data).unwrap_or_default();
            let status = self.toys.get(name).await?.status;
            if map.get("size").is_some_and(|stored| *stored == size.to_string())
                && status.as_ref().is_some_and(|status| status.seen_size == size)
            {
                return Ok(());
            }
            Err(Error::Other(format!("ConfigMap {map:?}, status {status:?}")))
        })
        .await?;
        Ok(start.elapsed())
    }
}
