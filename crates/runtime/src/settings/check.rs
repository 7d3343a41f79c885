//! Collects what is wrong with settings, so that all of it is told at once.

use std::fmt;

use clap::Command;

use super::given;

/// What is wrong with the settings: one line for each, with the flag, the environment variable and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    who: &'static str,
    lines: Vec<String>,
}

impl Problems {
    /// One line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} cannot start with these settings:", self.who)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Problems {}

/// A check of all settings. Names and help come from the arguments themselves: they cannot differ from what is accepted.
#[derive(Debug)]
pub struct Check {
    command: Command,
    problems: Problems,
}

impl Check {
    /// Checks arguments of this type, which are those of somebody with this name.
    #[must_use]
    pub fn of<A: clap::Args>(who: &'static str) -> Self {
        Self { command: A::augment_args(Command::new(who)), problems: Problems { who, lines: Vec::new() } }
    }

    /// A setting that must be given. What is returned in its stead is never used: there is a problem then.
    pub fn required<T: Default>(
        &mut self,
        (id, value): (&str, &Option<String>),
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        let Some(text) = given(value.as_deref()) else {
            let help = self.help(id);
            self.say(id, format!("is missing: {help}"));
            return T::default();
        };
        self.take(id, read(text)).unwrap_or_default()
    }

    /// A setting that may be left out, or be empty.
    pub fn optional<T>(
        &mut self,
        (id, value): (&str, &Option<String>),
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = given(value.as_deref())?;
        self.take(id, read(text))
    }

    /// A setting that has a default.
    pub fn read<T>(
        &mut self,
        (id, value): (&str, &String),
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = given(Some(value)) else {
            self.say(id, "is empty: leave it out for its default");
            return None;
        };
        self.take(id, read(text))
    }

    /// A setting that is a list.
    pub fn each<T>(
        &mut self,
        (id, values): (&str, &Vec<String>),
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let given = values.iter().filter_map(|value| given(Some(value)));
        given.filter_map(|text| self.take(id, read(text))).collect()
    }

    fn take<T>(&mut self, id: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|why| self.say(id, why)).ok()
    }

    /// Adds a problem with a setting.
    pub fn say(&mut self, id: &str, what: impl fmt::Display) {
        let line = format!("{}: {what}", self.name(id));
        self.problems.lines.push(line);
    }

    /// A setting as people write it: `--log-level (OUTRIGGER_LOG_LEVEL)`.
    #[must_use]
    pub fn name(&self, id: &str) -> String {
        let found = self.command.get_arguments().find(|arg| arg.get_id() == id);
        let flag = found.and_then(|arg| arg.get_long()).unwrap_or(id);
        match found.and_then(|arg| arg.get_env()) {
            Some(env) => format!("--{flag} ({})", env.to_string_lossy()),
            None => format!("--{flag}"),
        }
    }

    /// What a setting says.
    #[must_use]
    pub fn help(&self, id: &str) -> String {
        let found = self.command.get_arguments().find(|arg| arg.get_id() == id);
        found.and_then(|arg| arg.get_help()).map(ToString::to_string).unwrap_or_default()
    }

    /// All problems, if there are any.
    pub fn end(self) -> Result<(), Problems> {
        if self.problems.lines.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting;

    #[derive(Debug, clap::Args)]
    struct Args {
        /// How far
        #[arg(long, env = "FAR")]
        far: Option<String>,
        #[arg(long, default_value = "1")]
        count: String,
        #[arg(long)]
        sizes: Vec<String>,
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_by_its_name() {
        let args = Args {
            far: Some("  ".into()),
            count: String::new(),
            sizes: ["1", "", "x"].map(str::to_owned).to_vec(),
        };
        let mut check = Check::of::<Args>("walker");
        let number = |text: &str| text.parse::<u8>().map_err(|_| format!("{text:?} is no number"));
        assert_eq!(check.required(setting!(args.far), number), 0);
        assert_eq!(check.optional(setting!(args.far), number), None);
        assert_eq!(check.read(setting!(args.count), number), None);
        assert_eq!(check.each(setting!(args.sizes), number), [1]);
        assert_eq!(
            check.end().unwrap_err().to_string(),
            "the walker cannot start with these settings:\n  --far (FAR): is missing: How far\n  \
             --count: is empty: leave it out for its default\n  --sizes: \"x\" is no number"
        );
    }
}
