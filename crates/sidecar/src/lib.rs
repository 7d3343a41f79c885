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
