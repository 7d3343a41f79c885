//! Benchmark of KMS reporters: their own resource usage, and the load on the API server. Reporters are processes of the release binary.
//! With `OUTRIGGER_PEER_REPORTER`, the upstream reporter runs the same measurements, alternating with ours.

mod contender;
mod crowd;
mod endurance;
mod environment;
mod report;
mod settings;
mod single;
mod watchers;
mod writes;

use std::process::ExitCode;

use testbed::Error;
use testbed::bench::{self, BenchEnvironment, Build};

use crate::report::Report;
use crate::settings::{Part, Settings};

fn main() -> ExitCode {
    bench::main("kms", run)
}

async fn run() -> Result<(), Error> {
    let settings = Settings::from_environment()?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_REPORTER", "a binary of the upstream operator")?;
    let circumstances = BenchEnvironment::new(&ours, peer.as_ref(), settings.sizes())?;
    let mut report = Report::default();
    for number in 1..=settings.rounds {
        println!("round {number} of {}", settings.rounds);
        for contender in [Some(&ours), peer.as_ref()].into_iter().flatten() {
            if settings.has(Part::Single) {
                report.add_single(contender, single::measure(contender).await?);
            }
            for crowd in crowd::FOR_BOTH.iter().filter(|_| settings.has(Part::Crowds)) {
                report.add_crowd(contender, crowd, crowd::measure(crowd, contender).await?);
            }
        }
    }
    // Only once, because they take long. The peer does not support so many nodes.
    for crowd in crowd::largest(settings.largest).iter().filter(|_| settings.has(Part::Largest)) {
        report.add_crowd(&ours, crowd, crowd::measure(crowd, &ours).await?);
    }
    if settings.has(Part::Endurance) {
        report.add_endurance(endurance::measure(&ours, settings.cycles).await?);
    }
    report.finish(&settings, circumstances)
}
