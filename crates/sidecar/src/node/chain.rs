//! The state of the chain, as seid's RPC reports it.

use std::time::Duration;

use api::sidecar_wire::{AppHashAt, ChainStatus, VotingPower};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::fetch::FetchError;
use super::rpc::{self, RpcError};

/// How many callers query seid at a time. The others wait, so that callers cannot load seid without limit.
const MAX_CONCURRENT: usize = 4;

/// How long a caller waits for the others, and for the responses of seid. Together one second, which callers with a short timeout
/// can wait for.
const SLOT_TIMEOUT: Duration = Duration::from_millis(200);
const QUERY_TIMEOUT: Duration = Duration::from_millis(800);

/// How long the validators may take in addition.
const POWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Why the state of the chain is unknown. The messages do not change from retry to retry: the operator stores them.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// Too many other callers.
    #[error("too many concurrent requests for the state of the chain")]
    TooManyCallers,
    /// seid does not answer.
    #[error("seid's RPC does not answer, because seid is stopped, starting or overloaded: {0}")]
    NoAnswer(FetchError),
    /// seid returned something else than expected.
    #[error("seid's RPC returned an unexpected response to {query}: {error}")]
    Unexpected {
        /// The query.
        query: &'static str,
        /// The cause.
        error: RpcError,
    },
}

impl ChainError {
    fn new(query: &'static str, error: RpcError) -> Self {
        match error {
            RpcError::Fetch(error @ (FetchError::Unreachable(_) | FetchError::Body(_))) => {
                Self::NoAnswer(error)
            }
            error => Self::Unexpected { query, error },
        }
    }
}

/// Reads the state of the chain.
#[derive(Debug)]
pub(super) struct ChainReader {
    slots: Semaphore,
}

impl Default for ChainReader {
    fn default() -> Self {
        Self { slots: Semaphore::new(MAX_CONCURRENT) }
    }
}

impl ChainReader {
    /// Queries the RPC at `base`. Nothing continues after the future is dropped.
    pub(super) async fn read(&self, base: &str, app_hash_at: Option<i64>) -> Result<ChainStatus, ChainError> {
        // The semaphore is never closed.
        let Ok(Ok(_slot)) = timeout(SLOT_TIMEOUT, self.slots.acquire()).await else {
            return Err(ChainError::TooManyCallers);
        };
        let (status, app, net, lag, requested) = tokio::join!(
            rpc::status(base, QUERY_TIMEOUT),
            rpc::query(base, "abci_info", QUERY_TIMEOUT),
            rpc::query(base, "net_info", QUERY_TIMEOUT),
            rpc::query(base, "lag_status", QUERY_TIMEOUT),
            query_app_hash(base, app_hash_at),
        );
        let status = status.map_err(|error| ChainError::new("status", error))?;
        // The height is that of the application: `status` already counts a block that is being executed.
        let (height, app_hash) =
            app.and_then(|app| parse_app(&app)).map_err(|error| ChainError::new("abci_info", error))?;
        let peers =
            net.and_then(|net| parse_peers(&net)).map_err(|error| ChainError::new("net_info", error))?;
        let app_hash_at = requested.map_err(|error| ChainError::new("header", error))?;
        let validator_power = read_power(base, &status).await;
        Ok(ChainStatus {
            height,
            latest_block_time: status.latest_block_time,
            app_hash,
            peers,
            catching_up: status.catching_up,
            // An error if it is larger than the threshold of seid: not known then.
            lag: lag.ok().and_then(|lag| rpc::parse_number(&lag["lag"])),
            validator_power,
            app_hash_at,
        })
    }
}

/// Reads the voting power of a validator and of its chain. It is not worth an error: callers keep the last one.
async fn read_power(base: &str, status: &rpc::Status) -> Option<VotingPower> {
    let own = Some(status.voting_power).filter(|own| *own > 0)?;
    let query = timeout(POWER_TIMEOUT, rpc::total_voting_power(base, status.height, POWER_TIMEOUT)).await;
    match query {
        Ok(Ok(total)) => Some(VotingPower { own, total }),
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot read the validators");
            None
        }
        Err(_) => None,
    }
}

