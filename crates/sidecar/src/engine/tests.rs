//! Engine tests with misbehaving task kinds. The supported kinds are tested in `tests/sidecar`.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use api::sidecar_wire::TaskState;
use serde_json::json;

use super::*;
use crate::kinds::{Deadline, Resource, TaskContext, TaskError, TaskFuture, TaskOutcome};
use crate::ledger::LedgerThread;
use crate::settings::{AuthnMode, Bucket, Listen, Settings};

struct Fixture {
    engine: Engine,
    _ledger_thread: LedgerThread,
    _home: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings {
        home: home.path().into(),
        chain_id: "test-1".into(),
        genesis: Bucket::default(),
        snapshots: Bucket::default(),
        node_rpc: "http://127.0.0.1:1".into(),
        result_export: None,
        seid_control_dir: None,
        private_dir: None,
        publish_snapshots: false,
        listen: Listen::Tcp(Listen::loopback(1)),
        port: 1,
        authn: AuthnMode::Unauthenticated,
        snapshot_upload_interval: Duration::from_secs(1),
        snapshot_upload_timeout: Duration::from_secs(1),
        snapshot_max_bytes: 1,
        max_tasks: 10,
        max_working_tasks: 10,
        keep_tasks_for: Duration::from_secs(1),
        log_level: String::new(),
        log_format: Default::default(),
    };
    let shutdown = CancellationToken::new();
    let (ledger, ledger_thread) =
        Ledger::open(&home.path().join(ledger::FILE), None, shutdown.clone()).unwrap();
    let node = Arc::new(Node::new(Arc::new(settings), ledger, Metrics::new()));
    Fixture { engine: Engine::new(node, shutdown), _ledger_thread: ledger_thread, _home: home }
}

impl Fixture {
    /// Submits a task of a test kind and returns its ID.
    async fn submit(&self, kind: &'static Kind) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        self.submit_as(&id, kind).await;
        id
    }

    async fn submit_as(&self, id: &str, kind: &'static Kind) {
        self.engine.0.clone().submit(kind, id.to_owned(), None, None).await.unwrap();
    }

    async fn get(&self, id: &str) -> Option<TaskRow> {
        self.engine.get(id).await.unwrap()
    }

