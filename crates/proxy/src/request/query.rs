//! Query parameters, for rewrites.

/// The query has more than one interpretation: a hidden value would reach the upstream without being
/// authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AmbiguousQuery;

/// Returns all values of a parameter, in order.
pub(crate) fn values(query: &str, name: &str) -> Result<Vec<String>, AmbiguousQuery> {
    if query.contains(';') {
        return Err(AmbiguousQuery);
    }
    let mut values = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // Every pair is decoded, also unrelated ones: another parser may accept what this one rejects.
        let (key, value) = (decode(key)?, decode(value)?);
        if key == name {
            values.push(value);
        }
    }
    Ok(values)
}

fn decode(text: &str) -> Result<String, AmbiguousQuery> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (decoded, after) = super::path::decode_escape(after).ok_or(AmbiguousQuery)?;
                bytes.push(decoded);
                rest = after;
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| AmbiguousQuery)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_order_and_empty_values() {
        assert_eq!(values("ns=a&x=1&ns=b+c&ns=&ns&n%73=%64", "ns").unwrap(), ["a", "b c", "", "", "d"]);
        assert!(values("", "ns").unwrap().is_empty());
        assert!(values("x=1", "ns").unwrap().is_empty());
    }

    #[test]
    fn ambiguous_queries_are_rejected() {
        for query in ["ns=a;ns=b", "ns=a&x=%zz", "ns=a&%", "ns=%ff", "x=1;&ns=a"] {
            assert_eq!(values(query, "ns"), Err(AmbiguousQuery), "{query}");
        }
    }
}
