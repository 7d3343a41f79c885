//! What Outrigger writes on the wire and into etcd: custom resources, conditions with their closed reasons, the sidecar's
//! JSON, KMS reports, and names. Data only: no client, no runtime, no clock; the architecture tests of the test-bed check what is reached from here.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | a manifest is accepted, or refused in a sentence that says what is wrong and what to do | `manifests::every_manifest_is_accepted_or_refused_with_its_sentence` |
//! | what cannot change does not, in whatever way and in however many edits it is tried | `manifests::defect_12_what_cannot_change_does_not_in_one_edit_nor_in_two` |
//! | what the operator that we replace let in stays editable | `manifests::what_older_rules_let_in_stays_editable` |
//! | rules about changes are on `spec`, which cannot be absent; there are none on status | `schema::rules_about_changes_are_on_the_spec_only` |
//! | the API server takes our definitions without a warning and within its cost limits | `manifests::the_definitions_are_accepted_without_a_warning` |
//! | no field is lost on the way through our types, nor pruned by the API server | `schema::no_field_is_lost_on_the_way_through_our_types`, `manifests::full_documents_are_stored_unchanged` |
//! | those documents have every field that there is | `schema::the_full_documents_have_every_field_of_the_schemas` |
//! | an object that may be empty can be emptied by a server-side apply | `manifests::an_object_can_be_emptied_by_an_apply` |
//! | every field is explained, by what it means there | `schema::every_field_has_a_description`, `schema::a_field_is_described_by_what_it_means_not_by_its_type` |
//! | null means absent | `schema::no_format_is_unknown_to_the_api_server_and_nothing_is_nullable` |
//! | a condition's transition time moves only with its status, and its generation is always set | `condition::tests::the_transition_time_moves_only_with_the_status` |
//! | reasons are closed lists, each explained | `condition::tests::every_reason_is_explained_and_belongs_to_one_status`, `generated::the_table_of_conditions_is_up_to_date` |
//! | the report of a sick plugin is always storable, whatever the plugin says | `manifests::reports_of_failing_plugins_are_always_storable` |
//! | an operator resource always gets a key id, which it requires | `kms::health::tests::an_operator_resource_always_gets_a_key_id_and_never_empty_text` |
//! | the message of a reporter's condition fits, and is valid JSON | `kms::condition_form::tests::any_number_of_long_reports_fits_and_stays_json` |
//! | secrets in what a plugin says are taken out | `kms::redact::tests::secrets_are_taken_out_and_the_rest_stays` |
//! | a sidecar shows nothing without a token that a caller or a Secret could put there | `sidecar_wire::exposure::tests::what_a_caller_or_a_secret_could_put_there_is_found`, `generated::the_table_of_what_a_sidecar_shows_is_up_to_date` |
//! | names do not change unnoticed | `generated::names_are_as_they_were` |

pub mod applied;
pub mod cert_manager;
pub mod condition;
pub mod crd;
pub mod duration;
pub mod fleet;
pub mod kms;
pub mod names;
pub mod note;
pub mod rbac;
mod rule;
mod schema;
pub mod sei_node;
pub mod sidecar_wire;
mod text;

pub use fleet::SeiNodeDeployment;
pub use kms::KMSHealth;
pub use sei_node::SeiNode;
