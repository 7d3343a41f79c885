//! One round of one candidate: create all nodes, wait in steady state, edit them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testbed::Error;
use testbed::bench::Build;
use testbed::bench::usage::{cpu_time, rss_mb};
use testbed::cluster::control_plane::{AuditReader, AuditedRequest};
use testbed::process::Process;

use crate::environment::Environment;
use crate::settings::Settings;
use crate::{candidate, nodes};

/// An operator without writes for this long has converged.
const QUIET: Duration = Duration::from_secs(5);

/// The timeout for convergence.
const QUIET_TIMEOUT: Duration = Duration::from_secs(900);

/// How long the steady state is measured.
const STEADY_STATE: Duration = Duration::from_secs(60);

/// The measurements of one round.
#[derive(Debug)]
pub struct Measured {
    /// Requests until all nodes were Running, by verb.
    pub requests: BTreeMap<String, usize>,
    /// Number of nodes.
    pub nodes: usize,
    /// Time until all nodes were Running.
    pub took: Duration,
    /// CPU time until the operator converged.
    pub cpu: Duration,
    /// Resident memory without nodes, in MB.
    pub memory_empty: f64,
    /// Resident memory with all nodes in steady state, in MB.
    pub memory_full: f64,
    /// Times from the receipt of an edit to the response to the deletion of its pod.
    pub edits: Vec<Duration>,
    /// Task submissions, and how many of them were repeated.
    pub submissions: (usize, usize),
    /// Writes in steady state.
    pub steady_state_writes: usize,
}

/// Runs one round.
pub async fn run(number: usize, candidate: &Build, settings: &Settings) -> Result<Measured, Error> {
    let print = |text: &str| println!("round {number} of {}, {}: {text}", settings.rounds, candidate.name);
    let environment = Environment::new(candidate).await?;
    let operator = candidate::start(candidate, &environment)?;
    let pid = operator.pid()?;
    let mut log = AuditLog::new(&environment, candidate);
    log.wait_watching(&operator).await?;
    let memory_empty = rss_mb(pid)?;
    print(&format!("started, {memory_empty:.1} MB resident"));

    let (before, begin, used) = (log.requests.len(), Instant::now(), cpu_time(pid)?);
    nodes::create_and_wait(&environment.client, &environment.namespace, settings.nodes).await?;
    let took = begin.elapsed();
    print(&format!("{} nodes are Running after {:.0} s", settings.nodes, took.as_secs_f64()));
    log.wait_quiet(&operator).await?;
    let used = cpu_time(pid)?.saturating_sub(used);
    let mut requests = BTreeMap::new();
    // Excludes discovery requests, which do not depend on the number of nodes. They are printed below.
    for request in log.requests[before..].iter().filter(|request| !request.resource.is_empty()) {
        *requests.entry(request.verb.clone()).or_default() += 1;
    }
    for (name, count) in count_by_name(&log.requests[before..]) {
        print(&format!("{count} requests {name}"));
    }

    let before = log.requests.len();
    tokio::time::sleep(STEADY_STATE).await;
    log.read()?;
    let steady_state_writes = log.requests[before..].iter().filter(|request| request.is_write()).count();
    let memory_full = rss_mb(pid)?;
    print(&format!(
        "steady state, {memory_full:.1} MB resident, {steady_state_writes} writes in {STEADY_STATE:?}"
    ));

    let journal = environment.sidecars.journal();
    let submissions = (journal.submissions().values().sum(), journal.duplicates().len());

    let before = log.requests.len();
    nodes::edit(&environment.client, &environment.namespace, settings.edits).await?;
    log.wait_quiet(&operator).await?;
    let edits = edit_times(&log.edits, &log.requests[before..]);
    if edits.len() != settings.edits {
        return Err(Error::Other(format!(
            "{} pod deletions were logged for {} edits",
            edits.len(),
            settings.edits
        )));
    }
    print(&format!("{} edits made", settings.edits));
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
        steady_state_writes,
    })
}

/// The requests in the audit log that the benchmark counts.
struct AuditLog {
    reader: AuditReader,
    user: String,
    /// Requests of the candidate.
    requests: Vec<AuditedRequest>,
    /// Edits of nodes by the benchmark.
    edits: Vec<AuditedRequest>,
}

impl AuditLog {
    fn new(environment: &Environment, candidate: &Build) -> Self {
        Self {
            reader: environment.plane.audit().reader(),
            user: candidate::user(candidate),
            requests: Vec::new(),
            edits: Vec::new(),
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        for request in self.reader.read_new()? {
            if request.user == self.user {
                self.requests.push(request);
            } else if request.resource == "seinodes"
                && request.verb == "patch"
                && request.subresource.is_empty()
            {
                self.edits.push(request);
            }
        }
        Ok(())
    }

    /// Waits until the operator has started its watches and sends no more requests.
    async fn wait_watching(&mut self, operator: &Process) -> Result<(), Error> {
        let has_watches = |requests: &[AuditedRequest]| {
            ["seinodes", "statefulsets"].iter().all(|kind| {
                requests.iter().any(|request| request.verb == "watch" && request.resource == *kind)
            })
        };
        self.wait_until_quiet(operator, |_| true, has_watches).await
    }

    /// Waits until the operator sends no more writes.
    async fn wait_quiet(&mut self, operator: &Process) -> Result<(), Error> {
        self.wait_until_quiet(operator, AuditedRequest::is_write, |_| true).await
    }

    async fn wait_until_quiet(
        &mut self,
        operator: &Process,
        counts: impl Fn(&AuditedRequest) -> bool,
        has_started: impl Fn(&[AuditedRequest]) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + QUIET_TIMEOUT;
        let mut quiet_since = Instant::now();
        let mut known = 0;
        while quiet_since.elapsed() < QUIET {
            operator.check_alive()?;
            if Instant::now() > deadline {
                return Err(Error::Other(format!("the operator did not converge within {QUIET_TIMEOUT:?}")));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.read()?;
            let has_new = self.requests[known..].iter().any(&counts);
            known = self.requests.len();
            if has_new || !has_started(&self.requests) {
                quiet_since = Instant::now();
            }
        }
        Ok(())
    }
}

/// Returns the time from each edit to the deletion of its pod, by the clock of the API server.
fn edit_times(edits: &[AuditedRequest], requests: &[AuditedRequest]) -> Vec<Duration> {
    let deletions: BTreeMap<&str, &AuditedRequest> = requests
        .iter()
        .filter(|request| request.verb == "delete" && request.resource == "pods" && request.code < 300)
        .map(|request| (nodes::node_of_pod(&request.name), request))
        .collect();
    let time = |edit: &AuditedRequest| {
        let deletion = deletions.get(edit.name.as_str())?;
        Duration::try_from(deletion.responded.0.duration_since(edit.received.0)).ok()
    };
    edits.iter().filter_map(time).collect()
}

fn count_by_name(requests: &[AuditedRequest]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let subresource =
            if request.subresource.is_empty() { String::new() } else { format!("/{}", request.subresource) };
        let failed = if request.code < 300 { String::new() } else { format!(" ({})", request.code) };
        *counts.entry(format!("{} {}{subresource}{failed}", request.verb, request.resource)).or_default() +=
            1;
    }
    counts
}
