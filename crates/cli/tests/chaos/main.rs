//! Injects faults at random moments while a node is edited. The nodes must converge without losing data or repeating tasks.
//! `OUTRIGGER_CHAOS_ROUNDS` sets the number of rounds, `OUTRIGGER_CHAOS_SEED` the random seed.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes libtest tests only")]

mod fault;
mod rounds;
mod table;

testbed::suite![
    rounds::nodes_converge_under_faults,
    rounds::chain_of_validator_that_refuses_to_sign_continues,
];
