//! The control directory of seid, with a start script that follows the protocol in docs/decisions/0011-isolation.md.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use testbed::harness::wait;
use testbed::process::{Process, Program};
use testbed::{Context, Error, TestResult};

use crate::fake_rpc;
use crate::fixture::{Fixture, Sidecar, TIMEOUT};

/// Waits for the sidecar, runs seid, handles requests, and starts again, as the kubelet would restart the container.
const START_SCRIPT: &str = r#"
control=$1 port=$2 seid=$3 dir=$4
write_state() { printf '%s\n' "$*" > "$control/.state.tmp" && mv "$control/.state.tmp" "$control/state"; }
is_ready() {
  exec 3<>"/dev/tcp/127.0.0.1/$(cat "$port")" || return 1
  printf 'GET /v0/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
  IFS= read -r line <&3
  exec 3>&-
  [[ $line == *" 200 "* ]]
}
while :; do
  rm -f "$control/state"
  until is_ready 2>/dev/null; do sleep 0.05; done
  bash "$seid" "$dir" & child=$!
  last=-
  write_state running "$last"
  while kill -0 "$child" 2>/dev/null; do
    id=''
    { read -r id signal < "$control/request"; } 2>/dev/null
    if [[ -n $id && $id != "$last" ]]; then
      last=$id
      kill "-$signal" "$child"
      write_state running "$last"
    fi
    sleep 0.02
  done
  wait "$child"
  write_state exited "$last" "$?"
  sleep 0.5
done
"#;

/// Stands for seid: on SIGTERM it flushes until the file `flushed` exists.
const SEID: &str = r#"
trap 'echo terminated >> "$1/events"; until [[ -e $1/flushed ]]; do sleep 0.02; done; exit 0' TERM
echo started >> "$1/events"
while :; do sleep 0.02; done
"#;

/// Starts the script. The sidecar's port is in a file, because another sidecar has another one.
fn start_script(fixture: &Fixture) -> Result<Process, Error> {
    let dir = fixture.site.dir();
    for (name, content) in [("script", START_SCRIPT), ("seid", SEID), ("flushed", "")] {
        fs::write(dir.join(name), content)
            .map_err(|source| Error::Io { what: "writing a script".into(), source })?;
    }
    Program::new("seid-container", "/bin/bash")
        .args([
            dir.join("script"),
            fixture.control.clone(),
            dir.join("port"),
            dir.join("seid"),
            dir.to_owned(),
        ])
        .start(&fixture.site)
}

/// Waits until seid was started and terminated this many times.
async fn wait_events(fixture: &Fixture, started: usize, terminated: usize) -> TestResult {
    let file = fixture.site.dir().join("events");
    wait::until(format!("{started} starts and {terminated} stops of seid"), TIMEOUT, || async {
        let events = fs::read_to_string(&file).unwrap_or_default();
        let count = |event| events.lines().filter(|line| *line == event).count();
        if (count("started"), count("terminated")) == (started, terminated) { Ok(()) } else { Err(events) }
    })
    .await?;
    Ok(())
}

async fn wait_state(control: &Path, expected: impl Fn(&str) -> bool) -> TestResult {
    wait::until("the state of seid", TIMEOUT, || async {
        let state = fs::read_to_string(control.join("state")).unwrap_or_default();
        if expected(&state) { Ok(()) } else { Err(state) }
    })
    .await?;
    Ok(())
}

async fn start_sidecar(fixture: &Fixture) -> Result<Sidecar, Error> {
    let sidecar = fixture.start().await?;
    fs::write(fixture.site.dir().join("port"), sidecar.port.to_string())
        .map_err(|source| Error::Io { what: "writing the port".into(), source })?;
    Ok(sidecar)
}

async fn run(sidecar: &Sidecar, task_type: &str) -> TestResult {
    let task = sidecar.run_task(task_type, &json!({})).await?;
    assert_eq!(task["status"], "completed", "{task_type}: {task}");
    Ok(())
}

