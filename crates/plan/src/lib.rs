//! Every decision of Outrigger. Pure functions of a spec, a status, the observed world and the time: no client, no runtime,
//! no clock; the architecture tests of the test-bed check what is reached from here.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | left alone, a node comes to rest as its spec says, whatever happened before | `model::a_new_node_comes_to_rest_whatever_happens`, `model::a_running_node_comes_to_rest_whatever_happens`, `model::two_running_nodes_come_to_rest_whatever_happens` |
//! | a plan is stored before anything of it is done | `stories::nothing_is_done_in_the_pass_that_makes_the_plan` |
//! | one edit is one plan and at most one pod cycle, whatever it touches | `edits::image_and_tls_in_one_edit_are_one_plan_and_one_pod_cycle`, `edits::every_other_part_of_the_pod` |
//! | what was never observed is no drift, until the spec is edited | `edits::an_operator_after_another_one_replaces_no_pod_until_the_spec_is_edited` |
//! | a node that has just become Running gets no second plan | `edits::a_node_that_has_just_become_running_gets_no_second_plan` |
//! | a sidecar's task is given once for each attempt, also by an operator that was killed | `stories::a_plan_goes_on_where_a_killed_operator_left_it`, `failures::a_retry_is_counted_before_it_is_made` |
//! | a failure stays told, and an edit mends it at once | `failures::an_update_that_fails_leaves_the_node_running_and_is_tried_less_and_less_often`, `failures::an_edit_mends_a_failed_update_at_once` |
//! | every wait has one deadline | `failures::a_wait_has_one_deadline_whatever_it_waits_for` |
//! | a volume that is lost is never replaced under a node that signs | `stories::a_lost_volume_is_made_again_but_not_under_a_node_that_signs` |
//! | what is rendered is taken by the API server without a warning, and is not seen as changed afterwards | `rendered::rendered_objects_are_taken_without_a_warning_and_kept_as_they_are`, `rendered::quantities_are_kept_in_their_canonical_form` |
//! | what was computed before is used only for the same spec and the same content | `node::memo::tests::another_spec_has_another_memory`, `node::memo::tests::what_was_found_as_wished_is_compared_again_only_when_it_may_differ` |
//! | rendered objects do not change unnoticed | `golden::rendered_objects_are_as_they_were` |
//! | keys reach only the container that they are for | `guard::tests::the_keyring_and_its_passphrase_reach_the_sidecar_only`, `guard::tests::a_bootstrap_pod_that_could_sign_is_refused` |
//! | nobody reaches a sidecar who was not named | `policy::a_platform_without_clients_lets_nobody_reach_the_sidecar` |

pub mod node;
pub mod platform;
pub mod quantity;
pub mod render;

pub use platform::Platform;
