//! Rules that every configuration must keep, in the order in which they are told.

use super::finding::{Finding, Findings};
use super::mode::Mode;
use super::settings::{MODE, Settings, VERSION};
use super::{network_rules, seid_rules};

/// Numbers and lengths of time that must not be below zero, by where they stand among the rules.
const NOT_NEGATIVE: [&str; 21] = [
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
// `evm_only` is in the reference's list, and seid does not start with it.
const WRITE_MODES: [&str; 3] = ["cosmos_only", "dual_write", "split_write"];
const READ_MODES: [&str; 3] = ["cosmos_only", "evm_first", "split_read"];
const STATE_STORE_BACKENDS: [&str; 2] = ["pebbledb", "rocksdb"];
const LOG_FORMATS: [&str; 3] = ["plain", "text", "json"];

/// Everything that is wrong with settings whose version may be at most `ceiling`.
#[must_use]
pub fn check(settings: &Settings, ceiling: i64) -> Vec<Finding> {
    let mut findings = Findings::default();
    let out = &mut findings;
    identity(settings, ceiling, out);
    for key in NOT_NEGATIVE {
        not_negative(settings, key, out);
    }
    let threshold = settings.float("mempool.drop_utilisation_threshold");
    if !(0.0..=1.0).contains(&threshold) {
        out.error("mempool.drop_utilisation_threshold", format!("{threshold} is not between 0.0 and 1.0"));
    }
    if settings.flag("state_sync.enable") {
        state_sync(settings, out);
    }
    storage(settings, out);
    evm(settings, out);
    not_negative(settings, "metrics.max_open_connections", out);
    one_of(settings, "logging.format", &LOG_FORMATS, Empty::Refused, out);
    if settings.text("storage.pruning") == "everything" && settings.int("storage.snapshot_interval") > 0 {
        out.error(
            "storage",
            "no snapshot can be made where everything is pruned; set storage.pruning to another strategy or storage.snapshot_interval to 0",
        );
    }
    seid_rules::check(settings, out);
    network_rules::check(settings, out);
    findings.0
}

fn identity(settings: &Settings, ceiling: i64, out: &mut Findings) {
    match settings.text(MODE) {
        "" => out.error(MODE, "is required; it is validator, full, seed or archive"),
        text => {
            if let Err(error) = text.parse::<Mode>() {
                out.error(MODE, error.to_string());
            }
        }
    }
    match settings.int(VERSION) {
        version if version < 1 => out.error(VERSION, format!("{version} is below 1")),
        version if version > ceiling => {
            out.error(VERSION, format!("{version} is above {ceiling}, the newest that may be used here"));
        }
        _ => {}
    }
    if settings.text("chain.min_gas_prices").is_empty() {
        out.error(
            "chain.min_gas_prices",
            "is empty, and seid does not start; set it to a price such as 0.01usei",
        );
    }
    if settings.int("chain.concurrency_workers") < -1 {
        out.error("chain.concurrency_workers", "is below -1; -1 means no limit");
    }
}

fn not_negative(settings: &Settings, key: &str, out: &mut Findings) {
    if settings.int(key) < 0 {
        out.error(key, "must not be negative");
    }
}

fn state_sync(settings: &Settings, out: &mut Findings) {
    if !settings.flag("state_sync.use_p2p") && settings.list("state_sync.rpc_servers").len() < 2 {
        out.error(
            "state_sync.rpc_servers",
            "state sync without state_sync.use_p2p needs at least two of them; one may be named twice",
        );
    }
    for key in ["state_sync.trust_period", "state_sync.trust_height"] {
        if settings.int(key) <= 0 {
            out.error(key, "must be above zero where state_sync.enable is true");
        }
    }
    let hash = settings.text("state_sync.trust_hash");
    if hash.is_empty() {
        out.error("state_sync.trust_hash", "is required where state_sync.enable is true");
    } else if !hash.len().is_multiple_of(2) || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        out.error("state_sync.trust_hash", "is not hexadecimal");
    }
    if settings.int("state_sync.fetchers") <= 0 {
        out.error("state_sync.fetchers", "must be above zero where state_sync.enable is true");
    }
    not_negative(settings, "state_sync.backfill_blocks", out);
}

fn storage(settings: &Settings, out: &mut Findings) {
    one_of(settings, "storage.pruning", &PRUNING, Empty::Refused, out);
    for store in ["storage.state_commit", "storage.state_store"] {
        one_of(settings, &format!("{store}.write_mode"), &WRITE_MODES, Empty::Taken, out);
        one_of(settings, &format!("{store}.read_mode"), &READ_MODES, Empty::Taken, out);
    }
    let backend = settings.text("storage.state_store.backend");
    if !backend.is_empty() && !STATE_STORE_BACKENDS.contains(&backend) {
        out.warning(
            "storage.state_store.backend",
            format!("{backend:?} is unknown; it is {}", STATE_STORE_BACKENDS.join(" or ")),
        );
    }
}

fn evm(settings: &Settings, out: &mut Findings) {
    let mut serves = false;
    for (enabled, port) in [("evm.http_enabled", "evm.http_port"), ("evm.ws_enabled", "evm.ws_port")] {
        if !settings.flag(enabled) {
            continue;
        }
        serves = true;
        let number = settings.int(port);
        // seid starts with a port that does not exist, and nobody is served.
        if !(1..=i64::from(u16::MAX)).contains(&number) {
            out.error(
                port,
                format!("{number} is no port; use one from 1 to 65535, or set {enabled} to false"),
            );
        }
    }
    if serves && settings.text(MODE) == Mode::Validator.name() {
        out.warning(
            "evm",
            "a validator that serves EVM queries has less time to sign; let a full node serve them",
        );
    }
}

/// What an empty text means.
#[derive(PartialEq)]
enum Empty {
    Taken,
    Refused,
}

fn one_of(settings: &Settings, key: &str, allowed: &[&str], empty: Empty, out: &mut Findings) {
    let text = settings.text(key);
    if (text.is_empty() && empty == Empty::Taken) || allowed.contains(&text) {
        return;
    }
    out.error(key, format!("{text:?} is unknown; it is one of {}", allowed.join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table;

    #[test]
    fn every_rule_names_settings_that_exist() {
        for key in NOT_NEGATIVE {
            assert!(table::find(key).is_some(), "{key}");
        }
        // Every other key stands in the text of the rules.
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
