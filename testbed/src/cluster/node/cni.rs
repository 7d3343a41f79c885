//! Pod network of a node: a bridge with the pod CIDR that the router of the site forwards to the node.

use serde_json::json;

use super::NodeLayout;
use crate::error::Result;

/// Directory of the CNI configuration.
pub(super) const DIR: &str = "cni";

/// Writes the CNI configuration. No masquerading: pods keep their own address everywhere in the site.
pub(super) fn configure(layout: &NodeLayout) -> Result<()> {
    let addresses = layout.site().addresses();
    let network = json!({
        "cniVersion": "0.4.0",
        "name": layout.name,
        "plugins": [{
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": true,
            // A pod can reach itself through its own Service.
            "hairpinMode": true,
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "ranges": [[{
                    "subnet": addresses.pods(layout.number()),
                    "gateway": addresses.pod_gateway(layout.number()),
                }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    });
    layout.create_dir(DIR)?;
    layout.write(&format!("{DIR}/10-pods.conflist"), &network.to_string()).map(drop)
}
