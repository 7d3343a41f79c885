//! A toy controller as a process, and the ground it stands on.

use std::io::{BufRead, BufReader};
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

use crate::toy::{self, Orders, Toy};

/// Makes this program a toy controller, with these orders.
pub const ROLE: &str = "OUTRIGGER_RUNTIME_TOY";

/// How long things that take a moment may take.
pub const SOON: Duration = Duration::from_secs(30);

/// A lease that nobody loses by accident, and one that is over soon.
pub const LONG_LEASE: [u64; 3] = [60_000, 45_000, 1_000];
pub const SHORT_LEASE: [u64; 3] = [6_000, 4_000, 500];

/// A running toy controller; killed when dropped.
pub struct Process {
    child: Child,
    admin: String,
    log: PathBuf,
}

impl Process {
    /// Starts a toy controller of this name and waits until it serves.
    pub fn start(
        cx: &Context,
        user: &User,
        namespace: &str,
        identity: &str,
        lease: [u64; 3],
    ) -> Result<Self, Error> {
        Self::start_with(cx, user, namespace, identity, |orders| orders.lease = lease)
    }

    /// The same with other orders than usual.
    pub fn start_with(
        cx: &Context,
        user: &User,
        namespace: &str,
        identity: &str,
        change: impl FnOnce(&mut Orders),
    ) -> Result<Self, Error> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::Io { what, source }
        };
        let folder = cx.logs().to_owned();
        let mut orders = Orders {
            kubeconfig: user.write_kubeconfig(&folder)?,
            namespace: namespace.into(),
            identity: identity.into(),
            lease: LONG_LEASE,
            watch_life: None,
            traces_to: None,
        };
        change(&mut orders);
        let log = folder.join(format!("{identity}.log"));
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(failed("opening its log"))?;
        let mut child = Command::new(std::env::current_exe().map_err(failed("finding this program"))?)
            .env(ROLE, json!(orders).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(failed("starting a toy controller"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // Told or not, the receiver decides.
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = sender.send(line.trim().to_owned());
        });
        let admin = receiver.recv_timeout(SOON).unwrap_or_default();
        let started = Self { child, admin, log };
        if started.admin.is_empty() {
            return Err(Error::Refused(format!(
                "{identity} did not start: {}",
                testbed::harness::logs::tail(&started.log, 5)
            )));
        }
        Ok(started)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    /// Waits for its end.
    pub async fn ended(&mut self, within: Duration) -> Result<(ExitStatus, Duration), Error> {
        let begin = Instant::now();
        let status = wait::until("its end", within, || {
            let ended = self.child.try_wait();
            async move {
                match ended {
                    Ok(Some(status)) => Ok(status),
                    other => Err(format!("{other:?}")),
                }
            }
        })
        .await?;
        Ok((status, begin.elapsed()))
    }

    /// Asks its admin server: code and body.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut stream = tokio::net::TcpStream::connect(&self.admin).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: toy\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((code, body.to_owned()))
    }

    /// Its `/debug/state.json`.
    pub async fn state(&self) -> Result<Value, Error> {
        let ask = self.ask("GET", "/debug/state.json", "").await;
        let (_, body) = ask.map_err(|source| Error::Io { what: "asking for the state".into(), source })?;
        Ok(serde_json::from_str(&body)?)
    }

    /// Waits until it leads.
    pub async fn leads(&self) -> Result<(), Error> {
        wait::until("its leading", SOON, || async {
            let state = self.state().await?;
            if state["leading"] == true {
                Ok(())
            } else {
                Err(Error::Refused(format!("its state is {state}")))
            }
        })
        .await
    }

    /// One of its metrics: the sum over all label sets that hold `labels`.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let (_, text) = self.ask("GET", "/metrics", "").await.expect("it serves its metrics");
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Its resident memory, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Toys of one test.
pub struct Ground {
    /// A client that no fault hits.
    pub client: Client,
    /// The test's namespace.
    pub namespace: String,
    /// Its toys.
    pub toys: Api<Toy>,
    /// Their ConfigMaps.
    pub maps: Api<ConfigMap>,
}

impl Ground {
    /// Installs the CRD, if it is not there, and makes a namespace.
    pub async fn on(cx: &Context, plane: &ControlPlane) -> Result<Self, Error> {
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

    /// Makes a toy, or changes its size.
    pub async fn set(&self, name: &str, size: i64) -> Result<Toy, Error> {
        let toy = json!({ "apiVersion": "test.outrigger.dev/v1", "kind": "Toy", "metadata": { "name": name }, "spec": { "size": size } });
        Ok(self.toys.patch(name, &PatchParams::apply("person"), &Patch::Apply(&toy)).await?)
    }

    /// Makes an object of the kind that may hold anything.
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

    /// Waits until a toy's ConfigMap and status say its size; returns how long that took.
    pub async fn settled(&self, name: &str, size: i64, within: Duration) -> Result<Duration, Error> {
        let begin = Instant::now();
        wait::until(format!("{name} of size {size}"), within, || async {
            let map = self.maps.get_opt(name).await?.and_then(|map| map.data).unwrap_or_default();
            let status = self.toys.get(name).await?.status;
            if map.get("size").is_some_and(|said| *said == size.to_string())
                && status.as_ref().is_some_and(|status| status.seen_size == size)
            {
                return Ok(());
            }
            Err(Error::Refused(format!("its ConfigMap says {map:?}, its status {status:?}")))
        })
        .await?;
        Ok(begin.elapsed())
    }
}
