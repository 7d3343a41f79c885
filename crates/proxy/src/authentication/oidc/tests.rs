use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::claims;
use super::jws::{JwkSet, Token};
use crate::settings::OidcSettings;

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn signing_input(algorithm: &str, claims: &Value) -> String {
    let header = json!({ "alg": algorithm, "kid": "one" });
    format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()))
}

fn ec_key() -> (EcdsaKeyPair, JwkSet) {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = pair.public_key().as_ref();
    let jwk = json!({ "keys": [{
        "kty": "EC", "crv": "P-256", "kid": "one", "x": base64url(&point[1..33]), "y": base64url(&point[33..]),
    }] });
    (pair, serde_json::from_value(jwk).unwrap())
}

#[test]
fn signature_is_valid_only_with_its_own_key() {
    let (pair, keys) = ec_key();
    let signed = signing_input("ES256", &json!({ "iss": "i" }));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    let text = format!("{signed}.{}", base64url(signature.as_ref()));
    let token = Token::parse(&text).unwrap();
    assert!(token.is_signed_by(&keys));
    assert!(!token.is_signed_by(&ec_key().1), "another key");
    assert!(!token.is_signed_by(&JwkSet::default()));
    let other =
        format!("{}.{}", signing_input("ES256", &json!({ "iss": "x" })), base64url(signature.as_ref()));
    assert!(!Token::parse(&other).unwrap().is_signed_by(&keys), "other claims");
    for algorithm in ["none", "HS256", "RS256", "ES384"] {
        let text =
            format!("{}.{}", signing_input(algorithm, &json!({ "iss": "i" })), base64url(signature.as_ref()));
        assert!(!Token::parse(&text).unwrap().is_signed_by(&keys), "{algorithm}");
    }
}

#[test]
fn rsa_signatures_are_verified() {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let public = pair.public_key();
    let (n, e) = (
        public.modulus().big_endian_without_leading_zero().to_vec(),
        public.exponent().big_endian_without_leading_zero().to_vec(),
    );
    let keys: JwkSet = serde_json::from_value(
        json!({ "keys": [{ "kty": "RSA", "kid": "one", "use": "sig", "n": base64url(n), "e": base64url(e) }] }),
    )
    .unwrap();
    let signed = signing_input("RS256", &json!({}));
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    assert!(Token::parse(&format!("{signed}.{}", base64url(&signature))).unwrap().is_signed_by(&keys));
    signature[0] ^= 1;
    assert!(!Token::parse(&format!("{signed}.{}", base64url(&signature))).unwrap().is_signed_by(&keys));
}

#[test]
fn malformed_tokens_are_rejected() {
    for text in [
        "",
        "a",
        "a.b",
        "a.b.c",
        "e30.e30.",
        &format!("{}.e30.", base64url(r#"{"alg":"RS256","crit":["b64"]}"#)),
    ] {
        assert!(Token::parse(text).is_none(), "{text}");
    }
}

fn oidc(username_claim: &str) -> OidcSettings {
    OidcSettings {
        issuer: "https://i".into(),
        client_id: "me".into(),
        groups_claim: "groups".into(),
        username_claim: username_claim.into(),
        username_prefix: "u:".into(),
        groups_prefix: "g:".into(),
        algorithms: vec!["RS256".into()],
        ca: None,
    }
}

fn user(claims: Value, username_claim: &str) -> Result<(String, Vec<String>), String> {
    let Value::Object(claims) = claims else { return Err("no object".into()) };
    claims::user_info(&claims, &oidc(username_claim), 1_000.0).map(|(user, _)| (user.name, user.groups))
}

#[test]
fn claims_map_to_prefixed_user_and_groups() {
    let base = json!({ "aud": ["x", "me"], "exp": 2_000, "email": "a@b", "sub": "s" });
    let with = |more: Value| {
        let mut claims = base.clone();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    };
    let groups = |groups: &[&str]| groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>();
    assert_eq!(user(base.clone(), "email"), Ok(("u:a@b".into(), groups(&[]))));
    assert_eq!(user(with(json!({ "groups": "x" })), "sub"), Ok(("u:s".into(), groups(&["g:x"]))));
    assert_eq!(
        user(with(json!({ "groups": ["x", "y"] })), "sub"),
        Ok(("u:s".into(), groups(&["g:x", "g:y"])))
    );
    assert!(user(with(json!({ "email_verified": true })), "email").is_ok());
    for (bad, claim) in [
        (json!({ "email_verified": false }), "email"),
        (json!({ "aud": "other" }), "sub"),
        (json!({ "exp": 999 }), "sub"),
        (json!({ "exp": null }), "sub"),
        (json!({ "nbf": 5_000 }), "sub"),
        (json!({ "groups": 7 }), "sub"),
        (json!({ "_claim_names": { "groups": "src" } }), "sub"),
        (json!({}), "missing"),
    ] {
        assert!(user(with(bad.clone()), claim).is_err(), "{bad}");
    }
}

#[test]
fn issuer_must_match_exactly() {
    let is_issued_by = |iss: &str, issuer: &str| {
        let claims = json!({ "iss": iss });
        claims::is_issued_by(claims.as_object().unwrap(), issuer)
    };
    assert!(is_issued_by("https://i", "https://i"));
    assert!(!is_issued_by("https://i/", "https://i"));
    assert!(is_issued_by("accounts.google.com", "https://accounts.google.com"));
}
