//! Who has what when a chain begins.

use super::document::{Genesis, GenesisError};
use crate::address::{Address, Prefix};
use crate::coin::{Coin, Coins};
use crate::json::Json;

const ACCOUNTS: [&str; 2] = ["auth", "accounts"];
const BALANCES: [&str; 2] = ["bank", "balances"];
const ASSOCIATIONS: [&str; 2] = ["evm", "address_associations"];

/// An account of somebody who runs no validator.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// The account, as `sei1...`.
    pub address: String,
    /// What it holds, such as `1000usei`.
    pub balance: String,
    /// What of it can be spent only later.
    pub vesting: Option<Vesting>,
}

/// Tokens that can be spent only later.
#[derive(Clone, Debug)]
pub struct Vesting {
    /// How much.
    pub amount: String,
    /// When all of it can be spent, in seconds since 1970.
    pub end_time: i64,
    /// All at the end, instead of more and more.
    pub delayed: bool,
}

impl Genesis {
    /// Adds an account with what it holds, unless it is there.
    pub fn add_account(&mut self, address: Address, balance: &Coins) -> Result<(), GenesisError> {
        let text = address.to_text(Prefix::Account);
        if !self.has_account(&text)? {
            let account = base_account(&text, Some("/cosmos.auth.v1beta1.BaseAccount"));
            self.list_mut(&ACCOUNTS)?.push(account);
        }
        if self.balance(&text)?.is_none() {
            self.add_balance(address, balance)?;
        }
        Ok(())
    }

    /// Adds the EVM's name of an account, unless it has one or there is no EVM.
    pub fn associate(&mut self, address: Address, evm_address: &str) -> Result<(), GenesisError> {
        let text = address.to_text(Prefix::Account);
        if self.document.at(&["app_state", "evm"]).is_none() {
            return Ok(());
        }
        let associations = self.list_mut(&ASSOCIATIONS)?;
        if !associations.iter().any(|one| one.at(&["sei_address"]).and_then(Json::as_text) == Some(&text)) {
            associations.push(Json::object([
                ("sei_address", Json::Text(text)),
                ("eth_address", Json::text(evm_address)),
            ]));
        }
        Ok(())
    }

    /// Adds somebody else's account. One that is there is an error: somebody would get less than was written down.
    pub(super) fn add_external(&mut self, new: &NewAccount) -> Result<(), GenesisError> {
        let address = Address::parse(Prefix::Account, &new.address)?;
        if self.has_account(&new.address)? || self.balance(&new.address)?.is_some() {
            return Err(GenesisError::Twice(new.address.clone()));
        }
        let wrong = |why: String| GenesisError::Account { address: new.address.clone(), why };
        let balance = Coins::parse(&new.balance).map_err(|error| wrong(error.to_string()))?;
        if balance.as_slice().is_empty() {
            return Err(wrong("balance is nothing; give at least one token".into()));
        }
        let account = match &new.vesting {
            None => base_account(&new.address, Some("/cosmos.auth.v1beta1.BaseAccount")),
            Some(vesting) => {
                let amount = Coins::parse(&vesting.amount).map_err(|error| wrong(error.to_string()))?;
                let begin = self.time()?.as_second();
                if amount.as_slice().is_empty() || !balance.covers(&amount) {
                    return Err(wrong("vesting.amount must be above nothing and within balance".into()));
                }
                if vesting.end_time <= begin {
                    return Err(wrong(format!("vesting.endTime must be after the chain begins, {begin}")));
                }
                vesting_account(&new.address, vesting, &amount, begin)
            }
        };
        self.list_mut(&ACCOUNTS)?.push(account);
        self.add_balance(address, &balance)
    }

    fn has_account(&self, address: &str) -> Result<bool, GenesisError> {
        let places: [&[&str]; 3] = [
            &["address"],
            &["base_account", "address"],
            &["base_vesting_account", "base_account", "address"],
        ];
        let is = |account: &Json| {
            places.iter().any(|place| account.at(place).and_then(Json::as_text) == Some(address))
        };
        Ok(self.list(&ACCOUNTS)?.iter().any(is))
    }

    /// What an account holds, if it is listed.
    pub(super) fn balance(&self, address: &str) -> Result<Option<Coins>, GenesisError> {
        let entry = |balance: &&Json| balance.at(&["address"]).and_then(Json::as_text) == Some(address);
        let Some(balance) = self.list(&BALANCES)?.iter().find(entry) else { return Ok(None) };
        let coins = balance.at(&["coins"]).and_then(Json::as_array).unwrap_or_default();
        let texts = coins.iter().map(|coin| {
            let part = |name| coin.at(&[name]).and_then(Json::as_text).unwrap_or_default();
            format!("{}{}", part("amount"), part("denom"))
        });
        let text = texts.collect::<Vec<_>>().join(",");
        let wrong = |error: crate::coin::CoinError| GenesisError::Account {
            address: address.into(),
            why: error.to_string(),
        };
        Coins::parse(&text).map(Some).map_err(wrong)
    }

    /// Adds a balance where its address belongs: by bytes, not by text.
    fn add_balance(&mut self, address: Address, balance: &Coins) -> Result<(), GenesisError> {
        let new = Json::object([
            ("address", Json::Text(address.to_text(Prefix::Account))),
            ("coins", coins(balance.as_slice())),
        ]);
        let balances = self.list_mut(&BALANCES)?;
        let of = |balance: &Json| {
            let text = balance.at(&["address"]).and_then(Json::as_text).unwrap_or_default();
            Address::parse(Prefix::Account, text).ok()
        };
        let place = balances.iter().position(|other| of(other).is_some_and(|other| other > address));
        balances.insert(place.unwrap_or(balances.len()), new);
        Ok(())
    }
}

fn coins(coins: &[Coin]) -> Json {
    let one = |coin: &Coin| {
        Json::object([
            ("denom", Json::text(&coin.denomination)),
            ("amount", Json::Text(coin.amount.to_string())),
        ])
    };
    Json::Array(coins.iter().map(one).collect())
}

fn base_account(address: &str, kind: Option<&str>) -> Json {
    let Json::Object(rest) = Json::object([
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
    rest.iter().for_each(|(name, value)| account.set(name, value.clone()));
    Json::Object(account)
}

fn vesting_account(address: &str, vesting: &Vesting, amount: &Coins, begin: i64) -> Json {
    let base = Json::object([
        ("base_account", base_account(address, None)),
        ("original_vesting", coins(amount.as_slice())),
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
        ("start_time", Json::Text(begin.to_string())),
    ])
}
