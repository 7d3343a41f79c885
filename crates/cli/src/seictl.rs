//! The binary under the name of the program that the sidecar stands in for: `seictl serve` is `outrigger sidecar`.

use std::ffi::OsString;
use std::path::Path;

/// The words of a command line, in our own form. Upstream takes `--home` before `serve` as well.
pub(crate) fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<OsString> = given.collect();
    let program = given.first().map(Path::new).and_then(Path::file_name);
    if program.is_none_or(|program| program != "seictl") {
        return given;
    }
    let mut words: Vec<OsString> = vec!["outrigger".into(), "sidecar".into()];
    let mut rest = given.into_iter().skip(1).peekable();
    while let Some(word) = rest.next() {
        if word == "serve" {
            break;
        }
        let takes_value = word == "--home";
        words.push(word);
        if takes_value {
            words.extend(rest.next());
        }
    }
    words.extend(rest);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_binary_is_a_subcommand() {
        for (given, meant) in [
            (&["/bin/seictl", "serve", "--port", "1"][..], &["outrigger", "sidecar", "--port", "1"][..]),
            (&["seictl", "--home", "/a", "serve"], &["outrigger", "sidecar", "--home", "/a"]),
            (&["seictl", "--home", "serve", "serve"], &["outrigger", "sidecar", "--home", "serve"]),
            (&["seictl", "--help"], &["outrigger", "sidecar", "--help"]),
            (&["seictl", "patch"], &["outrigger", "sidecar", "patch"]),
            (&["outrigger", "serve"], &["outrigger", "serve"]),
            (&[], &[]),
        ] {
            let words = words(given.iter().map(OsString::from));
            assert_eq!(words, meant.iter().map(OsString::from).collect::<Vec<_>>(), "{given:?}");
        }
    }
}
