//! Causes of unhealthy plugins.

use std::fmt;

/// The cause of an unhealthy plugin. The detail of a report starts with it, so that programs need not parse the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The socket does not exist.
    SocketMissing,
    /// Access to the socket is denied.
    PermissionDenied,
    /// Nothing listens on the socket.
    ConnectionRefused,
    /// The listener does not speak gRPC.
    ProtocolError,
    /// The plugin does not respond in time.
    Timeout,
    /// The plugin responds with a gRPC error.
    RpcError(RpcCode),
    /// The plugin reports a status other than "ok".
    NotOk,
    /// API servers do not accept the version, or it changed.
    BadVersion,
    /// The key ID is empty or too long.
    BadKeyId,
    /// The response is empty.
    EmptyResponse,
    /// The plugin reports "ok" but fails to encrypt and decrypt.
    RoundTripFailed,
}

impl Cause {
    /// All causes. [`RpcError`](Self::RpcError) is included with one code.
    pub const ALL: [Self; 11] = [
        Self::SocketMissing,
        Self::PermissionDenied,
        Self::ConnectionRefused,
        Self::ProtocolError,
        Self::Timeout,
        Self::RpcError(RpcCode(2)),
        Self::NotOk,
        Self::BadVersion,
        Self::BadKeyId,
        Self::EmptyResponse,
        Self::RoundTripFailed,
    ];

    /// Returns the name, without an RPC code.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SocketMissing => "SocketMissing",
            Self::PermissionDenied => "PermissionDenied",
            Self::ConnectionRefused => "ConnectionRefused",
            Self::ProtocolError => "ProtocolError",
            Self::Timeout => "Timeout",
            Self::RpcError(_) => "RpcError",
            Self::NotOk => "NotOk",
            Self::BadVersion => "BadVersion",
            Self::BadKeyId => "BadKeyID",
            Self::EmptyResponse => "EmptyResponse",
            Self::RoundTripFailed => "RoundTripFailed",
        }
    }

    /// Returns what to check.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::SocketMissing => "check the state of the plugin's container",
            Self::PermissionDenied => {
                "compare the user, mode and SELinux label of the socket with those of this container"
            }
            Self::ConnectionRefused => "the plugin exited or hangs; check its container",
            Self::ProtocolError => "another program listens on the socket, or the plugin is faulty",
            Self::Timeout => "check the connection from the plugin to its KMS",
            Self::RpcError(RpcCode::UNIMPLEMENTED) => "the plugin does not support KMS v2; update it",
            Self::RpcError(_) => "check the plugin's log and credentials",
            Self::NotOk => "check the plugin's log and its KMS",
            Self::BadVersion => "API servers accept v2 and v2beta1, and no change between them",
            Self::BadKeyId => "API servers accept key IDs of 1 to 1024 bytes",
            Self::EmptyResponse => "the plugin is faulty; update it",
            Self::RoundTripFailed => "check the plugin's permissions on its key",
        }
    }

    /// Parses the cause at the start of a detail. `None` if there is none, as in reports of other reporters.
    #[must_use]
    pub fn from_detail(detail: &str) -> Option<Self> {
        let prefix = detail.split(':').next().unwrap_or_default();
        if let Some(code) = prefix.strip_prefix("RpcError(").and_then(|rest| rest.strip_suffix(')')) {
            return RpcCode::from_name(code).map(Self::RpcError);
        }
        Self::ALL.into_iter().find(|cause| !matches!(cause, Self::RpcError(_)) && cause.name() == prefix)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RpcError(code) => write!(f, "RpcError({})", code.name()),
            cause => f.write_str(cause.name()),
        }
    }
}

/// A gRPC error code. Codes that gRPC does not define are Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RpcCode(u8);

impl RpcCode {
    /// The method is not implemented.
    pub const UNIMPLEMENTED: Self = Self(12);

    /// Names of the gRPC codes, starting at 1.
    const NAMES: [&str; 16] = [
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];

    /// Converts a numeric code.
    #[must_use]
    pub fn new(number: i32) -> Self {
        Self(u8::try_from(number).ok().filter(|number| (1..=16).contains(number)).unwrap_or(2))
    }

    /// Returns the name as gRPC defines it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0.saturating_sub(1))).copied().unwrap_or("Unknown")
    }

    fn from_name(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        u8::try_from(index + 1).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_parsed_from_detail() {
        let codes = (1..=16).map(|number| Cause::RpcError(RpcCode::new(number)));
        for cause in Cause::ALL.into_iter().chain(codes) {
            assert_eq!(Cause::from_detail(&format!("{cause}: dial: no such file")), Some(cause));
        }
        for foreign in ["", "rpc error: code = Unavailable", "RpcError(Lazy): x", "RpcError: x", "err"] {
            assert_eq!(Cause::from_detail(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn undefined_codes_are_unknown() {
        assert_eq!(RpcCode::new(7).name(), "PermissionDenied");
        assert_eq!(RpcCode::new(12), RpcCode::UNIMPLEMENTED);
        for number in [-1, 0, 17, 4711] {
            assert_eq!(RpcCode::new(number).name(), "Unknown");
        }
    }
}
