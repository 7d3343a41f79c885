//! Who a verified token names.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::identity::UserInfo;
use crate::settings::Oidc;

/// The extra field that tells which credential was used.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// How much earlier than it says a token may be used: clocks differ.
const NOT_BEFORE_LEEWAY: f64 = 300.0;

/// Whether a token says that it is of this issuer. Google's tokens may leave out the scheme.
pub(super) fn is_of(claims: &Map<String, Value>, issuer: &str) -> bool {
    let says = text(claims, "iss");
    says == issuer || (says == "accounts.google.com" && issuer == "https://accounts.google.com")
}

/// Who that is, and until when (in seconds since 1970).
pub(super) fn user(claims: &Map<String, Value>, oidc: &Oidc, now: f64) -> Result<(UserInfo, f64), String> {
    let audiences = strings(claims.get("aud"));
    if !audiences.iter().any(|audience| *audience == oidc.client_id) {
        return Err(format!("the token is not for {:?} (--oidc-clientID)", oidc.client_id));
    }
    let until =
        claims.get("exp").and_then(Value::as_f64).ok_or("the token does not say until when it is good")?;
    if now > until {
        return Err("the token has expired".into());
    }
    if claims.get("nbf").and_then(Value::as_f64).is_some_and(|from| now + NOT_BEFORE_LEEWAY < from) {
        return Err("the token is not good yet".into());
    }
    let name = text(claims, &oidc.username_claim);
    if name.is_empty() {
        return Err(format!("the token has no claim {:?} (--oidc-username-claim)", oidc.username_claim));
    }
    let unverified = claims.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true));
    if oidc.username_claim == "email" && unverified {
        return Err("the token's email is not verified".into());
    }
    if !claims.contains_key(&oidc.groups_claim)
        && claims.get("_claim_names").is_some_and(|names| names.get(&oidc.groups_claim).is_some())
    {
        return Err("the token's groups stand elsewhere (_claim_names), which is not followed".into());
    }
    let groups = match claims.get(&oidc.groups_claim) {
        None | Some(Value::Null) => Vec::new(),
        groups @ Some(Value::String(_) | Value::Array(_)) => strings(groups),
        Some(_) => {
            return Err(format!(
                "the claim {:?} (--oidc-groups-claim) is no list of texts",
                oidc.groups_claim
            ));
        }
    };
    let id = text(claims, "jti");
    let extra = if id.is_empty() {
        BTreeMap::new()
    } else {
        BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")])])
    };
    let info = UserInfo {
        name: format!("{}{name}", oidc.username_prefix),
        uid: String::new(),
        groups: groups.iter().map(|group| format!("{}{group}", oidc.groups_prefix)).collect(),
        extra,
    };
    Ok((info, until))
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> &'a str {
    claims.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
