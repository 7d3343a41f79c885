//! Values of one parameter of a query, for rewrites.

/// The query cannot be read in one way only: a value that is hidden in it would reach the upstream without being authorized (W5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// All values of a parameter, in their order.
pub(crate) fn values(query: &str, name: &str) -> Result<Vec<String>, Unreadable> {
    if query.contains(';') {
        return Err(Unreadable);
    }
    let mut values = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // Every pair is decoded, also those that are not asked for: a bad one may be read as good by others.
        let (key, value) = (decode(key)?, decode(value)?);
        if key == name {
            values.push(value);
        }
    }
    Ok(values)
}

fn decode(text: &str) -> Result<String, Unreadable> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (decoded, after) = super::path::escape(after).ok_or(Unreadable)?;
                bytes.push(decoded);
                rest = after;
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_come_in_their_order_also_empty_ones() {
        assert_eq!(values("ns=a&x=1&ns=b+c&ns=&ns&n%73=%64", "ns").unwrap(), ["a", "b c", "", "", "d"]);
        assert!(values("", "ns").unwrap().is_empty());
        assert!(values("x=1", "ns").unwrap().is_empty());
    }

    /// W5.
    #[test]
    fn a_query_that_others_could_read_differently_is_refused() {
        for query in ["ns=a;ns=b", "ns=a&x=%zz", "ns=a&%", "ns=%ff", "x=1;&ns=a"] {
            assert_eq!(values(query, "ns"), Err(Unreadable), "{query}");
        }
    }
}
