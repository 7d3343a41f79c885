//! Testbed of Outrigger: real Kubernetes clusters on one Linux machine, fakes of what the product talks to, and fault
//! injection. Used by the tests of all crates and by the demo. `docs/decisions/0001-testbed.md` explains the design.
//!
//! # Where to find what
//!
//! | module | contents |
//! |---|---|
//! | [`fakes`] | **Fakes that tests script** |
//! | [`fakes::kubelet`] | fake kubelet and scheduler: pods without nodes, in their status only |
//! | [`fakes::sidecars`] | fake sidecars of all nodes on one port: task outcomes, request faults, a journal |
//! | [`fakes::recorder`] | recorder: an HTTP upstream that records requests byte for byte and sends scripted replies |
//! | [`fakes::kms_plugin`] | KMS v2 plugin on a Unix socket that fails on demand |
//! | [`fakes::oidc`] | OpenID Connect issuer that signs tokens |
//! | [`faults`] | **Fault injection** |
//! | [`faults::fault_proxy`] | fault proxy between a process and the API server: errors, delays, lost responses, frozen watches, crash points |
//! | [`faults::crash_writes`] | kills a process right before one of its file system writes |
//! | [`cluster`] | **Real clusters** |
//! | [`cluster::control_plane`] | etcd, kube-apiserver, kube-controller-manager, kube-scheduler; users, kubeconfigs, audit log |
//! | [`cluster::node`] | nodes in their own namespaces, with kubelet and containerd |
//! | [`cluster::image`], [`cluster::parts`] | container images of our binaries; cache of the Go programs built from source |
//! | [`cluster::site`], `cluster::sweep` | networks and directories of one run; cleanup after killed runs |
//! | [`cluster::pki`], [`cluster::cert_manager`] | CAs and certificates; cert-manager |
//! | [`cluster::dns`], [`cluster::s3`], [`cluster::openshift`] | CoreDNS; an S3 server; CRDs of OpenShift |
//! | [`harness`] | **Test harness** for suites that need a cluster: [`suite!`], [`Context`], shared control planes, log tails on failure |
//! | [`harness::wait`] | polling with a deadline, instead of sleeping |
//! | [`harness::raw_http`] | raw HTTP/1 and HTTP/2 client |
//! | [`harness::generated`] | comparison of generated files with the checked-in ones |
//! | [`harness::rbac`] | unused and overbroad RBAC permissions |
//! | [`harness::footprint`] | snapshot of processes, mounts and networks, to prove cleanup |
//! | [`harness::logs`], [`harness::binaries`] | log directories of tests; paths of our binaries |
//! | [`process`] | **Processes** with a log and a marker, killed with their owner |
//! | [`bench`](mod@bench) | **Benchmarks**: figures, resource usage, builds to compare |
//! | [`demo`] | **Demo** platform, which the end-to-end tests use as well |
//! | [`error`] | the error type of this crate |
//! | [`sync`] | locks that ignore poisoning |
//!
//! # Invariants
//!
//! | invariant | guarded by |
//! |---|---|
//! | no two sites share a network, and all stay in the ranges reserved for tests | `address::tests::site_networks_are_disjoint_and_in_reserved_range` |
//! | the next start cleans up killed runs and leaves live runs alone | `cleanup::next_start_cleans_up_only_killed_runs` |
//! | a run that completes, is interrupted or panics leaves nothing | `cleanup::demo_completes_and_leaves_nothing`, `cleanup::interrupted_run_leaves_nothing`, `cleanup::panic_prints_log_tails_and_leaves_nothing` |
//! | a terminated run stops the runs it started | `cleanup::terminated_run_stops_nested_runs` |
//! | a removed node leaves nothing and affects no other node | `nodes::removed_node_leaves_nothing` |
//! | a control plane process that exits is restarted, as in real clusters | `control_plane::killed_scheduler_is_restarted` |
//! | a failed test prints the tails of its logs | `cleanup::panic_prints_log_tails_and_leaves_nothing` |
//! | concurrent builds of a part share one result, and a partial build is never used | `parts::concurrent_builds_share_one_result`, `parts::killed_build_leaves_no_usable_result` |
//! | an unsuitable machine is rejected before anything is changed | `prepare::unprivileged_user_is_rejected`, `prepare::missing_go_is_rejected`, `prepare::small_disk_is_rejected` and the other tests there |
//! | the fault proxy impersonates only users of verified certificates | `fault_proxy::rbac_and_audit_log_see_the_real_user`, `fault_proxy::token_is_passed_through_to_the_api_server`, `faults::fault_proxy::identity::tests::forged_identity_headers_are_dropped` |
//! | no request of a process reaches the API server after its crash point | `fault_proxy::requests_of_a_dying_client_are_blocked`, `fault_proxy::kill_after_response_blocks_later_writes` |
//! | a frozen view delivers withheld events in order and respects RBAC | `fault_proxy::frozen_view_returns_past_state_and_thaws_in_order`, `fault_proxy::frozen_view_respects_rbac` |
//! | the fault proxy serves nothing that it cannot record, and records no secrets | `fault_proxy::unwritable_journal_stops_the_proxy`, `fault_proxy::journal_records_requests_without_secrets` |
//! | a fake sidecar behaves like the real one: running and completed tasks are not restarted by a submission, and a restart loses only readiness | `sidecars::existing_task_ids_are_not_restarted`, `sidecars::restart_loses_readiness_and_restarts_running_tasks`, `sidecars::invalid_submission_returns_400` |
//! | a fake sidecar is reachable only over its own transport and only with a token | `sidecars::each_node_serves_only_its_own_transport`, `sidecars::only_open_paths_work_without_token` |
//! | a fake pod needs what a real one needs, and its sidecar starts and stops with it | `fake_kubelet::missing_dependencies_block_the_pod`, `fake_kubelet::node_pod_starts_and_is_removed`, `fake_kubelet::pod_spec_decides_sidecar_transport` |
//! | the fake kubelet does not write an unchanged status | `fakes::kubelet::status::tests::pod_starts_in_steps_and_exits`, `fake_kubelet::thousand_pods_start` |
//! | a recorder records requests byte for byte, and disconnects | `fakes::recorder::tests::requests_are_recorded_byte_for_byte`, `fakes::recorder::tests::disconnect_and_partial_body_are_recorded` |
//! | invariants of all crates name existing tests | `invariants::every_invariant_names_an_existing_test` |
//! | every scenario id cited in code is listed in `docs/reference/scenarios-*.md` | `invariants::every_cited_scenario_is_listed`, `invariants::unlisted_scenario_is_reported` |
//! | the tests of `scripts/prepare` do not depend on what is installed on this machine | `prepare::tools_of_this_machine_are_not_visible` |
//! | crates depend only on allowed crates | `architecture::crate_dependencies_follow_the_architecture` |
//! | every wait has a deadline, and its error contains the last check | `harness::wait::tests::timeout_error_contains_last_check`, `harness::wait::tests::hanging_check_is_cancelled` |

pub mod bench;
pub mod cluster;
pub mod demo;
pub mod error;
pub mod fakes;
pub mod faults;
pub mod harness;
pub mod process;
pub mod sync;
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
