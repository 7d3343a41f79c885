//! Validation rules, in the order in which findings are reported.

use super::finding::{Finding, Findings};
use super::mode::Mode;
use super::settings::{MODE, Settings, VERSION};
use super::{network_rules, seid_rules};

/// Numbers and durations that must not be negative, in reporting order.
const NON_NEGATIVE: [&str; 21] = [
    "network.rpc.max_open_connections",
    "network.rpc.max_subscription_clients",
    "network.rpc.max_subscriptions_per_client",
    "network.rpc.timeout_broadcast_tx_commit",
    "network.rpc.max_body_bytes",
    "network.rpc.max_header_bytes",
    "network.p2p.flush_throttle_timeout",
    "network.p2p.max_packet_msg_payload_size",
    "network.p2p.send_rate",
    "network.p2p.recv_rate",
    "consensus.unsafe_propose_timeout_override",
    "consensus.unsafe_commit_timeout_override",
    "consensus.create_empty_blocks_interval",
    "consensus.peer_gossip_sleep_duration",
    "consensus.double_sign_check_height",
    "mempool.size",
    "mempool.max_txs_bytes",
    "mempool.cache_size",
    "mempool.max_tx_bytes",
    "mempool.ttl_duration",
    "mempool.ttl_num_blocks",
];

const PRUNING: [&str; 4] = ["default", "nothing", "everything", "custom"];
// The reference also lists `evm_only`, but seid does not start with it.
const WRITE_MODES: [&str; 3] = ["cosmos_only", "dual_write", "split_write"];
const READ_MODES: [&str; 3] = ["cosmos_only", "evm_first", "split_read"];
const STATE_STORE_BACKENDS: [&str; 2] = ["pebbledb", "rocksdb"];
const LOG_FORMATS: [&str; 3] = ["plain", "text", "json"];

/// Validates settings whose schema version may be at most `max_version`.
#[must_use]
pub fn check(settings: &Settings, max_version: i64) -> Vec<Finding> {
    let mut findings = Findings::default();
    let out = &mut findings;
    check_identity(settings, max_version, out);
    for key in NON_NEGATIVE {
        check_non_negative(settings, key, out);
    }
    let threshold = settings.float("mempool.drop_utilisation_threshold");
    if !(0.0..=1.0).contains(&threshold) {
        out.error("mempool.drop_utilisation_threshold", format!("{threshold} is not between 0.0 and 1.0"));
    }
    if settings.bool("state_sync.enable") {
        check_state_sync(settings, out);
    }
    check_storage(settings, out);
    check_evm(settings, out);
    check_non_negative(settings, "metrics.max_open_connections", out);
    check_one_of(settings, "logging.format", &LOG_FORMATS, Empty::Rejected, out);
    if settings.text("storage.pruning") == "everything" && settings.int("storage.snapshot_interval") > 0 {
        out.error(
            "storage",
            "snapshots are not possible with pruning strategy everything; change storage.pruning or set storage.snapshot_interval to 0",
        );
    }
    seid_rules::check(settings, out);
    network_rules::check(settings, out);
    findings.0
}

fn check_identity(settings: &Settings, max_version: i64, out: &mut Findings) {
    match settings.text(MODE) {
        "" => out.error(MODE, "is required: validator, full, seed or archive"),
        text => {
            if let Err(error) = text.parse::<Mode>() {
                out.error(MODE, error.to_string());
            }
        }
    }
    match settings.int(VERSION) {
        version if version < 1 => out.error(VERSION, format!("{version} is below 1")),
        version if version > max_version => {
            out.error(VERSION, format!("{version} is above {max_version}, the latest supported version"));
        }
        _ => {}
    }
    if settings.text("chain.min_gas_prices").is_empty() {
        out.error("chain.min_gas_prices", "is required, seid would not start; use a price such as 0.01usei");
    }
    if settings.int("chain.concurrency_workers") < -1 {
        out.error("chain.concurrency_workers", "is below -1; -1 means no limit");
    }
}

