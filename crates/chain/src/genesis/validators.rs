//! The list of validators. A chain of one validator never leaves block sync without it, and seid compares it with what
//! the gentxs come to: here it is checked before it is written.

use super::assemble::Member;
use super::document::{Genesis, GenesisError};
use crate::address::{Address, Prefix};
use crate::gentx::Decimal;
use crate::identity::PUBLIC;
use crate::json::Json;
use crate::text::base64;

/// Tokens that are one vote.
const TOKENS_PER_VOTE: u128 = 1_000_000;

impl Genesis {
    /// Whether each of the members can be a validator of this chain.
    pub(super) fn check_validators(&self, members: &[Member<'_>]) -> Result<(), GenesisError> {
        let params = |name| ["staking", "params", name];
        let denomination = self.text(&params("bond_denom"))?;
        let least: Decimal = self
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
            return Err(GenesisError::TooMany(members.len(), limit));
        }
        for Member { node, gentx } in members {
            let stake = gentx.stake();
            let address = gentx.delegator().to_text(Prefix::Account);
            let wrong = |why: String| Err(GenesisError::Validator { node: (*node).to_owned(), why });
            if stake.denomination != denomination {
                return wrong(format!(
                    "stakes {}, and the chain's token is {denomination}",
                    stake.denomination
                ));
            }
            if stake.amount < TOKENS_PER_VOTE {
                return wrong(format!("stakes {stake}, and a vote costs {TOKENS_PER_VOTE}{denomination}"));
            }
            let Some(balance) = self.balance(&address)? else {
                return wrong(format!("account {address} has no balance"));
            };
            if balance.of(denomination) < stake.amount {
                return wrong(format!("stakes {stake}, and account {address} has less"));
            }
            if gentx.commission_rate() < least {
                return wrong(format!("keeps {} of rewards, and must keep {least}", gentx.commission_rate()));
            }
            if gentx.memo_length() > memo_limit {
                return wrong(format!("has a memo of more than {memo_limit} characters"));
            }
        }
        Ok(())
    }

    /// Puts the gentxs and the list of validators into the document.
    pub(super) fn put_validators(&mut self, members: &[Member<'_>]) -> Result<(), GenesisError> {
        *self.list_mut(&["genutil", "gen_txs"])? =
            members.iter().map(|member| member.gentx.to_json()).collect();
        let validators = members.iter().map(|Member { gentx, .. }| {
            let key = gentx.consensus_key();
            Json::object([
                ("address", Json::Text(Address::of_ed25519(key).to_upper_hex())),
                ("pub_key", Json::object([("type", Json::text(PUBLIC)), ("value", Json::Text(base64(key)))])),
                ("power", Json::Text((gentx.stake().amount / TOKENS_PER_VOTE).to_string())),
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
