//! What a thousand nodes cost: the operator as it is released, against the real API server, with played kubelets and scripted
//! sidecars. With `OUTRIGGER_PEER_OPERATOR` the upstream operator does the same work, in turns with ours.

mod contender;
mod nodes;
#[path = "../../tests/node_operator/platform.rs"]
mod platform;
mod report;
mod round;
mod settings;
mod world;

use std::process::ExitCode;

use testbed::bench::Circumstances;
use testbed::{Error, signals};
use tokio::runtime::Runtime;

use crate::contender::Contender;
use crate::report::Report;
use crate::settings::Settings;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-operator: {error}");
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
            "No peer: set OUTRIGGER_PEER_OPERATOR to a binary of the upstream operator to see its figures beside ours."
        );
    }
    let runtime = Runtime::new().map_err(|source| Error::Io { what: "starting a runtime".into(), source })?;
    let mut report = Report::default();
    let circumstances =
        Circumstances::of(&ours.version, peer.as_ref().map(|peer| peer.version.as_str()), settings.sizes())?;
    for number in 1..=settings.rounds {
        report.ours.push(runtime.block_on(round::play(number, &ours, &settings))?);
        if let Some(peer) = &peer {
            report.peer.push(runtime.block_on(round::play(number, peer, &settings))?);
        }
    }
    report.finish(&settings, circumstances)
}
