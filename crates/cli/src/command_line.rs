//! The words of a command line. Those of the proxy follow the rules of the program that it stands in for.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

/// The words, as our parser takes them.
pub(crate) struct Words {
    pub(crate) all: Vec<OsString>,
    /// They are for the proxy: what is wrong with them is told and ended as kube-rbac-proxy does.
    pub(crate) are_the_proxys: bool,
}

impl Words {
    /// Reads what the binary was called as, and with.
    pub(crate) fn of(words: impl Iterator<Item = OsString>) -> Self {
        let mut words = words.peekable();
        let program = words.next().unwrap_or_else(|| "outrigger".into());
        let by_name = proxy::flags::called_as_upstream(&program);
        let are_the_proxys = by_name || words.peek().is_some_and(|word| word == "proxy");
        if !are_the_proxys {
            return Self { all: std::iter::once(program).chain(words).collect(), are_the_proxys };
        }
        if !by_name {
            words.next();
        }
        let mut all: Vec<OsString> = vec!["outrigger".into(), "proxy".into()];
        all.extend(proxy::flags::normalized(words));
        Self { all, are_the_proxys }
    }

    /// Tells what is wrong with them, or shows what was asked for.
    pub(crate) fn refuse(&self, error: &clap::Error) -> ExitCode {
        let is_shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if !self.are_the_proxys || is_shown {
            // Whoever reads our output may have seen enough.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        }
        let text = error.to_string();
        let why = text.lines().next().unwrap_or_default();
        eprintln!("Error: {}", why.strip_prefix("error: ").unwrap_or(why));
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(given: &[&str]) -> (Vec<String>, bool) {
        let words = Words::of(given.iter().map(OsString::from));
        (words.all.iter().map(|word| word.to_string_lossy().into_owned()).collect(), words.are_the_proxys)
    }

    #[test]
    fn the_name_of_the_binary_is_a_subcommand() {
        let is = |given: &[&str], all: &[&str], proxys: bool| {
            let all = all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            assert_eq!(words(given), (all, proxys), "{given:?}");
        };
        is(
            &["/bin/kube-rbac-proxy", "--allow_paths=/a_b"],
            &["outrigger", "proxy", "--allow-paths=/a_b"],
            true,
        );
        is(&["outrigger", "proxy", "--v=1"], &["outrigger", "proxy", "--v=1"], true);
        is(&["outrigger", "operator", "--a_b"], &["outrigger", "operator", "--a_b"], false);
        is(&["outrigger"], &["outrigger"], false);
    }
}
