//! A running seid, asked as its users ask it.

use std::net::IpAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::error::{Error, IoContext, Result};

/// Where seid listens in every pod.
const PORT: u16 = 26657;

/// The RPC of a seid.
#[derive(Clone, Copy, Debug)]
pub struct Rpc {
    host: IpAddr,
}

impl Rpc {
    /// The RPC of the seid at an address, such as a pod's.
    #[must_use]
    pub fn at(host: IpAddr) -> Self {
        Self { host }
    }

    /// The height of its newest block.
    pub async fn height(self) -> Result<u64> {
        self.height_of("latest_block_height").await
    }

    /// The height of its oldest block.
    pub async fn earliest_height(self) -> Result<u64> {
        self.height_of("earliest_block_height").await
    }

    async fn height_of(self, which: &str) -> Result<u64> {
        let status = self.ask("status").await?;
        let height = status["sync_info"][which].as_str().and_then(|text| text.parse().ok());
        height.ok_or_else(|| Error::Refused(format!("there is no {which} in {status}")))
    }

    /// The hash of a block.
    pub async fn block(self, height: u64) -> Result<String> {
        let block = self.ask(&format!("block?height={height}")).await?;
        let hash = block["block_id"]["hash"].as_str().filter(|hash| !hash.is_empty()).map(str::to_owned);
        hash.ok_or_else(|| Error::Refused(format!("there is no hash of block {height} in {block}")))
    }

    async fn ask(self, question: &str) -> Result<Value> {
        let address = (self.host, PORT);
        let what = || format!("asking the seid at {}:{} for {question}", address.0, address.1);
        let mut stream = TcpStream::connect(address).await.context(what)?;
        let request = format!("GET /{question} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.context(what)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.context(what)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let value: Value = serde_json::from_str(body)
            .map_err(|error| Error::Refused(format!("{}: {error}: {answer}", what())))?;
        // Versions differ in whether the answer is wrapped.
        Ok(value.get("result").cloned().unwrap_or(value))
    }
}
