//! The real world for Outrigger's tests and its demo: Kubernetes with nodes, cert-manager, an object store, and faults
//! between our processes and the API server. See `docs/decisions/0001-testbed.md` for why it is built as it is.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | no two sites share a network, and none leaves the ranges reserved for tests | `address::tests::no_two_sites_share_a_network_and_none_leaves_the_reserved_range` |
//! | what a killed run left is removed by the next start, and live runs are left alone | `cleanup::the_next_start_cleans_what_a_killed_run_left_and_leaves_live_runs_alone` |
//! | a run that ends by itself, by a signal or by a panic leaves nothing | `cleanup::the_demo_shows_everything_and_leaves_nothing`, `cleanup::an_interrupted_run_leaves_nothing`, `cleanup::a_panic_shows_the_ends_of_logs_and_leaves_nothing` |
//! | a run that is ended takes those with it that it began | `cleanup::a_run_that_is_ended_takes_those_with_it_that_it_began` |
//! | a node that is removed takes everything of its own with it, and nothing of others | `nodes::a_removed_node_leaves_nothing` |
//! | what ends by itself of a control plane is started again, as in real clusters | `control_plane::a_scheduler_that_ended_is_started_again` |
//! | a failed test shows the ends of its logs | `cleanup::a_panic_shows_the_ends_of_logs_and_leaves_nothing` |
//! | two builds of one part do not disturb each other, and half a build is never used | `parts::two_builds_at_once_do_not_disturb_each_other`, `parts::a_killed_build_leaves_nothing_that_looks_whole` |
//! | a machine that cannot run the tests is told so before anything is changed | `prepare::without_root`, `prepare::without_go`, `prepare::with_too_little_disk` and the others there |
//! | the fault proxy speaks for the holder of a verified certificate and for nobody else | `fault_proxy::rbac_and_the_audit_log_see_who_really_asked`, `fault_proxy::a_token_is_passed_on_for_the_api_server_to_judge`, `fault_proxy::identity::tests::nobody_can_say_who_he_is_but_by_his_certificate` |
//! | nothing that a process asks after its fatal write reaches the API server | `fault_proxy::nothing_of_a_dying_client_gets_through`, `fault_proxy::a_process_killed_after_it_heard_of_its_write` |
//! | a frozen view delivers what it withheld, in its order, and opens nothing that is forbidden | `fault_proxy::a_frozen_view_shows_the_past_and_thaws_in_order`, `fault_proxy::a_frozen_view_opens_nothing_that_is_forbidden` |
//! | the fault proxy serves nothing that it cannot record, and records no secrets | `fault_proxy::a_journal_that_cannot_be_written_stops_everything`, `fault_proxy::the_journal_tells_what_happened_and_no_secrets` |
//! | a played sidecar answers as the real one: what runs or is done is never begun again, and a restart forgets readiness and nothing else | `sidecars::tasks_complete_and_existing_ids_are_not_begun_again`, `sidecars::a_restart_forgets_readiness_and_begins_anew_what_ran`, `sidecars::what_cannot_be_done_is_refused_with_400` |
//! | a played sidecar is reached as it is served and in no other way, and only with a token | `sidecars::each_node_serves_as_it_was_told_and_no_other_way`, `sidecars::only_open_paths_are_served_without_a_token` |
//! | a played pod needs what a real one needs, and its sidecar lives and dies with it | `kubelet_player::what_a_pod_lacks_keeps_it_back`, `kubelet_player::a_node_pod_comes_up_and_goes`, `kubelet_player::the_pod_says_how_its_sidecar_is_served` |
//! | a played kubelet writes the same status once | `kubelet_player::status::tests::a_pod_comes_up_in_steps_and_ends`, `kubelet_player::a_thousand_pods_come_up` |
//! | a recorder keeps what reaches it byte for byte, and notices who goes away | `recorder::tests::what_comes_is_kept_byte_for_byte`, `recorder::tests::whoever_goes_away_and_half_a_body_are_noticed` |
//! | each crate's invariants name tests that exist | `invariants::every_invariant_names_a_test_that_exists` |
//! | crates use only those they may know | `architecture::no_crate_uses_one_it_may_not_know` |
//! | every wait has a deadline, and its error says what was seen last | `wait::tests::the_last_thing_seen_is_in_the_error`, `wait::tests::a_look_that_hangs_is_cut` |

pub mod bench;
pub mod cluster;
pub mod demo;
pub mod error;
pub mod fakes;
pub mod faults;
pub mod harness;
pub mod process;
mod tls;

pub use cluster::Cluster;
pub use cluster::control_plane::ControlPlane;
pub use cluster::image::Image;
pub use cluster::node::Node;
pub use cluster::parts::Part;
pub use cluster::site::Site;
pub use demo::platform::Platform;
pub use error::{Error, Result};
pub use harness::{Context, TestResult};
