//! Compatibility with the upstream sidecar: a binary named `seictl` runs `seictl serve` as `outrigger sidecar`.

use std::ffi::OsString;
use std::path::Path;

/// Translates `seictl` arguments to `outrigger` arguments. Upstream accepts `--home` before `serve`, too.
pub(crate) fn translate(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.collect();
    let program = args.first().map(Path::new).and_then(Path::file_name);
    if program.is_none_or(|program| program != "seictl") {
        return args;
    }
    let mut translated: Vec<OsString> = vec!["outrigger".into(), "sidecar".into()];
    let mut rest = args.into_iter().skip(1).peekable();
    while let Some(arg) = rest.next() {
        if arg == "serve" {
            break;
        }
        let takes_value = arg == "--home";
        translated.push(arg);
        if takes_value {
            translated.extend(rest.next());
        }
    }
    translated.extend(rest);
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seictl_arguments_are_translated() {
        for (args, expected) in [
            (&["/bin/seictl", "serve", "--port", "1"][..], &["outrigger", "sidecar", "--port", "1"][..]),
            (&["seictl", "--home", "/a", "serve"], &["outrigger", "sidecar", "--home", "/a"]),
            (&["seictl", "--home", "serve", "serve"], &["outrigger", "sidecar", "--home", "serve"]),
            (&["seictl", "--help"], &["outrigger", "sidecar", "--help"]),
            (&["seictl", "patch"], &["outrigger", "sidecar", "patch"]),
            (&["outrigger", "serve"], &["outrigger", "serve"]),
            (&[], &[]),
        ] {
            let translated = translate(args.iter().map(OsString::from));
            assert_eq!(translated, expected.iter().map(OsString::from).collect::<Vec<_>>(), "{args:?}");
        }
    }
}
