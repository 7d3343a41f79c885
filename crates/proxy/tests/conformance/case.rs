//! One scenario, run against one program.

use std::pin::Pin;

use testbed::fakes::recorder::Recorder;
use testbed::faults::fault_proxy::FaultProxy;
use testbed::{Context, Result, TestResult};
use tokio::sync::RwLock;

use crate::ground::{self, Ground};
use crate::program::Orders;
use crate::verdict::{self, Checks, DIFFERENCES, Target};

/// One scenario, run against one program.
pub struct Case<'a> {
    pub target: Target,
    pub ground: Ground<'a>,
    pub upstream: Recorder,
    checks: Checks,
}

/// What a scenario does.
pub type Scenario = for<'a> fn(&'a Case<'a>) -> Pin<Box<dyn Future<Output = TestResult> + 'a>>;

impl Case<'_> {
    /// Holds what was seen against what must be.
    pub fn check(&self, name: &str, wanted: impl ToString, seen: impl ToString) {
        self.checks.add(name, wanted, seen);
    }

    /// A proxy in clear text before the scenario's upstream.
    pub fn proxy(&self) -> Orders<'_> {
        Orders::new(&self.ground, self.target, &format!("{}/", self.upstream.url()))
    }

    /// Faults between the proxy and the API server.
    pub async fn faults(&self) -> Result<FaultProxy> {
        FaultProxy::recorded_in(self.ground.plane, self.ground.logs.join("journal.jsonl")).await
    }
}

/// How a scenario is run beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Beside others.
    Usual,
    /// Beside others, in the whole suite only: it waits for minutes and does nothing.
    Slow,
    /// In the whole suite only, while no other scenario works: it measures time.
    Alone,
}

impl Pace {
    /// Reads it from the list of scenarios.
    pub fn read(word: &str) -> Self {
        match word {
            "slow" => Self::Slow,
            "alone" => Self::Alone,
            _ => Self::Usual,
        }
    }
}

/// Held by those who work, and alone by those who measure time.
static WORK: RwLock<()> = RwLock::const_new(());

/// Runs a scenario and judges what it saw.
pub async fn run(
    cx: Context,
    id: &'static str,
    target: Target,
    pace: Pace,
    scenario: Scenario,
) -> TestResult {
    let _beside = if pace == Pace::Usual { Some(WORK.read().await) } else { None };
    let _alone = if pace == Pace::Alone { Some(WORK.write().await) } else { None };
    let case = Case {
        target,
        ground: ground::prepare(&cx).await?,
        upstream: Recorder::start().await?,
        checks: Checks::default(),
    };
    scenario(&case).await?;
    let known = DIFFERENCES.as_ref().map_err(|error| format!("differences.yaml: {error}"))?;
    let wrong = verdict::judge(target, id, &case.checks.all(), known);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
