//! The query of a request for the state of the chain.

use api::sidecar_wire::APP_HASH_AT;

/// Returns the requested height of an app hash, or the error.
pub(super) fn parse_app_hash_at(query: Option<&str>) -> Result<Option<i64>, String> {
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values = pairs.filter(|(name, _)| *name == APP_HASH_AT).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(format!("repeated {APP_HASH_AT}: expected one block height")),
        (Some(value), None) => match parse_height(value) {
            Some(height) => Ok(Some(height)),
            None => Err(format!("invalid {APP_HASH_AT}: expected a block height above 0")),
        },
    }
}

/// Parses a height that has a next one.
fn parse_height(text: &str) -> Option<i64> {
    // Excludes a plus sign, which is a space in a query.
    let height = text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit()))?;
    (1..i64::MAX).contains(&height).then_some(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_hash_at_must_be_one_height_above_zero() {
        for (query, expected) in [
            (None, Some(None)),
            (Some(""), Some(None)),
            (Some("other=x"), Some(None)),
            (Some("appHashAt=1"), Some(Some(1))),
            (Some("other&appHashAt=9223372036854775806"), Some(Some(i64::MAX - 1))),
            (Some("appHashAt"), None),
            (Some("appHashAt="), None),
            (Some("appHashAt=0"), None),
            (Some("appHashAt=-1"), None),
            (Some("appHashAt=+1"), None),
            (Some("appHashAt=1%32"), None),
            (Some("appHashAt=x"), None),
            (Some("appHashAt=9223372036854775807"), None),
            (Some("appHashAt=1&appHashAt=1"), None),
        ] {
            assert_eq!(parse_app_hash_at(query).ok(), expected, "{query:?}");
        }
    }
}
