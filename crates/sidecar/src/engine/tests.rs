//! The engine with tasks that do not keep their part. The kinds of this build are tried in `tests/sidecar`.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use api::sidecar_wire::{TaskState, TaskType};
use serde_json::json;

use super::*;
use crate::kinds::{Doing, Failure, Limit, Outcome, Resource, Work};
use crate::ledger::Keeper;
use crate::settings::{Authn, Bucket, Settings};

struct Ground {
    engine: Engine,
    _keeper: Keeper,
    _home: tempfile::TempDir,
}

fn ground() -> Ground {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings {
        home: home.path().into(),
        chain_id: "test-1".into(),
        genesis: Bucket::default(),
        snapshots: Bucket::default(),
        node_rpc: "http://127.0.0.1:1".into(),
        port: 1,
        authn: Authn::Unauthenticated,
        snapshot_upload_interval: Duration::from_secs(1),
        snapshot_upload_timeout: Duration::from_secs(1),
        snapshot_max_bytes: 1,
        max_tasks: 10,
        max_working_tasks: 10,
        keep_tasks_for: Duration::from_secs(1),
        log_level: String::new(),
        log_format: Default::default(),
    };
    let end = CancellationToken::new();
    let (ledger, keeper) = Ledger::open(&home.path().join(ledger::FILE), end.clone()).unwrap();
    let node = Arc::new(Node::new(Arc::new(settings), ledger, Metrics::new()));
    Ground { engine: Engine::new(node, end), _keeper: keeper, _home: home }
}

impl Ground {
    /// Gives a task of a kind that no build has, and returns its id.
    async fn begin(&self, kind: &'static Kind) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        self.begin_as(&id, kind).await;
        id
    }

    async fn begin_as(&self, id: &str, kind: &'static Kind) {
        let given = Given { id: id.to_owned(), kind: kind.task, params: None, caller: None };
        self.engine.0.clone().submit(kind, given, None).await.unwrap();
    }

    async fn get(&self, id: &str) -> Option<Task> {
        self.engine.get(id).await.unwrap()
    }

