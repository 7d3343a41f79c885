//! Command-line flags: those of kube-rbac-proxy with their defaults and parsing rules, and additional ones.

mod args;
mod csv;
mod deprecated;
mod normalize;

pub use self::args::Args;
pub(crate) use self::args::{
    AuthenticationArgs, HiddenArgs, KubernetesArgs, LimitArgs, ListenArgs, OidcArgs, ProcessArgs, TlsArgs,
};
pub(crate) use self::csv::parse_list;
pub(crate) use self::deprecated::{DeprecatedFlag, ValueKind};
pub use self::normalize::{invoked_as_kube_rbac_proxy, normalize_args};

#[cfg(test)]
mod tests;
