//! What kube-rbac-proxy's parser accepts and ours does not by itself, rewritten before it is parsed.

use std::ffi::OsString;
use std::path::Path;

/// The name that this binary has in images made for kube-rbac-proxy.
const UPSTREAM_NAME: &str = "kube-rbac-proxy";

/// Whether the binary was called as the program that it stands in for: then all words are the proxy's.
#[must_use]
pub fn called_as_upstream(program: &OsString) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == UPSTREAM_NAME)
}

/// The words of the proxy's command line with underscores in flag names as hyphens, and without empty words between flags, which
/// templates leave behind.
pub fn normalized(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut value_follows = false;
    let mut normalized = Vec::new();
    for word in words {
        let is_value = std::mem::take(&mut value_follows);
        let Some(text) = word.to_str() else {
            normalized.push(word);
            continue;
        };
        if is_value {
            normalized.push(word);
        } else if let Some(flag) = text.strip_prefix("--").filter(|flag| !flag.is_empty()) {
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            let name = name.replace('_', "-");
            value_follows = value.is_none() && takes_value(&name);
            normalized.push(match value {
                Some(value) => format!("--{name}={value}").into(),
                None => format!("--{name}").into(),
            });
        } else if !text.is_empty() {
            value_follows = text == "-v";
            normalized.push(word);
        }
    }
    normalized
}

/// Whether the next word belongs to a flag.
fn takes_value(name: &str) -> bool {
    let command = <super::Args as clap::Args>::augment_args(clap::Command::new("proxy"));
    command.get_arguments().any(|arg| {
        arg.get_long() == Some(name) && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
    })
}
