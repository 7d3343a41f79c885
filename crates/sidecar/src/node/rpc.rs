//! The RPC of a node: seid's flat JSON, and the envelope of CometBFT.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::fetch::{FetchError, fetch};

/// For questions that may take the node a while.
pub const PATIENT: Duration = Duration::from_secs(10);
/// For whether it is there.
pub const QUICK: Duration = Duration::from_millis(500);

/// Why the node did not say.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// It was not reached, or said that it cannot.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Its answer is none.
    #[error("its answer is no JSON: {0}")]
    NoJson(serde_json::Error),
    /// It refused.
    #[error("it refused: {0}")]
    Refused(String),
    /// Its answer lacks something.
    #[error("its answer lacks {0}")]
    Lacks(&'static str),
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Who it is among its peers.
    pub node_id: String,
    /// The newest block that it has.
    pub height: i64,
    /// Whether it fetches older blocks still.
    pub catching_up: bool,
}

#[derive(Deserialize)]
struct Envelope {
    jsonrpc: Option<String>,
    result: Option<Value>,
    error: Option<Value>,
}

/// Asks a node.
pub async fn ask(base: &str, question: &str, within: Duration) -> Result<Value, RpcError> {
    let body = fetch(&format!("{base}/{question}"), within).await?;
    unwrapped(&body)
}

/// An envelope is told by its version; a flat answer may have a field `result` of its own.
fn unwrapped(body: &[u8]) -> Result<Value, RpcError> {
    let value: Value = serde_json::from_slice(body).map_err(RpcError::NoJson)?;
    let Ok(envelope) = serde_json::from_value::<Envelope>(value.clone()) else { return Ok(value) };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Ok(value);
    }
    if let Some(error) = envelope.error.filter(|error| !error.is_null()) {
        let said =
            error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        return Err(RpcError::Refused(said.chars().take(300).collect()));
    }
    envelope.result.filter(|result| !result.is_null()).ok_or(RpcError::Lacks("a result"))
}

/// How a node is.
pub async fn status(base: &str, within: Duration) -> Result<Status, RpcError> {
    read_status(&ask(base, "status", within).await?)
}

fn read_status(value: &Value) -> Result<Status, RpcError> {
    let sync = &value["sync_info"];
    Ok(Status {
        node_id: value["node_info"]["id"].as_str().unwrap_or_default().to_owned(),
        height: number(&sync["latest_block_height"]).ok_or(RpcError::Lacks("latest_block_height"))?,
        catching_up: sync["catching_up"].as_bool().unwrap_or(true),
    })
}

/// Heights are text.
pub fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// The hash of the block at a height.
pub async fn block_hash(base: &str, height: i64) -> Result<String, RpcError> {
    let block = ask(base, &format!("block?height={height}"), PATIENT).await?;
    let hash = block["block_id"]["hash"].as_str().unwrap_or_default();
    let fits = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    if fits { Ok(hash.to_owned()) } else { Err(RpcError::Lacks("a block hash of 64 hexadecimal digits")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Value, String> {
        unwrapped(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn envelopes_are_told_by_their_version() {
        assert_eq!(read(&json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}})), Ok(json!({"a": 1})));
        assert_eq!(read(&json!({"a": 1})), Ok(json!({"a": 1})));
        assert_eq!(read(&json!({"result": 1})), Ok(json!({"result": 1})));
        assert_eq!(
            read(&json!({"jsonrpc": "2.0", "error": {"message": "no"}})),
            Err("it refused: no".into())
        );
        assert_eq!(read(&json!({"jsonrpc": "2.0", "result": null})), Err("its answer lacks a result".into()));
        assert!(unwrapped(b"<html>").is_err());
    }

    #[test]
    fn a_status_without_a_height_is_none() {
        let full = json!({"node_info": {"id": "ab"}, "sync_info": {"latest_block_height": "12", "catching_up": false}});
        let status = Status { node_id: "ab".into(), height: 12, catching_up: false };
        assert_eq!(read_status(&full).unwrap(), status);
        for bad in [json!({}), json!({"sync_info": {"latest_block_height": "x"}})] {
            assert!(read_status(&bad).is_err(), "{bad}");
        }
    }
}
