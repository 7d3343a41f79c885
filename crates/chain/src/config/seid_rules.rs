//! Configurations that the reference library takes and that kill seid when it starts. Each was tried with seid.

use std::collections::BTreeSet;

use super::finding::Findings;
use super::settings::Settings;

const LOG_LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
const INDEXERS: [&str; 3] = ["kv", "null", "psql"];
const RECEIPT_BACKENDS: [&str; 3] = ["pebbledb", "pebble", "parquet"];

/// Decimal places that seid keeps of a price.
const PRICE_PLACES: usize = 18;

pub(super) fn check(settings: &Settings, out: &mut Findings) {
    snapshots(settings, out);
    pruning(settings, out);
    log_level(settings.text("logging.level"), out);
    min_gas_prices(settings.text("chain.min_gas_prices"), out);
    indexer(settings, out);
    let backend = settings.text("storage.receipt_store.backend");
    if !RECEIPT_BACKENDS.contains(&backend.trim().to_ascii_lowercase().as_str()) {
        out.error(
            "storage.receipt_store.backend",
            format!("{backend:?} is unknown, and seid does not start; use {}", RECEIPT_BACKENDS.join(", ")),
        );
    }
}

fn snapshots(settings: &Settings, out: &mut Findings) {
    let made = settings.int("storage.snapshot_interval") > 0;
    if made && settings.flag("storage.state_commit.enable") && !settings.flag("storage.state_store.enable") {
        out.error(
            "storage.snapshot_interval",
            "seid makes no snapshots without its state store, and does not start; set storage.state_store.enable to true or this to 0",
        );
    }
}

fn pruning(settings: &Settings, out: &mut Findings) {
    let custom = settings.text("storage.pruning") == "custom";
    let mut number = |key| {
        let text = settings.text(key);
        match text.parse::<u64>() {
            Ok(number) => Some(number),
            Err(_) => {
                // Also where another strategy does not use it.
                out.error(
                    key,
                    format!("{text:?} is not a number of blocks, and seid does not start; use 0 for none"),
                );
                None
            }
        }
    };
    number("storage.pruning_keep_recent");
    let every = number("storage.pruning_keep_every");
    let interval = number("storage.pruning_interval");
    let (true, Some(every), Some(interval)) = (custom, every, interval) else { return };
    if every != 1 && interval == 0 {
        out.error(
            "storage.pruning_interval",
            "custom pruning at an interval of 0 blocks never happens, and seid does not start; set it above 0, for example to 10",
        );
    }
    if every == 1 && interval != 0 {
        out.error(
            "storage.pruning_interval",
            "where every block is kept nothing is pruned, and seid does not start; set it to 0 or storage.pruning_keep_every to another number",
        );
    }
}

/// A level of Go's slog, with an offset if somebody wants it.
fn log_level(level: &str, out: &mut Findings) {
    let name_end = level.find(['+', '-']).unwrap_or(level.len());
    let (name, offset) = level.split_at(name_end);
    let known = LOG_LEVELS.contains(&name.to_ascii_lowercase().as_str());
    if !known || (!offset.is_empty() && offset.parse::<i32>().is_err()) {
        out.error(
            "logging.level",
            format!("{level:?} is unknown, and seid does not start; use {}", LOG_LEVELS.join(", ")),
        );
    }
}

fn min_gas_prices(prices: &str, out: &mut Findings) {
    // That it must not be empty was said before.
    if prices.is_empty() {
        return;
    }
    let mut denominations = BTreeSet::new();
    for price in prices.trim().split(',') {
        let Some(denomination) = denomination_of(price.trim()) else {
            out.error(
                "chain.min_gas_prices",
                format!("{price:?} is no price, and seid does not start; write it as 0.01usei, several with commas"),
            );
            return;
        };
        if !denominations.insert(denomination) {
            out.error(
                "chain.min_gas_prices",
                format!("{denomination} has two prices, and seid does not start"),
            );
            return;
        }
    }
}

/// The denomination of a price such as `0.01usei`.
fn denomination_of(price: &str) -> Option<&str> {
    let end = price.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (amount, denomination) = price.split_at(end);
    let (whole, places) = amount.split_once('.').unwrap_or((amount, "0"));
    let number = places.bytes().all(|byte| byte.is_ascii_digit()) && !places.is_empty();
    if !number || places.len() > PRICE_PLACES || (whole.is_empty() && !amount.starts_with('.')) {
        return None;
    }
    let denomination = denomination.trim_start();
    crate::coin::is_denomination(denomination).then_some(denomination)
}

fn indexer(settings: &Settings, out: &mut Findings) {
    let key = "tx_index.indexer";
    let mut seen = BTreeSet::new();
    for name in settings.list(key) {
        let lower = name.to_ascii_lowercase();
        if !INDEXERS.contains(&lower.as_str()) {
            out.error(
                key,
                format!("{name:?} is unknown, and seid does not start; use {}", INDEXERS.join(", ")),
            );
        } else if !seen.insert(lower) {
            out.error(key, format!("{name:?} is there twice, and seid does not start; name each once"));
        }
    }
    if seen.contains("psql") && !seen.contains("null") && settings.text("tx_index.psql_conn").is_empty() {
        out.error("tx_index.psql_conn", "is empty, and seid does not start; say how the database is reached");
    }
}
