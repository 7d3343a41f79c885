//! One round of one operator: from an empty cluster to all nodes Running, at rest, and edited.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testbed::Error;
use testbed::bench::Build;
use testbed::bench::usage::{cpu, memory};
use testbed::cluster::control_plane::{AuditReader, AuditedRequest};
use testbed::process::Process;

use crate::settings::Settings;
use crate::world::World;
use crate::{contender, nodes};

/// An operator that has written nothing for so long has nothing left to do.
const CALM: Duration = Duration::from_secs(5);

/// The longest that an operator may take to become calm.
const CALM_WITHIN: Duration = Duration::from_secs(900);

/// How long an operator is watched at rest.
const REST: Duration = Duration::from_secs(60);

/// What was measured in one round.
#[derive(Debug)]
pub struct Measured {
    /// Requests of the way to Running, by verb.
    pub requests: BTreeMap<String, usize>,
    /// Nodes that went it.
    pub nodes: usize,
    /// How long it took until all ran.
    pub took: Duration,
    /// Processor time of it, until the operator was calm.
    pub cpu: Duration,
    /// Resident memory without nodes, in MB.
    pub memory_empty: f64,
    /// Resident memory with all nodes at rest, in MB.
    pub memory_full: f64,
    /// Times from the arrival of an edit to the answer to the deletion of its pod.
    pub edits: Vec<Duration>,
    /// Tasks that were given to sidecars, and how many of these had been given before.
    pub submissions: (usize, usize),
    /// Writes in a minute without anything to do.
    pub writes_at_rest: usize,
}

/// Plays one round.
pub async fn play(number: usize, contender: &Build, settings: &Settings) -> Result<Measured, Error> {
    let say = |what: &str| println!("round {number} of {}, {}: {what}", settings.rounds, contender.name);
    let world = World::new(contender).await?;
    let operator = contender::start(contender, &world)?;
    let pid = operator.pid()?;
    let mut log = Log::of(&world, contender);
    log.until_watching(&operator).await?;
    let memory_empty = memory(pid)?;
    say(&format!("started, {memory_empty:.1} MB resident"));

    let (before, begin, used) = (log.all.len(), Instant::now(), cpu(pid)?);
    nodes::run(&world.client, &world.namespace, settings.nodes).await?;
    let took = begin.elapsed();
    say(&format!("{} nodes run after {:.0} s", settings.nodes, took.as_secs_f64()));
    log.until_calm(&operator).await?;
    let used = cpu(pid)?.saturating_sub(used);
    let mut requests = BTreeMap::new();
    // Discovery is about no node: however many there are, it is asked as often. It is shown below.
    for request in log.all[before..].iter().filter(|request| !request.resource.is_empty()) {
        *requests.entry(request.verb.clone()).or_default() += 1;
    }
    for (name, count) in by_name(&log.all[before..]) {
        say(&format!("{count} requests {name}"));
    }

    let before = log.all.len();
    tokio::time::sleep(REST).await;
    log.read()?;
    let writes_at_rest = log.all[before..].iter().filter(|request| request.is_write()).count();
    let memory_full = memory(pid)?;
    say(&format!("at rest, {memory_full:.1} MB resident, {writes_at_rest} writes in {REST:?}"));

    let journal = world.sidecars.journal();
    let submissions = (journal.submissions().values().sum(), journal.repeats().len());

    let before = log.all.len();
    nodes::edit(&world.client, &world.namespace, settings.edits).await?;
    log.until_calm(&operator).await?;
    let edits = edit_times(&log.edits, &log.all[before..]);
    if edits.len() != settings.edits {
        return Err(Error::Refused(format!(
            "{} deletions of pods were logged for {} edits",
            edits.len(),
            settings.edits
        )));
    }
    say(&format!("{} edits made", settings.edits));
    operator.check_alive()?;
    Ok(Measured {
        requests,
        nodes: settings.nodes,
        took,
        cpu: used,
        memory_empty,
        memory_full,
        edits,
        submissions,
        writes_at_rest,
    })
}

/// What the API server has logged that matters here.
struct Log {
    reader: AuditReader,
    user: String,
    /// Requests of the operator.
    all: Vec<AuditedRequest>,
    /// Edits of nodes, which are ours.
    edits: Vec<AuditedRequest>,
}

impl Log {
    fn of(world: &World, contender: &Build) -> Self {
        Self {
            reader: world.plane.audit().reader(),
            user: contender::user(contender),
            all: Vec::new(),
            edits: Vec::new(),
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        for request in self.reader.news()? {
            if request.user == self.user {
                self.all.push(request);
            } else if request.resource == "seinodes"
                && request.verb == "patch"
                && request.subresource.is_empty()
            {
                self.edits.push(request);
            }
        }
        Ok(())
    }

    /// Waits until the operator watches what it makes, and asks nothing more.
    async fn until_watching(&mut self, operator: &Process) -> Result<(), Error> {
        let watches = |all: &[AuditedRequest]| {
            ["seinodes", "statefulsets"]
                .iter()
                .all(|kind| all.iter().any(|request| request.verb == "watch" && request.resource == *kind))
        };
        self.until_quiet(operator, |_| true, watches).await
    }

    /// Waits until the operator writes nothing more.
    async fn until_calm(&mut self, operator: &Process) -> Result<(), Error> {
        self.until_quiet(operator, AuditedRequest::is_write, |_| true).await
    }

    async fn until_quiet(
        &mut self,
        operator: &Process,
        counts: impl Fn(&AuditedRequest) -> bool,
        begun: impl Fn(&[AuditedRequest]) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + CALM_WITHIN;
        let mut quiet_since = Instant::now();
        let mut known = 0;
        while quiet_since.elapsed() < CALM {
            operator.check_alive()?;
            if Instant::now() > deadline {
                return Err(Error::Refused(format!("the operator was not calm within {CALM_WITHIN:?}")));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.read()?;
            let news = self.all[known..].iter().any(&counts);
            known = self.all.len();
            if news || !begun(&self.all) {
                quiet_since = Instant::now();
            }
        }
        Ok(())
    }
}

/// The time from each edit to the deletion of its pod, by the API server's clock.
fn edit_times(edits: &[AuditedRequest], requests: &[AuditedRequest]) -> Vec<Duration> {
    let deletions: BTreeMap<&str, &AuditedRequest> = requests
        .iter()
        .filter(|request| request.verb == "delete" && request.resource == "pods" && request.code < 300)
        .map(|request| (nodes::of_pod(&request.name), request))
        .collect();
    let time = |edit: &AuditedRequest| {
        let deletion = deletions.get(edit.name.as_str())?;
        Duration::try_from(deletion.answered.0.duration_since(edit.received.0)).ok()
    };
    edits.iter().filter_map(time).collect()
}

fn by_name(requests: &[AuditedRequest]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let sub =
            if request.subresource.is_empty() { String::new() } else { format!("/{}", request.subresource) };
        let failed = if request.code < 300 { String::new() } else { format!(" ({})", request.code) };
        *counts.entry(format!("{} {}{sub}{failed}", request.verb, request.resource)).or_default() += 1;
    }
    counts
}
