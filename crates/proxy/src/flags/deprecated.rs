//! klog flags that have had no effect for years. Many manifests still pass them, so they are accepted with a
//! warning.

/// Deprecated flags without effect.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DeprecatedArgs {
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

/// A deprecated flag that was passed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeprecatedFlag<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: &'a str,
    /// Values of another kind are still rejected.
    pub(crate) kind: ValueKind,
}

/// The kind of a flag value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// Any text.
    Text,
    /// A non-negative number.
    Number,
}

impl DeprecatedArgs {
    /// Returns the flags that were passed.
    pub(crate) fn passed(&self) -> Vec<DeprecatedFlag<'_>> {
        [
            ("logtostderr", &self.logtostderr, ValueKind::Bool),
            ("alsologtostderr", &self.alsologtostderr, ValueKind::Bool),
            ("add-dir-header", &self.add_dir_header, ValueKind::Bool),
            ("one-output", &self.one_output, ValueKind::Bool),
            ("skip-headers", &self.skip_headers, ValueKind::Bool),
            ("skip-log-headers", &self.skip_log_headers, ValueKind::Bool),
            ("log-backtrace-at", &self.log_backtrace_at, ValueKind::Text),
            ("log-dir", &self.log_dir, ValueKind::Text),
            ("log-file", &self.log_file, ValueKind::Text),
            ("stderrthreshold", &self.stderrthreshold, ValueKind::Text),
            ("log-file-max-size", &self.log_file_max_size, ValueKind::Number),
        ]
        .into_iter()
        .filter_map(|(name, value, kind)| Some(DeprecatedFlag { name, value: value.as_deref()?, kind }))
        .collect()
    }
}
