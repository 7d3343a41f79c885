//! One run of a workload. The operator reaches the API server only through a fault proxy, which can kill it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::sync::lock;
use testbed::fakes::sidecars::{RequestFault, RequestFilter};
use testbed::faults::fault_proxy::{
    Fault, FaultProxy, Kill, KillPoint, LostResponse, RequestMatcher, Times, Verb,
};
use testbed::harness::wait;
use testbed::{Context, Error, Site};

use crate::crash_point::{CrashPoint, Injection};
use crate::fixture::{Fixture, Operator, TIMEOUT};
use crate::outcome::{self, Outcome};
use crate::workload::{NODE, Workload};

/// How long there must be no writes before a run counts as converged.
const QUIET: Duration = Duration::from_millis(700);

/// The result of a converged run.
pub struct RunResult {
    pub outcome: Outcome,
    /// Number of writes since the user acted.
    pub writes: u64,
    /// Which of the writes were deletions, counted from 1.
    pub deletions: Vec<u64>,
    /// Number of task submissions since the user acted.
    pub submissions: u32,
    /// Whether the run reached the crash point.
    pub fired: bool,
}

/// Runs a workload, with a fault at one crash point or undisturbed.
pub async fn run(cx: &Context, workload: Workload, point: Option<CrashPoint>) -> Result<RunResult, Error> {
    let run = Run::new(cx, workload, point).await?;
    run.start()?;
    workload.prepare(&run.fixture).await?;
    run.wait_quiet().await?;
    let before = run.writes()?.len();
    let submitted_before = outcome::submitted_tasks(&run.fixture).len();
    let fired = run.act(workload, point, submitted_before).await?;
    workload.wait_done(&run.fixture).await?;
    run.wait_quiet().await?;
    run.proxy.check()?;
    Ok(RunResult {
        writes: u64::try_from(run.writes()?.len() - before).unwrap_or(u64::MAX),
        deletions: (1..)
            .zip(&run.writes()?[before..])
            .filter(|(_, verb)| **verb == Verb::Delete)
            .map(|(number, _)| number)
            .collect(),
        submissions: u32::try_from(outcome::submitted_tasks(&run.fixture).len() - submitted_before)
            .unwrap_or(u32::MAX),
        outcome: Outcome::collect(&run.fixture).await?,
        fired,
    })
}

struct Run<'a> {
    fixture: Fixture<'a>,
    proxy: FaultProxy,
    operator: Arc<Mutex<Option<Operator>>>,
}

impl<'a> Run<'a> {
    async fn new(cx: &'a Context, workload: Workload, point: Option<CrashPoint>) -> Result<Self, Error> {
        let mut fixture = Fixture::new(cx).await?;
        // Its own log directory: runs of one test are concurrent.
        let label = point.map_or_else(|| "undisturbed".into(), |point| point.to_string());
        let logs = cx.logs().join(format!("{workload:?}-{label}"));
        fixture.site = Site::claim(&logs)?;
        let proxy = FaultProxy::start_with_journal(fixture.plane, logs.join("fault-proxy.jsonl")).await?;
        fixture.server = proxy.url().into();
        Ok(Self { fixture, proxy, operator: Arc::default() })
    }

    /// Starts the operator behind the fault proxy.
    fn start(&self) -> Result<(), Error> {
        let operator = self.fixture.start_operator()?;
        *lock(&self.operator) = Some(operator);
        Ok(())
    }

    /// Lets the user act, injects the fault, and restarts the operator if it was killed. Returns whether the crash point was
    /// reached.
    async fn act(
        &self,
        workload: Workload,
        point: Option<CrashPoint>,
        submitted_before: usize,
    ) -> Result<bool, Error> {
        match point {
            None => {
                workload.start(&self.fixture).await?;
                Ok(true)
            }
            Some(CrashPoint::Absent) => {
                kill(&self.operator)?;
                workload.start(&self.fixture).await?;
                self.start()?;
                Ok(true)
            }
            Some(CrashPoint::Write(number, injection)) => {
                self.inject_at_write(workload, number, injection).await
            }
            Some(CrashPoint::Submission(number, injection)) => {
                self.inject_at_submission(workload, number, injection, submitted_before).await
            }
        }
    }

