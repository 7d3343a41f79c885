//! How the text of a setting that only the operator has is read. Every refusal ends with an example.

use std::collections::BTreeMap;

use plan::platform::Client;
use plan::quantity::{Quantity, canonical};
use runtime::settings::text::namespace;

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

/// One audience of tokens. The proxy takes a list: what would be taken for several, or for none, is no audience.
pub(super) fn audience(text: &str) -> Result<String, String> {
    if text.bytes().all(|byte| byte.is_ascii_graphic() && !b",\"'".contains(&byte)) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no audience: use one like sidecars.sei.io"))
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

/// An address of a server.
pub(super) fn url(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    let good = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if good {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no address: use one like https://server.example:4317"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
