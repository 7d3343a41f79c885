//! Validates settings and collects all problems.

use std::fmt;

use clap::Command;

use super::non_empty;

/// All invalid settings: one line each, with the flag, the environment variable and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSettings {
    component: &'static str,
    lines: Vec<String>,
}

impl InvalidSettings {
    /// Returns one line per invalid setting.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid settings of the {}:", self.component)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for InvalidSettings {}

/// Validates settings. Flag names and help texts in messages come from the clap definitions.
#[derive(Debug)]
pub struct Validator {
    command: Command,
    problems: InvalidSettings,
}

impl Validator {
    /// Creates a validator for the flags `A` of a component, which is named in the error.
    #[must_use]
    pub fn new<A: clap::Args>(component: &'static str) -> Self {
        let command = A::augment_args(Command::new(component));
        Self { command, problems: InvalidSettings { component, lines: Vec::new() } }
    }

    /// Parses a required setting. If it is missing or invalid, reports a problem and returns a placeholder.
    pub fn required<T: Default>(
        &mut self,
        (id, value): (&str, &Option<String>),
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        let Some(text) = non_empty(value.as_deref()) else {
            let help = self.help(id);
            self.add_problem(id, format!("required: {help}"));
            return T::default();
        };
        self.accept(id, parse(text)).unwrap_or_default()
    }

    /// Parses a setting that may be unset or empty.
    pub fn optional<T>(
        &mut self,
        (id, value): (&str, &Option<String>),
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = non_empty(value.as_deref())?;
        self.accept(id, parse(text))
    }

    /// Parses a setting that has a default.
    pub fn read<T>(
        &mut self,
        (id, value): (&str, &String),
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = non_empty(Some(value)) else {
            self.add_problem(id, "must not be empty: omit it to use the default");
            return None;
        };
        self.accept(id, parse(text))
    }

    /// Parses a list, skipping empty elements.
    pub fn list<T>(
        &mut self,
        (id, values): (&str, &Vec<String>),
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let texts = values.iter().filter_map(|value| non_empty(Some(value)));
        texts.filter_map(|text| self.accept(id, parse(text))).collect()
    }

    fn accept<T>(&mut self, id: &str, parsed: Result<T, String>) -> Option<T> {
        parsed.map_err(|error| self.add_problem(id, error)).ok()
    }

    /// Reports a problem with a setting.
    pub fn add_problem(&mut self, id: &str, problem: impl fmt::Display) {
        let line = format!("{}: {problem}", self.flag_name(id));
        self.problems.lines.push(line);
    }

    /// Returns the flag and the environment variable of a setting: `--log-level (OUTRIGGER_LOG_LEVEL)`.
    #[must_use]
    pub fn flag_name(&self, id: &str) -> String {
        let arg = self.command.get_arguments().find(|arg| arg.get_id() == id);
        let flag = arg.and_then(|arg| arg.get_long()).unwrap_or(id);
        match arg.and_then(|arg| arg.get_env()) {
            Some(env) => format!("--{flag} ({})", env.to_string_lossy()),
            None => format!("--{flag}"),
        }
    }

    /// Returns the help text of a setting.
    #[must_use]
    pub fn help(&self, id: &str) -> String {
        let arg = self.command.get_arguments().find(|arg| arg.get_id() == id);
        arg.and_then(|arg| arg.get_help()).map(ToString::to_string).unwrap_or_default()
    }

    /// Fails with all reported problems, if there are any.
    pub fn finish(self) -> Result<(), InvalidSettings> {
        if self.problems.lines.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting;

    #[derive(Debug, clap::Args)]
    struct Args {
        /// Distance in km
        #[arg(long, env = "DISTANCE")]
        distance: Option<String>,
        #[arg(long, default_value = "1")]
        count: String,
        #[arg(long)]
        sizes: Vec<String>,
    }

    #[test]
    fn all_invalid_settings_are_reported_together() {
        let args = Args {
            distance: Some("  ".into()),
            count: String::new(),
            sizes: ["1", "", "x"].map(str::to_owned).to_vec(),
        };
        let mut validator = Validator::new::<Args>("walker");
        let number = |text: &str| text.parse::<u8>().map_err(|_| format!("invalid number {text:?}"));
        assert_eq!(validator.required(setting!(args.distance), number), 0);
        assert_eq!(validator.optional(setting!(args.distance), number), None);
        assert_eq!(validator.read(setting!(args.count), number), None);
        assert_eq!(validator.list(setting!(args.sizes), number), [1]);
        assert_eq!(
            validator.finish().unwrap_err().to_string(),
            "invalid settings of the walker:\n  --distance (DISTANCE): required: Distance in km\n  \
             --count: must not be empty: omit it to use the default\n  --sizes: invalid number \"x\""
        );
    }
}
