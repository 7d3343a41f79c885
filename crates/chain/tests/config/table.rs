//! The table of settings matches the reference library.

use chain::config::table::{self, File, Kind};
use serde_json::Value as Json;

use crate::apply::reference;

fn kind(field: &Json) -> Kind {
    match field["kind"].as_str().unwrap() {
        "string" => Kind::Text,
        "bool" => Kind::Bool,
        "optional bool" => Kind::OptionalBool,
        "float64" => Kind::Float,
        "duration" => Kind::Duration,
        "list of string" if field["writtenAs"].is_string() => Kind::CommaSeparated,
        "list of string" => Kind::List,
        "list of list of string" => Kind::Labels,
        "int" | "int64" => Kind::Int(i64::MIN, i64::MAX),
        "int32" => Kind::Int(i32::MIN.into(), i32::MAX.into()),
        "uint" | "uint64" => Kind::Int(0, i64::MAX),
        "uint32" => Kind::Int(0, u32::MAX.into()),
        "uint16" => Kind::Int(0, u16::MAX.into()),
        other => panic!("{other}"),
    }
}

#[test]
fn fields_match_reference() {
    let reference = reference();
    let expected = reference["fields"].as_array().unwrap();
    let actual: Vec<_> = table::fields().collect();
    assert_eq!(actual.len(), 224);
    assert_eq!(actual.iter().filter(|(field, _)| field.reloadable).count(), 9);
    assert_eq!(actual.len(), expected.len());
    for ((field, location), expected) in actual.into_iter().zip(expected) {
        assert_eq!(field.key, expected["key"]);
        let key = field.key;
        let file =
            location.map(|location| if location.file == File::Config { "config.toml" } else { "app.toml" });
        assert_eq!(file, expected["file"].as_str(), "{key}");
        assert_eq!(location.map(|location| location.path), expected["path"].as_str(), "{key}");
        assert_eq!(field.kind, kind(expected), "{key}");
        assert_eq!(field.reloadable, expected["hotReloadable"] == true, "{key}");
        assert_eq!(field.kind.overridable(), expected["overridable"] == true, "{key}");
        assert_eq!(field.unit, expected["unit"].as_str().unwrap_or_default(), "{key}");
    }
}