    async fn wait_finished(&self, id: &str) -> TaskRow {
        testbed::harness::wait::until("the task to finish", Duration::from_secs(10), || async {
            match self.get(id).await {
                Some(task) if task.state != TaskState::Running => Ok(task),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .unwrap()
    }
}

const fn kind(deadline: Deadline, run: fn(TaskContext) -> TaskFuture) -> Kind {
    Kind { task_type: TaskType::ResetData, locks: &[Resource::Data], deadline, mostly_waits: false, run }
}

const LONG: Deadline = Deadline::After(Duration::from_secs(60));

#[tokio::test]
async fn panicking_task_fails_and_engine_survives() {
    fn explode() -> TaskOutcome {
        panic!("boom {}", 1)
    }
    const PANICS: Kind = kind(LONG, |_| Box::pin(async { explode() }));
    const PANICS_ON_THREAD: Kind =
        kind(LONG, |ctx| Box::pin(async move { ctx.blocking::<()>(|| panic!("bang")).await.map(|()| None) }));
    let fixture = fixture();
    let (first, second) = (fixture.submit(&PANICS).await, fixture.submit(&PANICS_ON_THREAD).await);
    assert_eq!(fixture.wait_finished(&first).await.error, "task handler panicked: boom 1");
    assert_eq!(fixture.wait_finished(&second).await.error, "task handler panicked: bang");
    let metrics = fixture.engine.node().metrics().encode();
    assert!(metrics.contains("seictl_task_panics_total{type=\"reset-data\"} 2"), "{metrics}");
    assert_eq!(fixture.engine.liveness_failure().await, None);
}

#[tokio::test]
async fn exceeded_deadline_is_stored_as_failure() {
    const WAITS: Kind =
        kind(Deadline::After(Duration::from_millis(50)), |_| Box::pin(std::future::pending::<TaskOutcome>()));
    let fixture = fixture();
    let id = fixture.submit(&WAITS).await;
    let task = fixture.wait_finished(&id).await;
    assert!(task.error.starts_with("deadline exceeded"), "{}", task.error);
}

#[tokio::test]
async fn results_are_stored_on_success_and_failure() {
    const RETURNS: Kind = kind(LONG, |_| Box::pin(async { Ok(Some(json!({"a": 1}))) }));
    const NOTHING: Kind = kind(LONG, |_| Box::pin(async { Ok(Some(json!(null))) }));
    const FAILS: Kind = kind(LONG, |_| {
        Box::pin(async { Err(TaskError { result: Some(json!([2])), ..TaskError::new("no") }) })
    });
    let fixture = fixture();
    for (kind, result, error) in
        [(&RETURNS, Some("{\"a\":1}"), ""), (&NOTHING, None, ""), (&FAILS, Some("[2]"), "no")]
    {
        let id = fixture.submit(kind).await;
        let task = fixture.wait_finished(&id).await;
        assert_eq!((task.result.as_ref().map(|json| json.get()), task.error.as_str()), (result, error));
    }
}

#[tokio::test]
async fn error_after_cancellation_is_not_stored_but_success_is() {
    const HANGS_WHEN_CANCELLED: Kind = kind(LONG, |ctx| {
        Box::pin(async move {
            ctx.execution.token.cancelled().await;
            std::future::pending::<TaskOutcome>().await
        })
    });
    const FAILS_WHEN_CANCELLED: Kind = Kind {
        locks: &[],
        ..kind(LONG, |ctx| {
            Box::pin(async move {
                ctx.execution.token.cancelled().await;
                ctx.check_cancelled().map(|()| None)
            })
        })
    };
    const COMPLETES_WHEN_CANCELLED: Kind = Kind {
        locks: &[],
        ..kind(LONG, |ctx| {
            Box::pin(async move {
                ctx.execution.token.cancelled().await;
                Ok(None)
            })
        })
    };
    let fixture = fixture();
    let (hangs, completes) =
        (fixture.submit(&HANGS_WHEN_CANCELLED).await, fixture.submit(&COMPLETES_WHEN_CANCELLED).await);
    let fails = fixture.submit(&FAILS_WHEN_CANCELLED).await;
    let deleted = fixture.submit(&COMPLETES_WHEN_CANCELLED).await;
    assert!(fixture.engine.delete(&deleted).await.unwrap());
    assert!(fixture.engine.shutdown(Duration::from_secs(10)).await, "shutdown waits for all tasks");
    assert_eq!(fixture.get(&hangs).await.unwrap().state, TaskState::Running, "the next start runs it again");
    assert_eq!(fixture.get(&fails).await.unwrap().state, TaskState::Running, "an error after cancellation");
    assert_eq!(fixture.get(&completes).await.unwrap().state, TaskState::Completed);
    assert!(fixture.get(&deleted).await.is_none(), "a deleted task stays deleted");
}

/// Waits at a barrier together with the task.
async fn meet(barrier: &'static Barrier) {
    tokio::task::spawn_blocking(|| barrier.wait()).await.unwrap();
}

#[tokio::test]
async fn deleted_task_keeps_its_lock_until_its_threads_end() {
    static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    static STARTED: Barrier = Barrier::new(2);
    static MAY_END: Barrier = Barrier::new(2);
    const LINGERS: Kind = kind(LONG, |ctx| {
        Box::pin(async move {
            ctx.blocking(|| {
                STARTED.wait();
                MAY_END.wait();
                ORDER.lock().unwrap().push("first ended");
                Ok(None)
            })
            .await
        })
    });
    const FOLLOWS: Kind = kind(LONG, |_| {
        Box::pin(async {
            ORDER.lock().unwrap().push("second started");
            Ok(Some(json!("second")))
        })
    });
    let fixture = fixture();
    let id = fixture.submit(&LINGERS).await;
    meet(&STARTED).await;
    assert!(fixture.engine.delete(&id).await.unwrap());
    fixture.submit_as(&id, &FOLLOWS).await;
    let nothing_ran = || async {
        let order = ORDER.lock().unwrap().clone();
        if order.is_empty() { Ok(()) } else { Err(format!("{order:?}")) }
    };
    testbed::harness::wait::throughout("the second task to wait", Duration::from_millis(200), nothing_ran)
        .await
        .unwrap();
    meet(&MAY_END).await;
    let task = fixture.wait_finished(&id).await;
    assert_eq!((task.run, task.result.map(|json| json.get().to_owned()).as_deref()), (1, Some("\"second\"")));
    assert_eq!(*ORDER.lock().unwrap(), ["first ended", "second started"]);
}

#[tokio::test]
async fn stuck_threads_are_reported_by_liveness() {
    static MAY_END: Barrier = Barrier::new(2);
    const STUCK: Kind = kind(Deadline::After(Duration::from_millis(10)), |ctx| {
        Box::pin(async move {
            let stuck = || {
                MAY_END.wait();
                Ok(None)
            };
            ctx.blocking(stuck).await
        })
    });
    let fixture = fixture();
    let id = fixture.submit(&STUCK).await;
    assert!(fixture.wait_finished(&id).await.error.starts_with("deadline exceeded"));
    assert_eq!(fixture.engine.liveness_failure().await.as_deref(), Some("a task does not stop"));
    meet(&MAY_END).await;
    testbed::harness::wait::until("the threads to end", Duration::from_secs(10), || async {
        fixture.engine.liveness_failure().await.map_or(Ok(()), Err)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn concurrent_submissions_get_distinct_times() {
    let fixture = fixture();
    let start = Instant::now();
    let ledger = fixture.engine.0.ledger.clone();
    let all = (0..300).map(|_| {
        let id = uuid::Uuid::new_v4().to_string();
        ledger.submit(id, TaskType::MarkReady, None, None, 1000)
    });
    let outcomes = futures_util::future::join_all(all).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Ok(SubmitOutcome::Started(_)))),
        "{:?}",
        start.elapsed()
    );
    let times: std::collections::BTreeSet<_> =
        ledger.list_unfinished().await.unwrap().into_iter().map(|task| task.row.submitted_at).collect();
    assert_eq!(times.len(), 300, "submission times are unique");
}

#[tokio::test]
async fn dry_run_does_not_wait_for_a_running_task() {
    let fixture = fixture();
    let task = fixture.engine.node().lock(Resource::Config).await;
    let start = Instant::now();
    let busy = fixture.engine.dry_run("config-apply", None).await;
    assert_eq!(busy, Err(DryRunError::Unavailable("a task is changing what the dry-run reads")));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let other = fixture.engine.dry_run("config-patch", None).await.unwrap();
    assert_eq!(other.note.as_deref(), Some("config-patch has no dry-run: only the request was checked"));
    drop(task);
    let checked = fixture.engine.dry_run("config-apply", None).await;
    let is_expected = |why: &String| why.starts_with("config-apply: mode is required");
    assert!(matches!(&checked, Err(DryRunError::Rejected(why)) if is_expected(why)), "{checked:?}");
}

#[tokio::test]
async fn concurrent_dry_runs_are_limited() {
    const UNLOCKED: Kind = Kind { locks: &[], ..kind(LONG, |_| Box::pin(async { Ok(None) })) };
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    static GATE: Mutex<()> = Mutex::new(());
    fn wait_for_gate(_: &std::path::Path, _: Option<&serde_json::value::RawValue>) -> Result<(), TaskError> {
        STARTED.fetch_add(1, Ordering::SeqCst);
        drop(GATE.lock().unwrap());
        Ok(())
    }
    let fixture = fixture();
    let execute = || {
        let engine = fixture.engine.0.clone();
        async move { engine.dry_runs.execute(&engine.node, &UNLOCKED, wait_for_gate, None).await }
    };
    let started = |count: usize| {
        testbed::harness::wait::until("dry-runs to start", Duration::from_secs(10), move || async move {
            let started = STARTED.load(Ordering::SeqCst);
            if started == count { Ok(()) } else { Err(started) }
        })
    };
    let (open, closed) = std::sync::mpsc::channel::<()>();
    let (locked, is_locked) = std::sync::mpsc::channel();
    let gate = std::thread::spawn(move || {
        let _gate = GATE.lock().unwrap();
        locked.send(()).unwrap();
        closed.recv()
    });
    is_locked.recv().unwrap();
    // The callers leave; their threads still count.
    for count in 1..=4 {
        let caller = tokio::spawn(execute());
        started(count).await.unwrap();
        caller.abort();
    }
    let fifth = tokio::time::timeout(Duration::from_secs(10), execute()).await;
    assert_eq!(fifth, Ok(Err(DryRunError::Unavailable("too many concurrent dry-runs"))));
    drop(open);
    gate.join().unwrap().unwrap_err();
    assert_eq!(execute().await, Ok(Ok(())));
    started(5).await.unwrap();
}
