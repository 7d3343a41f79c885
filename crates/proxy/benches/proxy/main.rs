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

use testbed::Error;
use testbed::bench::{self, Build, Circumstances};

use crate::contender::Contender;
use crate::load::{Cell, Protocol};
use crate::report::Report;
use crate::settings::Settings;
use crate::tools::Tools;
use crate::world::World;

fn main() -> ExitCode {
    bench::main("proxy", run)
}

async fn run() -> Result<(), Error> {
    let settings = Settings::from_environment()?;
    let tools = Tools::find()?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_PROXY", "kube-rbac-proxy")?;
    let circumstances = Circumstances::of(&ours, peer.as_ref(), settings.sizes())?;
    let builds: Vec<Build> = [Some(ours), peer, Some(tools.ceiling()?)].into_iter().flatten().collect();
    let report = play(&settings, &tools, &builds).await?;
    report.finish(&settings, circumstances)
}

async fn play(settings: &Settings, tools: &Tools, builds: &[Build]) -> Result<Report, Error> {
    let world = World::new(settings, tools).await?;
    let mut report = Report::default();
    for number in 1..=settings.rounds {
        println!("round {number} of {}", settings.rounds);
        for build in builds {
            let fresh = Contender::start(build, &world).await?;
            crowds::play(&world, &fresh, settings, &mut report).await?;
            calls::play(&world, &fresh, tools, &mut report).await?;
            crowds::users(&world, &fresh, &mut report).await?;
        }
        let mut contenders = Vec::new();
        for build in builds {
            contenders.push(Contender::start(build, &world).await?);
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
