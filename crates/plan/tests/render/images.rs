//! Images of rendered pods.

use plan::{Platform, render};

use crate::{cases, node};

#[test]
fn image_digests_are_rendered_unchanged() {
    let pinned = |name: &str| format!("images.example/{name}@sha256:{}", "a0".repeat(32));
    let platform = Platform {
        sidecar_image: pinned("sidecar"),
        proxy_image: pinned("proxy:v2"),
        exporter_image: pinned("exporter"),
        ..cases::platform()
    };
    let mut node = node("full");
    node.spec.image = pinned("seid:v6.3.0");
    let set = render::stateful_set(&node, &platform).unwrap();
    let pod = set.spec.unwrap().template.spec.unwrap();
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let mut images: Vec<String> = containers.filter_map(|container| container.image.clone()).collect();
    images.sort();
    images.dedup();
    assert_eq!(images, ["exporter", "proxy:v2", "seid:v6.3.0", "sidecar"].map(pinned));
}
