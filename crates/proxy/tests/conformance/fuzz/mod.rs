//! Differential fuzzing: sends hostile requests to our proxy and, if present, to the peer, each in front of a recording upstream.
//! OUTRIGGER_FUZZ_SECONDS sets the duration (a few seconds by default), OUTRIGGER_FUZZ_FROM the number of the first input.

mod compare;
mod input;
mod outcome;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use testbed::fakes::recorder::Recorder;
use testbed::harness::raw_http::RawConnection;
use testbed::{Context, Result, TestResult};

use self::outcome::Outcome;
use crate::checks::Implementation;
use crate::fixture::Fixture;
use crate::proxy::{PEER, Proxy, ProxyBuilder};

/// The number of workers, each with a pair of proxies.
const WORKERS: usize = 4;

/// A response is complete after this time without a byte.
const QUIET: Duration = Duration::from_millis(120);

/// The same before a finding is reported, because a busy machine can delay responses.
const QUIET_RETRY: Duration = Duration::from_secs(5);

/// An input that the fuzzer has found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    /// What was wrong.
    finding: String,
    /// The input, escaped as by `input::escape`.
    input: String,
}

/// One implementation with an upstream of its own.
struct Side {
    proxy: Proxy,
    upstream: Recorder,
}

impl Side {
    async fn start(fixture: &Fixture<'_>, implementation: Implementation) -> Result<Self> {
        let upstream = Recorder::start().await?;
        let flags = ["--ignore-paths=/open,/open/*", "--auth-header-fields-enabled"];
        let builder =
            ProxyBuilder::new(fixture, implementation, &format!("{}/", upstream.url())).flags(&flags);
        Ok(Self { proxy: builder.start().await?, upstream })
    }

    async fn send_input(&self, bytes: &[u8], quiet: Duration) -> Result<Outcome> {
        let _ = self.upstream.take();
        let mut connection = RawConnection::connect(self.proxy.plain()).await?;
        // The proxy may close the connection before it has read everything.
        let _ = connection.send(bytes).await;
        let mut response = Vec::new();
        let closed = loop {
            let (more, is_closed) = connection.read_to_end(quiet).await;
            response.extend(&more);
            if is_closed || more.is_empty() {
                break is_closed;
            }
        };
        let text = String::from_utf8_lossy(&response).into_owned();
        let statuses = text.split("HTTP/1.").skip(1).filter_map(|rest| rest.get(2..5)?.parse().ok());
        Ok(Outcome { codes: statuses.collect(), closed, forwarded: self.upstream.take() })
    }
}

/// Both implementations.
struct Pair {
    ours: Side,
    peer: Option<Side>,
}

/// The result of an input: why the implementations may differ, and the violations found.
struct InputResult {
    explanation: &'static str,
    violations: Vec<String>,
}

impl Pair {
    async fn try_input(&self, bytes: &[u8], user: &str, quiet: Duration) -> Result<InputResult> {
        let ours = self.ours.send_input(bytes, quiet).await?;
        let mut violations = outcome::violations(&ours, user);
        let mut explanation = "no peer";
        if let Some(peer) = &self.peer {
            let peer = peer.send_input(bytes, quiet).await?;
            match compare::explain(bytes, &ours, &peer) {
                Ok(known) => explanation = known,
                Err(difference) => {
                    violations.push(format!("{difference}\n  ours: {ours:?}\n  peer: {peer:?}"))
                }
            }
        }
        Ok(InputResult { explanation, violations })
    }

    /// Evaluates an input, and again with a longer timeout if violations are found.
    async fn evaluate(&self, bytes: &[u8], user: &str) -> Result<InputResult> {
        let result = self.try_input(bytes, user, QUIET).await?;
        if result.violations.is_empty() { Ok(result) } else { self.try_input(bytes, user, QUIET_RETRY).await }
    }
}

/// Prints the progress every minute, so that a long run does not look stuck.
#[derive(Default)]
struct Progress {
    tried: Cell<u64>,
    minutes: Cell<u64>,
}

impl Progress {
    fn add(&self, after: Duration) {
        self.tried.set(self.tried.get() + 1);
        let minutes = after.as_secs() / 60;
        if minutes > self.minutes.replace(minutes) {
            println!("{minutes:4} min: {} inputs", self.tried.get());
        }
    }
}

fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Replays the seeds, then tries generated inputs.
pub async fn run(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let (token, user) = (fixture.caller_token().await?.to_owned(), fixture.username("caller"));
    let seeds: Vec<Seed> =
        serde_saphyr::from_str(include_str!("seeds.yaml")).map_err(|error| format!("seeds.yaml: {error}"))?;
    let first = env_number("OUTRIGGER_FUZZ_FROM", 1);
    let time = Duration::from_secs(env_number("OUTRIGGER_FUZZ_SECONDS", 8));
    let start = Instant::now();
    let progress = Progress::default();
    let work = |worker: usize| {
        let (fixture, token, user, seeds, progress) = (&fixture, &token, &user, &seeds, &progress);
        async move {
            let peer = match std::env::var_os(PEER) {
                Some(_) => Some(Side::start(fixture, Implementation::Peer).await?),
                None => None,
            };
            let pair = Pair { ours: Side::start(fixture, Implementation::Ours).await?, peer };
            let (mut reasons, mut findings) = (BTreeMap::new(), Vec::new());
            let replayed = seeds
                .iter()
                .skip(worker)
                .step_by(WORKERS)
                .map(|seed| (seed.finding.clone(), unescape(&seed.input)));
            let generated = (first + worker as u64..)
                .step_by(WORKERS)
                .map(|number| (number.to_string(), input::generate(number)));
            for (name, raw) in replayed.chain(generated.take_while(|_| start.elapsed() < time)) {
                let result = pair.evaluate(&input::with_token(&raw, token), user).await?;
                *reasons.entry(result.explanation).or_insert(0_u64) += 1;
                if !result.violations.is_empty() {
                    let violations = result.violations.join("; ");
                    findings.push(format!("{name}: {violations}\n  input: {}", input::escape(&raw)));
                    println!("{}", findings[findings.len() - 1]);
                }
                progress.add(start.elapsed());
                pair.ours.proxy.process.check_alive()?;
            }
            Ok::<_, testbed::Error>((reasons, findings))
        }
    };
    let all = futures_util::future::try_join_all((0..WORKERS).map(work)).await?;
    let (mut reasons, mut findings) = (BTreeMap::new(), Vec::new());
    for (counts, found) in all {
        findings.extend(found);
        for (reason, count) in counts {
            *reasons.entry(reason).or_insert(0) += count;
        }
    }
    let tried = progress.tried.get();
    println!("{tried} inputs, starting at {first}, in {:?}: {} findings", start.elapsed(), findings.len());
    for (reason, count) in reasons {
        println!("{count:8} {reason}");
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n").into()) }
}

/// Reverts `input::escape`.
fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let Some((kind, more)) = rest.split_first() else { break };
        rest = more;
        match kind {
            b'r' => bytes.push(b'\r'),
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'x' if rest.len() >= 2 => {
                let digits = String::from_utf8_lossy(&rest[..2]).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or_default());
                rest = &rest[2..];
            }
            other => bytes.push(*other),
        }
    }
    bytes
}
