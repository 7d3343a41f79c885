//! The operator: what it is told at its start, how it speaks to sidecars, which Secrets it reads, and what it tells people.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | everything that is wrong with the settings is told at once, with flag, variable and cure | `settings::tests::defect_14_every_problem_is_told_at_once_with_flag_variable_and_cure`, `settings::tests::every_setting_that_must_be_given_is_missed` |
//! | definitions that are older than the operator keep it from starting, since they would drop what it stores | `definitions::without_our_kinds_or_with_older_ones_it_says_so_and_ends` |
//! | manifests of the operator that we replace start | `settings::tests::manifests_of_the_operator_before_start_and_are_told_what_has_no_effect`, `settings::args::tests::every_environment_variable_of_the_operator_is_read` |
//! | it may do what it does, and nothing else | `rights::the_operator_may_do_what_it_does_and_nothing_else`, `install::tests::no_rule_has_a_wildcard_or_changes_secrets` |
//! | what is refused is asked about less and less | `storage::a_finalizer_that_may_not_be_removed_is_asked_about_less_and_less` |
//! | two processes never take each other's Lease for their own | `settings::tests::two_processes_never_have_the_same_identity` |
//! | no token is shown to a server that does not have the certificate of the node's Secret, or one of its authority, or one that the Secret had while the same pod ran, replaced ten minutes ago at most | `tls::only_the_certificate_of_the_secret_is_accepted`, `tls::a_renewed_certificate_is_accepted_while_it_is_on_its_way`, `tls::a_certificate_without_authority_is_accepted_until_the_next_is_served`, `a_replaced_certificate_is_good_to_its_pod_and_for_ten_minutes` |
//! | without a token nothing is sent, and a new one is used at once | `answers::without_a_token_nothing_is_sent`, `answers::a_token_that_was_replaced_is_shown_at_once` |
//! | no sidecar holds up a pass, and its late answer is told | `background::an_answer_that_takes_long_holds_nothing_up_and_wakes_its_node`, `background::a_sidecar_that_hangs_is_unreachable_in_its_time` |
//! | however many sidecars hang, a bounded number of them is waited for at once, and none is forgotten | `background::sidecars_that_hang_are_not_all_asked_at_once` |
//! | a task is given once, however long its answer takes | `background::a_task_is_given_once_however_long_the_answer_takes` |
//! | nothing is kept of a node that is gone | `background::nothing_is_kept_of_a_node_that_is_gone`, `metrics::tests::defect_11_a_node_that_is_gone_has_no_series` |
//! | what a sidecar's trouble is called does not change from try to try | `answers::each_answer_means_one_thing_and_says_it_in_the_same_words` |
//! | a Secret is read once per version | `memory::a_secret_is_read_once_in_each_version` |
//! | private keys are not kept in memory | `secrets::tests::of_a_certificate_its_key_is_not_kept`, `secrets::tests::of_other_secrets_only_the_shape_is_kept` |
//! | events hold nobody up, and none is told twice | `telling::events_arrive_on_the_node`, `telling::a_thousand_events_at_once_all_arrive` |
//! | what a whole fleet has to tell at once arrives | `telling::a_thousand_events_at_once_all_arrive` |
//! | a node is woken by the Secrets, claims and peers that it names, and by no others | `controller::ties::tests::a_node_is_found_by_what_it_names_until_it_names_something_else` |
//! | a plan is measured once, and a phase when it is left | `metrics::tests::defect_11_a_plan_is_measured_once_from_its_making_to_its_end`, `metrics::tests::defect_11_the_duration_is_that_of_the_phase_that_was_left` |

mod controller;
mod definitions;
pub mod install;
pub mod metrics;
mod run;
pub mod secrets;
pub mod settings;
pub mod sidecar;

pub use definitions::Error as DefinitionsError;
pub use run::{Error, run};
