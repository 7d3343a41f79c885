//! JSON whose keys stay in their order and whose numbers keep their digits: the hash of a genesis file is over its bytes.

mod write;

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use self::write::write;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A text.
    Text(String),
    /// Values.
    Array(Vec<Json>),
    /// Named values, in their order.
    Object(Object),
}

/// Named values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Json)>);

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct JsonError(String);

impl Json {
    /// Reads a document.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_slice(bytes).map_err(|error| JsonError(error.to_string()))?;
        read(raw)
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Named values.
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The values, if it is a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// The named values, if there are such.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// The value at the end of a path of names.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.as_object()?.get(name))
    }

    /// The value at the end of a path of names, to change it.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |value, name| match value {
            Self::Object(object) => object.get_mut(name),
            _ => None,
        })
    }

    /// Without blanks.
    #[must_use]
    pub fn compact(&self) -> String {
        let mut text = String::new();
        write(self, None, &mut text);
        text
    }

    /// With each value on its line, indented by two blanks, and no end of line at the end: as Go does.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        write(self, Some(0), &mut text);
        text
    }
}

impl Object {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The value of a name, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.0.iter_mut().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Gives a name a value: in its place, or after all others.
    pub fn set(&mut self, name: &str, value: Json) {
        match self.get_mut(name) {
            Some(old) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes a name out.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let place = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(place).1)
    }

    /// Every name with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Puts names into the order of the alphabet.
    pub fn sort(&mut self) {
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
}

/// Members of an object as they were written.
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

fn read(raw: &RawValue) -> Result<Json, JsonError> {
    let text = raw.get();
    let wrong = |error: serde_json::Error| JsonError(error.to_string());
    Ok(match text.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text).map_err(wrong)?;
            let mut object = Object::default();
            for (name, raw) in members {
                // Readers differ in which of two they take.
                if object.get(&name).is_some() {
                    return Err(JsonError(format!("{name:?} is there twice")));
                }
                object.0.push((name, read(raw)?));
            }
            Json::Object(object)
        }
        Some(b'[') => {
            let values: Vec<&RawValue> = serde_json::from_str(text).map_err(wrong)?;
            Json::Array(values.into_iter().map(read).collect::<Result<_, _>>()?)
        }
        Some(b'"') => Json::Text(serde_json::from_str(text).map_err(wrong)?),
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
    fn order_and_digits_are_kept() {
        let text = r#"{"z":1,"a":[18446744073709551616,-0.10,1e2,true,false,null],"m":{},"e":[],"t":"a\u003cb\n\u2028"}"#;
        assert_eq!(Json::parse(text.as_bytes()).unwrap().compact(), text);
    }

    #[test]
    fn lines_are_broken_as_go_does() {
        let json = Json::parse(br#"{"a":{"b":[1,{"c":"<"}]},"d":{},"e":[]}"#).unwrap();
        let pretty = "{\n  \"a\": {\n    \"b\": [\n      1,\n      {\n        \"c\": \"\\u003c\"\n      }\n    ]\n  },\n  \"d\": {},\n  \"e\": []\n}";
        assert_eq!(json.pretty(), pretty);
        assert_eq!(Json::parse(pretty.as_bytes()).unwrap(), json);
    }

    #[test]
    fn what_is_no_json_or_has_two_meanings_is_refused() {
        for text in ["", "{", "[1,]", "nul", "{\"a\":1,\"a\":2}", "{\"x\":{\"a\":1,\"a\":1}}", "1 2"] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(Json::parse(deep.as_bytes()).is_err());
    }
}
