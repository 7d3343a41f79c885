//! What a Sei node is, without Kubernetes: its configuration, ports, identities, accounts, gentx and genesis. Bytes in,
//! bytes out: no client, no runtime, no clock, no files; randomness and time are arguments.
//!
//! # Invariants
//!
//! | what always holds | guarded by |
//! |---|---|
//! | the table of settings says what the reference says, in its order | `table::every_field_is_that_of_the_reference`, `apply::s01_every_key_has_the_default_of_its_mode`, `apply::lines_are_in_the_order_of_the_reference` |
//! | a change touches what was asked for: comments, order and keys that nobody knows stay | `properties::a_change_keeps_unknown_keys_and_comments_and_is_idempotent`, `properties::a_patch_keeps_unknown_keys_and_comments_and_is_idempotent`, `incremental::what_seid_init_wrote_can_be_changed_and_nothing_of_it_is_lost` |
//! | what is applied twice is applied once | `properties::a_full_intent_applied_twice_is_applied_once` |
//! | a configuration that would kill seid is refused with the field and the cure | `refused::s36_what_would_kill_seid_is_refused_with_the_field_and_the_cure`, `what_is_refused_here_kills_seid` |
//! | who checks an intent refuses what who resolves it refuses | `operator::s34_what_is_checked_is_what_is_resolved` |
//! | seid starts with the files of every mode | `the_files_of_every_mode_start_seid` |
//! | no patch leads out of the folder of settings | `patch::only_three_files_can_be_patched` |
//! | no override changes nothing without a word | `apply::s17_the_chain_is_in_no_file_and_that_is_told`, `refused::an_override_that_seid_does_not_read_is_told` |
//! | rules name settings that exist | `config::rules::tests::every_rule_names_settings_that_exist` |
//! | keys, addresses and a gentx have the bytes of the vectors, and of seid | `keys::addresses_are_those_of_the_vectors`, `gentx::tests::the_bytes_that_are_signed_are_those_of_the_vector`, `gentx::the_file_is_that_of_the_vector`, `seid_reads_our_keys_and_makes_the_same_gentx` |
//! | private keys are shown nowhere, and leave no copies that are not wiped | `keys::private_keys_are_shown_nowhere`, `keys::key_files_that_are_none_are_refused_without_their_content` |
//! | a genesis has the bytes that seid would have written, and the same hash every time | `the_assembled_genesis_is_that_of_collect_gentxs`, `the_genesis_of_a_new_chain_is_that_of_seid_init`, `assemble::the_hash_is_over_the_bytes_and_the_same_every_time` |
//! | what seid would panic at is refused when a genesis is assembled, with the node | `refused::a_gentx_that_cannot_be_is_refused_by_what_is_wrong`, `refused::nodes_that_share_a_key_are_both_named`, `refused::limits_of_the_chain_are_kept_also_when_they_are_overridden` |
//! | every validator is in the list that lets a chain of one begin | `assemble::every_validator_is_listed_with_its_votes` |

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
