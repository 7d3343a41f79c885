//! One scenario, run against one implementation.

use std::pin::Pin;

use testbed::fakes::recorder::Recorder;
use testbed::faults::fault_proxy::FaultProxy;
use testbed::{Context, Result, TestResult};
use tokio::sync::RwLock;

use crate::checks::{self, Checks, DIFFERENCES, Implementation};
use crate::fixture::Fixture;
use crate::proxy::ProxyBuilder;

/// One scenario, run against one implementation.
pub struct Case<'a> {
    pub implementation: Implementation,
    pub fixture: Fixture<'a>,
    pub upstream: Recorder,
    checks: Checks,
}

/// The function of a scenario.
pub type Scenario = for<'a> fn(&'a Case<'a>) -> Pin<Box<dyn Future<Output = TestResult> + 'a>>;

impl Case<'_> {
    /// Records a check: the expected and the actual value. Names are unique within a scenario.
    pub fn check(&self, name: &str, expected: impl ToString, actual: impl ToString) {
        self.checks.add(name, expected, actual);
    }

    /// Configures a proxy that listens in clear text and forwards to the upstream of the scenario.
    pub fn proxy(&self) -> ProxyBuilder<'_> {
        ProxyBuilder::new(&self.fixture, self.implementation, &format!("{}/", self.upstream.url()))
    }

    /// Starts a fault proxy between the proxy and the API server.
    pub async fn faults(&self) -> Result<FaultProxy> {
        FaultProxy::start_with_journal(self.fixture.plane, self.fixture.logs.join("journal.jsonl")).await
    }
}

/// When a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Concurrently with others.
    Concurrent,
    /// Concurrently with others, but only in the full suite: it waits for minutes and uses no CPU.
    Slow,
    /// Only in the full suite, and not while a `Concurrent` scenario runs: it measures time.
    Exclusive,
}

impl Schedule {
    /// Parses the keyword in the list of scenarios.
    pub fn parse(keyword: &str) -> Self {
        match keyword {
            "slow" => Self::Slow,
            "exclusive" => Self::Exclusive,
            _ => Self::Concurrent,
        }
    }
}

/// Read-locked by `Concurrent` scenarios, write-locked by `Exclusive` ones.
static CPU: RwLock<()> = RwLock::const_new(());

/// Runs a scenario and evaluates its checks.
pub async fn run(
    cx: Context,
    id: &'static str,
    implementation: Implementation,
    schedule: Schedule,
    scenario: Scenario,
) -> TestResult {
    let _shared = if schedule == Schedule::Concurrent { Some(CPU.read().await) } else { None };
    let _exclusive = if schedule == Schedule::Exclusive { Some(CPU.write().await) } else { None };
    let case = Case {
        implementation,
        fixture: Fixture::new(&cx).await?,
        upstream: Recorder::start().await?,
        checks: Checks::default(),
    };
    scenario(&case).await?;
    let differences = DIFFERENCES.as_ref().map_err(|error| format!("differences.yaml: {error}"))?;
    let failures = checks::evaluate(implementation, id, &case.checks.all(), differences);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}