fn check_non_negative(settings: &Settings, key: &str, out: &mut Findings) {
    if settings.int(key) < 0 {
        out.error(key, "must not be negative");
    }
}

fn check_state_sync(settings: &Settings, out: &mut Findings) {
    if !settings.bool("state_sync.use_p2p") && settings.list("state_sync.rpc_servers").len() < 2 {
        out.error(
            "state_sync.rpc_servers",
            "at least two are required unless state_sync.use_p2p is true; the same server may be listed twice",
        );
    }
    for key in ["state_sync.trust_period", "state_sync.trust_height"] {
        if settings.int(key) <= 0 {
            out.error(key, "must be positive when state_sync.enable is true");
        }
    }
    let hash = settings.text("state_sync.trust_hash");
    if hash.is_empty() {
        out.error("state_sync.trust_hash", "is required when state_sync.enable is true");
    } else if !hash.len().is_multiple_of(2) || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        out.error("state_sync.trust_hash", "is not hexadecimal");
    }
    if settings.int("state_sync.fetchers") <= 0 {
        out.error("state_sync.fetchers", "must be positive when state_sync.enable is true");
    }
    check_non_negative(settings, "state_sync.backfill_blocks", out);
}

fn check_storage(settings: &Settings, out: &mut Findings) {
    check_one_of(settings, "storage.pruning", &PRUNING, Empty::Rejected, out);
    for store in ["storage.state_commit", "storage.state_store"] {
        check_one_of(settings, &format!("{store}.write_mode"), &WRITE_MODES, Empty::Allowed, out);
        check_one_of(settings, &format!("{store}.read_mode"), &READ_MODES, Empty::Allowed, out);
    }
    let backend = settings.text("storage.state_store.backend");
    if !backend.is_empty() && !STATE_STORE_BACKENDS.contains(&backend) {
        out.warning(
            "storage.state_store.backend",
            format!("unknown backend {backend:?}; use {}", STATE_STORE_BACKENDS.join(" or ")),
        );
    }
}

fn check_evm(settings: &Settings, out: &mut Findings) {
    let mut serves_evm = false;
    for (enabled, port) in [("evm.http_enabled", "evm.http_port"), ("evm.ws_enabled", "evm.ws_port")] {
        if !settings.bool(enabled) {
            continue;
        }
        serves_evm = true;
        let number = settings.int(port);
        // seid starts with an invalid port but does not serve requests.
        if !(1..=i64::from(u16::MAX)).contains(&number) {
            out.error(port, format!("invalid port {number}; use 1 to 65535, or set {enabled} to false"));
        }
    }
    if serves_evm && settings.text(MODE) == Mode::Validator.name() {
        out.warning(
            "evm",
            "serving EVM queries on a validator can delay block signing; use a full node instead",
        );
    }
}

/// Whether an empty string is allowed.
#[derive(PartialEq)]
enum Empty {
    Allowed,
    Rejected,
}

fn check_one_of(settings: &Settings, key: &str, allowed: &[&str], empty: Empty, out: &mut Findings) {
    let text = settings.text(key);
    if (text.is_empty() && empty == Empty::Allowed) || allowed.contains(&text) {
        return;
    }
    out.error(key, format!("unknown value {text:?}; use one of {}", allowed.join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table;

    #[test]
    fn rules_reference_existing_settings() {
        for key in NON_NEGATIVE {
            assert!(table::find(key).is_some(), "{key}");
        }
        // Other keys are string literals in the source of the rules.
        for source in
            [include_str!("rules.rs"), include_str!("seid_rules.rs"), include_str!("network_rules.rs")]
        {
            for quoted in source.split('"').skip(1).step_by(2) {
                let dotted = quoted.contains('.')
                    && quoted.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
                let partial = ["storage.state_commit", "storage.state_store"].contains(&quoted);
                let file = quoted.ends_with(".rs");
                assert!(!dotted || partial || file || table::find(quoted).is_some(), "{quoted}");
            }
        }
    }
}
