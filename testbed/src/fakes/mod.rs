//! Scriptable fakes of what the product talks to. Start with [`kubelet`] (pods without nodes), [`sidecars`] (the
//! sidecar API of every node), [`recorder`] (an HTTP upstream that records requests), [`kms_plugin`] (a KMS v2
//! plugin) or [`oidc`] (an OpenID Connect issuer).

pub mod kms_plugin;
pub mod kubelet;
pub mod oidc;
pub mod recorder;
pub mod sidecars;
