//! Genesis accounts and balances.

use super::document::{Genesis, GenesisError};
use crate::address::{Address, Prefix};
use crate::coin::{Coin, Coins};
use crate::json::Json;

const ACCOUNTS: [&str; 2] = ["auth", "accounts"];
const BALANCES: [&str; 2] = ["bank", "balances"];
const ASSOCIATIONS: [&str; 2] = ["evm", "address_associations"];

/// Genesis account that does not belong to a validator.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// Account address, `sei1...`.
    pub address: String,
    /// Balance, such as `1000usei`.
    pub balance: String,
    /// Vesting schedule.
    pub vesting: Option<Vesting>,
}

/// Vesting schedule.
#[derive(Clone, Debug)]
pub struct Vesting {
    /// Vesting amount.
    pub amount: String,
    /// Unix time at which all tokens are vested.
    pub end_time: i64,
    /// Vests everything at the end instead of continuously.
    pub delayed: bool,
}

impl Genesis {
    /// Adds an account and its balance, unless they exist.
    pub fn add_account(&mut self, address: Address, balance: &Coins) -> Result<(), GenesisError> {
        let text = address.to_bech32(Prefix::Account);
        if !self.has_account(&text)? {
            let account = base_account(&text, Some("/cosmos.auth.v1beta1.BaseAccount"));
            self.list_mut(&ACCOUNTS)?.push(account);
        }
        if self.balance(&text)?.is_none() {
            self.add_balance(address, balance)?;
        }
        Ok(())
    }

    /// Associates an EVM address with an account, unless the account has one or the genesis has no EVM module.
    pub fn associate(&mut self, address: Address, evm_address: &str) -> Result<(), GenesisError> {
        let text = address.to_bech32(Prefix::Account);
        if self.document.at(&["app_state", "evm"]).is_none() {
            return Ok(());
        }
        let associations = self.list_mut(&ASSOCIATIONS)?;
        if !associations.iter().any(|entry| entry.at(&["sei_address"]).and_then(Json::as_text) == Some(&text))
        {
            associations.push(Json::object([
                ("sei_address", Json::Text(text)),
                ("eth_address", Json::text(evm_address)),
            ]));
        }
        Ok(())
    }

    /// Adds a non-validator account. Fails if it exists, because the account would not get the requested balance.
    pub(super) fn add_external(&mut self, new: &NewAccount) -> Result<(), GenesisError> {
        let address = Address::parse(Prefix::Account, &new.address)?;
        if self.has_account(&new.address)? || self.balance(&new.address)?.is_some() {
            return Err(GenesisError::DuplicateAccount(new.address.clone()));
        }
        let invalid = |why: String| GenesisError::Account { address: new.address.clone(), why };
        let balance = Coins::parse(&new.balance).map_err(|error| invalid(error.to_string()))?;
        if balance.as_slice().is_empty() {
            return Err(invalid("balance is empty; at least one token is required".into()));
        }
        let account = match &new.vesting {
            None => base_account(&new.address, Some("/cosmos.auth.v1beta1.BaseAccount")),
            Some(vesting) => {
                let amount = Coins::parse(&vesting.amount).map_err(|error| invalid(error.to_string()))?;
                let genesis_time = self.time()?.as_second();
                if amount.as_slice().is_empty() || !balance.covers(&amount) {
                    return Err(invalid("vesting.amount must be positive and not exceed balance".into()));
                }
                if vesting.end_time <= genesis_time {
                    return Err(invalid(format!(
                        "vesting.endTime must be after the genesis time {genesis_time}"
                    )));
                }
                vesting_account(&new.address, vesting, &amount, genesis_time)
            }
        };
        self.list_mut(&ACCOUNTS)?.push(account);
        self.add_balance(address, &balance)
    }

