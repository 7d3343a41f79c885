//! The real world for Outrigger's tests and its demo: Kubernetes with nodes, cert-manager, an object store, and faults
//! between our processes and the API server. See `docs/decisions/ADR-1.md` for why it is built as it is.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | no two sites share a network, and none leaves the ranges reserved for tests | `address::tests::no_two_sites_share_a_network_and_none_leaves_the_reserved_range` |

pub mod address;
pub mod binaries;
pub mod cert_manager;
mod cgroup;
pub mod cluster;
pub mod control_plane;
pub mod dns;
pub mod error;
pub mod footprint;
pub mod harness;
pub mod image;
pub mod kms_plugin;
mod lan;
pub mod logs;
pub mod node;
pub mod parts;
pub mod pki;
pub mod pod;
mod probe;
pub mod process;
pub mod s3;
pub mod signals;
pub mod site;
mod sweep;
mod tls;
mod tool;
pub mod wait;

pub use cluster::Cluster;
pub use control_plane::ControlPlane;
pub use error::{Error, Result};
pub use harness::{Context, TestResult};
pub use image::Image;
pub use node::Node;
pub use parts::Part;
pub use site::Site;
