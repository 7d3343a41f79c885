//! Errors of sidecar calls.

/// Why a call of a sidecar has no usable response. The messages end up in the status of a node: they are stable from retry to
/// retry, since each different message would be another status write. None contains a token or an ephemeral port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The pod has no IP address.
    #[error("the pod has no IP address yet")]
    NoPodIp,
    /// The token cannot be read. Nothing was sent.
    #[error("cannot read the operator's sidecar token: check --sidecar-token-file")]
    NoToken,
    /// There is no certificate to verify the sidecar against. Nothing was sent.
    #[error("cannot verify the sidecar: Secret {0} has no valid certificate")]
    NoCertificate(String),
    /// The connection was refused.
    #[error("the sidecar refused the connection")]
    ConnectionRefused,
    /// The connection failed otherwise.
    #[error("cannot connect to the sidecar")]
    ConnectFailed,
    /// The connection timed out.
    #[error("connection to the sidecar timed out after {0} s")]
    ConnectTimeout(u64),
    /// The TLS handshake failed.
    #[error("TLS handshake with the sidecar failed")]
    TlsHandshake,
    /// The certificate is not trusted.
    #[error("the sidecar's certificate does not match Secret {0}")]
    UntrustedCertificate(String),
    /// A plain HTTP request was rejected as such.
    #[error("the sidecar does not serve plain HTTP")]
    NotPlainHttp,
    /// The response timed out.
    #[error("the sidecar did not respond within {0} s")]
    Timeout(u64),
    /// The connection was closed before the end of the response.
    #[error("the sidecar closed the connection before the end of its response")]
    ConnectionClosed,
    /// The response is too large.
    #[error("the sidecar's response exceeds 1 MiB")]
    ResponseTooLarge,
    /// The response cannot be parsed.
    #[error("the sidecar's response is malformed")]
    MalformedResponse,
    /// The token was rejected.
    #[error("the sidecar rejected the operator's token (401)")]
    Unauthorized,
    /// The operator is not authorized.
    #[error(
        "the sidecar denied access to the operator (403): bind its ServiceAccount to a role that allows seinodetasks"
    )]
    Forbidden,
    /// Another status code.
    #[error("the sidecar returned status {0}")]
    Status(u16),
}
