//! Fake OpenID Connect issuer: discovery document, signing keys, and signed ID tokens.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use crate::cluster::pki::{CertificateAuthority, ServerNames};
use crate::error::{Error, Result};
use crate::fakes::recorder::{Recorder, Reply};

/// Key ID of the only signing key.
const KEY_ID: &str = "key-1";

/// A running issuer; the server stops when this is dropped.
pub struct Issuer {
    server: Recorder,
    ca: CertificateAuthority,
    key: EcdsaKeyPair,
}

impl Issuer {
    /// Starts an issuer on a free loopback port, with its own CA. Tokens are signed with ES256.
    pub async fn start() -> Result<Self> {
        let ca = CertificateAuthority::new("issuer")?;
        let names = ServerNames { addresses: vec![[127, 0, 0, 1].into()], ..ServerNames::default() };
        let server = Recorder::start_tls_http1(&ca.issue_server("issuer", &names)?).await?;
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map_err(|_| Error::Other("generating the issuer key failed".into()))?;
        // Uncompressed point: one marker byte, then both coordinates.
        let point = key.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let keys = json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY_ID,
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
        server.answer(move |request| match request.target.as_str() {
            "/.well-known/openid-configuration" => json_response(&discovery),
            "/keys" => json_response(&keys),
            _ => Reply::raw("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        });
        Ok(Self { server, ca, key })
    }

    /// Returns the issuer URL, which is also the address of the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the CA that issued the server certificate.
    #[must_use]
    pub fn ca(&self) -> &CertificateAuthority {
        &self.ca
    }

    /// Returns a signed token with these claims.
    pub fn token(&self, claims: &Value) -> Result<String> {
        let header = json!({ "alg": "ES256", "kid": KEY_ID, "typ": "JWT" });
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| Error::Other("signing a token failed".into()))?;
        Ok(format!("{signed}.{}", BASE64.encode(signature.as_ref())))
    }
}

fn json_response(text: &str) -> Reply {
    Reply::raw(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ))
}