    async fn inject_at_write(
        &self,
        workload: Workload,
        number: u64,
        injection: Injection,
    ) -> Result<bool, Error> {
        let operator = self.operator.clone();
        let kill = move || kill(&operator);
        let fault = match injection {
            Injection::KillAfterResponse => Fault::Kill(Kill::new(KillPoint::AfterResponse, kill)),
            Injection::KillBeforeResponse => Fault::Kill(Kill::new(KillPoint::BeforeResponse, kill)),
            Injection::ResponseLost => Fault::LoseResponse(LostResponse::GatewayTimeout),
        };
        let injected = self.proxy.inject(fault, RequestMatcher::writes(), Times::Nth(number));
        workload.start(&self.fixture).await?;
        // Not every run has as many writes as the reference: some are combined or skipped.
        let completed = workload.wait_done(&self.fixture);
        let fired = tokio::select! {
            fired = injected.wait_fired(1, TIMEOUT) => fired.map(|()| true)?,
            completed = async { completed.await?; self.wait_quiet().await } => completed.map(|()| injected.fired() > 0)?,
        };
        if fired && injection != Injection::ResponseLost {
            self.start()?;
        }
        Ok(fired)
    }

    async fn inject_at_submission(
        &self,
        workload: Workload,
        number: u32,
        injection: Injection,
        submitted_before: usize,
    ) -> Result<bool, Error> {
        let sidecar = self.fixture.sidecar(NODE);
        let fault = match injection {
            Injection::ResponseLost => RequestFault::LoseResponse,
            // Accepted, and not answered while this operator is running.
            Injection::KillAfterResponse | Injection::KillBeforeResponse => {
                RequestFault::DelayResponse(TIMEOUT)
            }
        };
        let faulty = sidecar.on_request(RequestFilter::submissions().first(1), fault);
        // The newest script takes precedence: the submissions before the crash point succeed.
        let spared = sidecar.on_request(
            RequestFilter::submissions().first(number - 1),
            RequestFault::DelayResponse(Duration::ZERO),
        );
        workload.start(&self.fixture).await?;
        let expected = submitted_before + usize::try_from(number).unwrap_or(usize::MAX);
        wait::until(format!("submission {number}"), TIMEOUT, || async {
            let submitted = outcome::submitted_tasks(&self.fixture).len();
            if submitted >= expected { Ok(()) } else { Err(format!("{submitted} so far")) }
        })
        .await?;
        if injection != Injection::ResponseLost {
            kill(&self.operator)?;
        }
        spared.remove();
        if injection != Injection::ResponseLost {
            faulty.remove();
            self.start()?;
        }
        Ok(true)
    }

    /// Returns the finished writes of the operator.
    fn writes(&self) -> Result<Vec<Verb>, Error> {
        let writes = self.proxy.journal().requests(|request| request.info.is_write())?;
        Ok(writes.into_iter().map(|request| request.info.verb).collect())
    }

    /// Waits until the operator writes nothing for a while.
    async fn wait_quiet(&self) -> Result<(), Error> {
        let mut last = (usize::MAX, tokio::time::Instant::now());
        let last = Mutex::new(&mut last);
        wait::until("the operator writes nothing", TIMEOUT, || async {
            let count = self.writes().map_err(|error| error.to_string())?.len();
            let mut last = lock(&last);
            if last.0 != count {
                **last = (count, tokio::time::Instant::now());
            }
            if last.1.elapsed() >= QUIET { Ok(()) } else { Err(format!("{count} writes")) }
        })
        .await
    }
}

fn kill(operator: &Mutex<Option<Operator>>) -> Result<(), Error> {
    let running = lock(operator).take();
    running.map_or(Ok(()), Operator::kill)
}
