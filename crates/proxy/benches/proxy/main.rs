//! Benchmark of the proxy: CPU time per request, added latency, memory, and reviews at the API server. The
//! release binary runs against one upstream and a real API server; nginx, which does not authorize, forwards
//! the same requests as a baseline. With `OUTRIGGER_PEER_PROXY` kube-rbac-proxy is measured too. All programs
//! run at the same time and are measured in turns.

mod contender;
mod environment;
mod load;
mod memory;
mod nginx;
mod report;
mod reviews;
mod settings;
mod tools;

use std::process::ExitCode;

use testbed::Error;
use testbed::bench::{self, BenchEnvironment, Build};

use crate::contender::Contender;
use crate::environment::Environment;
use crate::load::{Cell, Protocol};
use crate::report::Report;
use crate::settings::Settings;
use crate::tools::Tools;

fn main() -> ExitCode {
    bench::main("proxy", run)
}

async fn run() -> Result<(), Error> {
    let settings = Settings::from_environment()?;
    let tools = Tools::find()?;
    let ours = Build::ours()?;
    let peer = Build::peer("OUTRIGGER_PEER_PROXY", "kube-rbac-proxy")?;
    let circumstances = BenchEnvironment::new(&ours, peer.as_ref(), settings.sizes())?;
    let builds: Vec<Build> = [Some(ours), peer, Some(tools.baseline()?)].into_iter().flatten().collect();
    let report = measure_all(&settings, &tools, &builds).await?;
    report.finish(&settings, circumstances)
}

async fn measure_all(settings: &Settings, tools: &Tools, builds: &[Build]) -> Result<Report, Error> {
    let environment = Environment::new(settings, tools).await?;
    let mut report = Report::default();
    for number in 1..=settings.rounds {
        println!("round {number} of {}", settings.rounds);
        for build in builds {
            let fresh = Contender::start(build, &environment).await?;
            memory::measure_connections(&environment, &fresh, settings, &mut report).await?;
            reviews::measure(&environment, &fresh, tools, &mut report).await?;
            memory::measure_cache(&environment, &fresh, &mut report).await?;
        }
        let mut contenders = Vec::new();
        for build in builds {
            contenders.push(Contender::start(build, &environment).await?);
        }
        let ours = builds.first().ok_or_else(|| Error::Other("no build to measure".into()))?;
        let over_unix_socket = Contender::over_unix_socket(ours, &environment).await?;
        for cell in Cell::all() {
            // In turns with the others, so that both see the same machine.
            let unix = (cell.protocol == Protocol::Http1).then_some(&over_unix_socket);
            for contender in contenders.iter().chain(unix) {
                let measured = load::saturate(&environment, contender, tools, cell, settings.seconds).await?;
                report.cell(contender.name, cell, measured);
            }
        }
        let direct = Contender::direct(&environment);
        for protocol in [Protocol::Http1, Protocol::Http2] {
            for contender in [&direct].into_iter().chain(&contenders) {
                let measured =
                    load::measure_latency(&environment, contender, tools, protocol, settings.seconds).await?;
                report.latency(contender.name, protocol, measured);
            }
        }
    }
    Ok(report)
}
