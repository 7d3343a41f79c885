//! Final step of a genesis ceremony: assembles the gentxs of all nodes into one genesis file.

use std::collections::BTreeMap;

use super::accounts::NewAccount;
use super::document::{Genesis, GenesisError};
use crate::coin::Coins;
use crate::gentx::Gentx;
use crate::text::sha256;

/// Node that takes part in the ceremony.
#[derive(Clone, Debug)]
pub struct Participant<'a> {
    /// Node name.
    pub name: &'a str,
    /// Content of the gentx file.
    pub gentx: &'a [u8],
}

/// Inputs of a genesis file.
#[derive(Clone, Debug)]
pub struct Ceremony<'a> {
    /// Base genesis. Its accounts are kept, its gentxs are replaced.
    pub base: Genesis,
    /// Participating nodes.
    pub participants: &'a [Participant<'a>],
    /// Balance for participants without a genesis account.
    pub balance: &'a Coins,
    /// Additional, non-validator accounts.
    pub accounts: &'a [NewAccount],
    /// Overrides: paths to JSON values.
    pub overrides: &'a BTreeMap<String, Vec<u8>>,
}

/// Assembled genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// File content.
    pub file: String,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub hash: String,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Participant with its parsed gentx.
pub(super) struct Member<'a> {
    pub(super) node: &'a str,
    pub(super) gentx: Gentx,
}

/// Assembles the genesis file. Rejects everything that would make seid panic, and names the node that caused it.
pub fn assemble(ceremony: Ceremony<'_>) -> Result<Assembled, GenesisError> {
    let mut genesis = ceremony.base;
    let members = parse_gentxs(genesis.chain_id(), ceremony.participants)?;
    for member in &members {
        genesis.add_account(member.gentx.delegator(), ceremony.balance)?;
    }
    for account in ceremony.accounts {
        genesis.add_external(account)?;
    }
    for (path, value) in ceremony.overrides {
        genesis.apply_override(path, value)?;
    }
    // After the overrides, which may change the limits.
    genesis.check_validators(&members)?;
    genesis.set_validators(&members)?;
    let mut warnings = Vec::new();
    if members.len() == 2 {
        warnings.push(
            "a chain of exactly two nodes never produces blocks, because each waits for two peers; add a third node, or use one or three validators"
                .to_owned(),
        );
    }
    let file = genesis.file();
    Ok(Assembled { hash: sha256(file.as_bytes()), file, warnings })
}

/// Parses every gentx, sorted by file name, which is the execution order.
fn parse_gentxs<'a>(
    chain_id: &str,
    participants: &[Participant<'a>],
) -> Result<Vec<Member<'a>>, GenesisError> {
    if participants.is_empty() {
        return Err(GenesisError::NoParticipants);
    }
    let mut members = Vec::new();
    for Participant { name, gentx } in participants {
        let gentx = Gentx::parse(gentx, chain_id)
            .map_err(|error| GenesisError::Gentx { node: (*name).to_owned(), error })?;
        members.push(Member { node: name, gentx });
    }
    members.sort_by_key(|member| format!("gentx-{}.json", member.node));
    check_distinct(&members, "name", |member| member.node.to_owned())?;
    check_distinct(&members, "delegator", |member| member.gentx.delegator())?;
    check_distinct(&members, "consensus key", |member| *member.gentx.consensus_key())?;
    Ok(members)
}

fn check_distinct<K: Ord>(
    members: &[Member<'_>],
    what: &'static str,
    key: impl Fn(&Member<'_>) -> K,
) -> Result<(), GenesisError> {
    let mut seen = BTreeMap::new();
    for member in members {
        if let Some(first) = seen.insert(key(member), member.node) {
            let (first, second) = (first.to_owned(), member.node.to_owned());
            return Err(GenesisError::Shared { what, first, second });
        }
    }
    Ok(())
}
