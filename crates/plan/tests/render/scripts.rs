//! The scripts of seid's containers, in the shell that they are for, with a seid that tells how it was called.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use api::sei_node::SidecarConfig;
use k8s_openapi::api::core::v1::Container;
use plan::render;
use tempfile::TempDir;

use crate::{cases, node};

/// A machine of its own: a home, a seid, and a `sleep` that does not.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// One whose seid tells how it was called, then does this.
    fn with_seid(then: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Self { dir };
        fs::create_dir_all(machine.path("bin")).unwrap();
        machine.program("seid", &format!("echo \"seid $*\"\n{then}"));
        machine.program("sleep", "echo waited >> \"$HOME/waits\"");
        machine
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
        Command::new(&command[0])
            .args(&command[1..])
            .args(container.args.iter().flatten())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("TERMINATION_LOG", self.path("last-words"))
            .env("PATH", path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, container: &Container) -> Output {
        self.start(container).wait_with_output().unwrap()
    }
}

/// What a container printed.
fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A sidecar that gives these answers, one after the other, and then ends. Its port, and what it was asked.
fn sidecar(answers: &'static [&'static str]) -> (i32, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = i32::from(listener.local_addr().unwrap().port());
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines();
            asked.push(lines.next().unwrap().unwrap());
            let headers: Vec<String> =
                lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            assert!(headers.iter().any(|line| line.starts_with("Host: ")), "{headers:?}");
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (port, asked)
}

const NOT_YET: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\n200";
const YES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A container of a case, for a sidecar on a port.
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
fn a_home_is_made_once() {
    let machine = Machine::with_seid("mkdir -p \"$HOME/config\" && touch \"$HOME/config/genesis.json\"");
    let init = container("full", "seid-init", 7777);
    let home = machine.dir.path().display().to_string();
    let first = machine.run(&init);
    assert_eq!(
        printed(&first),
        format!("seid init atlantic-2 --chain-id atlantic-2 --home {home} --overwrite\n")
    );
    assert!(first.status.success() && machine.path("tmp").is_dir());
    fs::remove_dir(machine.path("tmp")).unwrap();
    let second = machine.run(&init);
    assert_eq!(printed(&second), "", "a second time would throw the node's keys away");
    assert!(second.status.success() && machine.path("tmp").is_dir());
}

#[test]
fn a_home_that_cannot_be_made_is_a_failure() {
    let machine = Machine::with_seid("exit 7");
    assert_eq!(machine.run(&container("full", "seid-init", 7777)).status.code(), Some(7));
}

#[test]
fn a_chain_cannot_smuggle_a_command_into_the_script() {
    let machine = Machine::with_seid("");
    let mut node = node("full");
    node.spec.chain_id = "a\"; touch $HOME/smuggled; \"".into();
    let set = render::stateful_set(&node, &cases::platform()).unwrap();
    let init = set.spec.unwrap().template.spec.unwrap().init_containers.unwrap().remove(0);
    assert!(printed(&machine.run(&init)).starts_with("seid init a\"; touch"));
    assert!(!machine.path("smuggled").exists());
}

#[test]
fn seid_starts_when_the_sidecar_says_so_and_not_before() {
    let machine = Machine::with_seid("exit 3");
    let (port, asked) = sidecar(&[NOT_YET, "", "HTTP/1.1 404 Not Found\r\n\r\n", YES]);
    let output = machine.run(&container("full", "seid", port));
    assert_eq!(asked.join().unwrap(), ["GET /v0/healthz HTTP/1.1"; 4]);
    let home = machine.dir.path();
    assert_eq!(
        printed(&output),
        format!(
            "waiting until the sidecar on port {port} lets seid start\nseid start --home {}\n",
            home.display()
        )
    );
    assert_eq!(waits(home), 3);
    assert_eq!(output.status.code(), Some(3), "it is seid that ends");
}

#[test]
fn a_sidecar_that_is_not_there_yet_is_waited_for() {
    let machine = Machine::with_seid("");
    // The third wait is ended by the kubelet.
    let sleep = "echo waited >> \"$HOME/waits\"\n[ \"$(wc -l < \"$HOME/waits\")\" -lt 3 ] || kill $PPID";
    machine.program("sleep", sleep);
    // No ordinary program may listen there.
    let output = machine.run(&container("full", "seid", 1));
    assert_eq!(waits(machine.dir.path()), 3);
    assert_eq!(printed(&output), "waiting until the sidecar on port 1 lets seid start\n");
}

