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

use testbed::bench::Circumstances;
use testbed::{Error, signals};
use tokio::runtime::Runtime;

use crate::contender::Contender;
use crate::report::Report;
use crate::settings::{Part, Settings};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-kms: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    signals::remove_on_signal(|signal| 128 + signal)?;
    let settings = Settings::from_environment()?;
    let ours = Contender::ours()?;
    let peer = Contender::peer()?;
    if peer.is_none() {
        println!(
            "No peer: set OUTRIGGER_PEER_REPORTER to a binary of the upstream operator to see its figures beside ours."
        );
    }
    let runtime = Runtime::new().map_err(|source| Error::Io { what: "starting a runtime".into(), source })?;
    let circumstances =
        Circumstances::of(&ours.version, peer.as_ref().map(|peer| peer.version.as_str()), settings.sizes())?;
    let mut report = Report::default();
    for number in 1..=settings.rounds {
        println!("round {number} of {}", settings.rounds);
        for contender in [Some(&ours), peer.as_ref()].into_iter().flatten() {
            if settings.has(Part::Alone) {
                report.alone(contender, runtime.block_on(alone::play(contender))?);
            }
            for crowd in crowd::OF_BOTH.iter().filter(|_| settings.has(Part::Crowds)) {
                report.crowd(contender, crowd, runtime.block_on(crowd::play(crowd, contender))?);
            }
        }
    }
    // Once: they take long. The peer's reports have no room for so many nodes.
    for crowd in crowd::largest(settings.largest).iter().filter(|_| settings.has(Part::Largest)) {
        report.crowd(&ours, crowd, runtime.block_on(crowd::play(crowd, &ours))?);
    }
    if settings.has(Part::Endurance) {
        report.endurance(runtime.block_on(endurance::play(&ours, settings.cycles))?);
    }
    report.finish(&settings, circumstances)
}
