//! Admission policies: the allow-list of images, and the Pod Security Standard of node namespaces. On its own API server, since the
//! allow-list applies to all namespaces.

#![allow(clippy::expect_used, reason = "tests may panic; clippy only recognizes #[test] functions")]

mod allowed_images;
#[path = "../node_operator/fixture.rs"]
#[expect(dead_code, reason = "other suites use the rest")]
mod fixture;
mod pod_security;

testbed::suite![
    allowed_images::allow_list_of_images_is_enforced,
    pod_security::node_pods_satisfy_the_restricted_standard,
];
