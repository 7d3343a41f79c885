//! Rejects settings that the reference library accepts but that make seid exit at startup. Each was verified with seid.

use std::collections::BTreeSet;

use super::finding::Findings;
use super::settings::Settings;

const LOG_LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
const INDEXERS: [&str; 3] = ["kv", "null", "psql"];
const RECEIPT_BACKENDS: [&str; 3] = ["pebbledb", "pebble", "parquet"];

/// Maximum number of decimal fraction of a gas price.
const PRICE_PLACES: usize = 18;

pub(super) fn check(settings: &Settings, out: &mut Findings) {
    check_snapshots(settings, out);
    check_pruning(settings, out);
    check_log_level(settings.text("logging.level"), out);
    check_min_gas_prices(settings.text("chain.min_gas_prices"), out);
    check_indexer(settings, out);
    let backend = settings.text("storage.receipt_store.backend");
    if !RECEIPT_BACKENDS.contains(&backend.trim().to_ascii_lowercase().as_str()) {
        out.error(
            "storage.receipt_store.backend",
            format!("unknown backend {backend:?}, seid would not start; use {}", RECEIPT_BACKENDS.join(", ")),
        );
    }
}

fn check_snapshots(settings: &Settings, out: &mut Findings) {
    let snapshots_enabled = settings.int("storage.snapshot_interval") > 0;
    if snapshots_enabled
        && settings.bool("storage.state_commit.enable")
        && !settings.bool("storage.state_store.enable")
    {
        out.error(
            "storage.snapshot_interval",
            "snapshots require the state store, seid would not start; set storage.state_store.enable to true or this to 0",
        );
    }
}

fn check_pruning(settings: &Settings, out: &mut Findings) {
    let custom = settings.text("storage.pruning") == "custom";
    let mut parse_blocks = |key| {
        let text = settings.text(key);
        match text.parse::<u64>() {
            Ok(number) => Some(number),
            Err(_) => {
                // seid parses it even if the pruning strategy ignores it.
                out.error(
                    key,
                    format!("{text:?} is not a number of blocks, seid would not start; use 0 for none"),
                );
                None
            }
        }
    };
    parse_blocks("storage.pruning_keep_recent");
    let every = parse_blocks("storage.pruning_keep_every");
    let interval = parse_blocks("storage.pruning_interval");
    let (true, Some(every), Some(interval)) = (custom, every, interval) else { return };
    if every != 1 && interval == 0 {
        out.error(
            "storage.pruning_interval",
            "must be above 0 for custom pruning, seid would not start; use for example 10",
        );
    }
    if every == 1 && interval != 0 {
        out.error(
            "storage.pruning_interval",
            "must be 0 when every block is kept, seid would not start; set it to 0 or change storage.pruning_keep_every",
        );
    }
}

/// Checks a Go slog level with an optional offset.
fn check_log_level(level: &str, out: &mut Findings) {
    let name_end = level.find(['+', '-']).unwrap_or(level.len());
    let (name, offset) = level.split_at(name_end);
    let known = LOG_LEVELS.contains(&name.to_ascii_lowercase().as_str());
    if !known || (!offset.is_empty() && offset.parse::<i32>().is_err()) {
        out.error(
            "logging.level",
            format!("unknown level {level:?}, seid would not start; use {}", LOG_LEVELS.join(", ")),
        );
    }
}

fn check_min_gas_prices(prices: &str, out: &mut Findings) {
    // An empty value is reported by the general rules.
    if prices.is_empty() {
        return;
    }
    let mut denominations = BTreeSet::new();
    for price in prices.trim().split(',') {
        let Some(denomination) = price_denomination(price.trim()) else {
            out.error(
                "chain.min_gas_prices",
                format!("invalid price {price:?}, seid would not start; use for example 0.01usei, separate several with commas"),
            );
            return;
        };
        if !denominations.insert(denomination) {
            out.error(
                "chain.min_gas_prices",
                format!(
                    "duplicate price for {denomination}, seid would not start; list each denomination once"
                ),
            );
            return;
        }
    }
}

/// Returns the denomination of a price such as `0.01usei`.
fn price_denomination(price: &str) -> Option<&str> {
    let end = price.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (amount, denomination) = price.split_at(end);
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
    let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit()) && !fraction.is_empty();
    if !is_number || fraction.len() > PRICE_PLACES || (whole.is_empty() && !amount.starts_with('.')) {
        return None;
    }
    let denomination = denomination.trim_start();
    crate::coin::is_denomination(denomination).then_some(denomination)
}

fn check_indexer(settings: &Settings, out: &mut Findings) {
    let key = "tx_index.indexer";
    let mut seen = BTreeSet::new();
    for name in settings.list(key) {
        let lower = name.to_ascii_lowercase();
        if !INDEXERS.contains(&lower.as_str()) {
            out.error(
                key,
                format!("unknown indexer {name:?}, seid would not start; use {}", INDEXERS.join(", ")),
            );
        } else if !seen.insert(lower) {
            out.error(key, format!("duplicate indexer {name:?}, seid would not start; list each once"));
        }
    }
    if seen.contains("psql") && !seen.contains("null") && settings.text("tx_index.psql_conn").is_empty() {
        out.error(
            "tx_index.psql_conn",
            "is required for indexer psql, seid would not start; set the connection string",
        );
    }
}
