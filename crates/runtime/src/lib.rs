//! The runtime of Outrigger's processes: supervised watches, a work queue, writers, leader election, an admin server, telemetry,
//! metrics and graceful shutdown. It knows nothing about nodes or KMS.
//!
//! # Invariants
//!
//! | invariant | tested by |
//! |---|---|
//! | a key is never lost, never processed twice at once, and concurrency is limited | `queue::schedule::tests::random_operations_never_lose_duplicate_or_exceed_concurrency` |
//! | a relist finds changes that the watch missed | `watch::cache::tests::relist_finds_changes_that_the_watch_missed` |
//! | an object that fails to deserialize affects no other object | `watch::cache::tests::invalid_object_does_not_affect_others` |
//! | a compressed object reads back unchanged, or is not compressed | `watch::store::tests::compressed_object_is_smaller_and_reads_back_unchanged`, `watch::store::tests::object_that_does_not_round_trip_is_not_compressed`, `watch::cache::tests::compressed_object_behaves_like_any_other` |
//! | `managedFields` are dropped before parsing, and nothing else is | `watch::guard::tests::managed_fields_are_removed_and_everything_else_is_kept` |
//! | concurrent requests are limited, watches excluded | `client::tests::concurrent_requests_are_limited_and_watches_are_exempt` |
//! | Secrets are never cached cluster-wide | `watch::tests::cluster_wide_secrets_are_never_cached` |
//! | a status is written at most once per reconcile (enforced by types), only if it differs, and only onto the version that was read | `write::status::tests::patch_has_only_changed_fields_and_nulls_removed_ones`, `writes::stale_status_write_is_rejected` |
//! | what an admission webhook or policy denies may be accepted later, and a missing kind is no missing object | `write::outcome::tests::denials_of_admission_may_be_lifted_and_invalid_objects_stay_invalid`, `write::outcome::tests::missing_kind_is_not_a_missing_object` |
//! | a leader claim expires by the clock, without a message | `lease::claim::tests::claim_expires_by_the_clock` |
//! | clocks of other machines are not trusted | `lease::record::tests::expiry_ignores_the_timestamps_in_the_lease` |
//! | without the Lease, no work runs | `process::tests::work_does_not_run_without_the_lease` |
//! | liveness fails if a task fails for too long, but not if it is idle | `progress::tests::task_expires_after_failing_for_too_long_but_not_when_idle`, `progress::tests::single_failure_followed_by_silence_is_healthy` |
//! | a process exits if one of its tasks does | `tasks::tests::exited_task_shuts_down_the_process_and_is_named` |
//! | a shutdown takes less than ten seconds | `tasks::tests::hanging_tasks_are_aborted_within_ten_seconds` |
//! | a signal is not lost while nothing waits for it | `shutdown::tests::signal_sent_before_recv_is_not_lost` |
//! | all invalid settings are reported together, by flag name | `settings::validator::tests::all_invalid_settings_are_reported_together` |
//! | no process takes another's Lease for its own | `settings::identity::tests::processes_of_one_pod_have_different_identities` |
//! | other processes of the same user cannot read the memory of a process | `hardening::tests::process_is_undumpable` |
//! | events never block, and none is sent twice | `events::tests::full_queue_drops_and_counts_events`, `events::tests::event_name_is_stable_and_unique_by_time` |
//! | registered metrics are documented | `metrics::tests::registered_metrics_match_their_descriptions` |
//! | debug state and log level are served on loopback only | `settings::parse::tests::address_outside_of_loopback_is_rejected`, `admin::admin_server_is_reachable_on_loopback_only` |
//! | a poisoned lock does not fail its next user | `sync::tests::poisoned_mutex_can_still_be_locked`, `sync::tests::poisoned_rwlock_can_still_be_read_and_written` |

pub mod admin;
pub mod client;
pub mod controller;
pub mod events;
pub mod hardening;
pub mod key;
pub mod lease;
pub mod liveness;
pub mod metrics;
pub mod own_writes;
pub mod process;
pub mod queue;
pub mod settings;
pub mod shutdown;
pub mod sync;
pub mod tasks;
pub mod telemetry;
pub mod watch;
pub mod write;

pub use self::key::Key;
