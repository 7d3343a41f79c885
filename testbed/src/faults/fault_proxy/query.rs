//! Query strings and percent-encoding.

use std::fmt;

/// The parameters of a query, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// True if a boolean parameter is set, by the rule of the API server: anything but `false` and `0`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// Removes a parameter.
    #[must_use]
    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(other, _)| other != name);
        self
    }

    /// Sets a parameter to this single value.
    #[must_use]
    pub(super) fn with(self, name: &str, value: impl Into<String>) -> Self {
        let mut query = self.without(name);
        query.0.push((name.into(), value.into()));
        query
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "&" };
            write!(f, "{separator}{}={}", encode(name), encode(value))?;
        }
        Ok(())
    }
}

/// Percent-decodes text; invalid sequences are kept.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let escaped = match others {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn encode(text: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_round_trips() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch&limit=5&x=a+b");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("x"), Some("a b"));
        assert_eq!(query.to_string(), "labelSelector=a%3Db%2Cc&watch=&limit=5&x=a%20b");
        assert_eq!(
            query.without("x").with("limit", "7").to_string(),
            "labelSelector=a%3Db%2Cc&watch=&limit=7"
        );
    }

    #[test]
    fn boolean_is_parsed_like_the_api_server() {
        for (text, on) in [
            ("watch", true),
            ("watch=1", true),
            ("watch=true", true),
            ("watch=False", false),
            ("watch=0", false),
        ] {
            assert_eq!(Query::parse(text).is_on("watch"), on, "{text}");
        }
        assert!(!Query::parse("").is_on("watch"));
    }

    #[test]
    fn invalid_escapes_are_kept() {
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(decode("system%3anode"), "system:node");
        assert_eq!(decode("%C3%A9"), "é");
    }
}
