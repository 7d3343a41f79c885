//! Configuration intents and their resolution into files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::current::CurrentFiles;
use super::document::FileError;
use super::error::ConfigError;
use super::finding::{Finding, Findings, is_usable};
use super::host::Host;
use super::mode::Mode;
use super::render::render;
use super::rules;
use super::settings::{CURRENT_VERSION, Files, MODE, Settings, VERSION};
use super::table;
use super::value::Value;

/// Desired configuration: the parameters of `config-apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Intent {
    /// Mode whose defaults apply. An incremental intent changes the mode label only, not the defaults.
    pub mode: String,
    /// Overrides of defaults: dotted keys to values.
    pub overrides: BTreeMap<String, String>,
    /// Schema version of the settings; 0 selects the latest.
    pub target_version: i64,
    /// Changes the existing files instead of replacing them.
    pub incremental: bool,
}

/// Valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Contents of both files.
    pub files: Files,
    /// Schema version of the settings.
    pub version: i64,
    /// Mode.
    pub mode: Mode,
    /// Warnings.
    pub findings: Vec<Finding>,
}

/// Result of `config-validate` for the existing files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidationReport {
    /// Whether the configuration has no errors.
    pub valid: bool,
    /// Schema version of the settings.
    pub version: i64,
    /// Mode label in the files, not necessarily valid.
    pub mode: String,
    /// Errors and warnings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Finding>,
}

/// Validates an intent without its files, so that the operator can report errors before it submits the task.
#[must_use]
pub fn check_intent(intent: &Intent) -> Vec<Finding> {
    let mut out = Findings::default();
    match intent.mode.parse::<Mode>() {
        Ok(_) => {}
        Err(_) if intent.incremental && intent.mode.is_empty() => {}
        Err(_) if intent.mode.is_empty() => out.error(MODE, ConfigError::MissingMode.to_string()),
        Err(error) => out.error(MODE, error.to_string()),
    }
    if intent.target_version > CURRENT_VERSION {
        out.error(
            "targetVersion",
            format!("{} is above {CURRENT_VERSION}, the latest supported version", intent.target_version),
        );
    }
    for (key, value) in &intent.overrides {
        if let Err(error) = parse_override(key, value) {
            out.error(&format!("overrides.{key}"), error.to_string());
        }
    }
    out.0
}

/// Resolves an intent into files. The current files are read for incremental intents only.
pub fn resolve(intent: &Intent, current: Option<&Files>, host: &Host) -> Result<Resolved, ConfigError> {
    if intent.incremental {
        return resolve_incremental(intent, current.ok_or(ConfigError::MissingFiles)?, host);
    }
    if intent.mode.is_empty() {
        return Err(ConfigError::MissingMode);
    }
    let mut settings = Settings::defaults_for(intent.mode.parse()?, host);
    settings.set(VERSION, Value::Int(desired_version(intent)));
    apply_overrides(&mut settings, &intent.overrides)?;
    let findings = check_settings(&settings, intent)?;
    to_resolved(&settings, render(&settings), findings)
}

fn resolve_incremental(intent: &Intent, current: &Files, host: &Host) -> Result<Resolved, ConfigError> {
    let existing = CurrentFiles::read(current, host)?;
    let mut settings = existing.settings.clone();
    if !intent.mode.is_empty() {
        settings.set(MODE, Value::Text(intent.mode.clone()));
    }
    apply_overrides(&mut settings, &intent.overrides)?;
    let findings = check_settings(&settings, intent)?;
    let files = existing.render_with(&settings, |_| true)?;
    to_resolved(&settings, files, findings)
}

