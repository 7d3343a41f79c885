//! Raw command line. Arguments of the proxy follow the conventions of kube-rbac-proxy.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

/// Normalized command line.
pub(crate) struct CommandLine {
    pub(crate) args: Vec<OsString>,
    /// The subcommand is `proxy`: errors and exit codes follow kube-rbac-proxy.
    pub(crate) is_proxy: bool,
}

impl CommandLine {
    /// Normalizes the arguments, including the program name.
    pub(crate) fn new(args: impl Iterator<Item = OsString>) -> Self {
        let mut raw = args.peekable();
        let program = raw.next().unwrap_or_else(|| "outrigger".into());
        let is_named_proxy = proxy::flags::invoked_as_kube_rbac_proxy(&program);
        let is_proxy = is_named_proxy || raw.peek().is_some_and(|arg| arg == "proxy");
        if !is_proxy {
            return Self { args: std::iter::once(program).chain(raw).collect(), is_proxy };
        }
        if !is_named_proxy {
            raw.next();
        }
        let mut args: Vec<OsString> = vec!["outrigger".into(), "proxy".into()];
        args.extend(proxy::flags::normalize_args(raw));
        Self { args, is_proxy }
    }

    /// Prints a parse error, help or version, and returns the exit code.
    pub(crate) fn report_error(&self, error: &clap::Error) -> ExitCode {
        let is_display = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if !self.is_proxy || is_display {
            // The reader may have closed the pipe.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        }
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default();
        eprintln!("Error: {}", message.strip_prefix("error: ").unwrap_or(message));
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(args: &[&str]) -> (Vec<String>, bool) {
        let line = CommandLine::new(args.iter().map(OsString::from));
        (line.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(), line.is_proxy)
    }

    #[test]
    fn binary_name_selects_proxy_subcommand() {
        let check = |args: &[&str], expected: &[&str], is_proxy: bool| {
            let expected = expected.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
            assert_eq!(normalize(args), (expected, is_proxy), "{args:?}");
        };
        check(
            &["/bin/kube-rbac-proxy", "--allow_paths=/a_b"],
            &["outrigger", "proxy", "--allow-paths=/a_b"],
            true,
        );
        check(&["outrigger", "proxy", "--v=1"], &["outrigger", "proxy", "--v=1"], true);
        check(&["outrigger", "operator", "--a_b"], &["outrigger", "operator", "--a_b"], false);
        check(&["outrigger"], &["outrigger"], false);
    }
}
