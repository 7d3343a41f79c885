//! Genesis document.

use jiff::Timestamp;

use super::overrides::OverrideError;
use crate::address::AddressError;
use crate::gentx::GentxError;
use crate::json::{Json, JsonError, Object};

/// Output of `seid init` without chain ID and time. Prefer the file written by the node's own image: seid panics on fields
/// that its version does not know.
const TEMPLATE: &str = include_str!("template.json");

/// Maximum length of a chain ID.
const MAX_CHAIN_ID: usize = 50;

/// Top-level keys in Go's order.
const KEY_ORDER: [&str; 7] =
    ["genesis_time", "chain_id", "initial_height", "consensus_params", "validators", "app_hash", "app_state"];

/// Error returned when a genesis file cannot be read or assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// Malformed JSON.
    #[error("invalid genesis file: {0}")]
    Syntax(#[from] JsonError),
    /// A field is missing or has the wrong type.
    #[error("invalid genesis file: {0} is missing or not {1}; create the file with seid init")]
    Shape(&'static str, &'static str),
    /// Empty or overlong chain ID.
    #[error("invalid chain ID {0:?}: expected 1 to {MAX_CHAIN_ID} characters")]
    ChainId(String),
    /// Malformed address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The gentx of a node is invalid.
    #[error("node {node}: {error}")]
    Gentx {
        /// Node name.
        node: String,
        /// Reason.
        error: GentxError,
    },
    /// Two nodes share a property that must be unique.
    #[error("nodes {first} and {second} have the same {what}; regenerate the gentx of one of them")]
    Shared {
        /// Shared property.
        what: &'static str,
        /// First node.
        first: String,
        /// Second node.
        second: String,
    },
    /// The validator of a node cannot join.
    #[error("node {node}: {why}")]
    Validator {
        /// Node name.
        node: String,
        /// Reason.
        why: String,
    },
    /// The ceremony has no participants.
    #[error("no participating nodes; at least one is required")]
    NoParticipants,
    /// More validators than the chain allows.
    #[error("{0} validators exceed the maximum of {1}; raise staking.params.max_validators or use fewer")]
    TooManyValidators(usize, usize),
    /// The account exists.
    #[error("account {0} already exists; list each account once, and do not list validator accounts")]
    DuplicateAccount(String),
    /// Invalid balance or vesting schedule.
    #[error("account {address}: {why}")]
    Account {
        /// Account address.
        address: String,
        /// Reason.
        why: String,
    },
    /// Invalid override.
    #[error(transparent)]
    Override(#[from] OverrideError),
}

impl GenesisError {
    /// Returns the error category for metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Syntax(_) | Self::Shape(..) | Self::ChainId(_) => "document",
            Self::Gentx { .. } => "gentx",
            Self::Shared { .. }
            | Self::Validator { .. }
            | Self::NoParticipants
            | Self::TooManyValidators(..) => "validators",
            Self::Address(_) | Self::DuplicateAccount(_) | Self::Account { .. } => "accounts",
            Self::Override(_) => "overrides",
        }
    }
}

/// Genesis document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    pub(super) document: Json,
}

impl Genesis {
    /// Parses a genesis file written by `seid init` or an earlier ceremony step.
    pub fn parse(file: &[u8]) -> Result<Self, GenesisError> {
        let genesis = Self { document: Json::parse(file)? };
        genesis.check()?;
        Ok(genesis)
    }

    /// Creates the genesis of a new chain from the built-in template, for nodes without a `seid init` file.
    pub fn new(chain_id: &str, time: Timestamp) -> Result<Self, GenesisError> {
        let mut document = Json::parse(TEMPLATE.as_bytes())?;
        let time = Json::text(time.to_string());
        for path in [
            &["genesis_time"][..],
            &["app_state", "epoch", "epoch", "genesis_time"],
            &["app_state", "epoch", "epoch", "current_epoch_start_time"],
        ] {
            if let Some(value) = document.at_mut(path) {
                *value = time.clone();
            }
        }
        if let Some(value) = document.at_mut(&["chain_id"]) {
            *value = Json::text(chain_id);
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
        // At any other height gas is metered, and gentxs pay no fees.
        match self.document.at(&["initial_height"]).map(|height| height.as_text()) {
            None | Some(Some("1")) => Ok(()),
            Some(_) => Err(GenesisError::Shape("initial_height", "\"1\"")),
        }
    }

    /// Returns the chain ID.
    #[must_use]
    pub fn chain_id(&self) -> &str {
        self.document.at(&["chain_id"]).and_then(Json::as_text).unwrap_or_default()
    }

    /// Returns the genesis time.
    pub fn time(&self) -> Result<Timestamp, GenesisError> {
        let text = self.document.at(&["genesis_time"]).and_then(Json::as_text);
        text.and_then(|text| text.parse().ok()).ok_or(GenesisError::Shape("genesis_time", "an RFC 3339 time"))
    }

    /// Renders the file with keys and modules in seid's order. The genesis hash covers these bytes.
    #[must_use]
    pub fn file(&self) -> String {
        let mut document = self.document.clone();
        if let Some(Json::Object(modules)) = document.at_mut(&["app_state"]) {
            modules.sort();
        }
        let Json::Object(mut members) = document else { return String::new() };
        let mut ordered = Object::default();
        for name in KEY_ORDER {
            if let Some(value) = members.remove(name) {
                ordered.set(name, value);
            }
        }
        for (name, value) in members.iter() {
            ordered.set(name, value.clone());
        }
        Json::Object(ordered).pretty()
    }

    /// Returns a list in the state of a module.
    pub(super) fn list(&self, path: &[&'static str]) -> Result<&[Json], GenesisError> {
        let list = self.document.at(&["app_state"]).and_then(|state| state.at(path)).and_then(Json::as_array);
        list.ok_or_else(|| GenesisError::Shape(path.last().copied().unwrap_or_default(), "a list"))
    }

    /// Returns a mutable list in the state of a module.
    pub(super) fn list_mut(&mut self, path: &[&'static str]) -> Result<&mut Vec<Json>, GenesisError> {
        let state = self.document.at_mut(&["app_state"]).and_then(|state| state.at_mut(path));
        match state {
            Some(Json::Array(list)) => Ok(list),
            _ => Err(GenesisError::Shape(path.last().copied().unwrap_or_default(), "a list")),
        }
    }

    /// Returns a string in the state of a module.
    pub(super) fn text(&self, path: &[&'static str]) -> Result<&str, GenesisError> {
        let text = self.document.at(&["app_state"]).and_then(|state| state.at(path)).and_then(Json::as_text);
        text.ok_or_else(|| GenesisError::Shape(path.last().copied().unwrap_or_default(), "a string"))
    }
}
