//! Maps the claims of a verified token to a user.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::identity::{CREDENTIAL_ID, UserInfo};
use crate::settings::OidcSettings;

/// Tolerated clock skew for `nbf`, in seconds.
const NOT_BEFORE_LEEWAY: f64 = 300.0;

/// Returns whether the token has this issuer. Google tokens may omit the scheme.
pub(super) fn is_issued_by(claims: &Map<String, Value>, issuer: &str) -> bool {
    let iss = text(claims, "iss");
    iss == issuer || (iss == "accounts.google.com" && issuer == "https://accounts.google.com")
}

/// Returns the user, and the expiry in seconds since the Unix epoch.
pub(super) fn user_info(
    claims: &Map<String, Value>,
    oidc: &OidcSettings,
    now: f64,
) -> Result<(UserInfo, f64), String> {
    let audiences = strings(claims.get("aud"));
    if !audiences.iter().any(|audience| *audience == oidc.client_id) {
        return Err(format!("token audience does not contain {:?} (--oidc-clientID)", oidc.client_id));
    }
    let expires_at = claims.get("exp").and_then(Value::as_f64).ok_or("token has no exp claim")?;
    if now > expires_at {
        return Err("token has expired".into());
    }
    if claims
        .get("nbf")
        .and_then(Value::as_f64)
        .is_some_and(|not_before| now + NOT_BEFORE_LEEWAY < not_before)
    {
        return Err("token is not valid yet".into());
    }
    let name = text(claims, &oidc.username_claim);
    if name.is_empty() {
        return Err(format!("token has no claim {:?} (--oidc-username-claim)", oidc.username_claim));
    }
    let is_unverified = claims.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true));
    if oidc.username_claim == "email" && is_unverified {
        return Err("email of the token is not verified".into());
    }
    if !claims.contains_key(&oidc.groups_claim)
        && claims.get("_claim_names").is_some_and(|names| names.get(&oidc.groups_claim).is_some())
    {
        return Err("distributed claims (_claim_names) are not supported".into());
    }
    let groups = match claims.get(&oidc.groups_claim) {
        None | Some(Value::Null) => Vec::new(),
        groups @ Some(Value::String(_) | Value::Array(_)) => strings(groups),
        Some(_) => {
            return Err(format!(
                "claim {:?} (--oidc-groups-claim) is not a list of strings",
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
    Ok((info, expires_at))
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
