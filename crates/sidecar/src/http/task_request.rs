//! The body of a submission, read as Go reads it: the first value counts, names of fields in any case, the last of the same
//! name, unknown ones are passed over.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ledger::RawJson;

/// A task as it was given.
#[derive(Debug, Default)]
pub(super) struct Submission {
    pub(super) id: Option<String>,
    pub(super) kind: String,
    pub(super) params: Option<RawJson>,
}

impl Submission {
    /// Reads the first value of a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        Option::<Self>::deserialize(&mut reader).map(Option::unwrap_or_default)
    }
}

impl<'de> Deserialize<'de> for Submission {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Submission;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Submission, A::Error> {
        let mut read = Submission::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.to_ascii_lowercase().as_str() {
                // Null changes nothing.
                "id" => read.id = map.next_value::<Option<String>>()?.or(read.id),
                "type" => read.kind = map.next_value::<Option<String>>()?.unwrap_or(read.kind),
                "params" => read.params = object(map.next_value::<Option<RawJson>>()?)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        read.id = read.id.filter(|id| !id.is_empty());
        Ok(read)
    }
}

/// Parameters are an object. They are kept as they are: numbers keep every digit.
fn object<E: serde::de::Error>(params: Option<RawJson>) -> Result<Option<RawJson>, E> {
    let Some(params) = params.filter(|params| params.get() != "null") else { return Ok(None) };
    if !params.get().starts_with('{') {
        return Err(E::custom("params is no object"));
    }
    let is_empty = params.get()[1..].trim_start().starts_with('}');
    Ok(Some(params).filter(|_| !is_empty).map(compact))
}

/// Without what stands between values, as upstream stores it.
fn compact(params: RawJson) -> RawJson {
    let mut text = String::with_capacity(params.get().len());
    let (mut within, mut escaped) = (false, false);
    for one in params.get().chars() {
        if within || !one.is_ascii_whitespace() {
            text.push(one);
        }
        match one {
            '"' if !escaped => within = !within,
            _ => {}
        }
        escaped = within && one == '\\' && !escaped;
    }
    RawValue::from_string(text).unwrap_or(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<(Option<String>, String, Option<String>)> {
        let read = Submission::read(body.as_bytes()).ok()?;
        Some((read.id, read.kind, read.params.map(|params| params.get().to_owned())))
    }

    fn some(
        id: Option<&str>,
        kind: &str,
        params: Option<&str>,
    ) -> Option<(Option<String>, String, Option<String>)> {
        Some((id.map(str::to_owned), kind.to_owned(), params.map(str::to_owned)))
    }

    #[test]
    fn a_body_is_read_as_go_reads_it() {
        assert_eq!(
            read(r#"{"id":"a","type":"b","params":{"c":1}}"#),
            some(Some("a"), "b", Some(r#"{"c":1}"#))
        );
        assert_eq!(read(r#"{"ID":"a","tYpe":"b","Params":{},"async":true}"#), some(Some("a"), "b", None));
        assert_eq!(read(r#"{"type":"b"} {"type":"c"} garbage"#), some(None, "b", None));
        assert_eq!(read(r#"{"type":"b","TYPE":"c","id":"","params":null}"#), some(None, "c", None));
        assert_eq!(read("null"), some(None, "", None));
        assert_eq!(read("{}"), some(None, "", None));
        for bad in [
            "",
            "[]",
            "1",
            "{",
            r#"{"type":1}"#,
            r#"{"type":"b","params":[]}"#,
            r#"{"type":"b","params":"x"}"#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_keep_every_digit_and_strings_every_character() {
        let body = r#"{"type":"t","params":{ "n" : 9007199254740993.000000000000000001, "s": "a \" b\\", "e": [ 1e400 ] }}"#;
        let kept = r#"{"n":9007199254740993.000000000000000001,"s":"a \" b\\","e":[1e400]}"#;
        assert_eq!(read(body), some(None, "t", Some(kept)));
    }
}
