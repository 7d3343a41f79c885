//! The part of an address after the question mark, and the percent signs in it.

use std::fmt;

/// The parameters of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what stands after the question mark.
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

    /// The first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// True when a parameter is on, by the API server's own rule: anything but `false` and `0` is.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// The same without a parameter.
    #[must_use]
    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(other, _)| other != name);
        self
    }

    /// The same with a parameter at this value, and no other.
    #[must_use]
    pub(super) fn with(self, name: &str, value: impl Into<String>) -> Self {
        let mut changed = self.without(name);
        changed.0.push((name.into(), value.into()));
        changed
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

/// Replaces `%41` by `A`. What is no such sequence stays as it is.
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
    fn what_is_read_is_written_again() {
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
    fn a_switch_is_read_as_the_api_server_reads_it() {
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
    fn a_percent_sign_that_escapes_nothing_stays() {
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(decode("system%3anode"), "system:node");
        assert_eq!(decode("%C3%A9"), "é");
    }
}
