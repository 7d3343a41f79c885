//! Errors of sidecar calls, and of the tokens for them.

use runtime::Key;

/// Why there is no token for a sidecar. The messages are stable, too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The operator is not permitted to request it.
    #[error(
        "the operator is not permitted to request tokens of ServiceAccount {0} (403): apply deploy/operator/rbac.yaml, which allows it \
         in the namespace of the operator, or correct --token-service-account"
    )]
    Forbidden(String),
    /// The ServiceAccount does not exist.
    #[error(
        "ServiceAccount {0} does not exist: set --token-service-account to the ServiceAccount of the operator"
    )]
    NotFound(String),
    /// The API server did not return a token.
    #[error("cannot request a token of ServiceAccount {0}: the API server returned status {1}")]
    Status(String, u16),
    /// The API server did not respond.
    #[error("cannot request a token of ServiceAccount {0}: the API server did not respond")]
    NoResponse(String),
    /// The response has no valid token.
    #[error(
        "cannot request a token of ServiceAccount {0}: the response of the API server has no valid token"
    )]
    Malformed(String),
}

impl TokenError {
    /// Maps the error of a TokenRequest.
    pub(super) fn new(account: &Key, error: &kube::Error) -> Self {
        let account = account.to_string();
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(account),
            kube::Error::Api(status) if status.code == 404 => Self::NotFound(account),
            kube::Error::Api(status) => Self::Status(account, status.code),
            _ => Self::NoResponse(account),
        }
    }
}

/// Why a call of a sidecar has no usable response. The messages end up in the status of a node: they are stable from retry to
/// retry, since each different message would be another status write. None contains a token or an ephemeral port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The pod has no IP address.
    #[error("the pod has no IP address yet")]
    NoPodIp,
    /// There is no token. Nothing was sent.
    #[error(transparent)]
    NoToken(#[from] TokenError),
    /// The pod accepts no token of its own, and there is none for such pods. Nothing was sent.
    #[error(
        "the pod was set up by another operator or a previous version, and accepts no token for one node: set \
         --legacy-sidecar-token-file, or delete the pod"
    )]
    LegacyPod,
    /// The token for such pods cannot be read. Nothing was sent.
    #[error("cannot read the token for pods of previous versions: check --legacy-sidecar-token-file")]
    NoLegacyToken,
    /// The audience on the pod is not that of its node. Nothing was sent: the token would be valid elsewhere.
    #[error(
        "the annotation outrigger.dev/sidecar-audience of the pod does not name its node: delete the pod, and find out who changed it"
    )]
    ForeignAudience,
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
