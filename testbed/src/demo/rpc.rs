//! RPC client of seid.

use std::net::IpAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::error::{Error, IoContext, Result};

/// RPC port of seid in every pod.
const PORT: u16 = 26657;

/// RPC client of a seid.
#[derive(Clone, Copy, Debug)]
pub struct Rpc {
    host: IpAddr,
}

impl Rpc {
    /// Returns a client of the seid at an address, such as a pod IP.
    #[must_use]
    pub fn at(host: IpAddr) -> Self {
        Self { host }
    }

    /// Returns the height of the latest block.
    pub async fn height(self) -> Result<u64> {
        self.height_field("latest_block_height").await
    }

    /// Returns the height of the earliest block.
    pub async fn earliest_height(self) -> Result<u64> {
        self.height_field("earliest_block_height").await
    }

    async fn height_field(self, field: &str) -> Result<u64> {
        let status = self.get("status").await?;
        let height = status["sync_info"][field].as_str().and_then(|text| text.parse().ok());
        height.ok_or_else(|| Error::Other(format!("no {field} in {status}")))
    }

    /// Returns the hash of a block.
    pub async fn block_hash(self, height: u64) -> Result<String> {
        let block = self.get(&format!("block?height={height}")).await?;
        let hash = block["block_id"]["hash"].as_str().filter(|hash| !hash.is_empty()).map(str::to_owned);
        hash.ok_or_else(|| Error::Other(format!("no hash of block {height} in {block}")))
    }

    async fn get(self, query: &str) -> Result<Value> {
        let address = (self.host, PORT);
        let what = || format!("requesting {query} from seid at {}:{}", address.0, address.1);
        let mut stream = TcpStream::connect(address).await.context(what)?;
        let request = format!("GET /{query} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.context(what)?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.context(what)?;
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let value: Value = serde_json::from_str(body)
            .map_err(|error| Error::Other(format!("{}: {error}: {response}", what())))?;
        // Some versions wrap the response in `result`.
        Ok(value.get("result").cloned().unwrap_or(value))
    }
}
