//! How a call of a KMS v2 plugin ended.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::kms::{Cause, RpcCode};

/// What a plugin says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusAnswer {
    /// Version of the interface.
    pub version: String,
    /// "ok", or what is wrong.
    pub healthz: String,
    /// Id of the key in the KMS that new data is encrypted with.
    pub key_id: String,
}

/// A text that was encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encrypted {
    /// The encrypted text.
    pub ciphertext: Vec<u8>,
    /// Id of the key in the KMS that it was encrypted with.
    pub key_id: String,
    /// What the plugin wants to be told when it decrypts.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no socket.
    SocketMissing,
    /// The socket may not be opened.
    PermissionDenied,
    /// Nobody takes the connection: why.
    NotTaken(String),
    /// Whoever took the connection does not speak gRPC: what it did.
    Protocol(String),
    /// The connection was taken, and no answer came within this time.
    Timeout(Duration),
    /// The plugin answered with an error.
    Rpc {
        /// Its code.
        code: RpcCode,
        /// Its text.
        message: String,
    },
    /// The plugin answered with nothing.
    Empty,
}

impl Failure {
    /// Its cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::SocketMissing => Cause::SocketMissing,
            Self::PermissionDenied => Cause::PermissionDenied,
            Self::NotTaken(_) => Cause::ConnectionRefused,
            Self::Protocol(_) => Cause::ProtocolError,
            Self::Timeout(_) => Cause::Timeout,
            Self::Rpc { code, .. } => Cause::RpcError(*code),
            Self::Empty => Cause::EmptyResponse,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SocketMissing => f.write_str("there is no socket"),
            Self::PermissionDenied => f.write_str("the socket may not be opened"),
            Self::NotTaken(why) => write!(f, "nobody listens on the socket ({why})"),
            Self::Protocol(what) => write!(f, "no gRPC answer: {what}"),
            Self::Timeout(limit) => write!(f, "no answer within {limit:?}"),
            Self::Rpc { message, .. } if message.is_empty() => f.write_str("the plugin gives no reason"),
            Self::Rpc { message, .. } => f.write_str(message),
            Self::Empty => f.write_str("an answer without content"),
        }
    }
}
