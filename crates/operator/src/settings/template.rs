//! Where a node's sidecar is connected to.

use std::net::Ipv6Addr;
use std::str::FromStr;

use runtime::Key;

const POD_IP: &str = "podIP";
const NODE: &str = "node";
const NAMESPACE: &str = "namespace";

/// A template of `host:port` with the placeholders `{podIP}`, `{node}` and `{namespace}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    PodIp,
    Node,
    Namespace,
}

impl AddressTemplate {
    /// The address of a node's sidecar; none as long as its pod has no address and the template wants one.
    #[must_use]
    pub fn of(&self, node: &Key, pod_ip: Option<&str>) -> Option<String> {
        let mut address = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => address.push_str(text),
                Part::Node => address.push_str(&node.name),
                Part::Namespace => address.push_str(&node.namespace),
                Part::PodIp => {
                    let ip = pod_ip.filter(|ip| !ip.is_empty())?;
                    // Without brackets the port would be read as a part of the address.
                    if ip.parse::<Ipv6Addr>().is_ok() {
                        address.push_str(&format!("[{ip}]"));
                    } else {
                        address.push_str(ip);
                    }
                }
            }
        }
        Some(address)
    }
}

impl FromStr for AddressTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let cure = "use one like {podIP}:8443 or {node}-0.{node}.{namespace}.svc:8443";
        let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        if port.is_none_or(|(host, port)| host.is_empty() || port == 0) {
            return Err(format!("{text:?} does not end with a port: {cure}"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(format!("{text:?} has a brace that is not closed: {cure}"));
            };
            parts.push(Part::Text(before.into()));
            parts.push(match name {
                POD_IP => Part::PodIp,
                NODE => Part::Node,
                NAMESPACE => Part::Namespace,
                other => {
                    return Err(format!("{text:?} has {{{other}}}, which stands for nothing: {cure}"));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.into()));
        let literal = |part: &Part| matches!(part, Part::Text(text) if text.contains(['}', ' ', '\t', '/']));
        if parts.iter().any(literal) {
            return Err(format!("{text:?} is no address: {cure}"));
        }
        Ok(Self { parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key { namespace: "sei".into(), name: "a".into() }
    }

    #[test]
    fn placeholders_are_filled_and_addresses_of_six_get_brackets() {
        let of = |text: &str, ip| text.parse::<AddressTemplate>().unwrap().of(&key(), ip);
        assert_eq!(of("{podIP}:8443", Some("198.18.0.7")).as_deref(), Some("198.18.0.7:8443"));
        assert_eq!(of("{podIP}:8443", Some("fd00::7")).as_deref(), Some("[fd00::7]:8443"));
        assert_eq!(of("{node}-0.{node}.{namespace}.svc:80", None).as_deref(), Some("a-0.a.sei.svc:80"));
        assert_eq!(of("127.0.0.1:9000", None).as_deref(), Some("127.0.0.1:9000"));
    }

    #[test]
    fn a_pod_without_an_address_has_none() {
        let template: AddressTemplate = "{podIP}:8443".parse().unwrap();
        assert_eq!((template.of(&key(), None), template.of(&key(), Some(""))), (None, None));
    }

    #[test]
    fn what_is_no_template_is_refused_with_an_example() {
        for bad in
            ["", "{podIP}", "{podIP}:http", "{podIP}:0", ":8443", "{pod}:1", "{podIP:1", "a}:1", "a b:1"]
        {
            let error = bad.parse::<AddressTemplate>().unwrap_err();
            assert!(error.contains("use one like {podIP}:8443"), "{bad:?}: {error}");
        }
    }
}
