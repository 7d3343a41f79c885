//! Validates settings and collects every error, so that all of them are reported together.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use runtime::settings::parse::{boolean, optional_duration};

use super::Settings;
use crate::flags::{DeprecatedFlag, ValueKind, parse_list};
use crate::request::protected::ProtectedHeaders;

/// All invalid settings, one line each.
#[derive(Debug)]
pub struct InvalidSettings(Vec<String>);

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, message) in self.0.iter().enumerate() {
            write!(f, "{}{message}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidSettings {}

/// Collects errors and warnings.
#[derive(Debug, Default)]
pub(super) struct Validator {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Validator {
    pub(super) fn error(&mut self, message: impl Into<String>) {
        let message = message.into();
        // Two settings that depend on the same flag find the same error.
        if !self.errors.contains(&message) {
            self.errors.push(message);
        }
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    pub(super) fn boolean(&mut self, flag: &str, text: &str) -> bool {
        boolean(text).unwrap_or_else(|reason| {
            self.error(format!("--{flag}: {reason}"));
            false
        })
    }

    pub(super) fn number<T: FromStr + Default>(&mut self, flag: &str, text: &str) -> T {
        text.parse().unwrap_or_else(|_| {
            self.error(format!("--{flag}: {text:?} is not a valid number or is out of range"));
            T::default()
        })
    }

    pub(super) fn duration(&mut self, flag: &str, text: &str) -> Duration {
        self.parse_duration(flag, text).unwrap_or_default()
    }

    pub(super) fn positive(&mut self, flag: &str, text: &str) -> Duration {
        let duration = self.parse_duration(flag, text);
        if duration == Some(Duration::ZERO) {
            self.error(format!("--{flag}: must be greater than 0"));
        }
        duration.unwrap_or_default()
    }

    /// Parses a duration. Plain `0` is accepted without a unit, because manifests for kube-rbac-proxy contain
    /// it.
    fn parse_duration(&mut self, flag: &str, text: &str) -> Option<Duration> {
        let parsed = match text.strip_prefix('-') {
            Some(_) => Err(format!("negative duration {text:?}: expected for example 500ms, 90s or 1m30s")),
            None => optional_duration(text),
        };
        parsed.map_err(|reason| self.error(format!("--{flag}: {reason}"))).ok().map(Option::unwrap_or_default)
    }

    pub(super) fn list(&mut self, flag: &str, flag_values: &[String]) -> Vec<String> {
        parse_list(flag_values).unwrap_or_else(|| {
            self.error(format!("--{flag}: misplaced quote in {:?}", flag_values.join(" ")));
            Vec::new()
        })
    }

    pub(super) fn deprecated(&mut self, flag: &DeprecatedFlag<'_>) {
        let is_valid = match flag.kind {
            ValueKind::Bool => boolean(flag.value).is_ok(),
            ValueKind::Text => true,
            ValueKind::Number => flag.value.parse::<u64>().is_ok(),
        };
        if !is_valid {
            self.error(format!("--{}: invalid value {:?}", flag.name, flag.value));
        }
        self.warn(format!("--{} is deprecated and has no effect: logs go to standard output", flag.name));
    }

    /// Returns the settings, unless there were errors.
    pub(super) fn finish(mut self, mut settings: Settings) -> Result<Settings, InvalidSettings> {
        let identity = ProtectedHeaders::new(settings.authentication.protected.iter().map(String::as_str));
        if let Some(name) = settings.configuration.mode.subresource_header()
            && identity.covers(name.as_str())
        {
            self.error(format!(
                "--config-file: authorization.subresourceFromHeader: {name} is an identity header, which only the proxy sets: choose another header"
            ));
        }
        if !self.errors.is_empty() {
            return Err(InvalidSettings(self.errors));
        }
        self.warnings.append(&mut settings.configuration.warnings);
        if settings.configuration.mode == crate::config::AuthorizationMode::Path {
            self.warn("no resourceAttributes configured (--config-file): requests are authorized by path, and the default ClusterRole system:discovery allows every authenticated user to read /api/*, /apis/*, /healthz, /version and others");
        }
        if settings.insecure_address.is_some()
            && settings.authentication.audiences.is_empty()
            && settings.oidc.is_none()
        {
            self.warn("tokens cross the network in clear text and are also valid for the API server: set --auth-token-audiences and use projected tokens with that audience");
        }
        settings.warnings = self.warnings;
        Ok(settings)
    }
}
