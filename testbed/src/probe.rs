//! Asking a server of the test-bed whether it is ready.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::{Error, IoContext, Result};

/// How long one question may take. A packet lost by a network that is just being laid is sent again after 1, 2, 4 ... 32
/// seconds; a new question is quicker.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Fails unless a plain HTTP GET is answered with 200.
pub(crate) async fn http_ok(address: SocketAddr, path: &str) -> Result<()> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: std::io::Result<String> =
        timeout(ANSWER_WITHIN, ask).await.unwrap_or_else(|late| Err(late.into()));
    let answer = answer.context(|| format!("asking http://{address}{path}"))?;
    match answer.lines().next() {
        Some(line) if line.contains(" 200 ") => Ok(()),
        line => Err(Error::Refused(format!("http://{address}{path} answers {line:?}"))),
    }
}
