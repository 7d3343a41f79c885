//! Complete settings of one node.

use std::collections::BTreeMap;

use super::host::Host;
use super::mode::Mode;
use super::table::{self, LineContent};
use super::value::Value;

/// Contents of the two configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// `config.toml`.
    pub config: String,
    /// `app.toml`.
    pub app: String,
}

/// Complete settings of one node. An absent setting is not written.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    values: BTreeMap<&'static str, Value>,
}

/// Key of the mode.
pub(crate) const MODE: &str = "mode";
/// Key of the schema version.
pub(crate) const VERSION: &str = "version";
/// Latest supported schema version of the settings.
pub const CURRENT_VERSION: i64 = 1;

impl Settings {
    /// Returns the defaults of a mode.
    #[must_use]
    pub fn defaults_for(mode: Mode, host: &Host) -> Self {
        let values = table::fields()
            .filter_map(|(field, _)| field.default_in(mode, host).map(|value| (field.key, value)))
            .collect();
        Self { values }
    }

    /// Returns the value of a setting, unless it is absent.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    pub(crate) fn set(&mut self, key: &'static str, value: Value) {
        self.values.insert(key, value);
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        match self.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn int(&self, key: &str) -> i64 {
        match self.get(key) {
            Some(Value::Int(number) | Value::Duration(number)) => *number,
            _ => 0,
        }
    }

    pub(crate) fn float(&self, key: &str) -> f64 {
        match self.get(key) {
            Some(Value::Float(number)) => *number,
            _ => 0.0,
        }
    }

    pub(crate) fn bool(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Value::Bool(true)))
    }

    pub(crate) fn list(&self, key: &str) -> &[String] {
        match self.get(key) {
            Some(Value::List(texts)) => texts,
            _ => &[],
        }
    }

    /// Returns the TOML literal of a line, unless its setting is absent.
    pub(crate) fn literal(&self, content: &LineContent) -> Option<String> {
        match content {
            LineContent::Setting(field) => Some(self.get(field.key)?.literal(field.kind)),
            // seid rejects the mode `archive`.
            LineContent::Copy(MODE) => {
                let label = self.text(MODE);
                let name = label.parse::<Mode>().map_or(label, |mode| mode.name_in_config_toml());
                Some(super::value::quote(name))
            }
            LineContent::Copy(key) => Some(self.get(key)?.literal(table::find(key)?.kind)),
            LineContent::Constant(text) => Some(super::value::quote(text)),
        }
    }
}
