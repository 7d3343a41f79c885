//! Parsers for the values of settings that only the operator has. Every error ends with an example.

use std::collections::BTreeMap;

use plan::node::DisruptionLimit;
use plan::platform::SidecarClient;
use plan::quantity::{Quantity, canonical};
use runtime::Key;
use runtime::settings::parse::{name, namespace};

/// Parses labels: `key=value,key=value`.
pub(super) fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let invalid = |label: &str| format!("{label:?} is not a valid label: use, for example, app=outrigger");
    let mut labels = BTreeMap::new();
    for label in text.split(',') {
        let (key, value) = label.trim().split_once('=').ok_or_else(|| invalid(label))?;
        if !is_label_key(key) || !(value.is_empty() || is_label_name(value)) {
            return Err(invalid(label));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// Parses the key of a label, or `none`.
pub(super) fn label_key(text: &str) -> Result<Option<String>, String> {
    match text {
        "none" => Ok(None),
        key if is_label_key(key) => Ok(Some(key.to_owned())),
        key => {
            Err(format!("{key:?} is not a valid label key: use, for example, karpenter.sh/nodepool, or none"))
        }
    }
}

fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("x", key));
    is_label_name(name) && !prefix.is_empty() && prefix.split('.').all(is_label_name)
}

/// True for the name in the key of a label, and for a value that is not empty.
fn is_label_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.chars().all(is_allowed) && text.starts_with(is_edge) && text.ends_with(is_edge)
}

/// Parses a selector of pods: `namespace` or `namespace:key=value,...`.
pub(super) fn client(text: &str) -> Result<SidecarClient, String> {
    let (name, labels) = match text.split_once(':') {
        Some((name, selector)) => (name, labels(selector)?),
        None => (text, BTreeMap::new()),
    };
    Ok(SidecarClient { namespace: namespace(name)?, labels })
}

/// Parses a ServiceAccount: `namespace/name`.
pub(super) fn service_account(text: &str) -> Result<Option<Key>, String> {
    let (own_namespace, own_name) = text.split_once('/').ok_or_else(|| {
        format!(
            "{text:?} is not a ServiceAccount: use NAMESPACE/NAME, for example, outrigger-system/outrigger-operator"
        )
    })?;
    Ok(Some(Key { namespace: namespace(own_namespace)?, name: name(own_name)? }))
}

/// Parses a number of nodes, or a percentage of them.
pub(super) fn disruption_limit(text: &str) -> Result<DisruptionLimit, String> {
    let limit = match text.strip_suffix('%') {
        Some(percent) => {
            percent.parse().ok().filter(|share| (1..=100).contains(share)).map(DisruptionLimit::Percent)
        }
        None => text.parse().ok().filter(|count| *count > 0).map(DisruptionLimit::Count),
    };
    limit.ok_or_else(|| {
        format!("{text:?} is neither a positive number nor 1% to 100%: use, for example, 3 or 10%")
    })
}

/// Parses a positive quantity.
pub(super) fn quantity(text: &str) -> Result<String, String> {
    let invalid = |what: &str| Err(format!("{text:?} is not a {what}: use, for example, 4, 500m or 2000Gi"));
    match (canonical(text), Quantity::parse(text) > Quantity::parse("0")) {
        (None, _) => invalid("valid quantity"),
        (Some(_), false) => invalid("positive quantity"),
        (Some(_), true) => Ok(text.to_owned()),
    }
}

/// Parses an HTTP URL.
pub(super) fn url(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    let is_valid = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a valid URL: use, for example, https://server.example:4317"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_malformed_quantities_are_rejected() {
        for valid in ["4", "500m", "2000Gi", "1e3", "0.5"] {
            assert_eq!(quantity(valid).as_deref(), Ok(valid));
        }
        for invalid in ["0", "0Gi", "-1", "Gi", "2000Gib", "many", "1 Gi"] {
            assert!(quantity(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn label_key_may_be_switched_off() {
        assert_eq!(label_key("none"), Ok(None));
        for valid in ["karpenter.sh/nodepool", "pool"] {
            assert_eq!(label_key(valid), Ok(Some(valid.to_owned())));
        }
        for invalid in ["/pool", "a b", "karpenter.sh/", "pool=a"] {
            assert!(label_key(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn client_is_a_namespace_with_optional_labels() {
        assert_eq!(
            client("ops").unwrap(),
            SidecarClient { namespace: "ops".into(), labels: BTreeMap::new() }
        );
        let labels =
            BTreeMap::from([("app".to_owned(), "x".to_owned()), ("sei.io/a".to_owned(), String::new())]);
        assert_eq!(client("ops:app=x,sei.io/a=").unwrap(), SidecarClient { namespace: "ops".into(), labels });
        for invalid in ["", "Ops", "ops:", "ops:app", "ops:=x", "ops:a/b/c=d", "ops:a=b c", "-a", "ops:-a=b"]
        {
            assert!(client(invalid).is_err(), "{invalid:?}");
        }
    }
}
