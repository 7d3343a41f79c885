//! Test fixture: a ceremony with fixed keys.

use std::collections::BTreeMap;

use chain::account::AccountKey;
use chain::coin::{Coin, Coins};
use chain::genesis::{Assembled, Ceremony, Genesis, GenesisError, NewAccount, Participant, assemble};
use chain::gentx::{Gentx, GentxParams};
use chain::identity::{ConsensusKey, NodeKey};
use zeroize::Zeroizing;

pub const CHAIN: &str = "gx-vec-1";
pub const TIME: &str = "2026-01-02T03:04:05Z";
pub const BALANCE: &str = "1000000000000usei";

/// Private key of the test vectors, derived from the mnemonic `abandon` (23 times) `art`.
pub fn vector_key() -> AccountKey {
    let hex = "8088c2ed2149c34f6d6533b774da4e1692eb5cb426fdbaef6898eeda489630b7";
    let mut bytes = Zeroizing::new([0; 32]);
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    }
    AccountKey::from_bytes(&bytes).unwrap()
}

pub fn node_key(seed: u8) -> NodeKey {
    NodeKey::from_seed(&Zeroizing::new([seed; 32]))
}

pub fn consensus_key(seed: u8) -> ConsensusKey {
    ConsensusKey::from_seed(&Zeroizing::new([seed; 32]))
}

pub fn account_key(seed: u8) -> AccountKey {
    AccountKey::from_bytes(&Zeroizing::new([seed; 32])).unwrap()
}

/// Gentx parameters of the test vectors.
pub fn declaration<'a>(node_id: &'a str, stake: &'a Coin) -> GentxParams<'a> {
    GentxParams {
        chain_id: CHAIN,
        moniker: "val-0",
        node_id,
        address: "192.0.2.1",
        consensus_key: consensus_key(2).public(),
        stake,
        gas_limit: 0,
    }
}

/// Signs a gentx with keys from seeds.
pub fn gentx_of(account: &AccountKey, consensus: u8, stake: &str, chain_id: &str) -> Gentx {
    let (node, stake) = (node_key(1).id(), Coin::parse(stake).unwrap());
    let consensus_key = consensus_key(consensus).public();
    let declaration = GentxParams { chain_id, consensus_key, ..declaration(&node, &stake) };
    Gentx::sign(&declaration, account).unwrap()
}

/// Renders the gentx file of a numbered node.
pub fn gentx(number: u8) -> String {
    gentx_of(&account_key(number), number, "10000000usei", CHAIN).file()
}

pub fn base() -> Genesis {
    Genesis::new(CHAIN, TIME.parse().unwrap()).unwrap()
}

/// Assembles a genesis from these gentxs.
pub fn assembled(nodes: &[(&str, &str)]) -> Result<Assembled, GenesisError> {
    assembled_with(nodes, &[], &[])
}

pub fn assembled_with(
    nodes: &[(&str, &str)],
    accounts: &[NewAccount],
    overrides: &[(&str, &str)],
) -> Result<Assembled, GenesisError> {
    let participants: Vec<Participant<'_>> =
        nodes.iter().map(|(name, gentx)| Participant { name, gentx: gentx.as_bytes() }).collect();
    let overrides: BTreeMap<String, Vec<u8>> =
        overrides.iter().map(|(path, value)| ((*path).to_owned(), value.as_bytes().to_vec())).collect();
    assemble(Ceremony {
        base: base(),
        participants: &participants,
        balance: &Coins::parse(BALANCE).unwrap(),
        accounts,
        overrides: &overrides,
    })
}
