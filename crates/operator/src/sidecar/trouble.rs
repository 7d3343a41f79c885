//! Why a sidecar gives no answer that can be used.

/// Why a sidecar gives no answer that can be used. The texts end up in status: they are few and do not change from one try to
/// the next, since each other text would be another write. None of them holds a token, or a port that was chosen at random.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The pod has no address.
    #[error("its pod has no address yet")]
    NoAddress,
    /// Without a token nothing is sent.
    #[error("the operator has no token to show: its --sidecar-token-file cannot be read")]
    NoToken,
    /// Without a certificate to compare with nothing is sent.
    #[error("Secret {0} has no certificate to know it by")]
    NoTrust(String),
    /// Nothing listens there.
    #[error("it does not take connections")]
    Refused,
    /// There is no way there.
    #[error("it cannot be reached over the network")]
    NoWay,
    /// The connection was not there in time.
    #[error("no connection within {0} s")]
    ConnectsLate(u64),
    /// What listens does not speak TLS, or not so.
    #[error("it does not serve by TLS")]
    NotTls,
    /// The certificate is another.
    #[error("it serves another certificate than that of Secret {0}")]
    OtherCertificate(String),
    /// A plain request was refused as one.
    #[error("it does not serve in the clear")]
    NotPlain,
    /// The answer did not come in time.
    #[error("no answer within {0} s")]
    Late(u64),
    /// The connection ended before the answer did.
    #[error("the connection broke off before its answer")]
    BrokeOff,
    /// The answer is longer than any that a sidecar gives.
    #[error("its answer is longer than 1 MiB")]
    TooLong,
    /// The answer is none that a sidecar gives.
    #[error("its answer cannot be understood")]
    Nonsense,
    /// The token is not accepted.
    #[error("it does not accept the operator's token (401)")]
    Unauthorized,
    /// The operator lacks rights.
    #[error(
        "it does not let the operator in (403): bind its ServiceAccount to a role with rights on seinodetasks"
    )]
    Forbidden,
    /// Another refusal.
    #[error("it answers with code {0}")]
    Code(u16),
}
