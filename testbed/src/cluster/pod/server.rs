//! HTTP server with a constant response, for probes and other pods.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{IoContext, Result};

/// Keeps silent clients from occupying threads forever.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until SIGTERM or SIGINT. The first process of a container has no default signal handlers: without these
/// handlers it would run until the end of the grace period.
pub(super) fn run(port: u16, message: &str) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context(|| "listening for signals".to_owned())?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        .context(|| format!("listening on port {port} (--port)"))?;
    let response = format!("{message} {}", hostname());
    println!("serving on port {port}: {response}");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let response = response.clone();
            std::thread::spawn(move || {
                if let Err(error) = serve(&stream, &response) {
                    eprintln!("serving a client failed: {error}");
                }
            });
        }
    });
    if let Some(signal) = signals.forever().next() {
        println!("exiting on signal {signal}");
    }
    Ok(())
}

fn serve(stream: &TcpStream, response: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let body = if request.contains(" /healthz ") { "ok" } else { response };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}\n",
        body.len() + 1
    )
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
