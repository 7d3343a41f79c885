//! The scripts of seid's containers in a real shell, with a fake seid that prints its arguments.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use api::names::env::sidecar::SEID_CONTROL_DIR;
use api::sei_node::SidecarConfig;
use k8s_openapi::api::core::v1::Container;
use plan::render;
use tempfile::TempDir;

use crate::{cases, node};

/// A directory with a home, a fake seid, and a `sleep` that returns at once.
struct Sandbox {
    dir: TempDir,
}

impl Sandbox {
    /// Returns a sandbox whose seid prints its arguments, then runs a script.
    fn with_seid(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = Self { dir };
        fs::create_dir_all(sandbox.path("bin")).unwrap();
        sandbox.program("seid", &format!("echo \"seid $*\"\n{script}"));
        sandbox.program("sleep", "echo waited >> \"$HOME/waits\"");
        sandbox
    }

    fn program(&self, name: &str, body: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/bash\n{body}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, container: &Container) -> Child {
        let command = container.command.as_deref().unwrap();
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let control = self.path("control");
        Command::new(&command[0])
            .args(&command[1..])
            .args(container.args.iter().flatten())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TERMINATION_LOG", self.path("termination-log"))
            .env("PATH", path)
            .envs(control.is_dir().then_some((SEID_CONTROL_DIR, control)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Creates the control directory.
    fn with_control(self) -> Self {
        fs::create_dir(self.path("control")).unwrap();
        self
    }

    /// Writes a file of the control directory by rename.
    fn write_control(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path("control/new"), content).unwrap();
        fs::rename(self.path("control/new"), self.path("control").join(name)).unwrap();
    }

    fn state(&self) -> String {
        fs::read_to_string(self.path("control/state")).unwrap_or_default()
    }

    fn wait_for_state(&self, state: &str) {
        wait_until(state, || self.state() == format!("{state}\n"));
    }

    fn run(&self, container: &Container) -> Output {
        self.start(container).wait_with_output().unwrap()
    }
}

/// Returns stdout of a container.
fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a fake sidecar that gives these answers in order. Returns its port and the received request lines.
fn sidecar(answers: &'static [&'static str]) -> (i32, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = i32::from(listener.local_addr().unwrap().port());
    let requests = thread::spawn(move || {
        let mut lines_received = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines();
            lines_received.push(lines.next().unwrap().unwrap());
            let headers: Vec<String> =
                lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            assert!(headers.iter().any(|line| line.starts_with("Host: ")), "{headers:?}");
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
        lines_received
    });
    (port, requests)
}

const NOT_READY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\n200";
const READY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Returns a container of a case, with a sidecar port.
fn container(case: &str, name: &str, port: i32) -> Container {
    let mut node = node(case);
    node.spec.sidecar = Some(SidecarConfig { port, ..SidecarConfig::default() });
    let platform = cases::platform();
    let template = if case == "bootstrap" {
        render::bootstrap_job(&node, &platform).unwrap().spec.unwrap().template
    } else {
        render::stateful_set(&node, &platform).unwrap().spec.unwrap().template
    };
    let pod = template.spec.unwrap();
    let mut containers = pod.init_containers.into_iter().flatten().chain(pod.containers);
    containers.find(|container| container.name == name).unwrap()
}

fn waits(home: &Path) -> usize {
    fs::read_to_string(home.join("waits")).map_or(0, |text| text.lines().count())
}

#[test]
fn home_is_initialized_once() {
    let sandbox = Sandbox::with_seid("mkdir -p \"$HOME/config\" && touch \"$HOME/config/genesis.json\"");
    let init = container("full", "seid-init", 7777);
    let home = sandbox.dir.path().display().to_string();
    let first = sandbox.run(&init);
    assert_eq!(
        stdout(&first),
        format!("seid init atlantic-2 --chain-id atlantic-2 --home {home} --overwrite\n")
    );
    assert!(first.status.success() && sandbox.path("tmp").is_dir());
    fs::remove_dir(sandbox.path("tmp")).unwrap();
    let second = sandbox.run(&init);
    assert_eq!(stdout(&second), "", "a second init would overwrite the keys of the node");
    assert!(second.status.success() && sandbox.path("tmp").is_dir());
}

#[test]
fn failed_init_fails_the_container() {
    let sandbox = Sandbox::with_seid("exit 7");
    assert_eq!(sandbox.run(&container("full", "seid-init", 7777)).status.code(), Some(7));
}

#[test]
fn chain_id_cannot_inject_a_command() {
    let sandbox = Sandbox::with_seid("");
    let mut node = node("full");
    node.spec.chain_id = "a\"; touch $HOME/injected; \"".into();
    let set = render::stateful_set(&node, &cases::platform()).unwrap();
    let init = set.spec.unwrap().template.spec.unwrap().init_containers.unwrap().remove(0);
    assert!(stdout(&sandbox.run(&init)).starts_with("seid init a\"; touch"));
    assert!(!sandbox.path("injected").exists());
}

#[test]
fn seid_starts_only_after_the_sidecar_is_ready() {
    let sandbox = Sandbox::with_seid("exit 3");
    let (port, requests) = sidecar(&[NOT_READY, "", "HTTP/1.1 404 Not Found\r\n\r\n", READY]);
    let output = sandbox.run(&container("full", "seid", port));
    assert_eq!(requests.join().unwrap(), ["GET /v0/healthz HTTP/1.1"; 4]);
    let home = sandbox.dir.path();
    assert_eq!(
        stdout(&output),
        format!(
            "waiting for the sidecar on port {port} to report ready\nseid start --home {}\n",
            home.display()
        )
    );
    assert_eq!(waits(home), 3);
    assert_eq!(output.status.code(), Some(3), "the exit code of seid");
}

#[test]
fn unreachable_sidecar_is_polled() {
    let sandbox = Sandbox::with_seid("");
    // Terminated in the third wait.
    let sleep = "echo waited >> \"$HOME/waits\"\n[ \"$(wc -l < \"$HOME/waits\")\" -lt 3 ] || kill $PPID";
    sandbox.program("sleep", sleep);
    // Nothing listens on a privileged port.
    let output = sandbox.run(&container("full", "seid", 1));
    assert_eq!(waits(sandbox.dir.path()), 3);
    assert_eq!(stdout(&output), "waiting for the sidecar on port 1 to report ready\n");
}

#[test]
fn bootstrap_at_its_height_succeeds() {
    // seid sends itself both signals, and dies of the one that is handled first.
    for signal in ["INT", "TERM"] {
        let sandbox = Sandbox::with_seid(&format!("kill -{signal} $$"));
        let (port, requests) = sidecar(&[READY]);
        let output = sandbox.run(&container("bootstrap", "seid", port));
        requests.join().unwrap();
        let home = sandbox.dir.path().display();
        assert!(
            stdout(&output).ends_with(&format!("seid start --home {home} --halt-height 4000\n")),
            "{signal}: {output:?}"
        );
        assert_eq!(output.status.code(), Some(0), "{signal}: {output:?}");
    }
}

#[test]
fn bootstrap_exit_code_follows_seid() {
    for (script, code) in
        [("exit 1", 1), ("exit 0", 0), ("kill -KILL $$", 137), ("exit 130", 0), ("exit 143", 0)]
    {
        let sandbox = Sandbox::with_seid(script);
        let (port, requests) = sidecar(&[READY]);
        let output = sandbox.run(&container("bootstrap", "seid", port));
        requests.join().unwrap();
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
    }
}

#[test]
fn terminated_bootstrap_shuts_seid_down_and_fails() {
    let sandbox = Sandbox::with_seid(
        "trap 'echo seid is done; exit 0' TERM\necho up > \"$HOME/up\"\nwhile :; do /bin/sleep 0.05; done",
    );
    let (port, requests) = sidecar(&[READY]);
    let child = sandbox.start(&container("bootstrap", "seid", port));
    requests.join().unwrap();
    let up = sandbox.path("up");
    wait_until("seid is up", || up.exists());
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).ends_with("seid is done\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
}

#[test]
fn terminated_container_shuts_seid_down() {
    let sandbox = Sandbox::with_seid(
        "trap 'echo seid is done; exit 0' TERM\necho up > \"$HOME/up\"\nwhile :; do /bin/sleep 0.05; done",
    );
    for signal in ["-TERM", "-INT"] {
        let (port, requests) = sidecar(&[READY]);
        let child = sandbox.start(&container("full", "seid", port));
        requests.join().unwrap();
        let up = sandbox.path("up");
        wait_until("seid is up", || up.exists());
        fs::remove_file(up).unwrap();
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert!(stdout(&output).ends_with("seid is done\n"), "{signal}: {output:?}");
    }
}

/// A seid that reports the signal and exits.
const STOPPABLE: &str =
    "trap 'echo seid got TERM; exit 0' TERM\necho up > \"$HOME/up\"\nwhile :; do /bin/sleep 0.05; done";

/// Starts a container whose sidecar is ready, and waits until seid is up.
fn start_seid(sandbox: &Sandbox, case: &str) -> Child {
    let (port, requests) = sidecar(&[READY]);
    let child = sandbox.start(&container(case, "seid", port));
    requests.join().unwrap();
    let up = sandbox.path("up");
    wait_until("seid is up", || up.exists());
    fs::remove_file(up).unwrap();
    child
}

fn terminate(child: Child) -> Output {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    child.wait_with_output().unwrap()
}

#[test]
fn request_signals_seid_once_across_restarts() {
    let sandbox = Sandbox::with_seid(&format!("echo 'panic: kept' >&2\n{STOPPABLE}")).with_control();
    let child = start_seid(&sandbox, "full");
    sandbox.wait_for_state("running -");
    sandbox.write_control("request", "r-1 TERM\n");
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).ends_with("seid got TERM\n"), "{output:?}");
    assert_eq!((output.status.code(), sandbox.state().as_str()), (Some(0), "exited r-1 0\n"));
    // The directory survives the container, and the request is not executed again.
    let child = start_seid(&sandbox, "full");
    sandbox.wait_for_state("running r-1");
    sandbox.write_control("request", "r.2 KILL\n");
    let output = child.wait_with_output().unwrap();
    assert!(!stdout(&output).contains("TERM"), "{output:?}");
    assert_eq!((output.status.code(), sandbox.state().as_str()), (Some(137), "exited r.2 137\n"));
    let log = fs::read_to_string(sandbox.path("termination-log")).unwrap();
    assert_eq!(log, "panic: kept\n");
}