/// Queries the app hash after the block at a height. Returns `None` if seid does not have the next block.
async fn query_app_hash(base: &str, height: Option<i64>) -> Result<Option<AppHashAt>, RpcError> {
    let Some(height) = height else { return Ok(None) };
    let next = height.saturating_add(1);
    match rpc::query(base, &format!("header?height={next}"), QUERY_TIMEOUT).await {
        Ok(answer) => Ok(parse_header(&answer, next).map(|app_hash| AppHashAt { height, app_hash })),
        // Depending on its version, seid reports a missing block in one of these ways, or in a flat response without a header.
        Err(RpcError::Rpc(_) | RpcError::Missing(_) | RpcError::Fetch(FetchError::Status(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the height and the app hash of the application. seid omits both before the first block.
fn parse_app(value: &Value) -> Result<(i64, Option<String>), RpcError> {
    let app = value["response"].as_object().ok_or(RpcError::Missing("response"))?;
    let height = match app.get("last_block_height") {
        Some(height) => rpc::parse_number(height).ok_or(RpcError::Missing("last_block_height"))?,
        None => 0,
    };
    let hash =
        app.get("last_block_app_hash").and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok());
    let hash = hash.filter(|hash| !hash.is_empty() && height > 0);
    Ok((height, hash.map(|hash| hash.iter().map(|byte| format!("{byte:02X}")).collect())))
}

/// Returns the number of connected peers. seid lists them in `peer_connections` and counts the known addresses in `n_peers`;
/// CometBFT has only `n_peers` and counts the connected ones in it.
fn parse_peers(value: &Value) -> Result<u32, RpcError> {
    let count = match value.get("peer_connections") {
        Some(connections) => {
            let states = connections.as_array().into_iter().flatten().filter_map(|one| one["state"].as_str());
            states.filter(|state| state.split(',').any(|state| state == "connected")).count().try_into().ok()
        }
        None => rpc::parse_number(&value["n_peers"]).and_then(|count| count.try_into().ok()),
    };
    count.ok_or(RpcError::Missing("n_peers"))
}

/// Returns the app hash in the header of the block at a height.
fn parse_header(value: &Value, height: i64) -> Option<String> {
    let header = &value["header"];
    let hash = header["app_hash"].as_str()?;
    let is_valid = !hash.is_empty() && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_valid && rpc::parse_number(&header["height"]) == Some(height)).then(|| hash.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn app_hash_is_converted_to_upper_case_hex() {
        let app = |response: Value| parse_app(&json!({ "response": response })).ok();
        let found = app(json!({"last_block_height": "7", "last_block_app_hash": "q83v"}));
        assert_eq!(found, Some((7, Some("ABCDEF".into()))));
        assert_eq!(app(json!({"last_block_height": 7})), Some((7, None)));
        assert_eq!(app(json!({"data": "seid"})), Some((0, None)), "before the first block");
        assert_eq!(app(json!({"last_block_height": "0", "last_block_app_hash": "q83v"})), Some((0, None)));
        assert_eq!(app(json!({"last_block_height": "x"})), None);
        assert!(parse_app(&json!({"code": -32603, "message": "Internal error"})).is_err());
    }

    #[test]
    fn only_connected_peers_are_counted() {
        let peers = |value: Value| parse_peers(&value).ok();
        let connections =
            json!([{"state": "ready,connected"}, {"state": "dialing"}, {"state": "connected"}, {}]);
        assert_eq!(peers(json!({"n_peers": "9", "peer_connections": connections})), Some(2));
        assert_eq!(peers(json!({"n_peers": "9", "peer_connections": null})), Some(0));
        assert_eq!(peers(json!({"n_peers": "9"})), Some(9));
        assert_eq!(peers(json!({"n_peers": "-1"})), None);
        assert_eq!(peers(json!({"code": -32603})), None);
    }

    #[test]
    fn header_of_another_height_is_ignored() {
        let header = |height: &str, hash: &str| json!({"header": {"height": height, "app_hash": hash}});
        assert_eq!(parse_header(&header("8", "abcd"), 8), Some("ABCD".into()));
        assert_eq!(parse_header(&header("9", "ABCD"), 8), None);
        assert_eq!(parse_header(&header("8", ""), 8), None);
        assert_eq!(parse_header(&header("8", "<hash>"), 8), None);
        assert_eq!(parse_header(&json!({"header": null}), 8), None);
        assert_eq!(parse_header(&json!({"code": -32603, "message": "height must be less"}), 8), None);
    }
}
