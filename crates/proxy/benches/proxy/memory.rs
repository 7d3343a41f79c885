//! Measures memory: idle, with many idle connections, and with many cached callers.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use testbed::Error;
use testbed::harness::raw_http::RawConnection;

use crate::contender::Contender;
use crate::environment::{AUTHORIZED_PATH, Environment, IGNORED_PATH};
use crate::load::Protocol;
use crate::report::Report;
use crate::settings::Settings;

/// Delay until freed memory is returned to the system.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Concurrent connections that send requests.
const CONCURRENCY: usize = 16;

/// Measures a freshly started program, idle and with idle connections.
pub async fn measure_connections(
    environment: &Environment,
    contender: &Contender,
    settings: &Settings,
    report: &mut Report,
) -> Result<(), Error> {
    tokio::time::sleep(SETTLE_TIME).await;
    let idle = contender.memory()?;
    let mut connections = Vec::new();
    for _ in 0..settings.idle {
        let mut wire = RawConnection::connect(contender.address(Protocol::Http1)).await?;
        send_request(&mut wire, IGNORED_PATH, environment.token()).await?;
        connections.push(wire);
    }
    tokio::time::sleep(SETTLE_TIME).await;
    let with_connections = contender.memory()?;
    println!(
        "  {}: {idle:.1} MB idle, {with_connections:.1} MB with {} idle connections",
        contender.name,
        connections.len()
    );
    report.memory(contender.name, "idle", idle);
    report.memory(contender.name, "with idle connections", with_connections);
    Ok(())
}

/// Sends one request per caller and measures the memory of the cached results.
pub async fn measure_cache(
    environment: &Environment,
    contender: &Contender,
    report: &mut Report,
) -> Result<(), Error> {
    if !contender.authorizes() {
        return Ok(());
    }
    let chunk = environment.tokens.len().div_ceil(CONCURRENCY);
    stream::iter(environment.tokens.chunks(chunk))
        .map(|tokens| async move {
            let mut wire = RawConnection::connect(contender.address(Protocol::Http1)).await?;
            for token in tokens {
                send_request(&mut wire, AUTHORIZED_PATH, token).await?;
            }
            Ok::<(), Error>(())
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let memory = contender.memory()?;
    println!("  {}: {memory:.1} MB with {} callers cached", contender.name, environment.tokens.len());
    report.memory(contender.name, "with callers cached", memory);
    Ok(())
}

async fn send_request(wire: &mut RawConnection, path: &str, token: &str) -> Result<(), Error> {
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n")).await?;
    match wire.read_response("GET").await?.status {
        200 => Ok(()),
        status => Err(Error::Other(format!("{path}: unexpected status {status}"))),
    }
}
