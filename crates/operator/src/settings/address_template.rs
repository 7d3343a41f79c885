//! Template of the address of a node's sidecar.

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
    /// Returns the address of a node's sidecar, or `None` if the template needs a pod IP and there is none.
    #[must_use]
    pub fn render(&self, node: &Key, pod_ip: Option<&str>) -> Option<String> {
        let mut address = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => address.push_str(text),
                Part::Node => address.push_str(&node.name),
                Part::Namespace => address.push_str(&node.namespace),
                Part::PodIp => {
                    let ip = pod_ip.filter(|ip| !ip.is_empty())?;
                    // Without brackets the port would be parsed as a part of the address.
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
        let hint = "use, for example, {podIP}:8443 or {node}-0.{node}.{namespace}.svc:8443";
        let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        if port.is_none_or(|(host, port)| host.is_empty() || port == 0) {
            return Err(format!("{text:?} does not end with a port: {hint}"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(format!("{text:?} has an unclosed brace: {hint}"));
            };
            parts.push(Part::Text(before.into()));
            parts.push(match name {
                POD_IP => Part::PodIp,
                NODE => Part::Node,
                NAMESPACE => Part::Namespace,
                other => {
                    return Err(format!("{text:?} has the unknown placeholder {{{other}}}: {hint}"));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.into()));
        let is_malformed =
            |part: &Part| matches!(part, Part::Text(text) if text.contains(['}', ' ', '\t', '/']));
        if parts.iter().any(is_malformed) {
            return Err(format!("{text:?} is not a valid address: {hint}"));
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
    fn template_fills_placeholders_and_brackets_ipv6() {
        let render = |text: &str, ip| text.parse::<AddressTemplate>().unwrap().render(&key(), ip);
        assert_eq!(render("{podIP}:8443", Some("198.18.0.7")).as_deref(), Some("198.18.0.7:8443"));
        assert_eq!(render("{podIP}:8443", Some("fd00::7")).as_deref(), Some("[fd00::7]:8443"));
        assert_eq!(render("{node}-0.{node}.{namespace}.svc:80", None).as_deref(), Some("a-0.a.sei.svc:80"));
        assert_eq!(render("127.0.0.1:9000", None).as_deref(), Some("127.0.0.1:9000"));
    }

    #[test]
    fn template_with_pod_ip_needs_a_pod_ip() {
        let template: AddressTemplate = "{podIP}:8443".parse().unwrap();
        assert_eq!((template.render(&key(), None), template.render(&key(), Some(""))), (None, None));
    }

    #[test]
    fn malformed_template_is_rejected_with_an_example() {
        for invalid in
            ["", "{podIP}", "{podIP}:http", "{podIP}:0", ":8443", "{pod}:1", "{podIP:1", "a}:1", "a b:1"]
        {
            let error = invalid.parse::<AddressTemplate>().unwrap_err();
            assert!(error.contains("use, for example, {podIP}:8443"), "{invalid:?}: {error}");
        }
    }
}
