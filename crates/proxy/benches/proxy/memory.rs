//! Memory: of one that does nothing, of one with many connections that do nothing, and of one that knows many callers.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use testbed::Error;
use testbed::harness::wire::Wire;

use crate::contender::Contender;
use crate::load::Protocol;
use crate::report::Report;
use crate::settings::Settings;
use crate::world::{CLOSED, OPEN, World};

/// What was freed is given back a moment later.
const SETTLES: Duration = Duration::from_secs(2);

/// How many ask at once.
const AT_ONCE: usize = 16;

/// Measures one that was just started.
pub async fn play(
    world: &World,
    contender: &Contender,
    settings: &Settings,
    report: &mut Report,
) -> Result<(), Error> {
    tokio::time::sleep(SETTLES).await;
    let idle = contender.memory()?;
    let mut crowd = Vec::new();
    for _ in 0..settings.idle {
        let mut wire = Wire::connect(contender.address(Protocol::Http1)).await?;
        ask(&mut wire, OPEN, world.token()).await?;
        crowd.push(wire);
    }
    tokio::time::sleep(SETTLES).await;
    let with_connections = contender.memory()?;
    println!(
        "  {}: {idle:.1} MB at rest, {with_connections:.1} MB with {} idle connections",
        contender.name,
        crowd.len()
    );
    report.memory(contender.name, "at rest", idle);
    report.memory(contender.name, "with idle connections", with_connections);
    Ok(())
}

/// Every caller asks once; what is remembered of all of them is measured.
pub async fn users(world: &World, contender: &Contender, report: &mut Report) -> Result<(), Error> {
    if !contender.authorizes() {
        return Ok(());
    }
    let share = world.tokens.len().div_ceil(AT_ONCE);
    stream::iter(world.tokens.chunks(share))
        .map(|tokens| async move {
            let mut wire = Wire::connect(contender.address(Protocol::Http1)).await?;
            for token in tokens {
                ask(&mut wire, CLOSED, token).await?;
            }
            Ok::<(), Error>(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    tokio::time::sleep(SETTLES).await;
    let memory = contender.memory()?;
    println!("  {}: {memory:.1} MB with {} callers remembered", contender.name, world.tokens.len());
    report.memory(contender.name, "with callers remembered", memory);
    Ok(())
}

async fn ask(wire: &mut Wire, path: &str, token: &str) -> Result<(), Error> {
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n")).await?;
    match wire.answer("GET").await?.status {
        200 => Ok(()),
        status => Err(Error::Refused(format!("{path} was answered with {status}"))),
    }
}
