//! The data types that Outrigger exchanges and stores: custom resources, conditions and their reasons, the sidecar's JSON API, KMS
//! reports, and names. Data only: no client, no runtime, no clock, which the architecture tests of the testbed verify.
//!
//! # Invariants
//!
//! | invariant | tested by |
//! |---|---|
//! | a manifest is accepted, or rejected with a message that says what is wrong and how to fix it | `manifests::manifests_are_accepted_or_rejected_with_expected_message` |
//! | immutable fields cannot be changed, by any request type and by any sequence of edits | `manifests::immutable_fields_survive_every_sequence_of_edits` |
//! | objects that the previous operator accepted stay editable | `manifests::objects_accepted_by_older_rules_stay_editable` |
//! | transition rules are on `spec`, which cannot be absent; the status has no rules | `schema::transition_rules_are_only_on_spec` |
//! | the API server accepts the CRDs without a warning and within its cost limits | `manifests::crds_are_accepted_without_warnings` |
//! | no field is lost by our types or pruned by the API server | `schema::documents_round_trip_through_types`, `manifests::full_documents_are_stored_unchanged` |
//! | these documents contain every field | `schema::full_documents_cover_every_schema_field` |
//! | an object that may be empty can be emptied by a server-side apply | `manifests::objects_can_be_emptied_by_server_side_apply` |
//! | every field has a description of its own | `schema::every_field_has_a_description`, `schema::enum_fields_do_not_share_descriptions` |
//! | null means absent | `schema::formats_are_known_and_nothing_is_nullable` |
//! | the transition time of a condition changes only with its status, and its generation is always set | `condition::tests::transition_time_changes_only_with_status` |
//! | every reason is documented | `condition::tests::every_reason_is_documented_once`, `generated::condition_reference_is_up_to_date` |
//! | the report of an unhealthy plugin can always be stored, whatever the plugin returns | `manifests::reports_of_failing_plugins_are_always_storable` |
//! | a report for an operator resource always has the required key ID | `kms::health::tests::operator_resource_report_always_has_a_key_id` |
//! | the message of a reporter's condition fits, and is valid JSON | `kms::condition_form::tests::message_always_fits_and_is_valid_json` |
//! | secrets in messages of plugins are redacted | `kms::redact::tests::secrets_are_redacted_and_the_rest_is_kept` |
//! | a sidecar exposes no text of callers or Secrets to unauthenticated clients | `sidecar_wire::exposure::tests::text_of_callers_and_secrets_is_detected`, `generated::sidecar_exposure_reference_is_up_to_date` |
//! | names do not change unnoticed | `generated::interface_names_match_golden_file` |

pub mod cert_manager;
pub mod condition;
pub mod crd;
pub mod drift;
pub mod duration;
pub mod event;
pub mod fleet;
pub mod kms;
pub mod names;
pub mod rbac;
mod rule;
mod schema;
pub mod sei_node;
pub mod sidecar_wire;
mod text;

pub use fleet::SeiNodeDeployment;
pub use kms::KMSHealth;
pub use sei_node::SeiNode;
