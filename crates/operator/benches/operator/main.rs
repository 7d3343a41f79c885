//! Benchmark of a thousand nodes: the release build of the operator, a real API server, fake kubelets and scripted sidecars. With
//! `OUTRIGGER_PEER_OPERATOR`, rounds alternate with the upstream controller.

mod candidate;
mod environment;
mod nodes;
#[path = "../../tests/node_operator/platform.rs"]
mod platform;
mod report;
mod round;
mod settings;

use std::process::ExitCode;

use testbed::Error;
use testbed::bench::{self, BenchEnvironment, Build};

use crate::report::Report;
use crate::settings::Settings;

fn main() -> ExitCode {
    bench::main("operator", run)
}

async fn run() -> Result<(), Error> {
    let settings = Settings::from_environment()?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_OPERATOR", "a binary of the upstream controller")?;
    let mut report = Report::default();
    let circumstances = BenchEnvironment::new(&ours, peer.as_ref(), settings.sizes())?;
    for number in 1..=settings.rounds {
        report.ours.push(round::run(number, &ours, &settings).await?);
        if let Some(peer) = &peer {
            report.peer.push(round::run(number, peer, &settings).await?);
        }
    }
    report.finish(&settings, circumstances)
}
