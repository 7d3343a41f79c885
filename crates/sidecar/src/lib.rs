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
//! | a start that was cut off is finished by the next | `ledger::schema::tests::a_start_that_was_cut_off_after_any_step_is_finished_by_the_next` |
//! | newer and damaged ledgers are refused, and left as they are | `ledger::schema::tests::newer_ledgers_damaged_ones_and_other_files_are_refused_and_left_as_they_are` |
//! | every kind of task ends, and is done or refused with a reason | `kinds::tests::s11_every_task_ends_but_the_loop_whose_rounds_do`, `kinds::tests::every_kind_of_the_wire_is_done_or_refused_with_a_reason` |
//! | a panic fails one task, and a deadline is stored | `engine::tests::a_task_that_panics_fails_and_the_engine_lives`, `engine::tests::a_deadline_is_stored_as_a_failure` |
//! | a cancelled task ends nothing, and nobody touches what it had until it is over | `engine::tests::an_error_under_cancellation_is_not_stored_and_a_success_is`, `engine::tests::what_is_left_of_a_deleted_task_ends_nothing_and_holds_its_lock_until_it_is_over` |
//! | work that does not end is told | `engine::tests::work_that_does_not_end_is_told_by_livez_until_it_does` |
//! | a home has one sidecar at a time | `node::home::tests::a_home_has_one_sidecar_at_a_time` |
//! | what was answered is on disk | `sidecar::what_was_answered_survives_a_kill` |
//! | a ledger that fails is 503, never 404 and never empty | `sidecar::s07_a_ledger_that_fails_is_503_everywhere` |
//! | a volume that turns read-only loses nothing, and nothing is begun on one | `sidecar::a_read_only_volume_under_a_running_sidecar_is_told_and_nothing_is_lost` |
//! | a home can go back to the program that we replace, and come again | `sidecar::a_home_goes_to_the_program_that_we_replace_and_back`, `sidecar::what_the_program_before_wrote_in_between_is_taken_over_too` |
//! | nothing is unpacked outside its folder | `sidecar::s02_archives_that_lead_outside_are_refused` |
//! | what is shown without a token holds nothing that a caller wrote | `sidecar::s23_metrics_show_nothing_that_a_caller_wrote` |
//! | everything that is wrong with settings is told at once | `settings::tests::everything_that_is_wrong_is_told_at_once` |
//! | a bucket is found by the path or by its host name, as the operator was told | `objects::tests::a_bucket_may_have_a_host_name_of_its_own` |
//! | a store is reached from an image that names no authorities | `sidecar::an_image_without_authorities_reaches_its_store` |
//! | a restored list names the snapshots that are there, and no others | `kinds::snapshot::index::tests::a_list_names_what_is_there` |
//! | files are there as a whole, also those that belong together, and nothing is left beside them | `node::files::tests::a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it`, `node::config::tests::a_patch_of_which_one_part_does_not_fit_changes_nothing` |
//! | killed before any write, a task is done once or told honestly | `sidecar::a_crash_before_any_write_leaves_settings_whole`, `sidecar::a_crash_before_any_write_of_a_ceremony_makes_one_identity`, `sidecar::a_crash_before_any_write_restores_and_resets_data_whole`, `sidecar::a_crash_before_any_write_of_a_release_or_hold_tears_nothing`, `sidecar::a_crash_that_tears_the_log_anywhere_leaves_a_beginning` |
//! | what a ceremony made is used again, never made twice | `sidecar::what_a_ceremony_made_is_kept_when_it_is_done_again` |
//! | seid takes what we make | `sidecar::four_seids_make_blocks_with_what_four_sidecars_made`, `sidecar::seid_starts_with_the_settings_of_every_mode` |
//!
//! # The known dangers
//!
//! Those of the program that we replace, by their numbers in the specification of the node's sidecar.
//!
//! | danger | what is done | shown by |
//! |---|---|---|
//! | S1 a patch that leads out of the folder | three names of files, and no others | `sidecar::s01_only_the_files_of_settings_are_patched` |
//! | S2 archives that lead outside, and bombs | unpacked below a directory handle, no links followed; bytes and entries have limits | `sidecar::s02_archives_that_lead_outside_are_refused`, `sidecar::s02_bombs_and_broken_archives_are_refused` |
//! | S3 private keys in a bucket | only the node's id is uploaded; a declaration is read before it is sent | `sidecar::s03_a_new_chain_begins_and_no_private_key_leaves_its_node`, `sidecar::four_seids_make_blocks_with_what_four_sidecars_made` |
//! | S4 a program of the caller's choice | never run: the kind is refused | `sidecar::what_this_build_does_not_do_is_refused_at_submission` |
//! | S5 hosts of the caller's choice | http and https only, no redirects, limits of size and time, hosts are checked | `sidecar::state_sync_trusts_what_witnesses_say`, `sidecar::peers_are_found_and_written_without_touching_anything_else` |
//! | S6 bodies without an end | 1 MiB | `sidecar::s06_requests_have_limits` |
//! | S7 store failures that look like answers | 503 with Retry-After, everywhere | `sidecar::s07_a_ledger_that_fails_is_503_everywhere` |
//! | S8 no bounds | tasks under way, places to work, one at a time on each part of the node, rows are forgotten | `sidecar::s08_tasks_under_way_are_bounded`, `sidecar::s08_old_rows_are_forgotten_but_for_the_newest_hold`, `engine::tests::what_is_left_of_a_deleted_task_ends_nothing_and_holds_its_lock_until_it_is_over` |
//! | S9 nobody knows who asked | stored and logged | `sidecar::s09_who_gave_a_task_is_stored_and_logged` |
//! | S10 the passphrase of a keyring | nothing is signed with it: it is never read, and no keyring is opened but the one that a ceremony makes | `settings::tests::s10_the_passphrase_of_a_keyring_is_no_setting` |
//! | S11 tasks without a deadline | each kind has one; rounds of the endless upload have | `kinds::tests::s11_every_task_ends_but_the_loop_whose_rounds_do`, `engine::tests::a_deadline_is_stored_as_a_failure` |
//! | S12 markers that ignore parameters | they hold them, and a difference is told | `node::marker::tests::s12_a_marker_says_what_it_was_made_with`, `sidecar::a_snapshot_is_restored_once` |
//! | S13 SIGKILL | only at the end of a wait for a height, after which blocks would differ; never by stop-seid and restart-seid | `sidecar::seid_is_stopped_and_never_killed_by_stop_seid` |
//! | S14 parameters come back | they are never logged; messages hold no secrets | `sidecar::s09_who_gave_a_task_is_stored_and_logged`, `sidecar::failures_of_s3_say_what_to_do` |
//! | S15 any process called seid | `seid start`, by its own name | `node::process::tests::s15_only_the_node_itself_is_found` |
//! | S16 half a genesis file | placed as a whole, and hashed, also behind a marker | `sidecar::s16_a_genesis_file_is_there_as_a_whole_and_the_right_one` |
//! | S17 a release against a hold | by the time of submission | `sidecar::s17_a_live_race_leaves_no_torn_state` |
//! | S18 times that do not sort | fixed width | `ledger::moment::tests::s18_times_sort_as_text_whatever_form_they_were_written_in` |
//! | S19 a shutdown that waits for nobody | it waits | `sidecar::s19_a_shutdown_waits_and_the_task_goes_on_after_it` |
//! | S20 the mode is read too late | checked with all settings, first | `sidecar::s20_wrong_settings_are_all_told_before_anything_is_begun` |
//! | S21 spellings of an id | one | `ledger::schema::tests::s21_every_spelling_of_an_id_is_the_same_task` |
//! | S22 the same id with other parameters | kept: clients rely on it | `sidecar::the_same_id_is_the_same_task_and_only_what_failed_is_begun_again` |
//! | S23 metrics without a token | labels of a closed list | `sidecar::s23_metrics_show_nothing_that_a_caller_wrote` |
//! | S24 one right for all of a node's tasks | kept: the proxy decides; who gave a task is shown to nobody | `sidecar::tasks_are_listed_read_and_deleted` |

pub mod archive;
pub mod engine;
pub mod http;
pub mod kinds;
pub mod ledger;
pub mod metrics;
pub mod node;
pub mod objects;
mod roots;
mod run;
pub mod settings;

pub use self::run::{Error, run};
pub use self::settings::{Args, Settings};
