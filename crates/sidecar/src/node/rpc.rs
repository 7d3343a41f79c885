//! CometBFT RPC client. Accepts both seid's flat JSON and the JSON-RPC envelope.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;
use serde_json::Value;

use super::fetch::{FetchError, fetch};

/// Timeout of queries that may take the node a while.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a check whether the node responds.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// The most pages of validators that are read.
const MAX_VALIDATOR_PAGES: usize = 20;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The response is malformed.
    #[error("response is not valid JSON: {0}")]
    InvalidJson(serde_json::Error),
    /// The node returned a JSON-RPC error.
    #[error("RPC error: {0}")]
    Rpc(String),
    /// The response lacks a field.
    #[error("response lacks {0}")]
    Missing(&'static str),
}

/// The status of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node ID.
    pub node_id: String,
    /// The height of its latest block.
    pub height: i64,
    /// The time of its latest block, if it has one.
    pub latest_block_time: Option<MicroTime>,
    /// Whether it is still syncing.
    pub catching_up: bool,
    /// The voting power of its key; 0 if it is not a validator.
    pub voting_power: i64,
}

#[derive(Deserialize)]
struct Envelope {
    jsonrpc: Option<String>,
    result: Option<Value>,
    error: Option<Value>,
}

/// Queries a node.
pub async fn query(base: &str, query: &str, timeout: Duration) -> Result<Value, RpcError> {
    let body = fetch(&format!("{base}/{query}"), timeout).await?;
    unwrap_envelope(&body)
}

/// Unwraps a JSON-RPC envelope. It is recognized by its version: a flat response may have a `result` field, too.
fn unwrap_envelope(body: &[u8]) -> Result<Value, RpcError> {
    let value: Value = serde_json::from_slice(body).map_err(RpcError::InvalidJson)?;
    let Ok(envelope) = serde_json::from_value::<Envelope>(value.clone()) else { return Ok(value) };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Ok(value);
    }
    if let Some(error) = envelope.error.filter(|error| !error.is_null()) {
        let message =
            error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        return Err(RpcError::Rpc(message.chars().take(300).collect()));
    }
    envelope.result.filter(|result| !result.is_null()).ok_or(RpcError::Missing("a result"))
}

/// The status of a node.
pub async fn status(base: &str, timeout: Duration) -> Result<Status, RpcError> {
    parse_status(&query(base, "status", timeout).await?)
}

fn parse_status(value: &Value) -> Result<Status, RpcError> {
    let sync = &value["sync_info"];
    let height =
        parse_number(&sync["latest_block_height"]).ok_or(RpcError::Missing("latest_block_height"))?;
    // Without a block, the time is the start of the Unix epoch.
    let latest_block_time = Some(&sync["latest_block_time"]).filter(|_| height > 0);
    Ok(Status {
        node_id: value["node_info"]["id"].as_str().unwrap_or_default().to_owned(),
        height,
        latest_block_time: latest_block_time.and_then(|time| MicroTime::deserialize(time).ok()),
        catching_up: sync["catching_up"].as_bool().unwrap_or(true),
        voting_power: parse_number(&value["validator_info"]["voting_power"]).unwrap_or(0),
    })
}

/// Returns the voting power of all validators of the chain at a height. The RPC returns at most a hundred at a time.
pub async fn total_voting_power(base: &str, height: i64, timeout: Duration) -> Result<i64, RpcError> {
    let (mut total, mut counted) = (0_i64, 0_usize);
    for page in 1..=MAX_VALIDATOR_PAGES {
        let path = format!("validators?height={height}&page={page}&per_page=100");
        let answer = query(base, &path, timeout).await?;
        let validators = answer["validators"].as_array().ok_or(RpcError::Missing("validators"))?;
        for validator in validators {
            let power = parse_number(&validator["voting_power"]).ok_or(RpcError::Missing("voting_power"))?;
            total = total.saturating_add(power);
        }
        counted += validators.len();
        let all = parse_number(&answer["total"]).and_then(|all| usize::try_from(all).ok());
        match all {
            Some(all) if counted < all && !validators.is_empty() => {}
            Some(all) if counted == all => return Ok(total),
            // Part of the validators would look like a smaller chain, which tolerates less.
            _ => return Err(RpcError::Missing("the total number of validators")),
        }
    }
    Err(RpcError::Missing("the last page of validators"))
}

/// Parses a number; heights are JSON strings.
pub(super) fn parse_number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the hash of the block at a height.
pub async fn block_hash(base: &str, height: i64) -> Result<String, RpcError> {
    let block = query(base, &format!("block?height={height}"), QUERY_TIMEOUT).await?;
    let hash = block["block_id"]["hash"].as_str().unwrap_or_default();
    let is_valid = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_valid {
        Ok(hash.to_owned())
    } else {
        Err(RpcError::Missing("a block hash of 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Value, String> {
        unwrap_envelope(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn envelope_is_recognized_by_its_version() {
        assert_eq!(read(&json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}})), Ok(json!({"a": 1})));
        assert_eq!(read(&json!({"a": 1})), Ok(json!({"a": 1})));
        assert_eq!(read(&json!({"result": 1})), Ok(json!({"result": 1})));
        assert_eq!(read(&json!({"jsonrpc": "2.0", "error": {"message": "no"}})), Err("RPC error: no".into()));
        assert_eq!(read(&json!({"jsonrpc": "2.0", "result": null})), Err("response lacks a result".into()));
        assert!(unwrap_envelope(b"<html>").is_err());
    }

    #[test]
    fn status_without_height_is_rejected() {
        let full = json!({"node_info": {"id": "ab"}, "sync_info": {"latest_block_height": "12", "catching_up": false}, "validator_info": {"voting_power": "7"}});
        let status = Status {
            node_id: "ab".into(),
            height: 12,
            latest_block_time: None,
            catching_up: false,
            voting_power: 7,
        };
        assert_eq!(parse_status(&full).unwrap(), status);
        for bad in [json!({}), json!({"sync_info": {"latest_block_height": "x"}})] {
            assert!(parse_status(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn latest_block_time_needs_a_block() {
        let time = |height: &str, time: Value| {
            let value = json!({"sync_info": {"latest_block_height": height, "latest_block_time": time}});
            parse_status(&value).unwrap().latest_block_time.map(|time| json!(time))
        };
        let utc = Some(json!("2026-05-18T10:00:00.123456Z"));
        assert_eq!(time("1", json!("2026-05-18T10:00:00.123456Z")), utc);
        assert_eq!(time("1", json!("2026-05-18T12:00:00.123456789+02:00")), utc);
        assert_eq!(time("0", json!("1970-01-01T00:00:00Z")), None);
        assert_eq!(time("1", json!("yesterday")), None);
        assert_eq!(time("1", json!(null)), None);
    }
}