    async fn ended(&self, id: &str) -> Task {
        testbed::harness::wait::until("an end", Duration::from_secs(10), || async {
            match self.get(id).await {
                Some(task) if task.state != TaskState::Running => Ok(task),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .unwrap()
    }
}

const fn kind(limit: Limit, run: fn(Work) -> Doing) -> Kind {
    Kind { task: TaskType::ResetData, changes: &[Resource::Data], limit, waits: false, run }
}

const LONG: Limit = Limit::Within(Duration::from_secs(60));

#[tokio::test]
async fn a_task_that_panics_fails_and_the_engine_lives() {
    fn explode() -> Outcome {
        panic!("boom {}", 1)
    }
    const PANICS: Kind = kind(LONG, |_| Box::pin(async { explode() }));
    const PANICS_ON_A_THREAD: Kind = kind(LONG, |work| {
        Box::pin(async move { work.blocking::<()>(|| panic!("bang")).await.map(|()| None) })
    });
    let ground = ground();
    let (first, second) = (ground.begin(&PANICS).await, ground.begin(&PANICS_ON_A_THREAD).await);
    assert_eq!(ground.ended(&first).await.error, "task handler panicked: boom 1");
    assert_eq!(ground.ended(&second).await.error, "task handler panicked: bang");
    let metrics = ground.engine.node().metrics().text();
    assert!(metrics.contains("seictl_task_panics_total{type=\"reset-data\"} 2"), "{metrics}");
    assert_eq!(ground.engine.hung().await, None);
}

#[tokio::test]
async fn a_deadline_is_stored_as_a_failure() {
    const WAITS: Kind =
        kind(Limit::Within(Duration::from_millis(50)), |_| Box::pin(std::future::pending::<Outcome>()));
    let ground = ground();
    let id = ground.begin(&WAITS).await;
    let task = ground.ended(&id).await;
    assert!(task.error.starts_with("deadline exceeded"), "{}", task.error);
}

#[tokio::test]
async fn results_are_stored_on_success_and_on_failure() {
    const RETURNS: Kind = kind(LONG, |_| Box::pin(async { Ok(Some(json!({"a": 1}))) }));
    const NOTHING: Kind = kind(LONG, |_| Box::pin(async { Ok(Some(json!(null))) }));
    const FAILS: Kind =
        kind(LONG, |_| Box::pin(async { Err(Failure { result: Some(json!([2])), ..Failure::new("no") }) }));
    let ground = ground();
    for (kind, result, error) in
        [(&RETURNS, Some("{\"a\":1}"), ""), (&NOTHING, None, ""), (&FAILS, Some("[2]"), "no")]
    {
        let id = ground.begin(kind).await;
        let task = ground.ended(&id).await;
        assert_eq!((task.result.as_ref().map(|json| json.get()), task.error.as_str()), (result, error));
    }
}

#[tokio::test]
async fn an_error_under_cancellation_is_not_stored_and_a_success_is() {
    const FAILS_WHEN_CANCELLED: Kind = kind(LONG, |work| {
        Box::pin(async move {
            work.execution.token.cancelled().await;
            std::future::pending::<Outcome>().await
        })
    });
    const NOTICES: Kind = Kind {
        changes: &[],
        ..kind(LONG, |work| {
            Box::pin(async move {
                work.execution.token.cancelled().await;
                work.check().map(|()| None)
            })
        })
    };
    const DONE_WHEN_CANCELLED: Kind = Kind {
        changes: &[],
        ..kind(LONG, |work| {
            Box::pin(async move {
                work.execution.token.cancelled().await;
                Ok(None)
            })
        })
    };
    let ground = ground();
    let (fails, done) = (ground.begin(&FAILS_WHEN_CANCELLED).await, ground.begin(&DONE_WHEN_CANCELLED).await);
    let notices = ground.begin(&NOTICES).await;
    let deleted = ground.begin(&DONE_WHEN_CANCELLED).await;
    assert!(ground.engine.delete(&deleted).await.unwrap());
    assert!(ground.engine.end(Duration::from_secs(10)).await, "a shutdown waits for all");
    assert_eq!(ground.get(&fails).await.unwrap().state, TaskState::Running, "the next start does it again");
    assert_eq!(ground.get(&notices).await.unwrap().state, TaskState::Running, "it was told to end, and did");
    assert_eq!(ground.get(&done).await.unwrap().state, TaskState::Completed);
    assert!(ground.get(&deleted).await.is_none(), "what was deleted stays deleted");
}

/// Waits for the work of a task to come as far as this, or lets it go on.
async fn meet(barrier: &'static Barrier) {
    tokio::task::spawn_blocking(|| barrier.wait()).await.unwrap();
}

#[tokio::test]
async fn what_is_left_of_a_deleted_task_ends_nothing_and_holds_its_lock_until_it_is_over() {
    static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    static HAS_BEGUN: Barrier = Barrier::new(2);
    static MAY_END: Barrier = Barrier::new(2);
    const LINGERS: Kind = kind(LONG, |work| {
        Box::pin(async move {
            work.blocking(|| {
                HAS_BEGUN.wait();
                MAY_END.wait();
                ORDER.lock().unwrap().push("the first is over");
                Ok(None)
            })
            .await
        })
    });
    const FOLLOWS: Kind = kind(LONG, |_| {
        Box::pin(async {
            ORDER.lock().unwrap().push("the second begins");
            Ok(Some(json!("second")))
        })
    });
    let ground = ground();
    let id = ground.begin(&LINGERS).await;
    meet(&HAS_BEGUN).await;
    assert!(ground.engine.delete(&id).await.unwrap());
    ground.begin_as(&id, &FOLLOWS).await;
    let nothing_yet = || async {
        let order = ORDER.lock().unwrap().clone();
        if order.is_empty() { Ok(()) } else { Err(format!("{order:?}")) }
    };
    testbed::harness::wait::throughout("the second waits", Duration::from_millis(200), nothing_yet)
        .await
        .unwrap();
    meet(&MAY_END).await;
    let task = ground.ended(&id).await;
    assert_eq!((task.run, task.result.map(|json| json.get().to_owned()).as_deref()), (1, Some("\"second\"")));
    assert_eq!(*ORDER.lock().unwrap(), ["the first is over", "the second begins"]);
}

#[tokio::test]
async fn work_that_does_not_end_is_told_by_livez_until_it_does() {
    static MAY_END: Barrier = Barrier::new(2);
    const DEAF: Kind = kind(Limit::Within(Duration::from_millis(10)), |work| {
        Box::pin(async move {
            let slow = || {
                MAY_END.wait();
                Ok(None)
            };
            work.blocking(slow).await
        })
    });
    let ground = ground();
    let id = ground.begin(&DEAF).await;
    assert!(ground.ended(&id).await.error.starts_with("deadline exceeded"));
    assert_eq!(ground.engine.hung().await.as_deref(), Some("a task's work does not end"));
    meet(&MAY_END).await;
    testbed::harness::wait::until("its end", Duration::from_secs(10), || async {
        ground.engine.hung().await.map_or(Ok(()), Err)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn many_submissions_share_the_disk_and_each_is_on_it() {
    let ground = ground();
    let begin = Instant::now();
    let ledger = ground.engine.0.ledger.clone();
    let all = (0..300).map(|_| {
        let given = Given {
            id: uuid::Uuid::new_v4().to_string(),
            kind: TaskType::MarkReady,
            params: None,
            caller: None,
        };
        ledger.submit(given, 1000)
    });
    let done = futures_util::future::join_all(all).await;
    assert!(done.iter().all(|done| matches!(done, Ok(Submitted::Begun(_)))), "{:?}", begin.elapsed());
    let times: std::collections::BTreeSet<_> =
        ledger.running().await.unwrap().into_iter().map(|task| task.submitted_at).collect();
    assert_eq!(times.len(), 300, "each has a time of its own");
}