    fn has_account(&self, address: &str) -> Result<bool, GenesisError> {
        let paths: [&[&str]; 3] = [
            &["address"],
            &["base_account", "address"],
            &["base_vesting_account", "base_account", "address"],
        ];
        let matches = |account: &Json| {
            paths.iter().any(|path| account.at(path).and_then(Json::as_text) == Some(address))
        };
        Ok(self.list(&ACCOUNTS)?.iter().any(matches))
    }

    /// Returns the balance of an account, if it has one.
    pub(super) fn balance(&self, address: &str) -> Result<Option<Coins>, GenesisError> {
        let is_entry = |balance: &&Json| balance.at(&["address"]).and_then(Json::as_text) == Some(address);
        let Some(balance) = self.list(&BALANCES)?.iter().find(is_entry) else { return Ok(None) };
        let coins = balance.at(&["coins"]).and_then(Json::as_array).unwrap_or_default();
        let texts = coins.iter().map(|coin| {
            let field = |name| coin.at(&[name]).and_then(Json::as_text).unwrap_or_default();
            format!("{}{}", field("amount"), field("denom"))
        });
        let text = texts.collect::<Vec<_>>().join(",");
        let invalid = |error: crate::coin::CoinError| GenesisError::Account {
            address: address.into(),
            why: error.to_string(),
        };
        Coins::parse(&text).map(Some).map_err(invalid)
    }

    /// Adds a balance. Balances are sorted by address bytes, not by Bech32 text.
    fn add_balance(&mut self, address: Address, balance: &Coins) -> Result<(), GenesisError> {
        let new = Json::object([
            ("address", Json::Text(address.to_bech32(Prefix::Account))),
            ("coins", coins_json(balance.as_slice())),
        ]);
        let balances = self.list_mut(&BALANCES)?;
        let address_of = |balance: &Json| {
            let text = balance.at(&["address"]).and_then(Json::as_text).unwrap_or_default();
            Address::parse(Prefix::Account, text).ok()
        };
        let index = balances.iter().position(|other| address_of(other).is_some_and(|other| other > address));
        balances.insert(index.unwrap_or(balances.len()), new);
        Ok(())
    }
}

fn coins_json(coins: &[Coin]) -> Json {
    let to_json = |coin: &Coin| {
        Json::object([
            ("denom", Json::text(&coin.denomination)),
            ("amount", Json::Text(coin.amount.to_string())),
        ])
    };
    Json::Array(coins.iter().map(to_json).collect())
}

fn base_account(address: &str, kind: Option<&str>) -> Json {
    let Json::Object(fields) = Json::object([
        ("address", Json::text(address)),
        ("pub_key", Json::Null),
        ("account_number", Json::text("0")),
        ("sequence", Json::text("0")),
    ]) else {
        return Json::Null;
    };
    let mut account = crate::json::Object::default();
    if let Some(kind) = kind {
        account.set("@type", Json::text(kind));
    }
    fields.iter().for_each(|(name, value)| account.set(name, value.clone()));
    Json::Object(account)
}

fn vesting_account(address: &str, vesting: &Vesting, amount: &Coins, genesis_time: i64) -> Json {
    let base = Json::object([
        ("base_account", base_account(address, None)),
        ("original_vesting", coins_json(amount.as_slice())),
        ("delegated_free", Json::Array(Vec::new())),
        ("delegated_vesting", Json::Array(Vec::new())),
        ("end_time", Json::Text(vesting.end_time.to_string())),
        ("admin", Json::text("")),
        ("cancelled_time", Json::text("0")),
    ]);
    if vesting.delayed {
        let kind = Json::text("/cosmos.vesting.v1beta1.DelayedVestingAccount");
        return Json::object([("@type", kind), ("base_vesting_account", base)]);
    }
    Json::object([
        ("@type", Json::text("/cosmos.vesting.v1beta1.ContinuousVestingAccount")),
        ("base_vesting_account", base),
        ("start_time", Json::Text(genesis_time.to_string())),
    ])
}