#[test]
fn a_bootstrap_that_reached_its_height_has_succeeded() {
    // It sends itself both signals, and dies of the one that is handled first.
    for signal in ["INT", "TERM"] {
        let machine = Machine::with_seid(&format!("kill -{signal} $$"));
        let (port, asked) = sidecar(&[YES]);
        let output = machine.run(&container("bootstrap", "seid", port));
        asked.join().unwrap();
        let home = machine.dir.path().display();
        assert!(
            printed(&output).ends_with(&format!("seid start --home {home} --halt-height 4000\n")),
            "{signal}: {output:?}"
        );
        assert_eq!(output.status.code(), Some(0), "{signal}: {output:?}");
    }
}

#[test]
fn a_bootstrap_that_failed_has_failed() {
    for (then, code) in
        [("exit 1", 1), ("exit 0", 0), ("kill -KILL $$", 137), ("exit 130", 0), ("exit 143", 0)]
    {
        let machine = Machine::with_seid(then);
        let (port, asked) = sidecar(&[YES]);
        let output = machine.run(&container("bootstrap", "seid", port));
        asked.join().unwrap();
        assert_eq!(output.status.code(), Some(code), "{then}: {output:?}");
    }
}

#[test]
fn a_bootstrap_that_is_ended_lets_seid_write_down_what_it_has_and_is_no_success() {
    let machine = Machine::with_seid(
        "trap 'echo seid is done; exit 0' TERM\necho up > \"$HOME/up\"\nwhile :; do /bin/sleep 0.05; done",
    );
    let (port, asked) = sidecar(&[YES]);
    let child = machine.start(&container("bootstrap", "seid", port));
    asked.join().unwrap();
    let up = machine.path("up");
    wait_until("seid is up", || up.exists());
    let ended = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(ended.success());
    let output = child.wait_with_output().unwrap();
    assert!(printed(&output).ends_with("seid is done\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
}

#[test]
fn a_seid_that_is_ended_writes_down_what_it_has() {
    let machine = Machine::with_seid(
        "trap 'echo seid is done; exit 0' TERM\necho up > \"$HOME/up\"\nwhile :; do /bin/sleep 0.05; done",
    );
    for signal in ["-TERM", "-INT"] {
        let (port, asked) = sidecar(&[YES]);
        let child = machine.start(&container("full", "seid", port));
        asked.join().unwrap();
        let up = machine.path("up");
        wait_until("seid is up", || up.exists());
        fs::remove_file(up).unwrap();
        let ended = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(ended.success());
        let output = child.wait_with_output().unwrap();
        assert!(printed(&output).ends_with("seid is done\n"), "{signal}: {output:?}");
    }
}

#[test]
fn why_seid_has_ended_is_kept_although_it_says_much_behind_it() {
    let flags = "for i in {1..500}; do echo \"  --flag-$i string\" >&2; done; exit 1";
    for (why, case) in [
        ("Error: error starting node: no address", "full"),
        ("panic: UPGRADE \"v6\" NEEDED at height: 7", "full"),
        ("Error: no 'quotes' $HOME `date` %s \\n", "bootstrap"),
    ] {
        let machine = Machine::with_seid(&format!("echo log; cat \"$HOME/why\" >&2; {flags}"));
        fs::write(machine.path("why"), format!("before\n{why}\n")).unwrap();
        let (port, asked) = sidecar(&[YES]);
        let output = machine.run(&container(case, "seid", port));
        asked.join().unwrap();
        assert_eq!(fs::read_to_string(machine.path("last-words")).unwrap(), format!("{why}\n"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.starts_with(&format!("before\n{why}\n  --flag-1 ")), "{errors}");
        assert!(errors.ends_with("--flag-500 string\n"), "all of it is in the log: {errors}");
        assert!(printed(&output).ends_with("log\n"), "{output:?}");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

fn wait_until(what: &str, look: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = || async { if look() { Ok(()) } else { Err("not yet") } };
    runtime.block_on(testbed::harness::wait::until(what, std::time::Duration::from_secs(20), seen)).unwrap();
}
