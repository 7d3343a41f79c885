//! Keys and genesis of a new chain.

use std::collections::BTreeMap;
use std::fmt::Display;

use api::names::{data_key, label, object, port};
use chain::Secret;
use chain::account::AccountKey;
use chain::coin::{Coin, Coins};
use chain::genesis::{Ceremony, Genesis, Participant, assemble};
use chain::gentx::{Gentx, GentxParams};
use chain::identity::{ConsensusKey, NodeKey};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Balance of the validator account, and the part of it that is staked.
const BALANCE: &str = "1000000000000000000000usei";
const STAKE: &str = "10000000usei";

/// A new chain.
#[derive(Debug)]
pub struct NewChain {
    genesis: String,
    validators: Vec<Validator>,
}

/// A validator of a new chain, with equal voting power.
#[derive(Debug)]
pub struct Validator {
    name: String,
    node_id: String,
    node_key: Secret,
    signing_key: Secret,
    gentx: String,
}

impl NewChain {
    /// Creates the keys of the validators and the genesis of the chain. seid starts with one validator or with three and more.
    pub fn new(id: &str, validators: &[&str]) -> Result<Self> {
        let validators: Vec<Validator> =
            validators.iter().map(|name| Validator::new(id, name)).collect::<Result<_>>()?;
        let participants: Vec<Participant<'_>> = validators
            .iter()
            .map(|validator| Participant { name: &validator.name, gentx: validator.gentx.as_bytes() })
            .collect();
        let ceremony = Ceremony {
            base: Genesis::new(id, Timestamp::now()).map_err(chain_error)?,
            participants: &participants,
            balance: &Coins::parse(BALANCE).map_err(chain_error)?,
            accounts: &[],
            overrides: &BTreeMap::new(),
        };
        let genesis = assemble(ceremony).map_err(chain_error)?.file;
        Ok(Self { genesis, validators })
    }

    /// Returns the genesis file.
    #[must_use]
    pub fn genesis(&self) -> &str {
        &self.genesis
    }

    /// Returns the validators.
    #[must_use]
    pub fn validators(&self) -> &[Validator] {
        &self.validators
    }

    /// Returns manifests of the Secrets `VALIDATOR-signing-key` and `VALIDATOR-node-key` of each validator.
    #[must_use]
    pub fn secrets(&self, namespace: &str) -> String {
        let items: Vec<Value> =
            self.validators.iter().flat_map(|validator| validator.secrets(namespace)).collect();
        json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
    }
}

impl Validator {
    fn new(chain_id: &str, name: &str) -> Result<Self> {
        let node_key = NodeKey::from_seed(&random()?);
        let node_id = node_key.id();
        let signing_key = ConsensusKey::from_seed(&random()?);
        let account = AccountKey::from_bytes(&random()?).map_err(chain_error)?;
        let declaration = GentxParams {
            chain_id,
            moniker: name,
            node_id: &node_id,
            address: "192.0.2.1",
            consensus_key: signing_key.public(),
            stake: &Coin::parse(STAKE).map_err(chain_error)?,
            gas_limit: 0,
        };
        let gentx = Gentx::sign(&declaration, &account).map_err(chain_error)?.file();
        let (node_key, signing_key) = (node_key.render_file(), signing_key.file());
        Ok(Self { name: name.into(), node_id, node_key, signing_key, gentx })
    }

    /// Returns the name of the validator.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the peer address of the validator as a SeiNode of a namespace.
    #[must_use]
    pub fn peer_address(&self, namespace: &str) -> String {
        format!("{}@{}:{}", self.node_id, object::pod_host(&self.name, namespace), port::P2P)
    }

    fn secrets(&self, namespace: &str) -> [Value; 2] {
        let secret = |name: &str, key: &str, content: &Secret| {
            let content = String::from_utf8_lossy(content.expose());
            // With the label, a platform with `--strict-references` lets this node use the Secret.
            let metadata = json!({
                "name": format!("{}-{name}", self.name), "namespace": namespace, "labels": { label::NODE: self.name },
            });
            let data = json!({ key: content });
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data })
        };
        [
            secret("signing-key", data_key::SIGNING_KEY, &self.signing_key),
            secret("node-key", data_key::NODE_KEY, &self.node_key),
        ]
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
