//! A Secret as the operator keeps it.

use k8s_openapi::api::core::v1::Secret;

/// A Secret without its private values, and what was found out about them when it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedSecret {
    /// The Secret. Only certificates have their values.
    pub secret: Secret,
    /// Whether the private key in `tls.key` belongs to the certificate in `tls.crt`.
    pub key_pair: KeyPair,
}

/// Whether a private key belongs to a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyPair {
    /// There is no private key, or no valid certificate to compare it with.
    #[default]
    NotChecked,
    /// The private key belongs to the certificate.
    Matching,
    /// The private key is not PEM, or of a type that the proxy cannot serve.
    MalformedKey,
    /// The private key belongs to another certificate.
    Mismatched,
}
