//! Parses signed tokens (JWS) and verifies their signatures.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, EcdsaVerificationAlgorithm, RsaParameters, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A parsed token that is not verified yet.
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
    /// Extensions that must be understood; none are supported.
    crit: Option<Value>,
}

/// A key as published by an issuer.
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
    /// Parses a token; `None` when it is malformed.
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

    /// Returns whether one of the keys signed the token. A key with a different id is not tried.
    pub(super) fn is_signed_by(&self, keys: &JwkSet) -> bool {
        let is_candidate = |key: &&Jwk| {
            key.usage.as_deref().is_none_or(|usage| usage == "sig")
                && (self.key_id.is_none() || key.kid.is_none() || self.key_id == key.kid)
        };
        keys.keys.iter().filter(is_candidate).any(|key| self.verify(key).is_some())
    }

    /// Verifies the signature. The token selects the algorithm, and the key type must match it, so that a
    /// public key is never used as a shared secret.
    fn verify(&self, key: &Jwk) -> Option<()> {
        let (message, signature) = (self.signed.as_bytes(), self.signature.as_slice());
        if let Some(parameters) = rsa_parameters(&self.algorithm) {
            let decode_component = |component: &Option<String>| decode(component.as_deref()?);
            let components =
                PublicKeyComponents { n: decode_component(&key.n)?, e: decode_component(&key.e)? };
            return (key.kty == "RSA")
                .then(|| components.verify(parameters, message, signature).ok())
                .flatten();
        }
        let (curve, size, algorithm) = ecdsa_algorithm(&self.algorithm)?;
        if key.kty != "EC" || key.crv.as_deref() != Some(curve) {
            return None;
        }
        // Uncompressed point: both coordinates in full length.
        let mut point = vec![4];
        for coordinate in [&key.x, &key.y] {
            let bytes = decode(coordinate.as_deref()?)?;
            point.resize(point.len() + size.checked_sub(bytes.len())?, 0);
            point.extend(bytes);
        }
        UnparsedPublicKey::new(algorithm, point).verify(message, signature).ok()
    }
}

fn rsa_parameters(name: &str) -> Option<&'static RsaParameters> {
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

fn ecdsa_algorithm(name: &str) -> Option<(&'static str, usize, &'static EcdsaVerificationAlgorithm)> {
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
