//! Keys and genesis of a new chain with one validator.

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

/// Balance of the validator account, and the part of it that is staked.
const BALANCE: &str = "1000000000000000000000usei";
const STAKE: &str = "10000000usei";

/// A new chain with one validator.
#[derive(Debug)]
pub struct NewChain {
    id: String,
    genesis: String,
    node_key: Secret,
    signing_key: Secret,
}

impl NewChain {
    /// Creates the keys of the validator and the genesis of the chain.
    pub fn single_validator(id: &str, validator: &str) -> Result<Self> {
        let node_key = NodeKey::from_seed(&random()?);
        let signing_key = ConsensusKey::from_seed(&random()?);
        let account = AccountKey::from_bytes(&random()?).map_err(chain_error)?;
        let declaration = GentxParams {
            chain_id: id,
            moniker: validator,
            node_id: &node_key.id(),
            address: "192.0.2.1",
            consensus_key: signing_key.public(),
            stake: &Coin::parse(STAKE).map_err(chain_error)?,
            gas_limit: 0,
        };
        let gentx = Gentx::sign(&declaration, &account).map_err(chain_error)?.file();
        let ceremony = Ceremony {
            base: Genesis::new(id, Timestamp::now()).map_err(chain_error)?,
            participants: &[Participant { name: validator, gentx: gentx.as_bytes() }],
            balance: &Coins::parse(BALANCE).map_err(chain_error)?,
            accounts: &[],
            overrides: &BTreeMap::new(),
        };
        let genesis = assemble(ceremony).map_err(chain_error)?.file;
        Ok(Self { id: id.into(), genesis, node_key: node_key.render_file(), signing_key: signing_key.file() })
    }

    /// Returns the chain ID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the genesis file.
    #[must_use]
    pub fn genesis(&self) -> &str {
        &self.genesis
    }

    /// Returns manifests of the Secrets `VALIDATOR-signing-key` and `VALIDATOR-node-key`.
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
        Err(_) => Err(Error::Other("random number generator failed".into())),
    }
}

fn chain_error(error: impl Display) -> Error {
    Error::Other(format!("creating a chain: {error}"))
}
