//! Collects what is wrong with settings, so that all of it is told at once.

use std::fmt;

use clap::Command;

use super::args::Args;

/// A setting by its name in the arguments, with its value: `setting!(args.log_level)`.
macro_rules! setting {
    ($args:ident . $name:ident) => {
        (stringify!($name), &$args.$name)
    };
}
pub(super) use setting;

/// What is wrong with the settings: one line for each, with the flag, the environment variable and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl Problems {
    /// One line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the aggregator cannot start with these settings:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Problems {}

/// A check of all settings. Names come from the arguments themselves: they cannot differ from what is accepted.
#[derive(Debug)]
pub(super) struct Check {
    command: Command,
    problems: Vec<String>,
}

impl Check {
    pub(super) fn new() -> Self {
        let command = <Args as clap::Args>::augment_args(Command::new("kms-aggregator"));
        Self { command, problems: Vec::new() }
    }

    /// A setting that may be left out, or be empty.
    pub(super) fn optional<T>(
        &mut self,
        (id, value): (&str, &Option<String>),
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = super::given(value.as_deref())?;
        self.take(id, read(text))
    }

    /// A setting that has a default.
    pub(super) fn read<T>(
        &mut self,
        (id, value): (&str, &String),
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = super::given(Some(value)) else {
            self.say(id, "is empty: leave it out for its default");
            return None;
        };
        self.take(id, read(text))
    }

    /// A setting that is a list.
    pub(super) fn each<T>(
        &mut self,
        (id, values): (&str, &Vec<String>),
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let given = values.iter().filter_map(|value| super::given(Some(value)));
        given.filter_map(|text| self.take(id, read(text))).collect()
    }

    fn take<T>(&mut self, id: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|why| self.say(id, why)).ok()
    }

    /// Adds a problem with a setting.
    pub(super) fn say(&mut self, id: &str, what: impl fmt::Display) {
        let found = self.command.get_arguments().find(|arg| arg.get_id() == id);
        let flag = found.and_then(|arg| arg.get_long()).unwrap_or(id);
        let name = match found.and_then(|arg| arg.get_env()) {
            Some(env) => format!("--{flag} ({})", env.to_string_lossy()),
            None => format!("--{flag}"),
        };
        self.problems.push(format!("{name}: {what}"));
    }

    pub(super) fn end(self) -> Result<(), Problems> {
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }
}
