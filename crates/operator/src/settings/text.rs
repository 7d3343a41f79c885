//! How the text of a setting is read. Every refusal ends with an example.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use plan::platform::Client;
use plan::quantity::{Quantity, canonical};

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
    let refused =
        || format!("{text:?} is no address: use one like :8080, 127.0.0.1:8080 or [::]:8080, or 0 for none");
    address.map(Some).ok_or_else(refused)
}

/// The name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
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

/// Labels as `key=value,key=value`.
pub(super) fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let refused = |part: &str| format!("{part:?} is no label: use one like app=outrigger");
    let name = |text: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let ends = |c: char| c.is_ascii_alphanumeric();
        text.len() <= 63 && text.chars().all(good) && text.starts_with(ends) && text.ends_with(ends)
    };
    let mut labels = BTreeMap::new();
    for part in text.split(',') {
        let (key, value) = part.trim().split_once('=').ok_or_else(|| refused(part))?;
        let (prefix, short) = key.rsplit_once('/').unwrap_or(("x", key));
        if !(name(short) && !prefix.is_empty() && prefix.split('.').all(name))
            || !(value.is_empty() || name(value))
        {
            return Err(refused(part));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// Pods that may speak to sidecars, as `namespace` or `namespace:key=value,...`.
pub(super) fn client(text: &str) -> Result<Client, String> {
    let (space, wanted) = match text.split_once(':') {
        Some((space, wanted)) => (space, labels(wanted)?),
        None => (text, BTreeMap::new()),
    };
    Ok(Client { namespace: namespace(space)?, labels: wanted })
}

/// A count of at least one.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| format!("{text:?} is no number from 1 to 10000: use one like 64"))
}

/// A quantity of more than nothing, which the API server keeps as that number.
pub(super) fn quantity(text: &str) -> Result<String, String> {
    let refused = |what: &str| Err(format!("{text:?} is {what}: use one like 4, 500m or 2000Gi"));
    match (canonical(text), Quantity::parse(text) > Quantity::parse("0")) {
        (None, _) => refused("no quantity"),
        (Some(_), false) => refused("no quantity of more than nothing"),
        (Some(_), true) => Ok(text.to_owned()),
    }
}

/// An address of a collector of traces.
pub(super) fn url(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    let good = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if good {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no address: use one like http://collector:4317"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let read = |text| duration(text).unwrap();
        assert_eq!(read("1m30s"), Duration::from_secs(90));
        assert_eq!((read("500ms"), read("2h")), (Duration::from_millis(500), Duration::from_secs(7200)));
        for bad in ["", "5", "s", "0s", "5 s", "-5s", "5d", "99999999999999999999h", "1.5s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
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
    fn quantities_are_more_than_nothing() {
        for good in ["4", "500m", "2000Gi", "1e3", "0.5"] {
            assert_eq!(quantity(good).as_deref(), Ok(good));
        }
        for bad in ["0", "0Gi", "-1", "Gi", "2000Gib", "many", "1 Gi"] {
            assert!(quantity(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn clients_are_namespaces_with_or_without_labels() {
        assert_eq!(client("ops").unwrap(), Client { namespace: "ops".into(), labels: BTreeMap::new() });
        let labels =
            BTreeMap::from([("app".to_owned(), "x".to_owned()), ("sei.io/a".to_owned(), String::new())]);
        assert_eq!(client("ops:app=x,sei.io/a=").unwrap(), Client { namespace: "ops".into(), labels });
        for bad in ["", "Ops", "ops:", "ops:app", "ops:=x", "ops:a/b/c=d", "ops:a=b c", "-a", "ops:-a=b"] {
            assert!(client(bad).is_err(), "{bad:?}");
        }
    }
}
