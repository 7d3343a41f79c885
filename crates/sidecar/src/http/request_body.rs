//! The body of a task request, parsed like Go's `encoding/json`: only the first value counts, field names are case-insensitive, the
//! last duplicate wins, and unknown fields are ignored.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ledger::RawJson;

/// The body of a task request: the server side of [`api::sidecar_wire::TaskRequest`]. Parameters stay raw so that numbers keep
/// every digit.
#[derive(Debug, Default)]
pub(super) struct RequestBody {
    pub(super) id: Option<String>,
    pub(super) task_type: String,
    pub(super) params: Option<RawJson>,
}

impl RequestBody {
    /// Parses the first value of a body.
    pub(super) fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        Option::<Self>::deserialize(&mut reader).map(Option::unwrap_or_default)
    }
}

impl<'de> Deserialize<'de> for RequestBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = RequestBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequestBody, A::Error> {
        let mut request = RequestBody::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.to_ascii_lowercase().as_str() {
                // Like in Go, null leaves the field unchanged.
                "id" => request.id = map.next_value::<Option<String>>()?.or(request.id),
                "type" => {
                    request.task_type = map.next_value::<Option<String>>()?.unwrap_or(request.task_type)
                }
                "params" => request.params = parse_params(map.next_value::<Option<RawJson>>()?)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        request.id = request.id.filter(|id| !id.is_empty());
        Ok(request)
    }
}

/// Accepts an object or null; an empty object counts as null.
fn parse_params<E: serde::de::Error>(params: Option<RawJson>) -> Result<Option<RawJson>, E> {
    let Some(params) = params.filter(|params| params.get() != "null") else { return Ok(None) };
    if !params.get().starts_with('{') {
        return Err(E::custom("params must be an object"));
    }
    let is_empty = params.get()[1..].trim_start().starts_with('}');
    Ok(Some(params).filter(|_| !is_empty).map(compact))
}

/// Removes whitespace between values, as upstream stores it.
fn compact(params: RawJson) -> RawJson {
    let mut text = String::with_capacity(params.get().len());
    let (mut in_string, mut escaped) = (false, false);
    for c in params.get().chars() {
        if in_string || !c.is_ascii_whitespace() {
            text.push(c);
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
    }
    RawValue::from_string(text).unwrap_or(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Option<(Option<String>, String, Option<String>)> {
        let request = RequestBody::parse(body.as_bytes()).ok()?;
        Some((request.id, request.task_type, request.params.map(|params| params.get().to_owned())))
    }

    fn some(
        id: Option<&str>,
        task_type: &str,
        params: Option<&str>,
    ) -> Option<(Option<String>, String, Option<String>)> {
        Some((id.map(str::to_owned), task_type.to_owned(), params.map(str::to_owned)))
    }

    #[test]
    fn body_is_parsed_like_go() {
        assert_eq!(
            parse(r#"{"id":"a","type":"b","params":{"c":1}}"#),
            some(Some("a"), "b", Some(r#"{"c":1}"#))
        );
        assert_eq!(parse(r#"{"ID":"a","tYpe":"b","Params":{},"async":true}"#), some(Some("a"), "b", None));
        assert_eq!(parse(r#"{"type":"b"} {"type":"c"} garbage"#), some(None, "b", None));
        assert_eq!(parse(r#"{"type":"b","TYPE":"c","id":"","params":null}"#), some(None, "c", None));
        assert_eq!(parse("null"), some(None, "", None));
        assert_eq!(parse("{}"), some(None, "", None));
        for bad in [
            "",
            "[]",
            "1",
            "{",
            r#"{"type":1}"#,
            r#"{"type":"b","params":[]}"#,
            r#"{"type":"b","params":"x"}"#,
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn params_keep_every_digit_and_character() {
        let body = r#"{"type":"t","params":{ "n" : 9007199254740993.000000000000000001, "s": "a \" b\\", "e": [ 1e400 ] }}"#;
        let kept = r#"{"n":9007199254740993.000000000000000001,"s":"a \" b\\","e":[1e400]}"#;
        assert_eq!(parse(body), some(None, "t", Some(kept)));
    }
}
