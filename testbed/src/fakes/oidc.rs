//! An issuer of OpenID Connect: its discovery document, its keys, and tokens that it has signed.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use crate::cluster::pki::{Authority, ServerNames};
use crate::error::{Error, Result};
use crate::fakes::recorder::{Recorder, Reply};

/// The name of its only key.
const KEY: &str = "key-1";

/// A running issuer; it ends when dropped.
pub struct Issuer {
    server: Recorder,
    authority: Authority,
    key: EcdsaKeyPair,
}

impl Issuer {
    /// An issuer on the loopback interface, with an authority of its own. It signs with ES256.
    pub async fn start() -> Result<Self> {
        let authority = Authority::new("issuer")?;
        let names = ServerNames { addresses: vec![[127, 0, 0, 1].into()], ..ServerNames::default() };
        let server = Recorder::encrypted_http1(&authority.server("issuer", &names)?).await?;
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map_err(|_| Error::Refused("making a key of an issuer failed".into()))?;
        // The point in its long form: a byte that says so, and two coordinates.
        let point = key.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let keys = json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY,
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        }] })
        .to_string();
        let url = server.url();
        let discovery = json!({
            "issuer": url, "jwks_uri": format!("{url}/keys"), "authorization_endpoint": format!("{url}/auth"),
            "token_endpoint": format!("{url}/token"), "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
        })
        .to_string();
        server.answer(move |seen| match seen.target.as_str() {
            "/.well-known/openid-configuration" => document(&discovery),
            "/keys" => document(&keys),
            _ => Reply::raw("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        });
        Ok(Self { server, authority, key })
    }

    /// Its name, which is its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The authority that its certificate is of.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> Result<String> {
        let head = json!({ "alg": "ES256", "kid": KEY, "typ": "JWT" });
        let signed = format!("{}.{}", BASE64.encode(head.to_string()), BASE64.encode(claims.to_string()));
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| Error::Refused("signing a token failed".into()))?;
        Ok(format!("{signed}.{}", BASE64.encode(signature.as_ref())))
    }
}

fn document(text: &str) -> Reply {
    Reply::raw(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ))
}
