//! Classifies why a call failed.

use std::error::Error;
use std::io::{self, ErrorKind};

use api::kms::RpcCode;
use plan::kms::call::CallError;
use tonic::{Code, Status};

/// tonic's own message for a response above the size limit.
const TOO_LONG: &str = "decoded message length too large";

/// tonic's own message for a response without a message.
const MISSING: &str = "Missing response message";

/// tonic's own message for an HTTP/2 response that is not gRPC.
const NOT_GRPC: &str = "grpc-status header missing";

/// Classifies a failed connect.
pub(super) fn from_connect_error(error: &io::Error) -> CallError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CallError::SocketMissing,
        ErrorKind::PermissionDenied => CallError::PermissionDenied,
        ErrorKind::WouldBlock => CallError::ConnectionRefused("the listen backlog is full".into()),
        _ => CallError::ConnectionRefused(root_cause(error)),
    }
}

/// Classifies the failure of an established connection.
pub(super) fn from_transport_error(error: &(dyn Error + 'static)) -> CallError {
    CallError::Protocol(root_cause(error))
}

/// Classifies a gRPC status: returned by the plugin, or made up by the client for a transport failure.
pub(super) fn from_status(status: &Status) -> CallError {
    if let Some(source) = status.source() {
        return from_transport_error(source);
    }
    let message = status.message();
    match status.code() {
        Code::OutOfRange if message.contains(TOO_LONG) => CallError::Protocol("response too large".into()),
        Code::Internal if message.contains(MISSING) => CallError::Empty,
        _ if message.contains(NOT_GRPC) => CallError::Protocol(message.into()),
        code => CallError::Rpc { code: RpcCode::new(code.into()), message: message.into() },
    }
}

/// Decodes a string field. API servers reject a response with invalid UTF-8.
pub(super) fn decode_text(field: &str, bytes: Vec<u8>) -> Result<String, CallError> {
    String::from_utf8(bytes).map_err(|error| {
        let shown = String::from_utf8_lossy(error.as_bytes());
        CallError::Protocol(format!("{field} is not valid UTF-8: {shown}"))
    })
}

/// Returns the innermost error: the outer ones only say that the transport failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
