//! Signed tokens: what is written in them, and whether their signature is good.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, EcdsaVerificationAlgorithm, RsaParameters, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A token, taken apart and not yet believed.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) algorithm: String,
    pub(super) key_id: Option<String>,
    pub(super) claims: Map<String, Value>,
    signed: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood; we understand none.
    crit: Option<Value>,
}

/// A key as an issuer publishes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Jwk {
    kty: String,
    pub(super) kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct JwkSet {
    #[serde(default)]
    pub(super) keys: Vec<Jwk>,
}

impl<'a> Token<'a> {
    /// Takes a token apart; `None` for what is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        if header.crit.is_some() {
            return None;
        }
        Some(Self {
            algorithm: header.alg,
            key_id: header.kid,
            claims: serde_json::from_slice(&decode(claims)?).ok()?,
            signed,
            signature: decode(signature)?,
        })
    }

    /// Whether one of these keys made its signature. A key that names another id is not tried.
    pub(super) fn is_signed_by(&self, keys: &JwkSet) -> bool {
        let may = |key: &&Jwk| {
            key.usage.as_deref().is_none_or(|usage| usage == "sig")
                && (self.key_id.is_none() || key.kid.is_none() || self.key_id == key.kid)
        };
        keys.keys.iter().filter(may).any(|key| self.verify(key).is_some())
    }

    /// The algorithm comes from the token, and the kind of key must fit it: a public key is never taken for a shared secret.
    fn verify(&self, key: &Jwk) -> Option<()> {
        let (message, signature) = (self.signed.as_bytes(), self.signature.as_slice());
        if let Some(parameters) = rsa(&self.algorithm) {
            let part = |part: &Option<String>| decode(part.as_deref()?);
            let components = PublicKeyComponents { n: part(&key.n)?, e: part(&key.e)? };
            return (key.kty == "RSA")
                .then(|| components.verify(parameters, message, signature).ok())
                .flatten();
        }
        let (curve, size, algorithm) = ecdsa(&self.algorithm)?;
        if key.kty != "EC" || key.crv.as_deref() != Some(curve) {
            return None;
        }
        // An uncompressed point: both coordinates in their full length.
        let mut point = vec![4];
        for coordinate in [&key.x, &key.y] {
            let bytes = decode(coordinate.as_deref()?)?;
            point.resize(point.len() + size.checked_sub(bytes.len())?, 0);
            point.extend(bytes);
        }
        UnparsedPublicKey::new(algorithm, point).verify(message, signature).ok()
    }
}

fn rsa(name: &str) -> Option<&'static RsaParameters> {
    Some(match name {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn ecdsa(name: &str) -> Option<(&'static str, usize, &'static EcdsaVerificationAlgorithm)> {
    Some(match name {
        "ES256" => ("P-256", 32, &signature::ECDSA_P256_SHA256_FIXED),
        "ES384" => ("P-384", 48, &signature::ECDSA_P384_SHA384_FIXED),
        "ES512" => ("P-521", 66, &signature::ECDSA_P521_SHA512_FIXED),
        _ => return None,
    })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
