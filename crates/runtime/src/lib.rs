//! How any of our processes lives: supervised watches, a keyed queue, writers, a lease, an admin server, logs, metrics, and
//! an orderly end. It knows nothing of nodes or KMS.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | a key is never worked on twice at once, none is lost, and no more than allowed run at once | `queue::line::tests::whatever_happens_no_key_is_lost_doubled_or_beyond_the_cap` |
//! | what happened while a watch was away is found by the next listing | `watch::cache::tests::what_happened_while_a_watch_was_away_is_found_by_the_next_listing` |
//! | an object that cannot be read harms only itself | `watch::cache::tests::an_object_that_cannot_be_read_harms_only_itself` |
//! | an object at rest comes back as it was, or does not rest | `watch::kept::tests::an_object_that_rests_is_the_same_when_it_is_wanted_and_smaller_until_then`, `watch::kept::tests::an_object_that_would_not_come_back_the_same_does_not_rest`, `watch::cache::tests::an_object_at_rest_is_found_compared_and_told_as_any_other` |
//! | who wrote which field of an object is not read, and everything else is | `watch::guarded::tests::who_wrote_which_field_is_not_read_and_everything_else_is` |
//! | only so many requests are under way at once, and watches do not count | `client::tests::only_so_many_requests_are_under_way_and_watches_beside_them` |
//! | Secrets of the whole cluster are never cached | `watch::tests::secrets_of_the_whole_cluster_are_never_cached` |
//! | a status is written at most once in a pass (it does not compile otherwise), only when it differs and only onto what was read | `write::status::tests::only_what_differs_is_sent_and_what_is_gone_is_named`, `writes::a_stale_status_is_refused` |
//! | a claim to lead ends by the clock, without being told | `lease::claim::tests::a_claim_ends_by_the_clock_without_being_told` |
//! | other machines' clocks are not trusted | `lease::record::tests::a_lease_ends_when_it_was_not_renewed_while_we_looked_whatever_its_times_say` |
//! | who fails for long is dead, who rests is not | `progress::tests::failing_for_long_is_death_and_resting_is_not`, `progress::tests::who_fails_once_and_is_silent_from_then_on_is_well` |
//! | a process lives only as long as all of its tasks do | `tasks::tests::a_task_that_ends_by_itself_ends_the_process_and_is_named` |
//! | a process ends within ten seconds | `tasks::tests::a_task_that_does_not_end_is_cut_off_in_less_than_ten_seconds` |
//! | everything that is wrong with settings is told at once, by the names of flags | `settings::check::tests::everything_that_is_wrong_is_told_at_once_by_its_name` |
//! | no two processes take each other's Lease for their own | `settings::own::tests::no_two_processes_of_one_pod_are_the_same` |
//! | events hold nobody up, and none is told twice | `events::tests::handing_in_never_waits_and_what_finds_no_room_is_counted`, `events::tests::two_events_about_the_same_have_two_names_and_one_event_has_one` |
//! | metrics are those that are described | `metrics::tests::what_is_registered_is_what_is_described` |

pub mod admin;
pub mod client;
pub mod controller;
pub mod events;
pub mod key;
mod lead;
pub mod lease;
pub mod metrics;
pub mod own_writes;
pub mod process;
pub mod progress;
pub mod queue;
pub mod settings;
pub mod tasks;
pub mod telemetry;
pub mod watch;
pub mod write;

pub use self::key::Key;
pub use self::lead::while_leading;
