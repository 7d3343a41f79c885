//! The network of a node's pods: a bridge of its own, with addresses that the site's router knows the way to.

use serde_json::json;

use super::Place;
use crate::error::Result;

/// The folder with the configuration.
pub(super) const FOLDER: &str = "cni";

/// Writes the configuration. No masquerading: pods are seen with their own address everywhere in the site.
pub(super) fn configure(place: &Place) -> Result<()> {
    let addresses = place.site().addresses();
    let network = json!({
        "cniVersion": "0.4.0",
        "name": place.name,
        "plugins": [{
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": true,
            // A pod that asks its own service may be answered by itself.
            "hairpinMode": true,
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "ranges": [[{
                    "subnet": addresses.pods(place.number()),
                    "gateway": addresses.pod_gateway(place.number()),
                }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    });
    place.folder(FOLDER)?;
    place.write(&format!("{FOLDER}/10-pods.conflist"), &network.to_string()).map(drop)
}
