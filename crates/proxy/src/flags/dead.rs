//! Logging flags that have had no effect for years. Thousands of manifests still pass them, so they are taken, with a warning.

/// Flags without effect.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DeadArgs {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    one_output: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_headers: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    log_backtrace_at: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    log_dir: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    log_file: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    stderrthreshold: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    log_file_max_size: Option<String>,
}

/// A dead flag that was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Given<'a> {
    /// Its name.
    pub(crate) name: &'static str,
    /// What was given.
    pub(crate) value: &'a str,
    /// What it must be, although it has no effect.
    pub(crate) kind: Kind,
}

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// true or false.
    Bool,
    /// Anything.
    Text,
    /// A count.
    Number,
}

impl DeadArgs {
    /// Those that were given.
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        [
            ("logtostderr", &self.logtostderr, Kind::Bool),
            ("alsologtostderr", &self.alsologtostderr, Kind::Bool),
            ("add-dir-header", &self.add_dir_header, Kind::Bool),
            ("one-output", &self.one_output, Kind::Bool),
            ("skip-headers", &self.skip_headers, Kind::Bool),
            ("skip-log-headers", &self.skip_log_headers, Kind::Bool),
            ("log-backtrace-at", &self.log_backtrace_at, Kind::Text),
            ("log-dir", &self.log_dir, Kind::Text),
            ("log-file", &self.log_file, Kind::Text),
            ("stderrthreshold", &self.stderrthreshold, Kind::Text),
            ("log-file-max-size", &self.log_file_max_size, Kind::Number),
        ]
        .into_iter()
        .filter_map(|(name, value, kind)| Some(Given { name, value: value.as_deref()?, kind }))
        .collect()
    }
}
