//! Test fixture: resolves intents and reads values from the rendered files.

use std::collections::BTreeMap;

use chain::config::table::File;
use chain::config::{ConfigError, Files, Finding, Host, Intent, Resolved, Severity, resolve};
use toml_edit::{DocumentMut, Item};

pub fn host() -> Host {
    Host { name: "node-0".into(), processors: 4 }
}

pub fn overrides(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn full(mode: &str, pairs: &[(&str, &str)]) -> Result<Resolved, ConfigError> {
    let intent = Intent { mode: mode.into(), overrides: overrides(pairs), ..Intent::default() };
    resolve(&intent, None, &host())
}

pub fn incremental(mode: &str, pairs: &[(&str, &str)], current: &Files) -> Result<Resolved, ConfigError> {
    let intent =
        Intent { mode: mode.into(), overrides: overrides(pairs), incremental: true, ..Intent::default() };
    resolve(&intent, Some(current), &host())
}

/// Returns the TOML literal at a path.
pub fn value(files: &Files, file: File, path: &str) -> Option<String> {
    let text = if file == File::Config { &files.config } else { &files.app };
    let document: DocumentMut = text.parse().unwrap();
    let item = match path.split_once('.') {
        None => document.get(path),
        Some((table, key)) => document.get(table).and_then(|table| table.get(key)),
    };
    item.and_then(Item::as_value).map(|value| value.clone().decorated("", "").to_string())
}

pub fn config(files: &Files, path: &str) -> String {
    value(files, File::Config, path).unwrap_or_else(|| panic!("config.toml has no {path}"))
}

pub fn app(files: &Files, path: &str) -> String {
    value(files, File::App, path).unwrap_or_else(|| panic!("app.toml has no {path}"))
}

/// Returns the findings of a rejected configuration.
pub fn rejected(result: Result<Resolved, ConfigError>) -> Vec<Finding> {
    match result {
        Err(ConfigError::Invalid(findings)) => findings,
        other => panic!("not rejected by validation: {other:?}"),
    }
}

/// Returns the fields of errors.
pub fn errors(findings: &[Finding]) -> Vec<&str> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| finding.field.as_str()).collect()
}

/// Returns the fields of warnings.
pub fn warnings(findings: &[Finding]) -> Vec<&str> {
    let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning);
    warnings.map(|finding| finding.field.as_str()).collect()
}

/// Returns pairs of differing lines.
pub fn changed<'a>(before: &'a str, after: &'a str) -> Vec<(&'a str, &'a str)> {
    assert_eq!(before.lines().count(), after.lines().count());
    before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect()
}
