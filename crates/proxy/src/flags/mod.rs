//! The command line: the flags of kube-rbac-proxy with their defaults and their parsing rules, and ours beside them.

mod args;
mod csv;
mod dead;
mod words;

pub use self::args::Args;
pub(crate) use self::args::{
    AuthenticationArgs, HiddenArgs, KubernetesArgs, LimitArgs, ListenArgs, OidcArgs, ProcessArgs, TlsArgs,
};
pub(crate) use self::csv::split_all;
pub(crate) use self::dead::{Given, Kind};
pub use self::words::{called_as_upstream, normalized};

#[cfg(test)]
mod tests;
