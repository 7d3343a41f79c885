//! Requests that nobody should send, sent to ours and, where there is one, to the peer, each before an upstream that records.
//! OUTRIGGER_FUZZ_SECONDS says how long (a few seconds beside other tests), OUTRIGGER_FUZZ_FROM from which number on.

mod compare;
mod input;
mod outcome;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use testbed::fakes::recorder::Recorder;
use testbed::harness::wire::Wire;
use testbed::{Context, Result, TestResult};

use self::outcome::Outcome;
use crate::ground::{self, Ground};
use crate::program::{Orders, PEER, Proxy};
use crate::verdict::Target;

/// Pairs of proxies that work beside each other.
const WORKERS: usize = 4;

/// After so long without a byte nothing more will come; looked at more patiently before anything is called a finding.
const QUIET: Duration = Duration::from_millis(120);
const PATIENT: Duration = Duration::from_secs(5);

/// An input that was a finding once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// What it was.
    finding: String,
    /// The input, escaped as in `input::escaped`.
    input: String,
}

/// One program with an upstream of its own.
struct Side {
    proxy: Proxy,
    upstream: Recorder,
}

impl Side {
    async fn start(ground: &Ground<'_>, target: Target) -> Result<Self> {
        let upstream = Recorder::start().await?;
        let flags = ["--ignore-paths=/open,/open/*", "--auth-header-fields-enabled"];
        let orders = Orders::new(ground, target, &format!("{}/", upstream.url())).flags(&flags);
        Ok(Self { proxy: orders.start().await?, upstream })
    }

    async fn try_input(&self, bytes: &[u8], quiet: Duration) -> Result<Outcome> {
        let _ = self.upstream.take();
        let mut wire = Wire::connect(self.proxy.plain()).await?;
        // Refused before all of it was said, maybe.
        let _ = wire.send(bytes).await;
        let mut answer = Vec::new();
        let closed = loop {
            let (more, ended) = wire.rest(quiet).await;
            answer.extend(&more);
            if ended || more.is_empty() {
                break ended;
            }
        };
        let text = String::from_utf8_lossy(&answer).into_owned();
        let begins = text.split("HTTP/1.").skip(1).filter_map(|one| one.get(2..5)?.parse().ok());
        Ok(Outcome { codes: begins.collect(), closed, seen: self.upstream.take() })
    }
}

/// Both programs.
struct Pair {
    ours: Side,
    peer: Option<Side>,
}

/// What was found about one input: nothing, or sentences.
struct Finding {
    why: &'static str,
    sentences: Vec<String>,
}

impl Pair {
    async fn try_input(&self, bytes: &[u8], user: &str, quiet: Duration) -> Result<Finding> {
        let ours = self.ours.try_input(bytes, quiet).await?;
        let mut sentences = outcome::broken(&ours, user);
        let mut why = "no peer";
        if let Some(peer) = &self.peer {
            let peer = peer.try_input(bytes, quiet).await?;
            match compare::explanation(bytes, &ours, &peer) {
                Ok(known) => why = known,
                Err(sentence) => sentences.push(format!("{sentence}\n  ours: {ours:?}\n  peer: {peer:?}")),
            }
        }
        Ok(Finding { why, sentences })
    }

    /// The same once more with patience, when something was found: a busy machine is not a finding.
    async fn judge(&self, bytes: &[u8], user: &str) -> Result<Finding> {
        let finding = self.try_input(bytes, user, QUIET).await?;
        if finding.sentences.is_empty() { Ok(finding) } else { self.try_input(bytes, user, PATIENT).await }
    }
}

/// How far it is, told every minute: an hour without a word looks like one that hangs.
#[derive(Default)]
struct Progress {
    tried: Cell<u64>,
    minutes: Cell<u64>,
}

impl Progress {
    fn tried(&self, after: Duration) {
        self.tried.set(self.tried.get() + 1);
        let minutes = after.as_secs() / 60;
        if minutes > self.minutes.replace(minutes) {
            println!("{minutes:4} min: {} inputs", self.tried.get());
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// The inputs that were findings, and new ones.
pub async fn run(cx: Context) -> TestResult {
    let ground = ground::prepare(&cx).await?;
    let (token, user) = (ground.caller().await?.to_owned(), ground.name_of("caller"));
    let kept: Vec<Kept> =
        serde_saphyr::from_str(include_str!("seeds.yaml")).map_err(|error| format!("seeds.yaml: {error}"))?;
    let first = number("OUTRIGGER_FUZZ_FROM", 1);
    let time = Duration::from_secs(number("OUTRIGGER_FUZZ_SECONDS", 8));
    let begin = Instant::now();
    let progress = Progress::default();
    let work = |worker: usize| {
        let (ground, token, user, kept, progress) = (&ground, &token, &user, &kept, &progress);
        async move {
            let peer = match std::env::var_os(PEER) {
                Some(_) => Some(Side::start(ground, Target::Peer).await?),
                None => None,
            };
            let pair = Pair { ours: Side::start(ground, Target::Ours).await?, peer };
            let (mut reasons, mut findings) = (BTreeMap::new(), Vec::new());
            let old = kept
                .iter()
                .skip(worker)
                .step_by(WORKERS)
                .map(|one| (one.finding.clone(), unescaped(&one.input)));
            let new = (first + worker as u64..)
                .step_by(WORKERS)
                .map(|number| (number.to_string(), input::generate(number)));
            for (name, raw) in old.chain(new.take_while(|_| begin.elapsed() < time)) {
                let finding = pair.judge(&input::with_token(&raw, token), user).await?;
                *reasons.entry(finding.why).or_insert(0_u64) += 1;
                if !finding.sentences.is_empty() {
                    let said = finding.sentences.join("; ");
                    findings.push(format!("{name}: {said}\n  input: {}", input::escaped(&raw)));
                    println!("{}", findings[findings.len() - 1]);
                }
                progress.tried(begin.elapsed());
                pair.ours.proxy.process.check_alive()?;
            }
            Ok::<_, testbed::Error>((reasons, findings))
        }
    };
    let all = futures_util::future::try_join_all((0..WORKERS).map(work)).await?;
    let (mut reasons, mut findings) = (BTreeMap::new(), Vec::new());
    for (why, found) in all {
        findings.extend(found);
        for (reason, count) in why {
            *reasons.entry(reason).or_insert(0) += count;
        }
    }
    let tried = progress.tried.get();
    println!("{tried} inputs, from {first} on, in {:?}: {} findings", begin.elapsed(), findings.len());
    for (reason, count) in reasons {
        println!("{count:8} {reason}");
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n").into()) }
}

/// Bytes from their escaped form.
fn unescaped(text: &str) -> Vec<u8> {
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
