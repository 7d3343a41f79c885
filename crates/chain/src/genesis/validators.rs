//! Genesis validator list. Without it, a chain with one validator never leaves block sync. seid compares it with the result
//! of the gentxs, so it is validated before it is written.

use super::assemble::Member;
use super::document::{Genesis, GenesisError};
use crate::address::{Address, Prefix};
use crate::gentx::Decimal;
use crate::identity::PUBLIC;
use crate::json::Json;
use crate::text::base64;

/// Tokens per unit of voting power.
const TOKENS_PER_POWER: u128 = 1_000_000;

impl Genesis {
    /// Validates that each participant can become a validator of this chain.
    pub(super) fn check_validators(&self, members: &[Member<'_>]) -> Result<(), GenesisError> {
        let params = |name| ["staking", "params", name];
        let denomination = self.text(&params("bond_denom"))?;
        let min_rate: Decimal = self
            .text(&params("min_commission_rate"))?
            .parse()
            .map_err(|_| GenesisError::Shape("min_commission_rate", "a rate"))?;
        let memo_limit: usize = self
            .text(&["auth", "params", "max_memo_characters"])?
            .parse()
            .map_err(|_| GenesisError::Shape("max_memo_characters", "a number"))?;
        let limit = self.document.at(&["app_state", "staking", "params", "max_validators"]);
        let limit: usize = match limit {
            Some(Json::Number(number)) => number.parse().ok(),
            _ => None,
        }
        .ok_or(GenesisError::Shape("max_validators", "a number"))?;
        if members.len() > limit {
            return Err(GenesisError::TooManyValidators(members.len(), limit));
        }
        for Member { node, gentx } in members {
            let stake = gentx.stake();
            let address = gentx.delegator().to_bech32(Prefix::Account);
            let invalid = |why: String| Err(GenesisError::Validator { node: (*node).to_owned(), why });
            if stake.denomination != denomination {
                return invalid(format!(
                    "stake denomination is {}, but the chain's bond denomination is {denomination}",
                    stake.denomination
                ));
            }
            if stake.amount < TOKENS_PER_POWER {
                return invalid(format!(
                    "stake {stake} is below the minimum of {TOKENS_PER_POWER}{denomination}"
                ));
            }
            let Some(balance) = self.balance(&address)? else {
                return invalid(format!("account {address} has no balance"));
            };
            if balance.amount_of(denomination) < stake.amount {
                return invalid(format!("stake {stake} exceeds the balance of account {address}"));
            }
            if gentx.commission_rate() < min_rate {
                return invalid(format!(
                    "commission rate {} is below the minimum of {min_rate}",
                    gentx.commission_rate()
                ));
            }
            if gentx.memo_length() > memo_limit {
                return invalid(format!("memo exceeds the maximum of {memo_limit} characters"));
            }
        }
        Ok(())
    }

    /// Writes the gentxs and the validator list into the document.
    pub(super) fn set_validators(&mut self, members: &[Member<'_>]) -> Result<(), GenesisError> {
        *self.list_mut(&["genutil", "gen_txs"])? =
            members.iter().map(|member| member.gentx.to_json()).collect();
        let validators = members.iter().map(|Member { gentx, .. }| {
            let key = gentx.consensus_key();
            Json::object([
                ("address", Json::Text(Address::from_ed25519(key).to_upper_hex())),
                ("pub_key", Json::object([("type", Json::text(PUBLIC)), ("value", Json::Text(base64(key)))])),
                ("power", Json::Text((gentx.stake().amount / TOKENS_PER_POWER).to_string())),
                ("name", Json::text("")),
            ])
        });
        let validators = Json::Array(validators.collect());
        if let Json::Object(members) = &mut self.document {
            members.set("validators", validators);
        }
        Ok(())
    }
}
