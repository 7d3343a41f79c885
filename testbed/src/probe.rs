//! Asking a server of the test-bed whether it is ready.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Error, IoContext, Result};

/// Fails unless a plain HTTP GET is answered with 200.
pub(crate) async fn http_ok(address: SocketAddr, path: &str) -> Result<()> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: String = ask.await.context(|| format!("asking http://{address}{path}"))?;
    match answer.lines().next() {
        Some(line) if line.contains(" 200 ") => Ok(()),
        line => Err(Error::Refused(format!("http://{address}{path} answers {line:?}"))),
    }
}
