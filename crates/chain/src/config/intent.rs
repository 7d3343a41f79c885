//! What somebody wants a node's configuration to be, and what becomes of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::document::FileError;
use super::error::ConfigError;
use super::finding::{Finding, Findings, usable};
use super::host::Host;
use super::mode::Mode;
use super::present::Present;
use super::render::render;
use super::rules;
use super::settings::{CURRENT_VERSION, Files, MODE, Settings, VERSION};
use super::table;
use super::value::Value;

/// What somebody wants: the parameters of `config-apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Intent {
    /// The mode whose defaults to begin with; an incremental intent only changes the label.
    pub mode: String,
    /// Settings that differ: dotted keys to values.
    pub overrides: BTreeMap<String, String>,
    /// The version of the settings; 0 for the newest.
    pub target_version: i64,
    /// Change the files that are there, instead of writing them anew.
    pub incremental: bool,
}

/// A configuration that may be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Both files.
    pub files: Files,
    /// The version of the settings.
    pub version: i64,
    /// The mode.
    pub mode: Mode,
    /// What somebody should look at: warnings only.
    pub findings: Vec<Finding>,
}

/// What was found in the files that are there: what `config-validate` tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Whether the configuration may be used.
    pub valid: bool,
    /// The version of the settings.
    pub version: i64,
    /// The mode, as it stands there.
    pub mode: String,
    /// What was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Finding>,
}

/// What is wrong with an intent before any file is known: what an operator tells before it sends it.
#[must_use]
pub fn check_intent(intent: &Intent) -> Vec<Finding> {
    let mut out = Findings::default();
    match intent.mode.parse::<Mode>() {
        Ok(_) => {}
        Err(_) if intent.incremental && intent.mode.is_empty() => {}
        Err(_) if intent.mode.is_empty() => out.error(MODE, ConfigError::NoMode.to_string()),
        Err(error) => out.error(MODE, error.to_string()),
    }
    if intent.target_version > CURRENT_VERSION {
        out.error(
            "targetVersion",
            format!("{} is above {CURRENT_VERSION}, the newest that this build knows", intent.target_version),
        );
    }
    for (key, value) in &intent.overrides {
        if let Err(error) = parse_override(key, value) {
            out.error(&format!("overrides.{key}"), error.to_string());
        }
    }
    out.0
}

/// The files that an intent asks for. The ones that are there are looked at only when it is incremental.
pub fn resolve(intent: &Intent, current: Option<&Files>, host: &Host) -> Result<Resolved, ConfigError> {
    if intent.incremental {
        return change(intent, current.ok_or(ConfigError::NoFiles)?, host);
    }
    if intent.mode.is_empty() {
        return Err(ConfigError::NoMode);
    }
    let mut settings = Settings::of_mode(intent.mode.parse()?, host);
    settings.set(VERSION, Value::Int(wanted_version(intent)));
    override_with(&mut settings, &intent.overrides)?;
    let findings = judged(&settings, intent)?;
    resolved(&settings, render(&settings), findings)
}

fn change(intent: &Intent, current: &Files, host: &Host) -> Result<Resolved, ConfigError> {
    let present = Present::read(current, host)?;
    let mut settings = present.settings.clone();
    if !intent.mode.is_empty() {
        settings.set(MODE, Value::Text(intent.mode.clone()));
    }
    override_with(&mut settings, &intent.overrides)?;
    let findings = judged(&settings, intent)?;
    let files = present.written(&settings, |_| true)?;
    resolved(&settings, files, findings)
}

/// Changes settings of a node that runs: nothing else, and only those that it may take without a restart.
pub fn reload(
    fields: &BTreeMap<String, String>,
    current: &Files,
    host: &Host,
) -> Result<Resolved, ConfigError> {
    if fields.is_empty() {
        return Err(ConfigError::NothingToReload);
    }
    if let Some(unknown) = fields.keys().find(|key| table::find(key).is_none()) {
        return Err(ConfigError::UnknownKey(unknown.clone()));
    }
    let fixed = |key: &&String| table::find(key).is_some_and(|field| !field.reloadable);
    let fixed: Vec<&str> = fields.keys().filter(fixed).map(String::as_str).collect();
    if !fixed.is_empty() {
        return Err(ConfigError::NotReloadable(fixed.join(", ")));
    }
    edit(fields, current, host)
}

/// Sets some settings in the files that are there, and nothing else.
pub fn edit(
    overrides: &BTreeMap<String, String>,
    current: &Files,
    host: &Host,
) -> Result<Resolved, ConfigError> {
    let present = Present::read(current, host)?;
    let mut settings = present.settings.clone();
    override_with(&mut settings, overrides)?;
    let intent = Intent { overrides: overrides.clone(), ..Intent::default() };
    let findings = judged(&settings, &intent)?;
    let files = present.written(&settings, |key| overrides.contains_key(key))?;
    resolved(&settings, files, findings)
}

/// Judges the files that are there.
pub fn validate(current: &Files, host: &Host) -> Result<Report, FileError> {
    let present = Present::read(current, host)?;
    let mut findings = Findings(rules::check(&present.settings, CURRENT_VERSION));
    if let Some(other) = present.other_mode {
        findings.warning(
            MODE,
            format!(
                "app.toml says {}, and seid runs as {other}, which config.toml says; apply the mode that is meant",
                present.settings.text(MODE)
            ),
        );
    }
    Ok(Report {
        valid: usable(&findings.0),
        version: present.settings.int(VERSION),
        mode: present.settings.text(MODE).into(),
        diagnostics: findings.0,
    })
}

fn wanted_version(intent: &Intent) -> i64 {
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

fn override_with(settings: &mut Settings, overrides: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    for (key, text) in overrides {
        let (field, value) = parse_override(key, text)?;
        settings.set(field.key, value);
    }
    Ok(())
}

/// What was found, if the settings may be used. A version above ours is refused here and not only after it was written.
fn judged(settings: &Settings, intent: &Intent) -> Result<Vec<Finding>, ConfigError> {
    let mut findings = Findings(rules::check(settings, wanted_version(intent).min(CURRENT_VERSION)));
    for key in intent.overrides.keys() {
        if let Some(why) = without_effect(key) {
            findings.warning(key, why);
        }
    }
    if usable(&findings.0) { Ok(findings.0) } else { Err(ConfigError::Invalid(findings.0)) }
}

/// Why an override changes nothing, although it is taken.
fn without_effect(key: &str) -> Option<&'static str> {
    match key {
        "chain.chain_id" => Some("is written to no file; the genesis file and client.toml name the chain"),
        "evm.block_test.enabled"
        | "evm.block_test.test_data_path"
        | "storage.state_store.write_mode"
        | "storage.state_store.read_mode"
        | "storage.state_store.evm_db_directory"
        | "storage.state_store.keep_last_version"
        | "storage.state_store.use_default_comparer"
        | "storage.receipt_store.tx_index_backend" => {
            Some("is written where seid does not look, and changes nothing")
        }
        _ => None,
    }
}

fn resolved(settings: &Settings, files: Files, findings: Vec<Finding>) -> Result<Resolved, ConfigError> {
    Ok(Resolved { files, version: settings.int(VERSION), mode: settings.text(MODE).parse()?, findings })
}
