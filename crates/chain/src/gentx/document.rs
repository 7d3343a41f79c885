//! JSON form of a gentx. Field order matters, and empty fields are written.

use serde::{Deserialize, Serialize};

use super::decimal::Decimal;
use super::wire;
use crate::text::from_base64;

pub(super) const CREATE_VALIDATOR: &str = "/cosmos.staking.v1beta1.MsgCreateValidator";
pub(super) const ED25519: &str = "/cosmos.crypto.ed25519.PubKey";
pub(super) const SECP256K1: &str = "/cosmos.crypto.secp256k1.PubKey";
pub(super) const DIRECT: &str = "SIGN_MODE_DIRECT";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tx {
    pub body: Body,
    pub auth_info: AuthInfo,
    pub signatures: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body {
    pub messages: Vec<CreateValidator>,
    pub memo: String,
    #[serde(with = "number")]
    pub timeout_height: u64,
    pub extension_options: [(); 0],
    pub non_critical_extension_options: [(); 0],
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateValidator {
    #[serde(rename = "@type")]
    pub type_url: String,
    pub description: Description,
    pub commission: Commission,
    pub min_self_delegation: String,
    pub delegator_address: String,
    pub validator_address: String,
    pub pubkey: PublicKey,
    pub value: Coin,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub moniker: String,
    pub identity: String,
    pub website: String,
    pub security_contact: String,
    pub details: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commission {
    pub rate: Decimal,
    pub max_rate: Decimal,
    pub max_change_rate: Decimal,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublicKey {
    #[serde(rename = "@type")]
    pub type_url: String,
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Coin {
    pub denom: String,
    pub amount: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthInfo {
    pub signer_infos: Vec<SignerInfo>,
    pub fee: Fee,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignerInfo {
    pub public_key: PublicKey,
    pub mode_info: ModeInfo,
    #[serde(with = "number")]
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeInfo {
    pub single: Single,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Single {
    pub mode: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fee {
    pub amount: Vec<Coin>,
    #[serde(with = "number")]
    pub gas_limit: u64,
    pub payer: String,
    pub granter: String,
    // Only Sei tools write it.
    #[serde(with = "number", default)]
    pub gas_estimate: u64,
}

/// Numbers encoded as JSON strings.
mod number {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom(format!("invalid number {text:?}")))
    }
}

impl PublicKey {
    /// Returns the key bytes, if the key has this type.
    pub(super) fn bytes(&self, type_url: &str) -> Option<Vec<u8>> {
        from_base64(&self.key).filter(|_| self.type_url == type_url)
    }

    fn to_wire(&self) -> wire::Any {
        let key = from_base64(&self.key).unwrap_or_default();
        wire::Any::new(&self.type_url, &wire::PublicKey { key })
    }
}

impl Coin {
    fn to_wire(&self) -> wire::Coin {
        wire::Coin { denom: self.denom.clone(), amount: self.amount.clone() }
    }
}

impl CreateValidator {
    fn to_wire(&self) -> wire::Any {
        let description = self.description.clone();
        wire::Any::new(
            &self.type_url,
            &wire::CreateValidator {
                description: Some(wire::Description {
                    moniker: description.moniker,
                    identity: description.identity,
                    website: description.website,
                    security_contact: description.security_contact,
                    details: description.details,
                }),
                commission: Some(wire::Commission {
                    rate: self.commission.rate.scaled(),
                    max_rate: self.commission.max_rate.scaled(),
                    max_change_rate: self.commission.max_change_rate.scaled(),
                }),
                min_self_delegation: self.min_self_delegation.clone(),
                delegator_address: self.delegator_address.clone(),
                validator_address: self.validator_address.clone(),
                pubkey: Some(self.pubkey.to_wire()),
                value: Some(self.value.to_wire()),
            },
        )
    }
}

impl Body {
    pub(super) fn to_wire(&self) -> wire::TxBody {
        wire::TxBody {
            messages: self.messages.iter().map(CreateValidator::to_wire).collect(),
            memo: self.memo.clone(),
            timeout_height: self.timeout_height,
        }
    }
}

impl AuthInfo {
    pub(super) fn to_wire(&self) -> wire::AuthInfo {
        let signer = |signer: &SignerInfo| wire::SignerInfo {
            public_key: Some(signer.public_key.to_wire()),
            // Validation rejects other modes first.
            mode_info: Some(wire::ModeInfo { single: Some(wire::Single { mode: 1 }) }),
            sequence: signer.sequence,
        };
        wire::AuthInfo {
            signer_infos: self.signer_infos.iter().map(signer).collect(),
            fee: Some(wire::Fee {
                amount: self.fee.amount.iter().map(Coin::to_wire).collect(),
                gas_limit: self.fee.gas_limit,
                payer: self.fee.payer.clone(),
                granter: self.fee.granter.clone(),
                gas_estimate: self.fee.gas_estimate,
            }),
        }
    }
}
