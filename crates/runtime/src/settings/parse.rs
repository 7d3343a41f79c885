//! Parsers for settings. Every error ends with an example or the allowed values.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::LoopbackAddress;

/// Parses a positive Go duration: `90s`, `1m30s`, `500ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    optional_duration(text)?.ok_or_else(|| invalid_duration(text))
}

/// Parses a Go duration. Zero and negative values (`0`, `-5s`) are `None`: in the programs that Outrigger replaces they disable
/// the setting.
pub fn optional_duration(text: &str) -> Result<Option<Duration>, String> {
    let nanoseconds = api::duration::parse(text).ok_or_else(|| invalid_duration(text))?;
    Ok(u64::try_from(nanoseconds).ok().filter(|time| *time > 0).map(Duration::from_nanos))
}

fn invalid_duration(text: &str) -> String {
    format!("invalid duration {text:?}: use one like 500ms, 90s or 1m30s")
}

/// Parses a Go boolean.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("invalid boolean {text:?}: use true or false")),
    }
}

/// Parses a listen address as Go programs do: without a host it is `0.0.0.0`, and `0` is `None`.
pub fn listen_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" {
        return Ok(None);
    }
    let address = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    let invalid = || {
        format!("invalid address {text:?}: use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 to disable")
    };
    address.map(Some).ok_or_else(invalid)
}

/// Parses a listen address that only processes of the same network namespace can connect to; `0` is `None`.
pub fn loopback_address(text: &str) -> Result<Option<LoopbackAddress>, String> {
    let Some(address) = listen_address(text)? else { return Ok(None) };
    LoopbackAddress::new(address).map(Some).ok_or_else(|| {
        format!("{text:?} can be reached from other hosts without authentication: use a loopback address like 127.0.0.1:8082, or 0 to disable")
    })
}

/// Parses the name of a namespace (RFC 1123 label).
pub fn namespace(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_valid = !text.is_empty()
        && text.len() <= 63
        && text.chars().all(is_allowed)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_valid {
        return Ok(text.to_owned());
    }
    Err(format!("invalid namespace {text:?}: use at most 63 lower-case letters, digits and -"))
}

/// Parses the name of an object (RFC 1123 subdomain).
pub fn name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if text.len() <= 253
        && text.chars().all(is_allowed)
        && text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
    {
        return Ok(text.to_owned());
    }
    Err(format!(
        "invalid name {text:?}: use lower-case letters, digits, - and ., like openshift-kube-apiserver"
    ))
}

/// Parses a count from 1 to 10000.
pub fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| format!("invalid number {text:?}: use one from 1 to 10000, like 64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_follows_go_syntax() {
        let parse = |text| duration(text).unwrap();
        assert_eq!(parse("1m30s"), Duration::from_secs(90));
        assert_eq!((parse("500ms"), parse("2h")), (Duration::from_millis(500), Duration::from_secs(7200)));
        assert_eq!(parse("1.5h"), Duration::from_secs(5400));
        for none in ["0", "0s", "-5s"] {
            assert_eq!(optional_duration(none), Ok(None), "{none}");
        }
        for bad in ["", "5", "s", "0s", "5 s", "-5s", "5d", "99999999999999999999h"] {
            assert!(duration(bad).is_err_and(|error| error.contains("use one like")), "{bad:?}");
        }
    }

    #[test]
    fn listen_address_follows_go_syntax() {
        let parse = |text| listen_address(text).unwrap().map(|address| address.to_string());
        assert_eq!(parse(":8080").as_deref(), Some("0.0.0.0:8080"));
        assert_eq!(parse("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(parse("0"), None);
        for bad in ["", "8080", "localhost:80", ":99999", "127.0.0.1"] {
            assert!(listen_address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn address_outside_of_loopback_is_rejected() {
        let parse = |text| loopback_address(text).unwrap().map(|address| address.to_string());
        assert_eq!(parse("127.0.0.1:8082").as_deref(), Some("127.0.0.1:8082"));
        assert_eq!(parse("[::1]:0").as_deref(), Some("[::1]:0"));
        assert_eq!(parse("0"), None);
        for open in [":8082", "0.0.0.0:8082", "[::]:8082", "10.0.0.1:8082", "[::ffff:10.0.0.1]:8082"] {
            assert!(
                loopback_address(open).is_err_and(|error| error.contains("use a loopback address")),
                "{open}"
            );
        }
        assert!(loopback_address("here").is_err());
    }

    #[test]
    fn names_follow_api_server_rules() {
        for good in ["a", "kube-system", "1-2"] {
            assert_eq!(namespace(good).as_deref(), Ok(good));
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        assert!(name("a.example").is_ok() && namespace("a.example").is_err());
        for bad in ["", "A", "-a", "a-", "a_b", "a b"] {
            assert!(namespace(bad).is_err() && name(bad).is_err(), "{bad:?}");
        }
        assert!(namespace(&"a".repeat(64)).is_err() && name(&"a".repeat(254)).is_err());
    }
}
