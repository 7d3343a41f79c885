//! A genesis document, read and written.

use jiff::Timestamp;

use super::overrides::OverrideError;
use crate::address::AddressError;
use crate::gentx::GentxError;
use crate::json::{Json, JsonError, Object};

/// What `seid init` writes, without a chain and a time. The file of the node's own image is better where there is one:
/// seid panics at a field that its version does not know.
const TEMPLATE: &str = include_str!("template.json");

/// The longest name of a chain.
const MAX_CHAIN_ID: usize = 50;

/// Keys in the order in which Go writes them.
const ORDER: [&str; 7] =
    ["genesis_time", "chain_id", "initial_height", "consensus_params", "validators", "app_hash", "app_state"];

/// Why there is no genesis document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// It is not JSON.
    #[error("the genesis file is {0}")]
    Syntax(#[from] JsonError),
    /// Something in it is missing or of another kind.
    #[error("{0} of the genesis file is missing or not {1}; make the file with seid init")]
    Shape(&'static str, &'static str),
    /// The chain's name is empty or too long.
    #[error("chain id {0:?} must have 1 to {MAX_CHAIN_ID} characters")]
    ChainId(String),
    /// An address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A node's gentx is refused.
    #[error("node {node}: {error}")]
    Gentx {
        /// The node.
        node: String,
        /// Why.
        error: GentxError,
    },
    /// Two nodes have something in common that they must not.
    #[error("nodes {first} and {second} have the same {what}; generate the gentx of one of them again")]
    Shared {
        /// What they share.
        what: &'static str,
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A node's validator cannot begin.
    #[error("node {node}: {why}")]
    Validator {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// Nobody takes part.
    #[error("no node takes part; name at least one")]
    Nobody,
    /// There are more validators than the chain takes.
    #[error(
        "{0} validators are more than max_validators, {1}; raise staking.params.max_validators or take fewer"
    )]
    TooMany(usize, usize),
    /// An account that is there already.
    #[error("account {0} is there already; list it once, and no validator's")]
    Twice(String),
    /// What an account is to be given cannot be.
    #[error("account {address}: {why}")]
    Account {
        /// The account.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// An override cannot be made.
    #[error(transparent)]
    Override(#[from] OverrideError),
}

impl GenesisError {
    /// A word for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Syntax(_) | Self::Shape(..) | Self::ChainId(_) => "document",
            Self::Gentx { .. } => "gentx",
            Self::Shared { .. } | Self::Validator { .. } | Self::Nobody | Self::TooMany(..) => "validators",
            Self::Address(_) | Self::Twice(_) | Self::Account { .. } => "accounts",
            Self::Override(_) => "overrides",
        }
    }
}

/// A genesis document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    pub(super) document: Json,
}

impl Genesis {
    /// Reads a document: what `seid init` or a ceremony before this step has written.
    pub fn parse(file: &[u8]) -> Result<Self, GenesisError> {
        let genesis = Self { document: Json::parse(file)? };
        genesis.check()?;
        Ok(genesis)
    }

    /// The document of a new chain that begins at a time, when there is no `seid init` to write it.
    pub fn new(chain_id: &str, time: Timestamp) -> Result<Self, GenesisError> {
        let mut document = Json::parse(TEMPLATE.as_bytes())?;
        let time = Json::text(time.to_string());
        for path in [
            &["genesis_time"][..],
            &["app_state", "epoch", "epoch", "genesis_time"],
            &["app_state", "epoch", "epoch", "current_epoch_start_time"],
        ] {
            if let Some(place) = document.at_mut(path) {
                *place = time.clone();
            }
        }
        if let Some(place) = document.at_mut(&["chain_id"]) {
            *place = Json::text(chain_id);
        }
        let genesis = Self { document };
        genesis.check()?;
        Ok(genesis)
    }

    fn check(&self) -> Result<(), GenesisError> {
        let chain_id = self.chain_id();
        if chain_id.is_empty() || chain_id.chars().count() > MAX_CHAIN_ID {
            return Err(GenesisError::ChainId(chain_id.into()));
        }
        self.time()?;
        let modules = self.document.at(&["app_state"]).and_then(Json::as_object);
        modules.ok_or(GenesisError::Shape("app_state", "an object"))?;
        // At any other height gas is metered, and no gentx pays for it.
        match self.document.at(&["initial_height"]).map(|height| height.as_text()) {
            None | Some(Some("1")) => Ok(()),
            Some(_) => Err(GenesisError::Shape("initial_height", "\"1\"")),
        }
    }

    /// The chain's name.
    #[must_use]
    pub fn chain_id(&self) -> &str {
        self.document.at(&["chain_id"]).and_then(Json::as_text).unwrap_or_default()
    }

    /// When the chain begins.
    pub fn time(&self) -> Result<Timestamp, GenesisError> {
        let text = self.document.at(&["genesis_time"]).and_then(Json::as_text);
        text.and_then(|text| text.parse().ok()).ok_or(GenesisError::Shape("genesis_time", "an RFC 3339 time"))
    }

    /// The file: keys and modules in the order in which seid writes them. Its hash is over these bytes.
    #[must_use]
    pub fn file(&self) -> String {
        let mut document = self.document.clone();
        if let Some(Json::Object(modules)) = document.at_mut(&["app_state"]) {
            modules.sort();
        }
        let Json::Object(mut members) = document else { return String::new() };
        let mut ordered = Object::default();
        for name in ORDER {
            if let Some(value) = members.take(name) {
                ordered.set(name, value);
            }
        }
        for (name, value) in members.iter() {
            ordered.set(name, value.clone());
        }
        Json::Object(ordered).pretty()
    }

    /// A list in the state of a module.
    pub(super) fn list(&self, path: &[&'static str]) -> Result<&[Json], GenesisError> {
        let list = self.document.at(&["app_state"]).and_then(|state| state.at(path)).and_then(Json::as_array);
        list.ok_or_else(|| GenesisError::Shape(path.last().copied().unwrap_or_default(), "a list"))
    }

    /// A list in the state of a module, to change it.
    pub(super) fn list_mut(&mut self, path: &[&'static str]) -> Result<&mut Vec<Json>, GenesisError> {
        let state = self.document.at_mut(&["app_state"]).and_then(|state| state.at_mut(path));
        match state {
            Some(Json::Array(list)) => Ok(list),
            _ => Err(GenesisError::Shape(path.last().copied().unwrap_or_default(), "a list")),
        }
    }

    /// A text in the state of a module.
    pub(super) fn text(&self, path: &[&'static str]) -> Result<&str, GenesisError> {
        let text = self.document.at(&["app_state"]).and_then(|state| state.at(path)).and_then(Json::as_text);
        text.ok_or_else(|| GenesisError::Shape(path.last().copied().unwrap_or_default(), "a text"))
    }
}
