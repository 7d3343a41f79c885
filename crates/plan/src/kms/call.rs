//! Results of KMS v2 plugin calls.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::kms::{Cause, RpcCode};

/// Response to Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusReply {
    /// KMS API version.
    pub version: String,
    /// "ok" or an error description.
    pub healthz: String,
    /// ID of the KMS key that encrypts new data.
    pub key_id: String,
}

/// Response to Encrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptReply {
    /// Ciphertext.
    pub ciphertext: Vec<u8>,
    /// ID of the KMS key that encrypted the data.
    pub key_id: String,
    /// Annotations that Decrypt needs.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// Failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The socket does not exist.
    SocketMissing,
    /// No permission to open the socket.
    PermissionDenied,
    /// Connection refused, with the reason.
    ConnectionRefused(String),
    /// The peer does not speak gRPC, with the observed behavior.
    Protocol(String),
    /// No response within this time after the connection was accepted.
    Timeout(Duration),
    /// The plugin returned an error.
    Rpc {
        /// gRPC status code.
        code: RpcCode,
        /// Error message.
        message: String,
    },
    /// The plugin returned an empty response.
    Empty,
}

impl CallError {
    /// Returns the cause for reports.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::SocketMissing => Cause::SocketMissing,
            Self::PermissionDenied => Cause::PermissionDenied,
            Self::ConnectionRefused(_) => Cause::ConnectionRefused,
            Self::Protocol(_) => Cause::ProtocolError,
            Self::Timeout(_) => Cause::Timeout,
            Self::Rpc { code, .. } => Cause::RpcError(*code),
            Self::Empty => Cause::EmptyResponse,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SocketMissing => f.write_str("socket does not exist"),
            Self::PermissionDenied => f.write_str("permission denied on socket"),
            Self::ConnectionRefused(why) => write!(f, "connection refused ({why})"),
            Self::Protocol(what) => write!(f, "not a gRPC response: {what}"),
            Self::Timeout(limit) => write!(f, "no response within {limit:?}"),
            Self::Rpc { message, .. } if message.is_empty() => f.write_str("the plugin gave no reason"),
            Self::Rpc { message, .. } => f.write_str(message),
            Self::Empty => f.write_str("empty response"),
        }
    }
}
