//! The node's task API: engine, ledger, one file for each kind of task.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | only what is new or failed is begun | `engine::decide::tests::only_what_is_new_or_failed_is_begun` |
//! | a stranded release is done again only when it is newer than every hold | `engine::recovery::tests::a_stranded_release_is_done_again_only_when_it_is_newer_than_every_hold` |
//! | times sort as text, and none is told twice | `ledger::moment::tests::s18_times_sort_as_text_whatever_form_they_were_written_in`, `ledger::moment::tests::no_time_is_told_twice_and_none_goes_back` |
//! | every spelling of an id is the same task | `ledger::schema::tests::s21_every_spelling_of_an_id_is_the_same_task` |
//! | newer and damaged ledgers are refused, and left as they are | `ledger::schema::tests::newer_ledgers_damaged_ones_and_other_files_are_refused_and_left_as_they_are` |
//! | every kind of task ends, and is done or refused with a reason | `kinds::tests::s11_every_task_ends_but_the_loop_whose_rounds_do`, `kinds::tests::every_kind_of_the_wire_is_done_or_refused_with_a_reason` |
//! | a panic fails one task, and a deadline is stored | `engine::tests::a_task_that_panics_fails_and_the_engine_lives`, `engine::tests::a_deadline_is_stored_as_a_failure` |
//! | a cancelled task ends nothing, and nobody touches what it had until it is over | `engine::tests::an_error_under_cancellation_is_not_stored_and_a_success_is`, `engine::tests::what_is_left_of_a_deleted_task_ends_nothing_and_holds_its_lock_until_it_is_over` |
//! | work that does not end is told | `engine::tests::work_that_does_not_end_is_told_by_livez_until_it_does` |
//! | what was answered is on disk | `sidecar::what_was_answered_survives_a_kill` |
//! | a ledger that fails is 503, never 404 and never empty | `sidecar::s07_a_ledger_that_fails_is_503_everywhere` |
//! | nothing is unpacked outside its folder | `sidecar::s02_archives_that_lead_outside_are_refused` |
//! | what is shown without a token holds nothing that a caller wrote | `sidecar::s23_metrics_show_nothing_that_a_caller_wrote` |
//! | everything that is wrong with settings is told at once | `settings::tests::everything_that_is_wrong_is_told_at_once` |

pub mod archive;
pub mod engine;
pub mod http;
pub mod kinds;
pub mod ledger;
pub mod metrics;
pub mod node;
pub mod objects;
mod run;
pub mod settings;

pub use self::run::{Error, run};
pub use self::settings::{Args, Settings};
