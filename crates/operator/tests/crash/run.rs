//! One run of a workload, with an operator that reaches the API server only through a proxy that can kill it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use testbed::fakes::sidecars::{Requests, Trouble};
use testbed::faults::fault_proxy::{Fault, FaultProxy, Kill, Loss, Matching, Moment, Times, Verb};
use testbed::harness::wait;
use testbed::{Context, Error, Site};

use crate::ground::{Ground, Operator, SOON};
use crate::outcome::{self, Outcome};
use crate::point::{Blow, Point};
use crate::workload::{NODE, Workload};

/// How long nothing must be written before a run counts as over.
const REST: Duration = Duration::from_millis(700);

/// A run that came to rest.
pub struct Ended {
    /// What it came to.
    pub outcome: Outcome,
    /// How many writes there were since the user acted.
    pub writes: u64,
    /// Which of them deleted something, counted from one.
    pub deletions: Vec<u64>,
    /// How many tasks were given since the user acted.
    pub submissions: u32,
    /// Whether it came to the point at all.
    pub struck: bool,
}

/// Runs a workload, and strikes at one point of it, or never.
pub async fn run(cx: &Context, workload: Workload, point: Option<Point>) -> Result<Ended, Error> {
    let scene = Scene::of(cx, workload, point).await?;
    scene.start()?;
    workload.prepare(&scene.ground).await?;
    scene.rest().await?;
    let before = scene.writes()?.len();
    let given_before = outcome::given(&scene.ground).len();
    let struck = scene.act(workload, point, given_before).await?;
    workload.end(&scene.ground).await?;
    scene.rest().await?;
    scene.proxy.check()?;
    Ok(Ended {
        writes: u64::try_from(scene.writes()?.len() - before).unwrap_or(u64::MAX),
        deletions: (1..)
            .zip(&scene.writes()?[before..])
            .filter(|(_, verb)| **verb == Verb::Delete)
            .map(|(number, _)| number)
            .collect(),
        submissions: u32::try_from(outcome::given(&scene.ground).len() - given_before).unwrap_or(u32::MAX),
        outcome: Outcome::of(&scene.ground).await?,
        struck,
    })
}

struct Scene<'a> {
    ground: Ground<'a>,
    proxy: FaultProxy,
    operator: Arc<Mutex<Option<Operator>>>,
}

impl<'a> Scene<'a> {
    async fn of(cx: &'a Context, workload: Workload, point: Option<Point>) -> Result<Self, Error> {
        let mut ground = Ground::of(cx).await?;
        // Logs of its own: many runs of one test are under way at once.
        let label = point.map_or_else(|| "undisturbed".into(), |point| point.to_string());
        let logs = cx.logs().join(format!("{workload:?}-{label}"));
        ground.site = Site::claim(&logs)?;
        let proxy = FaultProxy::recorded_in(ground.plane, logs.join("fault-proxy.jsonl")).await?;
        ground.server = proxy.url().into();
        Ok(Self { ground, proxy, operator: Arc::default() })
    }

    /// Starts the operator, behind the proxy.
    fn start(&self) -> Result<(), Error> {
        let operator = self.ground.operator()?;
        *self.operator.lock().unwrap_or_else(PoisonError::into_inner) = Some(operator);
        Ok(())
    }

    /// Lets the user act, strikes, and starts the operator again if it was killed. Tells whether it came to the point.
    async fn act(
        &self,
        workload: Workload,
        point: Option<Point>,
        given_before: usize,
    ) -> Result<bool, Error> {
        match point {
            None => {
                workload.begin(&self.ground).await?;
                Ok(true)
            }
            Some(Point::Absent) => {
                kill(&self.operator)?;
                workload.begin(&self.ground).await?;
                self.start()?;
                Ok(true)
            }
            Some(Point::Write(number, blow)) => self.strike_at_write(workload, number, blow).await,
            Some(Point::Submission(number, blow)) => {
                self.strike_at_submission(workload, number, blow, given_before).await
            }
        }
    }

    async fn strike_at_write(&self, workload: Workload, number: u64, blow: Blow) -> Result<bool, Error> {
        let doomed = self.operator.clone();
        let die = move || kill(&doomed);
        let fault = match blow {
            Blow::Killed => Fault::Kill(Kill::at(Moment::AfterAnswer, die)),
            Blow::KilledUnheard => Fault::Kill(Kill::at(Moment::BeforeAnswer, die)),
            Blow::Unheard => Fault::LoseAnswer(Loss::GatewayTimeout),
        };
        let injected = self.proxy.inject(fault, Matching::writes(), Times::Nth(number));
        workload.begin(&self.ground).await?;
        // Not every run has as many writes as the one before it: some are made together, or not at all.
        let ended = workload.end(&self.ground);
        let struck = tokio::select! {
            struck = injected.wait_fired(1, SOON) => struck.map(|()| true)?,
            ended = async { ended.await?; self.rest().await } => ended.map(|()| injected.fired() > 0)?,
        };
        if struck && blow != Blow::Unheard {
            self.start()?;
        }
        Ok(struck)
    }

    async fn strike_at_submission(
        &self,
        workload: Workload,
        number: u32,
        blow: Blow,
        given_before: usize,
    ) -> Result<bool, Error> {
        let sidecar = self.ground.sidecar(NODE);
        let trouble = match blow {
            Blow::Unheard => Trouble::LoseAnswer,
            // Taken, and not answered while this operator lives.
            Blow::Killed | Blow::KilledUnheard => Trouble::Late(SOON),
        };
        let strike = sidecar.on_request(Requests::submissions().first(1), trouble);
        // The newer script decides for those before it.
        let spared =
            sidecar.on_request(Requests::submissions().first(number - 1), Trouble::Late(Duration::ZERO));
        workload.begin(&self.ground).await?;
        let wanted = given_before + usize::try_from(number).unwrap_or(usize::MAX);
        wait::until(format!("submission {number}"), SOON, || async {
            let given = outcome::given(&self.ground).len();
            if given >= wanted { Ok(()) } else { Err(format!("{given} so far")) }
        })
        .await?;
        if blow != Blow::Unheard {
            kill(&self.operator)?;
        }
        spared.lift();
        if blow != Blow::Unheard {
            strike.lift();
            self.start()?;
        }
        Ok(true)
    }

    /// The writes of the operator that have been answered, or ended otherwise.
    fn writes(&self) -> Result<Vec<Verb>, Error> {
        let writes = self.proxy.journal().requests(|one| Verb::WRITES.contains(&one.asked.verb))?;
        Ok(writes.into_iter().map(|one| one.asked.verb).collect())
    }

    /// Waits until nothing has been written for a while.
    async fn rest(&self) -> Result<(), Error> {
        let mut last = (usize::MAX, tokio::time::Instant::now());
        let looked = Mutex::new(&mut last);
        wait::until("the operator rests", SOON, || async {
            let count = self.writes().map_err(|error| error.to_string())?.len();
            let mut last = looked.lock().unwrap_or_else(PoisonError::into_inner);
            if last.0 != count {
                **last = (count, tokio::time::Instant::now());
            }
            if last.1.elapsed() >= REST { Ok(()) } else { Err(format!("{count} writes")) }
        })
        .await
    }
}

fn kill(operator: &Mutex<Option<Operator>>) -> Result<(), Error> {
    let running = operator.lock().unwrap_or_else(PoisonError::into_inner).take();
    running.map_or(Ok(()), Operator::kill)
}
