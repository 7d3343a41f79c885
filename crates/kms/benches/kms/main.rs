//! What reporters of KMS plugins cost: themselves, and the API server that all of them write on. Reporters are the
//! released binary, each a process. With `OUTRIGGER_PEER_REPORTER` the upstream reporter does the same, in turns with ours.

mod alone;
mod contender;
mod crowd;
mod endurance;
mod report;
mod settings;
mod watchers;
mod world;
mod writes;

use std::process::ExitCode;

use testbed::Error;
use testbed::bench::{self, Build, Circumstances};

use crate::report::Report;
use crate::settings::{Part, Settings};

fn main() -> ExitCode {
    bench::main("kms", run)
}

async fn run() -> Result<(), Error> {
    let settings = Settings::from_environment()?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_REPORTER", "a binary of the upstream operator")?;
    let circumstances = Circumstances::of(&ours, peer.as_ref(), settings.sizes())?;
    let mut report = Report::default();
    for number in 1..=settings.rounds {
        println!("round {number} of {}", settings.rounds);
        for contender in [Some(&ours), peer.as_ref()].into_iter().flatten() {
            if settings.has(Part::Alone) {
                report.alone(contender, alone::play(contender).await?);
            }
            for crowd in crowd::OF_BOTH.iter().filter(|_| settings.has(Part::Crowds)) {
                report.crowd(contender, crowd, crowd::play(crowd, contender).await?);
            }
        }
    }
    // Once: they take long. The peer's reports have no room for so many nodes.
    for crowd in crowd::largest(settings.largest).iter().filter(|_| settings.has(Part::Largest)) {
        report.crowd(&ours, crowd, crowd::play(crowd, &ours).await?);
    }
    if settings.has(Part::Endurance) {
        report.endurance(endurance::play(&ours, settings.cycles).await?);
    }
    report.finish(&settings, circumstances)
}
