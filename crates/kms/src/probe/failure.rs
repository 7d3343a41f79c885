//! What the end of a call means.

use std::error::Error;
use std::io::{self, ErrorKind};

use api::kms::RpcCode;
use plan::kms::call::Failure;
use tonic::{Code, Status};

/// What tonic says itself when an answer is longer than allowed.
const TOO_LONG: &str = "decoded message length too large";

/// What tonic says itself when an answer to a call holds no message.
const MISSING: &str = "Missing response message";

/// What tonic says itself when an answer is HTTP/2 and no gRPC.
const NO_GRPC: &str = "grpc-status header missing";

/// Why nobody took a connection.
pub(super) fn of_dial(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Failure::SocketMissing,
        ErrorKind::PermissionDenied => Failure::PermissionDenied,
        ErrorKind::WouldBlock => Failure::NotTaken("its queue of connections is full".into()),
        _ => Failure::NotTaken(root(error)),
    }
}

/// Why a connection that was taken has failed.
pub(super) fn of_transport(error: &(dyn Error + 'static)) -> Failure {
    Failure::Protocol(root(error))
}

/// What the status of a call means: an answer of the plugin, or what our side of the connection found.
pub(super) fn of_status(status: &Status) -> Failure {
    if let Some(source) = status.source() {
        return of_transport(source);
    }
    let message = status.message();
    match status.code() {
        Code::OutOfRange if message.contains(TOO_LONG) => Failure::Protocol("the answer is too long".into()),
        Code::Internal if message.contains(MISSING) => Failure::Empty,
        _ if message.contains(NO_GRPC) => Failure::Protocol(message.into()),
        code => Failure::Rpc { code: RpcCode::new(code.into()), message: message.into() },
    }
}

/// Text that a plugin sent. API servers refuse an answer with text that is none.
pub(super) fn text(field: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let shown = String::from_utf8_lossy(error.as_bytes());
        Failure::Protocol(format!("{field} is no UTF-8: {shown}"))
    })
}

/// The innermost reason: the outer ones say only that a transport failed.
fn root(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
