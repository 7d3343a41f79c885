//! How the text of a setting is read. Every refusal ends with an example.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A time that passes, as Go programs take it: `90s`, `1m30s`, `500ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration_or_none(text)?.ok_or_else(|| no_duration(text))
}

/// The same, where programs that we replace take zero and less for no time at all: `0`, `-5s`.
pub fn duration_or_none(text: &str) -> Result<Option<Duration>, String> {
    let nanoseconds = api::duration::parse(text).ok_or_else(|| no_duration(text))?;
    Ok(u64::try_from(nanoseconds).ok().filter(|time| *time > 0).map(Duration::from_nanos))
}

fn no_duration(text: &str) -> String {
    format!("{text:?} is no duration: use one like 500ms, 90s or 1m30s")
}

/// A boolean as Go programs take it.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// An address to listen on as Go programs take it: without a host it is every IPv4 address, and `0` is none.
pub fn listen_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" {
        return Ok(None);
    }
    let address = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    let refused =
        || format!("{text:?} is no address: use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 for none");
    address.map(Some).ok_or_else(refused)
}

/// The name of a namespace.
pub fn namespace(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !text.is_empty()
        && text.len() <= 63
        && text.chars().all(fits)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if good {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no namespace: use lower-case letters, digits and -, 63 at most"))
}

/// The name of an object, as most kinds have it.
pub fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if text.len() <= 253 && text.chars().all(fits) && text.starts_with(ends) && text.ends_with(ends) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is no name: use lower-case letters, digits, - and ., like openshift-kube-apiserver"
    ))
}

/// A count of at least one.
pub fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| format!("{text:?} is no number from 1 to 10000: use one like 64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let read = |text| duration(text).unwrap();
        assert_eq!(read("1m30s"), Duration::from_secs(90));
        assert_eq!((read("500ms"), read("2h")), (Duration::from_millis(500), Duration::from_secs(7200)));
        assert_eq!(read("1.5h"), Duration::from_secs(5400));
        for none in ["0", "0s", "-5s"] {
            assert_eq!(duration_or_none(none), Ok(None), "{none}");
        }
        for bad in ["", "5", "s", "0s", "5 s", "-5s", "5d", "99999999999999999999h"] {
            assert!(duration(bad).is_err_and(|error| error.contains("use one like")), "{bad:?}");
        }
    }

    #[test]
    fn addresses_are_read_as_go_writes_them() {
        let read = |text| listen_address(text).unwrap().map(|address| address.to_string());
        assert_eq!(read(":8080").as_deref(), Some("0.0.0.0:8080"));
        assert_eq!(read("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(read("0"), None);
        for bad in ["", "8080", "localhost:80", ":99999", "127.0.0.1"] {
            assert!(listen_address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_are_those_that_the_api_server_takes() {
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