/// A real script and child: nothing runs before the release, then seid is stopped, restarted, and stopped by a sidecar that is killed
/// in between.
pub async fn stop_and_restart_through_the_control_directory(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = start_sidecar(&fixture).await?;
    run(&sidecar, "stop-seid").await?;
    let _script = start_script(&fixture)?;
    // The script waits for the sidecar: there is nothing to stop.
    run(&sidecar, "stop-seid").await?;
    run(&sidecar, "reset-data").await?;
    run(&sidecar, "mark-ready").await?;
    wait_state(&fixture.control, |state| state == "running -\n").await?;
    wait_events(&fixture, 1, 0).await?;
    let refused = sidecar.run_task("reset-data", &json!({})).await?;
    assert_eq!(refused["error"], "seid is running: stop it first", "{refused}");

    run(&sidecar, "mark-not-ready").await?;
    run(&sidecar, "stop-seid").await?;
    wait_events(&fixture, 1, 1).await?;
    assert!(!fixture.control.join("request").exists(), "the request would stop the next seid");
    run(&sidecar, "reset-data").await?;
    let rpc = fake_rpc::serve(fixture.rpc, fake_rpc::synced_node).await?;
    let unseen = sidecar.run_task("stop-seid", &json!({})).await?;
    let error = unseen["error"].as_str().unwrap_or_default();
    assert!(error.contains("state does not report a running seid, but its RPC responds"), "{unseen}");

    run(&sidecar, "mark-ready").await?;
    wait_events(&fixture, 2, 1).await?;
    // seid starts before the script says so.
    wait_state(&fixture.control, |state| state == "running -\n").await?;
    run(&sidecar, "restart-seid").await?;
    wait_events(&fixture, 3, 2).await?;
    wait_state(&fixture.control, |state| state == "running -\n").await?;
    let stop_at = json!({"condition": "catchingUp", "action": "SIGTERM_SEID"});
    let task = sidecar.run_task("await-condition", &stop_at).await?;
    assert_eq!(task["status"], "completed", "{task}");
    wait_events(&fixture, 4, 3).await?;
    rpc.abort();
    let _ = rpc.await;

    // seid has handled the signal and still flushes when the sidecar is killed.
    wait_state(&fixture.control, |state| state == "running -\n").await?;
    fs::remove_file(fixture.site.dir().join("flushed"))?;
    let id = sidecar.submit(None, "stop-seid", &json!({})).await?;
    wait_state(&fixture.control, |state| state.starts_with("running ") && state != "running -\n").await?;
    sidecar.kill()?;
    drop(sidecar);
    let before = fs::read_to_string(fixture.control.join("request"))?;
    let sidecar = start_sidecar(&fixture).await?;
    wait::until("another request", TIMEOUT, || async {
        match fs::read_to_string(fixture.control.join("request")) {
            Ok(request) if request != before => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    assert_eq!(sidecar.task(&id).await?["status"], "running");
    fs::write(fixture.site.dir().join("flushed"), "")?;
    let stopped = sidecar.wait_finished(&id).await?;
    assert_eq!(stopped["status"], "completed", "{stopped}");
    assert!(!fixture.control.join("request").exists());
    Ok(())
}

/// seid owns the directory and may write anything.
pub async fn forged_state_is_never_trusted(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let state = fixture.control.join("state");
    let secret = fixture.site.dir().join("secret");
    fs::write(&secret, "hunter2")?;
    let forgeries: [(&str, &dyn Fn() -> std::io::Result<()>); 5] = [
        ("a link", &|| symlink(&secret, &state)),
        ("a directory", &|| fs::create_dir(&state)),
        ("a file of 64 MiB", &|| fs::write(&state, vec![b'a'; 64 << 20])),
        ("an unknown word", &|| fs::write(&state, "hunter2 -\n")),
        ("two lines", &|| fs::write(&state, "running -\nhunter2 - 0\n")),
    ];
    for (name, forge) in forgeries {
        forge()?;
        for task_type in ["stop-seid", "restart-seid", "reset-data"] {
            let task = sidecar.run_task(task_type, &json!({})).await?;
            let error = task["error"].as_str().unwrap_or_default();
            assert!(error.contains(&state.display().to_string()), "{name}: {task}");
            assert!(!error.contains("hunter2"), "{name}: {task}");
        }
        if state.is_dir() && !state.is_symlink() { fs::remove_dir(&state)? } else { fs::remove_file(&state)? }
    }
    // A directory in place of the request prevents neither a start of the sidecar nor a request.
    let request = fixture.control.join("request");
    fs::create_dir_all(request.join("a"))?;
    drop(sidecar);
    let sidecar = fixture.start().await?;
    fs::create_dir_all(request.join("a"))?;
    fs::write(&state, "running -\n")?;
    let id = sidecar.submit(None, "stop-seid", &json!({})).await?;
    wait::until("the request", TIMEOUT, || async { fs::read_to_string(&request) }).await?;
    fs::write(&state, "exited - 0\n")?;
    assert_eq!(sidecar.wait_finished(&id).await?["status"], "completed");
    drop(sidecar);
    let missing = Fixture::new(&cx)?.env("OUTRIGGER_SEID_CONTROL_DIR", "/nonexistent/control");
    let (code, output) = missing.run_to_exit().await?;
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("--seid-control-dir") && output.contains("/nonexistent/control"), "{output}");
    Ok(())
}
