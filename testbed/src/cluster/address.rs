//! Address plan. Uses only ranges reserved for tests (198.18.0.0/15 and 203.0.113.0/24): a private range could be a real
//! network, and tests must never reach one.

use std::net::Ipv4Addr;

/// Number of sites in 198.18.0.0/15, with eight /24 networks each.
pub const SITES: u8 = 64;

/// Maximum number of nodes of a site: network 0 is its LAN, networks 1 to 7 are the pod networks of the nodes.
pub const NODES_PER_SITE: u8 = 7;

/// Service CIDR of every site. Visible only inside nodes, so all sites share it.
pub const SERVICE_RANGE: &str = "203.0.113.0/24";

/// ClusterIP of the `kubernetes` Service: the first address of the range.
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// The address plan of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    site: u8,
}

impl Addresses {
    /// Returns the plan of a site.
    #[must_use]
    pub fn of_site(site: u8) -> Self {
        debug_assert!(site < SITES, "site {site} has no addresses");
        Self { site }
    }

    fn in_network(self, network: u8, host: u8) -> Ipv4Addr {
        let offset = u32::from(self.site) << 11 | u32::from(network) << 8 | u32::from(host);
        Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + offset)
    }

    /// Address of etcd, the API server, DNS and S3; also the router between LAN and pods.
    #[must_use]
    pub fn control_plane(self) -> Ipv4Addr {
        self.in_network(0, 1)
    }

    /// Address of the test process, as seen from nodes and pods.
    #[must_use]
    pub fn host(self) -> Ipv4Addr {
        self.in_network(0, 254)
    }

    /// Address of a node (counted from 1) on the LAN.
    #[must_use]
    pub fn node(self, node: u8) -> Ipv4Addr {
        self.in_network(0, 10 + node)
    }

    /// CIDR of the whole site.
    #[must_use]
    pub fn all(self) -> String {
        format!("{}/21", self.in_network(0, 0))
    }

    /// Pod CIDR of a node (counted from 1).
    #[must_use]
    pub fn pods(self, node: u8) -> String {
        format!("{}/24", self.in_network(node, 0))
    }

    /// Gateway of the pods of a node.
    #[must_use]
    pub fn pod_gateway(self, node: u8) -> Ipv4Addr {
        self.in_network(node, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn site_networks_are_disjoint_and_in_reserved_range() {
        let mut seen = BTreeSet::new();
        for site in 0..SITES {
            let plan = Addresses::of_site(site);
            for network in 0..=NODES_PER_SITE {
                let first = plan.in_network(network, 0);
                assert!(matches!(first.octets(), [198, 18 | 19, _, 0]), "{first}");
                assert!(seen.insert(first), "{first} is assigned twice");
            }
        }
        assert_eq!(seen.len(), 512, "the /15 is fully used");
    }

    #[test]
    fn first_site_has_documented_addresses() {
        let plan = Addresses::of_site(0);
        assert_eq!(plan.control_plane().to_string(), "198.18.0.1");
        assert_eq!(plan.node(2).to_string(), "198.18.0.12");
        assert_eq!(plan.pods(1), "198.18.1.0/24");
        assert_eq!(plan.pod_gateway(3).to_string(), "198.18.3.1");
        assert_eq!(plan.all(), "198.18.0.0/21");
    }
}
