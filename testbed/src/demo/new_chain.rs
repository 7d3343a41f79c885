//! A chain of one validator that has not begun: what somebody who begins one has in hand.

use std::collections::BTreeMap;
use std::fmt::Display;

use api::names::data_key;
use chain::Secret;
use chain::account::AccountKey;
use chain::coin::{Coin, Coins};
use chain::genesis::{Ceremony, Genesis, Participant, assemble};
use chain::gentx::{Gentx, GentxParams};
use chain::identity::{ConsensusKey, NodeKey};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// What the validator's account holds, and how much of it is its stake.
const BALANCE: &str = "1000000000000000000000usei";
const STAKE: &str = "10000000usei";

/// A chain of one validator that has not begun.
#[derive(Debug)]
pub struct NewChain {
    id: String,
    genesis: String,
    node_key: Secret,
    signing_key: Secret,
}

impl NewChain {
    /// Makes the keys of the validator, and the genesis of the chain.
    pub fn of_one(id: &str, validator: &str) -> Result<Self> {
        let node_key = NodeKey::from_seed(&random()?);
        let signing_key = ConsensusKey::from_seed(&random()?);
        let account = AccountKey::from_bytes(&random()?).map_err(refused)?;
        let declaration = GentxParams {
            chain_id: id,
            moniker: validator,
            node_id: &node_key.id(),
            address: "192.0.2.1",
            consensus_key: signing_key.public(),
            stake: &Coin::parse(STAKE).map_err(refused)?,
            gas_limit: 0,
        };
        let gentx = Gentx::sign(&declaration, &account).map_err(refused)?.file();
        let ceremony = Ceremony {
            base: Genesis::new(id, Timestamp::now()).map_err(refused)?,
            participants: &[Participant { name: validator, gentx: gentx.as_bytes() }],
            balance: &Coins::parse(BALANCE).map_err(refused)?,
            accounts: &[],
            overrides: &BTreeMap::new(),
        };
        let genesis = assemble(ceremony).map_err(refused)?.file;
        Ok(Self { id: id.into(), genesis, node_key: node_key.file(), signing_key: signing_key.file() })
    }

    /// The chain's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The genesis file.
    #[must_use]
    pub fn genesis(&self) -> &str {
        &self.genesis
    }

    /// Manifests of the Secrets with the validator's keys: `VALIDATOR-signing-key` and `VALIDATOR-node-key`.
    #[must_use]
    pub fn secrets(&self, namespace: &str, validator: &str) -> String {
        let secret = |name: &str, key: &str, content: &Secret| {
            let content = String::from_utf8_lossy(content.expose());
            let metadata = json!({ "name": format!("{validator}-{name}"), "namespace": namespace });
            let data = json!({ key: content });
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data })
        };
        let items = [
            secret("signing-key", data_key::SIGNING_KEY, &self.signing_key),
            secret("node-key", data_key::NODE_KEY, &self.node_key),
        ];
        json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
    }
}

fn random() -> Result<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    match aws_lc_rs::rand::fill(bytes.as_mut_slice()) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Error::Refused("the system gives no random bytes".into())),
    }
}

fn refused(error: impl Display) -> Error {
    Error::Refused(format!("making a chain: {error}"))
}
