//! A web server of one answer, to be reached by probes and neighbours.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{IoContext, Result};

/// A client that sends nothing must not hold a thread for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until told to end. The first process of a container gets no default handling of signals: without this it
/// would be killed only after the pod's whole grace period.
pub(super) fn run(port: u16, message: &str) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context(|| "listening for signals".to_owned())?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        .context(|| format!("listening on port {port} (--port)"))?;
    let answer = format!("{message} {}", hostname());
    println!("serving on port {port}: {answer}");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                if let Err(error) = serve(&stream, &answer) {
                    eprintln!("a client went away: {error}");
                }
            });
        }
    });
    if let Some(signal) = signals.forever().next() {
        println!("ended by signal {signal}");
    }
    Ok(())
}

fn serve(stream: &TcpStream, answer: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let body = if request.contains(" /healthz ") { "ok" } else { answer };
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
