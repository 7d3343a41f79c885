//! The real world for Outrigger's tests and its demo: Kubernetes with nodes, cert-manager, an object store, and faults
//! between our processes and the API server. See `docs/decisions/ADR-1.md` for why it is built as it is.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | no two sites share a network, and none leaves the ranges reserved for tests | `address::tests::no_two_sites_share_a_network_and_none_leaves_the_reserved_range` |
//! | what a killed run left is removed by the next start, and live runs are left alone | `cleanup::the_next_start_cleans_what_a_killed_run_left_and_leaves_live_runs_alone` |
//! | a run that ends by itself, by a signal or by a panic leaves nothing | `cleanup::the_demo_shows_running_pods_and_leaves_nothing`, `cleanup::an_interrupted_run_leaves_nothing`, `cleanup::a_panic_shows_the_ends_of_logs_and_leaves_nothing` |
//! | a node that is removed takes everything of its own with it, and nothing of others | `nodes::a_removed_node_leaves_nothing` |
//! | a failed test shows the ends of its logs | `cleanup::a_panic_shows_the_ends_of_logs_and_leaves_nothing` |
//! | two builds of one part do not disturb each other, and half a build is never used | `parts::two_builds_at_once_do_not_disturb_each_other`, `parts::a_killed_build_leaves_nothing_that_looks_whole` |
//! | a machine that cannot run the tests is told so before anything is changed | `prepare::without_root`, `prepare::without_go`, `prepare::with_too_little_disk` and the others there |
//! | each crate's invariants name tests that exist | `invariants::every_invariant_names_a_test_that_exists` |
//! | crates use only those they may know | `architecture::no_crate_uses_one_it_may_not_know` |
//! | every wait has a deadline, and its error says what was seen last | `wait::tests::the_last_thing_seen_is_in_the_error`, `wait::tests::a_look_that_hangs_is_cut` |

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
