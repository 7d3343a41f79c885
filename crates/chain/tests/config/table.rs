//! The table says what the reference says.

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
        "list of string" if field["writtenAs"].is_string() => Kind::Joined,
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
fn every_field_is_that_of_the_reference() {
    let reference = reference();
    let wanted = reference["fields"].as_array().unwrap();
    let ours: Vec<_> = table::fields().collect();
    assert_eq!(ours.len(), 224);
    assert_eq!(ours.iter().filter(|(field, _)| field.reloadable).count(), 9);
    assert_eq!(ours.len(), wanted.len());
    for ((field, place), wanted) in ours.into_iter().zip(wanted) {
        assert_eq!(field.key, wanted["key"]);
        let key = field.key;
        let file = place.map(|place| if place.file == File::Config { "config.toml" } else { "app.toml" });
        assert_eq!(file, wanted["file"].as_str(), "{key}");
        assert_eq!(place.map(|place| place.path), wanted["path"].as_str(), "{key}");
        assert_eq!(field.kind, kind(wanted), "{key}");
        assert_eq!(field.reloadable, wanted["hotReloadable"] == true, "{key}");
        assert_eq!(field.kind.overridable(), wanted["overridable"] == true, "{key}");
        assert_eq!(field.unit, wanted["unit"].as_str().unwrap_or_default(), "{key}");
    }
}
