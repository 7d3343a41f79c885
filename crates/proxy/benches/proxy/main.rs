//! What the proxy costs: processor time per request, time that a client waits, memory, and questions to the API server. The released
//! binary stands before one upstream and the real API server; nginx, which authorizes nothing, does the same forwarding as the
//! ceiling. With `OUTRIGGER_PEER_PROXY` the upstream program does the same as ours. All of them run at once, and work in turns.

mod calls;
mod contender;
mod crowds;
mod load;
mod nginx;
mod report;
mod settings;
mod tools;
mod world;

use std::process::ExitCode;

use testbed::bench::Circumstances;
use testbed::{Error, signals};
use tokio::runtime::Runtime;

use crate::contender::{Contender, Program};
use crate::load::{Cell, Protocol};
use crate::report::Report;
use crate::settings::Settings;
use crate::tools::Tools;
use crate::world::World;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    signals::remove_on_signal(|signal| 128 + signal)?;
    let settings = Settings::from_environment()?;
    let tools = Tools::find()?;
    let programs = Program::all(&tools)?;
    let version = |name| programs.iter().find(|one| one.name == name).map(|one| one.version.as_str());
    if version("peer").is_none() {
        println!("No peer: set OUTRIGGER_PEER_PROXY to kube-rbac-proxy to see its figures beside ours.");
    }
    let circumstances =
        Circumstances::of(version("ours").unwrap_or_default(), version("peer"), settings.sizes())?;
    let runtime = Runtime::new().map_err(|source| Error::Io { what: "starting a runtime".into(), source })?;
    let report = runtime.block_on(play(&settings, &tools, &programs))?;
    report.finish(&settings, circumstances)
}

async fn play(settings: &Settings, tools: &Tools, programs: &[Program]) -> Result<Report, Error> {
    let world = World::new(settings, tools).await?;
    let mut report = Report::default();
    for number in 1..=settings.rounds {
        println!("round {number} of {}", settings.rounds);
        for program in programs {
            let fresh = program.start(&world).await?;
            crowds::play(&world, &fresh, settings, &mut report).await?;
            calls::play(&world, &fresh, tools, &mut report).await?;
            crowds::users(&world, &fresh, &mut report).await?;
        }
        let mut contenders = Vec::new();
        for program in programs {
            contenders.push(program.start(&world).await?);
        }
        for cell in Cell::all() {
            for contender in &contenders {
                let measured = load::saturate(&world, contender, tools, cell, settings.seconds).await?;
                report.cell(contender.name, cell, measured);
            }
        }
        let upstream = Contender::nobody(&world);
        for protocol in [Protocol::Http1, Protocol::Http2] {
            for contender in [&upstream].into_iter().chain(&contenders) {
                let measured = load::at_leisure(&world, contender, tools, protocol, settings.seconds).await?;
                report.leisure(contender.name, protocol, measured);
            }
        }
    }
    Ok(report)
}
