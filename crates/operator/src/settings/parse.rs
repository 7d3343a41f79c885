//! Parsers for the values of settings that only the operator has. Every error ends with an example.

use std::collections::BTreeMap;
use std::net::IpAddr;

use plan::node::DisruptionLimit;
use plan::platform::{EgressTarget, SidecarClient, SidecarIsolation};
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

/// Parses a destination: `cidr` or `cidr:port`.
pub(super) fn egress_target(text: &str) -> Result<EgressTarget, String> {
    let invalid = || {
        format!(
            "{text:?} is not a destination: use, for example, 10.0.0.0/8, 10.96.0.1/32:443 or fd00::/8:443"
        )
    };
    let (address, rest) = text.split_once('/').ok_or_else(invalid)?;
    let (length, port) = match rest.split_once(':') {
        Some((length, port)) => (length, Some(port)),
        None => (rest, None),
    };
    let address: IpAddr = address.parse().map_err(|_| invalid())?;
    let length: u8 = length.parse().map_err(|_| invalid())?;
    let port = port.map(str::parse::<u16>).transpose().map_err(|_| invalid())?;
    let (bits, width) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    // The part after the prefix must be zero: the API server warns about anything else.
    if length > width || bits.checked_shl(length.into()).unwrap_or_default() != 0 || port == Some(0) {
        return Err(invalid());
    }
    Ok(EgressTarget { cidr: format!("{address}/{length}"), port })
}

/// Parses the isolation of containers.
pub(super) fn isolation(text: &str) -> Result<SidecarIsolation, String> {
    match text {
        "isolated" => Ok(SidecarIsolation::Isolated),
        "shared" => Ok(SidecarIsolation::Shared),
        _ => Err(format!("{text:?} is not an isolation mode: use isolated or shared")),
    }
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
    fn egress_target_is_a_network_with_an_optional_port() {
        for (text, cidr, port) in [
            ("10.0.0.0/8", "10.0.0.0/8", None),
            ("10.96.0.1/32:443", "10.96.0.1/32", Some(443)),
            ("0.0.0.0/0:443", "0.0.0.0/0", Some(443)),
            ("fd00::/8:443", "fd00::/8", Some(443)),
            ("fd00::1/128", "fd00::1/128", None),
        ] {
            assert_eq!(egress_target(text), Ok(EgressTarget { cidr: cidr.into(), port }));
        }
        for invalid in [
            "",
            "10.0.0.1",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/8:",
            "10.0.0.0/8:0",
            "10.0.0.0/8:70000",
            "fd00::1/8",
            "fd00::/129",
            "host/8",
            "10.0.0.0/-1",
            "1.0.0.0/0",
        ] {
            let error = egress_target(invalid).unwrap_err();
            assert!(error.contains("10.96.0.1/32:443"), "{invalid:?}: {error}");
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
