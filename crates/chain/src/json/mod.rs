//! JSON that preserves key order and number formatting: the genesis hash covers the exact bytes of the file.

mod write;

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use self::write::write;

/// The maximum nesting of arrays and objects. Reading, writing and dropping a value recurse, and a stack overflow aborts the process.
const MAX_DEPTH: usize = 128;

/// JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// Boolean.
    Bool(bool),
    /// Number, with its original digits.
    Number(String),
    /// String.
    Text(String),
    /// Array.
    Array(Vec<Json>),
    /// Object.
    Object(Object),
}

/// Object members in document order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Json)>);

/// Error returned for malformed JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct JsonError(String);

impl Json {
    /// Parses a document. Duplicate keys and more than 128 levels are rejected.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_slice(bytes).map_err(|error| JsonError(error.to_string()))?;
        parse_value(raw, MAX_DEPTH)
    }

    /// Creates a string.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates an object.
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
    }

    /// Returns the string, if the value is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the elements, if the value is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// Returns the members, if the value is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Returns the value at a path of member names.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.as_object()?.get(name))
    }

    /// Returns a mutable reference to the value at a path of member names.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |value, name| match value {
            Self::Object(object) => object.get_mut(name),
            _ => None,
        })
    }

    /// Serializes without whitespace.
    #[must_use]
    pub fn compact(&self) -> String {
        let mut text = String::new();
        write(self, None, &mut text);
        text
    }

    /// Serializes like Go's `json.MarshalIndent` with two spaces, without a trailing newline.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        write(self, Some(0), &mut text);
        text
    }
}

impl Object {
    /// Returns the value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Returns a mutable reference to the value of a member.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.0.iter_mut().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Replaces the value of a member, or appends the member.
    pub fn set(&mut self, name: &str, value: Json) {
        match self.get_mut(name) {
            Some(old) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let index = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(index).1)
    }

    /// Iterates over the members in document order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Sorts the members by name.
    pub fn sort(&mut self) {
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
}

/// Members of an object, not parsed yet.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader).map(Members)
    }
}

/// Parses a value with at most `depth` levels.
fn parse_value(raw: &RawValue, depth: usize) -> Result<Json, JsonError> {
    let text = raw.get();
    let to_error = |error: serde_json::Error| JsonError(error.to_string());
    let inner =
        || depth.checked_sub(1).ok_or_else(|| JsonError(format!("nested more than {MAX_DEPTH} levels deep")));
    Ok(match text.as_bytes().first() {
        Some(b'{') => {
            let inner = inner()?;
            let Members(members) = serde_json::from_str(text).map_err(to_error)?;
            let mut object = Object::default();
            for (name, raw) in members {
                // Parsers disagree on which duplicate wins.
                if object.get(&name).is_some() {
                    return Err(JsonError(format!("duplicate key {name:?}")));
                }
                object.0.push((name, parse_value(raw, inner)?));
            }
            Json::Object(object)
        }
        Some(b'[') => {
            let inner = inner()?;
            let values: Vec<&RawValue> = serde_json::from_str(text).map_err(to_error)?;
            Json::Array(values.into_iter().map(|raw| parse_value(raw, inner)).collect::<Result<_, _>>()?)
        }
        Some(b'"') => Json::Text(serde_json::from_str(text).map_err(to_error)?),
        Some(b't') => Json::Bool(true),
        Some(b'f') => Json::Bool(false),
        Some(b'n') => Json::Null,
        _ => Json::Number(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_preserves_key_order_and_digits() {
        let text = r#"{"z":1,"a":[18446744073709551616,-0.10,1e2,true,false,null],"m":{},"e":[],"t":"a\u003cb\n\u2028"}"#;
        assert_eq!(Json::parse(text.as_bytes()).unwrap().compact(), text);
    }

    #[test]
    fn pretty_output_matches_go() {
        let json = Json::parse(br#"{"a":{"b":[1,{"c":"<"}]},"d":{},"e":[]}"#).unwrap();
        let pretty = "{\n  \"a\": {\n    \"b\": [\n      1,\n      {\n        \"c\": \"\\u003c\"\n      }\n    ]\n  },\n  \"d\": {},\n  \"e\": []\n}";
        assert_eq!(json.pretty(), pretty);
        assert_eq!(Json::parse(pretty.as_bytes()).unwrap(), json);
    }

    #[test]
    fn malformed_json_and_duplicate_keys_are_rejected() {
        for text in ["", "{", "[1,]", "nul", "{\"a\":1,\"a\":2}", "{\"x\":{\"a\":1,\"a\":1}}", "1 2"] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn deeply_nested_json_is_rejected() {
        let nested = |open: &str, close: &str, depth| {
            Json::parse((open.repeat(depth) + "1" + &close.repeat(depth)).as_bytes()).map(drop)
        };
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            assert_eq!(nested(open, close, MAX_DEPTH), Ok(()));
            for depth in [MAX_DEPTH + 1, 100_000] {
                let error = nested(open, close, depth).unwrap_err().to_string();
                assert!(error.contains("128 levels"), "{error}");
            }
        }
    }
}
