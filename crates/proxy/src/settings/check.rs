//! A check of all settings: every problem is remembered, and none ends it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use runtime::settings::text::{boolean, duration_or_none};

use super::Settings;
use crate::flags::{Given, Kind, split_all};

/// All that is wrong, one line each.
#[derive(Debug)]
pub struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.iter().enumerate() {
            write!(f, "{}{line}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The check.
#[derive(Debug, Default)]
pub(super) struct Check {
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Check {
    pub(super) fn problem(&mut self, line: impl Into<String>) {
        let line = line.into();
        // Two settings that depend on one flag find the same.
        if !self.problems.contains(&line) {
            self.problems.push(line);
        }
    }

    pub(super) fn warn(&mut self, line: impl Into<String>) {
        self.warnings.push(line.into());
    }

    pub(super) fn boolean(&mut self, flag: &str, text: &str) -> bool {
        boolean(text).unwrap_or_else(|why| {
            self.problem(format!("--{flag}: {why}"));
            false
        })
    }

    pub(super) fn number<T: FromStr + Default>(&mut self, flag: &str, text: &str) -> T {
        text.parse().unwrap_or_else(|_| {
            self.problem(format!("--{flag}: {text:?} is no number, or out of its range"));
            T::default()
        })
    }

    pub(super) fn duration(&mut self, flag: &str, text: &str) -> Duration {
        self.time(flag, text).unwrap_or_default()
    }

    pub(super) fn positive(&mut self, flag: &str, text: &str) -> Duration {
        let time = self.time(flag, text);
        if time == Some(Duration::ZERO) {
            self.problem(format!("--{flag}: must be longer than nothing"));
        }
        time.unwrap_or_default()
    }

    /// No time at all where it says so: manifests say `0` to kube-rbac-proxy.
    fn time(&mut self, flag: &str, text: &str) -> Option<Duration> {
        let read = match text.strip_prefix('-') {
            Some(_) => Err(format!("{text:?} is less than no time: use one like 500ms, 90s or 1m30s")),
            None => duration_or_none(text),
        };
        read.map_err(|why| self.problem(format!("--{flag}: {why}"))).ok().map(Option::unwrap_or_default)
    }

    pub(super) fn list(&mut self, flag: &str, given: &[String]) -> Vec<String> {
        split_all(given).unwrap_or_else(|| {
            self.problem(format!("--{flag}: {:?} has a quote in the wrong place", given.join(" ")));
            Vec::new()
        })
    }

    pub(super) fn dead(&mut self, given: &Given<'_>) {
        let fits = match given.kind {
            Kind::Bool => boolean(given.value).is_ok(),
            Kind::Text => true,
            Kind::Number => given.value.parse::<u64>().is_ok(),
        };
        if !fits {
            self.problem(format!("--{}: {:?} is not of its kind", given.name, given.value));
        }
        self.warn(format!("--{} has no effect and will be removed: logs go to standard output", given.name));
    }

    /// The settings, unless something was wrong.
    pub(super) fn finish(mut self, mut settings: Settings) -> Result<Settings, Problems> {
        if !self.problems.is_empty() {
            return Err(Problems(self.problems));
        }
        self.warnings.append(&mut settings.configuration.warnings);
        if settings.configuration.question == crate::config::Question::Path {
            // W18: system:discovery lets everybody who is known read these.
            self.warn("without resourceAttributes in --config-file requests are checked by their path, and every cluster lets everybody who is known read /api/*, /apis/*, /healthz, /version and others");
        }
        if settings.insecure.is_some() && settings.audiences.is_empty() && settings.oidc.is_none() {
            // W12.
            self.warn("tokens cross the network in clear text and are good for the API server too: set --auth-token-audiences, and give callers projected tokens of that audience");
        }
        settings.warnings = self.warnings;
        Ok(settings)
    }
}
