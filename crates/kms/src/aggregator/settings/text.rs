//! How the text of a setting is read. Every refusal ends with an example.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A duration as Go programs take it: `90s`, `1m30s`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration: use one like 500ms, 90s or 1m30s");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
        let (number, after) = rest.split_at(digits);
        let unit_ends = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        let number: u64 = number.parse().map_err(|_| refused())?;
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(refused()),
        };
        let part = number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(refused)?;
        total = total.checked_add(part).ok_or_else(refused)?;
        rest = after;
    }
    if total.is_zero() { Err(refused()) } else { Ok(total) }
}

/// A boolean as Go programs take it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// An address to listen on as Go programs take it: without a host it is every IPv4 address, and `0` is none.
pub(super) fn listen_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" {
        return Ok(None);
    }
    let address = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    address.map(Some).ok_or_else(|| {
        format!("{text:?} is no address: use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 for none")
    })
}

/// The name of an object, as most kinds have it.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if text.len() <= 253 && text.chars().all(fits) && text.starts_with(ends) && text.ends_with(ends) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is no name: use lower-case letters, digits, - and ., like openshift-kube-apiserver"
    ))
}

/// Whether sick plugins that only decrypt degrade.
pub(super) fn degrade_or_tell(text: &str) -> Result<bool, String> {
    match text {
        "degrade" => Ok(true),
        "tell" => Ok(false),
        _ => Err(format!("{text:?} is neither degrade nor tell")),
    }
}
