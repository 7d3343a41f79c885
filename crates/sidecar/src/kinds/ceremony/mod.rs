//! The genesis ceremony of a new chain. `chain` creates documents, keys and signatures; these tasks read, write and exchange
//! them. Every task can be killed at any point: the next attempt reuses what it finds.

pub(super) mod artifacts;
pub(super) mod assemble;
pub(super) mod gentx;
pub(super) mod identity;

use std::path::Path;

use zeroize::Zeroizing;

use super::{TaskContext, TaskError};
use crate::node::files;

/// Returns a function that prefixes an error with the task name.
fn failed<E: std::fmt::Display>(task: &'static str) -> impl Fn(E) -> TaskError + Copy {
    move |error| TaskError::new(format_args!("{task}: {error}"))
}

/// Fails if a required parameter is empty.
fn required(task: &'static str, name: &str, value: &str) -> Result<(), TaskError> {
    match value.is_empty() {
        true => Err(TaskError::new(format_args!("{task}: missing required param '{name}'"))),
        false => Ok(()),
    }
}

/// Fails if a task names another chain than the sidecar's: objects and signatures would disagree.
fn check_chain(ctx: &TaskContext, task: &'static str, chain_id: &str) -> Result<(), TaskError> {
    required(task, "chainId", chain_id)?;
    let own = &ctx.node.settings().chain_id;
    if chain_id == own {
        return Ok(());
    }
    Err(TaskError::new(format_args!(
        "{task}: chainId is {chain_id:?}, but this sidecar serves {own} (SEI_CHAIN_ID)"
    )))
}

/// Fails if a name cannot be part of object keys and host names.
fn check_name(task: &'static str, field: &str, name: &str) -> Result<(), TaskError> {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() <= 253
        && bytes.iter().all(|byte| is_allowed(*byte))
        && is_edge(bytes.first())
        && is_edge(bytes.last())
    {
        return Ok(());
    }
    Err(TaskError::new(format_args!(
        "{task}: invalid {field} {name:?}: use lower-case letters, digits, - and ."
    )))
}

/// Returns random bytes.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, TaskError> {
    let mut bytes = Zeroizing::new([0; N]);
    match aws_lc_rs::rand::fill(bytes.as_mut_slice()) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(TaskError::new("the system random number generator failed")),
    }
}

/// Reads an optional file that may hold secrets; the buffer is zeroed on drop.
fn read(path: &Path) -> std::io::Result<Option<Zeroizing<Vec<u8>>>> {
    Ok(files::read_bytes(path)?.map(Zeroizing::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_path_characters_are_rejected() {
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