#[test]
fn request_without_seid_is_acknowledged() {
    let sandbox = Sandbox::with_seid(STOPPABLE).with_control();
    // Nothing listens on a privileged port.
    let waiting = container("full", "seid", 1);
    let child = sandbox.start(&waiting);
    sandbox.wait_for_state("exited - 0");
    sandbox.write_control("request", "1 TERM\n");
    sandbox.wait_for_state("exited 1 0");
    let output = terminate(child);
    assert_eq!(output.status.code(), Some(143), "the kubelet can terminate a waiting container");
    // Of a container that was killed.
    sandbox.write_control("state", "running 1\n");
    let child = sandbox.start(&waiting);
    sandbox.wait_for_state("exited 1 137");
    terminate(child);
    // A request that was written while there was no container.
    sandbox.write_control("request", "2 TERM\n");
    let child = start_seid(&sandbox, "full");
    sandbox.wait_for_state("running 2");
    assert!(stdout(&terminate(child)).ends_with("seid got TERM\n"));
    assert_eq!(sandbox.state(), "exited 2 0\n");
}

#[test]
fn malformed_and_huge_requests_are_ignored() {
    let long = format!("{} TERM\n", "a".repeat(65));
    let huge = [vec![b'a'; 8 << 20], vec![0; 8 << 20]];
    let malformed: [&[u8]; 10] = [
        b"",
        b"\n",
        b"r-1",
        b"r-1 STOP\n",
        b"r-1 TERM again\n",
        b"- TERM\n",
        b"../a TERM\n",
        b"$(exit) TERM\n",
        b"r-1\0TERM\n",
        long.as_bytes(),
    ];
    let contents = malformed.into_iter().chain(huge.iter().map(Vec::as_slice));
    for content in contents {
        let sandbox = Sandbox::with_seid("exit 3").with_control();
        sandbox.write_control("request", content);
        // The state is not trusted either.
        sandbox.write_control("state", content);
        let (port, requests) = sidecar(&[READY]);
        let output = sandbox.run(&container("full", "seid", port));
        requests.join().unwrap();
        let start = String::from_utf8_lossy(&content[..content.len().min(20)]);
        assert_eq!((output.status.code(), sandbox.state().as_str()), (Some(3), "exited - 3\n"), "{start:?}");
        assert!(output.stderr.is_empty(), "{start:?}: {output:?}");
    }
    // Nor does one of them keep a running seid from the next request.
    let sandbox = Sandbox::with_seid(STOPPABLE).with_control();
    fs::create_dir(sandbox.path("control/request")).unwrap();
    let child = start_seid(&sandbox, "full");
    sandbox.wait_for_state("running -");
    fs::remove_dir(sandbox.path("control/request")).unwrap();
    sandbox.write_control("request", &huge[0]);
    sandbox.write_control("request", "next TERM\n");
    assert!(stdout(&child.wait_with_output().unwrap()).ends_with("seid got TERM\n"));
    assert_eq!(sandbox.state(), "exited next 0\n");
}

