//! Configuration, ports, keys, accounts, gentx and genesis files of a Sei node, independent of Kubernetes.
//!
//! Pure functions from bytes to bytes: no client, no async runtime, no clock, no file access. Randomness and time are arguments.
//!
//! # Invariants
//!
//! | invariant | tests |
//! |---|---|
//! | The table of settings matches the reference library, including order and defaults. | `table::fields_match_reference`, `apply::defaults_match_reference_in_every_mode`, `apply::line_order_matches_reference` |
//! | A change touches requested settings only; comments, order and unknown keys are preserved. | `properties::change_keeps_unknown_keys_and_is_idempotent`, `properties::patch_keeps_unknown_keys_and_is_idempotent`, `incremental::seid_init_files_can_be_changed_without_losses` |
//! | Applying a configuration is idempotent. | `properties::full_intent_is_idempotent` |
//! | A configuration that keeps seid from starting is rejected with the field and a fix. | `validation::settings_that_stop_seid_are_rejected_with_a_fix`, `rejected_settings_keep_seid_from_starting` |
//! | Checking an intent and resolving it reject the same overrides. | `operator::check_intent_agrees_with_resolve` |
//! | seid starts with the files of every mode. | `seid_starts_in_every_mode` |
//! | A patch cannot name a file outside the config directory. | `patch::patchable_files_are_an_allow_list` |
//! | An override without effect produces a warning. | `apply::chain_id_override_has_no_effect_and_warns`, `validation::override_without_effect_gets_a_warning` |
//! | Validation rules refer to existing settings. | `config::rules::tests::rules_reference_existing_settings` |
//! | Keys, addresses and gentxs match the test vectors and seid byte for byte. | `keys::addresses_match_test_vectors`, `gentx::tests::sign_bytes_match_test_vector`, `gentx::gentx_file_matches_test_vector`, `keys_and_gentx_match_seid` |
//! | Private keys are never printed, and no copy is left that is not zeroized. | `keys::debug_output_hides_private_keys`, `keys::key_file_errors_do_not_reveal_content` |
//! | A genesis file matches seid's output byte for byte, and its hash is deterministic. | `assembled_genesis_matches_collect_gentxs`, `new_genesis_matches_seid_init`, `assemble::genesis_hash_is_deterministic` |
//! | Assembly rejects everything that makes seid panic, and names the node. | `validation::invalid_gentx_error_names_the_field`, `validation::shared_key_error_names_both_nodes`, `validation::overridden_chain_limits_are_enforced` |
//! | A nested document does not overflow the stack. | `json::tests::deeply_nested_json_is_rejected` |
//! | A peer has a node ID of 40 hexadecimal digits, wherever it is written. | `patch::invalid_peers_are_rejected`, `peers::peers_exclude_own_node` |
//! | The validator list contains every validator, so that a chain with one validator starts. | `assemble::validators_are_listed_with_voting_power` |

pub mod account;
pub mod address;
pub mod coin;
pub mod config;
pub mod genesis;
pub mod gentx;
pub mod identity;
pub mod json;
pub mod keyring;
pub mod ports;
mod secret;
mod text;

pub use secret::Secret;
pub use text::{hex, sha256};
