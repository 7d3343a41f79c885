//! The end of a ceremony: what every node has declared becomes one document.

use std::collections::BTreeMap;

use super::accounts::NewAccount;
use super::document::{Genesis, GenesisError};
use crate::coin::Coins;
use crate::gentx::Gentx;
use crate::text::sha256;

/// A node that takes part.
#[derive(Clone, Debug)]
pub struct Participant<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its gentx file.
    pub gentx: &'a [u8],
}

/// Everything that a document is made of.
#[derive(Clone, Debug)]
pub struct Ceremony<'a> {
    /// What there was before: accounts may be in it, gentxs are replaced.
    pub base: Genesis,
    /// Who takes part.
    pub participants: &'a [Participant<'a>],
    /// What the account of each of them holds that has none.
    pub balance: &'a Coins,
    /// Who else has an account.
    pub accounts: &'a [NewAccount],
    /// Values that are to be others: paths to JSON.
    pub overrides: &'a BTreeMap<String, Vec<u8>>,
}

/// The document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The file.
    pub file: String,
    /// Its SHA-256, in lower-case hexadecimal digits.
    pub hash: String,
    /// What somebody should look at.
    pub warnings: Vec<String>,
}

/// A participant whose gentx was read.
pub(super) struct Member<'a> {
    pub(super) node: &'a str,
    pub(super) gentx: Gentx,
}

/// Makes the document. Whatever seid would panic at is refused here, with the node that it is about.
pub fn assemble(ceremony: Ceremony<'_>) -> Result<Assembled, GenesisError> {
    let mut genesis = ceremony.base;
    let members = members(genesis.chain_id(), ceremony.participants)?;
    for member in &members {
        genesis.add_account(member.gentx.delegator(), ceremony.balance)?;
    }
    for account in ceremony.accounts {
        genesis.add_external(account)?;
    }
    for (path, value) in ceremony.overrides {
        genesis.put_override(path, value)?;
    }
    // After the overrides: these may change the limits.
    genesis.check_validators(&members)?;
    genesis.put_validators(&members)?;
    let mut warnings = Vec::new();
    if members.len() == 2 {
        warnings.push(
            "two validators alone never start: each waits for two peers; add a third node, or take one or three validators"
                .to_owned(),
        );
    }
    let file = genesis.file();
    Ok(Assembled { hash: sha256(file.as_bytes()), file, warnings })
}

/// Reads every gentx, in the order of file names, in which they will be executed.
fn members<'a>(chain_id: &str, participants: &[Participant<'a>]) -> Result<Vec<Member<'a>>, GenesisError> {
    if participants.is_empty() {
        return Err(GenesisError::Nobody);
    }
    let mut members = Vec::new();
    for Participant { name, gentx } in participants {
        let gentx = Gentx::parse(gentx, chain_id)
            .map_err(|error| GenesisError::Gentx { node: (*name).to_owned(), error })?;
        members.push(Member { node: name, gentx });
    }
    members.sort_by_key(|member| format!("gentx-{}.json", member.node));
    distinct(&members, "name", |member| member.node.to_owned())?;
    distinct(&members, "delegator", |member| member.gentx.delegator())?;
    distinct(&members, "consensus key", |member| *member.gentx.consensus_key())?;
    Ok(members)
}

fn distinct<K: Ord>(
    members: &[Member<'_>],
    what: &'static str,
    of: impl Fn(&Member<'_>) -> K,
) -> Result<(), GenesisError> {
    let mut seen = BTreeMap::new();
    for member in members {
        if let Some(first) = seen.insert(of(member), member.node) {
            let (first, second) = (first.to_owned(), member.node.to_owned());
            return Err(GenesisError::Shared { what, first, second });
        }
    }
    Ok(())
}