#[test]
fn bootstrap_that_was_stopped_on_request_fails() {
    let sandbox = Sandbox::with_seid(STOPPABLE).with_control();
    let child = start_seid(&sandbox, "bootstrap");
    sandbox.write_control("request", "r-1 TERM\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "it has not reached its height: {output:?}");
    assert_eq!(sandbox.state(), "exited r-1 0\n");
}

#[test]
fn control_directory_keeps_termination_and_exit_code() {
    let sandbox = Sandbox::with_seid(STOPPABLE).with_control();
    let output = terminate(start_seid(&sandbox, "full"));
    assert!(stdout(&output).ends_with("seid got TERM\n"), "{output:?}");
    assert_eq!((output.status.code(), sandbox.state().as_str()), (Some(0), "exited - 0\n"));
    let sandbox = Sandbox::with_seid("kill -INT $$").with_control();
    let (port, requests) = sidecar(&[READY]);
    let output = sandbox.run(&container("bootstrap", "seid", port));
    requests.join().unwrap();
    assert_eq!((output.status.code(), sandbox.state().as_str()), (Some(0), "exited - 130\n"));
}

#[test]
fn error_of_seid_is_kept_in_the_termination_log() {
    let flags = "for i in {1..500}; do echo \"  --flag-$i string\" >&2; done; exit 1";
    for (error, case) in [
        ("Error: error starting node: no address", "full"),
        ("panic: UPGRADE \"v6\" NEEDED at height: 7", "full"),
        ("Error: no 'quotes' $HOME `date` %s \\n", "bootstrap"),
    ] {
        let sandbox = Sandbox::with_seid(&format!("echo log; cat \"$HOME/error\" >&2; {flags}"));
        fs::write(sandbox.path("error"), format!("before\n{error}\n")).unwrap();
        let (port, requests) = sidecar(&[READY]);
        let output = sandbox.run(&container(case, "seid", port));
        requests.join().unwrap();
        assert_eq!(fs::read_to_string(sandbox.path("termination-log")).unwrap(), format!("{error}\n"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with(&format!("before\n{error}\n  --flag-1 ")), "{stderr}");
        assert!(stderr.ends_with("--flag-500 string\n"), "the full output is in the log: {stderr}");
        assert!(stdout(&output).ends_with("log\n"), "{output:?}");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

/// A process that seid has started may hold its stderr for as long as it lives.
fn assert_exits_before_its_descendant(case: &str, with_control: bool) {
    let sandbox = Sandbox::with_seid(
        "/bin/sleep 1000 & echo $! > \"$HOME/descendant\"\necho 'panic: kept' >&2\nexit 3",
    );
    let sandbox = if with_control { sandbox.with_control() } else { sandbox };
    let (port, requests) = sidecar(&[READY]);
    let child = RefCell::new(sandbox.start(&container(case, "seid", port)));
    requests.join().unwrap();
    let exit_code = || child.borrow_mut().try_wait().unwrap().map(|status| status.code());
    wait_until("the container exits", || exit_code().is_some());
    let descendant = fs::read_to_string(sandbox.path("descendant")).unwrap();
    let killed = Command::new("kill").args(["-KILL", descendant.trim()]).status().unwrap();
    assert!(killed.success(), "the descendant is alive");
    let log = fs::read_to_string(sandbox.path("termination-log")).unwrap();
    assert_eq!((exit_code(), log.as_str()), (Some(Some(3)), "panic: kept\n"), "{case}");
    if with_control {
        assert_eq!(sandbox.state(), "exited - 3\n");
    }
}

#[test]
fn descendant_that_holds_stderr_does_not_keep_the_container() {
    thread::scope(|scope| {
        for (case, with_control) in [("full", true), ("full", false), ("bootstrap", true)] {
            scope.spawn(move || assert_exits_before_its_descendant(case, with_control));
        }
    });
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let check = || async { if is_true() { Ok(()) } else { Err("not yet") } };
    runtime.block_on(testbed::harness::wait::until(what, std::time::Duration::from_secs(20), check)).unwrap();
}
