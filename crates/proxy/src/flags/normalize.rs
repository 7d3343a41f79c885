//! Rewrites arguments that kube-rbac-proxy's parser accepts and clap does not.

use std::ffi::OsString;
use std::path::Path;

/// Name of this binary in images built for kube-rbac-proxy.
const KUBE_RBAC_PROXY: &str = "kube-rbac-proxy";

/// Returns whether the binary was invoked as `kube-rbac-proxy`: then all arguments are the proxy's.
#[must_use]
pub fn invoked_as_kube_rbac_proxy(program: &OsString) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == KUBE_RBAC_PROXY)
}

/// Replaces underscores in flag names with hyphens, and removes empty arguments, which templates leave
/// behind.
pub fn normalize_args(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut value_follows = false;
    let mut normalized = Vec::new();
    for arg in args {
        let is_value = std::mem::take(&mut value_follows);
        let Some(text) = arg.to_str() else {
            normalized.push(arg);
            continue;
        };
        if is_value {
            normalized.push(arg);
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
            normalized.push(arg);
        }
    }
    normalized
}

/// Returns whether the flag takes its value from the next argument.
fn takes_value(name: &str) -> bool {
    let command = <super::Args as clap::Args>::augment_args(clap::Command::new("proxy"));
    command.get_arguments().any(|arg| {
        arg.get_long() == Some(name) && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
    })
}
