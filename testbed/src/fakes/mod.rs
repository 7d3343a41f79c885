//! Fakes of what the product talks to, each scriptable by a test: kubelets, sidecars, KMS plugins, an OpenID Connect issuer and an
//! upstream HTTP server.

pub mod kms_plugin;
pub mod kubelet;
pub mod oidc;
pub mod recorder;
pub mod sidecars;
