//! Readiness probes of testbed servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::error::{Error, IoContext, Result};

/// Timeout of one probe. Packets lost while the network is being set up are retransmitted after 1, 2, 4 ... 32
/// seconds; a new probe is faster.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Fails unless a plain HTTP GET returns 200.
pub(crate) async fn http_ok(address: SocketAddr, path: &str) -> Result<()> {
    let probe = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: std::io::Result<String> =
        timeout(PROBE_TIMEOUT, probe).await.unwrap_or_else(|late| Err(late.into()));
    let answer = answer.context(|| format!("GET http://{address}{path}"))?;
    match answer.lines().next() {
        Some(line) if line.contains(" 200 ") => Ok(()),
        line => Err(Error::Other(format!("GET http://{address}{path} returned {line:?}"))),
    }
}

/// Fails unless a DNS server resolves a name.
pub(crate) async fn dns_resolves(server: SocketAddr, name: &str) -> Result<()> {
    let what = || format!("resolving {name} with {server}");
    let failed = |why: String| Error::Other(format!("{}: {why}", what()));
    let mut query = Packet::new_query(1);
    let asked = Name::new(name).map_err(|error| failed(error.to_string()))?;
    query.questions.push(Question::new(asked, QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN), false));
    let query = query.build_bytes_vec().map_err(|error| failed(error.to_string()))?;
    let probe = async {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        socket.connect(server).await?;
        socket.send(&query).await?;
        let mut answer = vec![0; 512];
        let length = socket.recv(&mut answer).await?;
        answer.truncate(length);
        Ok(answer)
    };
    let answer: std::io::Result<Vec<u8>> =
        timeout(PROBE_TIMEOUT, probe).await.unwrap_or_else(|late| Err(late.into()));
    let answer = answer.context(what)?;
    let answer = Packet::parse(&answer).map_err(|error| failed(error.to_string()))?;
    if answer.answers.is_empty() { Err(failed(format!("{:?}", answer.rcode()))) } else { Ok(()) }
}
