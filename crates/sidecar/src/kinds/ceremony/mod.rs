//! The kinds by which the validators of a new chain agree how it begins. Documents, keys and signatures are made in `chain`;
//! here they are read, written and exchanged. Each may be killed anywhere: what it had made is found and used again.

pub(super) mod artifacts;
pub(super) mod assemble;
pub(super) mod gentx;
pub(super) mod identity;

use std::path::Path;

use zeroize::Zeroizing;

use super::{Failure, Work};
use crate::node::files;

/// A failure of a kind, with its name before it.
fn failed<E: std::fmt::Display>(task: &'static str) -> impl Fn(E) -> Failure + Copy {
    move |error| Failure::new(format_args!("{task}: {error}"))
}

/// A parameter that must not be empty.
fn required(task: &'static str, name: &str, value: &str) -> Result<(), Failure> {
    match value.is_empty() {
        true => Err(Failure::new(format_args!("{task}: missing required param '{name}'"))),
        false => Ok(()),
    }
}

/// A chain that a task names must be the one that this sidecar stands for: objects and signatures would name two.
fn check_chain(work: &Work, task: &'static str, chain_id: &str) -> Result<(), Failure> {
    required(task, "chainId", chain_id)?;
    let own = &work.node.settings().chain_id;
    if chain_id == own {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "{task}: chainId is {chain_id:?}, and this sidecar is of {own} (SEI_CHAIN_ID)"
    )))
}

/// A name that becomes part of keys and of host names.
fn check_name(task: &'static str, field: &str, name: &str) -> Result<(), Failure> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() <= 253 && bytes.iter().all(|byte| fits(*byte)) && ends(bytes.first()) && ends(bytes.last())
    {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "{task}: {field} {name:?} is no name of a node: use letters, digits and -"
    )))
}

/// Random bytes.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    match aws_lc_rs::rand::fill(bytes.as_mut_slice()) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Failure::new("the system gives no random bytes")),
    }
}

/// The bytes of a file that may be missing; they are wiped when they are dropped.
fn read(path: &Path) -> std::io::Result<Option<Zeroizing<Vec<u8>>>> {
    Ok(files::read_bytes(path)?.map(Zeroizing::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_elsewhere_are_none() {
        for name in ["val-0", "a", "val.0"] {
            assert!(check_name("t", "name", name).is_ok(), "{name}");
        }
        for name in ["", "../a", "a/b", "-a", "a-", "A", "a b", ".", "a\n", &"a".repeat(254)] {
            assert!(check_name("t", "name", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(*random::<32>().unwrap(), *random::<32>().unwrap());
    }
}