/// Changes reloadable settings of a running node. Nothing else in the files changes.
pub fn reload(
    fields: &BTreeMap<String, String>,
    current: &Files,
    host: &Host,
) -> Result<Resolved, ConfigError> {
    if fields.is_empty() {
        return Err(ConfigError::EmptyReload);
    }
    if let Some(unknown) = fields.keys().find(|key| table::find(key).is_none()) {
        return Err(ConfigError::UnknownKey(unknown.clone()));
    }
    let restart_only = |key: &&String| table::find(key).is_some_and(|field| !field.reloadable);
    let restart_only: Vec<&str> = fields.keys().filter(restart_only).map(String::as_str).collect();
    if !restart_only.is_empty() {
        return Err(ConfigError::NotReloadable(restart_only.join(", ")));
    }
    edit(fields, current, host)
}

/// Sets the given settings in the current files. Nothing else in the files changes.
pub fn edit(
    overrides: &BTreeMap<String, String>,
    current: &Files,
    host: &Host,
) -> Result<Resolved, ConfigError> {
    let existing = CurrentFiles::read(current, host)?;
    let mut settings = existing.settings.clone();
    apply_overrides(&mut settings, overrides)?;
    let intent = Intent { overrides: overrides.clone(), ..Intent::default() };
    let findings = check_settings(&settings, &intent)?;
    let files = existing.render_with(&settings, |key| overrides.contains_key(key))?;
    to_resolved(&settings, files, findings)
}

/// Validates the current files.
pub fn validate(current: &Files, host: &Host) -> Result<ValidationReport, FileError> {
    let existing = CurrentFiles::read(current, host)?;
    let mut findings = Findings(rules::check(&existing.settings, CURRENT_VERSION));
    if let Some(other) = existing.conflicting_mode {
        findings.warning(
            MODE,
            format!(
                "app.toml has {} but config.toml has {other}, which seid uses; apply the intended mode",
                existing.settings.text(MODE)
            ),
        );
    }
    Ok(ValidationReport {
        valid: is_usable(&findings.0),
        version: existing.settings.int(VERSION),
        mode: existing.settings.text(MODE).into(),
        diagnostics: findings.0,
    })
}

fn desired_version(intent: &Intent) -> i64 {
    if intent.target_version > 0 { intent.target_version } else { CURRENT_VERSION }
}

fn parse_override(key: &str, text: &str) -> Result<(&'static table::Field, Value), ConfigError> {
    let field = table::find(key).ok_or_else(|| ConfigError::UnknownKey(key.into()))?;
    let value = Value::parse(field.kind, text).map_err(|why| ConfigError::Value {
        key: key.into(),
        value: text.into(),
        why,
    })?;
    Ok((field, value))
}

fn apply_overrides(settings: &mut Settings, overrides: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    for (key, text) in overrides {
        let (field, value) = parse_override(key, text)?;
        settings.set(field.key, value);
    }
    Ok(())
}

/// Validates settings and returns the warnings. An unsupported version is rejected here, before it is written.
fn check_settings(settings: &Settings, intent: &Intent) -> Result<Vec<Finding>, ConfigError> {
    let mut findings = Findings(rules::check(settings, desired_version(intent).min(CURRENT_VERSION)));
    for key in intent.overrides.keys() {
        if let Some(why) = no_effect_warning(key) {
            findings.warning(key, why);
        }
    }
    if is_usable(&findings.0) { Ok(findings.0) } else { Err(ConfigError::Invalid(findings.0)) }
}

/// Returns a warning for an override that is accepted but has no effect.
fn no_effect_warning(key: &str) -> Option<&'static str> {
    match key {
        "chain.chain_id" => Some("has no effect: the chain ID comes from the genesis file and client.toml"),
        "evm.block_test.enabled"
        | "evm.block_test.test_data_path"
        | "storage.state_store.write_mode"
        | "storage.state_store.read_mode"
        | "storage.state_store.evm_db_directory"
        | "storage.state_store.keep_last_version"
        | "storage.state_store.use_default_comparer"
        | "storage.receipt_store.tx_index_backend" => Some("has no effect: seid does not read this key"),
        _ => None,
    }
}

fn to_resolved(settings: &Settings, files: Files, findings: Vec<Finding>) -> Result<Resolved, ConfigError> {
    Ok(Resolved { files, version: settings.int(VERSION), mode: settings.text(MODE).parse()?, findings })
}
