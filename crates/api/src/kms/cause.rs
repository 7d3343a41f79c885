//! Why a plugin is not healthy: a closed list, for people and for programs.

use std::fmt;

/// Why a plugin is not healthy. A report's detail begins with it, so that readers need not understand the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// There is no socket.
    SocketMissing,
    /// The socket may not be opened.
    PermissionDenied,
    /// There is a socket, and nobody listens on it.
    ConnectionRefused,
    /// Somebody listens, and does not speak gRPC.
    ProtocolError,
    /// Somebody listens, and gives no answer in time.
    Timeout,
    /// The plugin answers with an error of this code.
    RpcError(RpcCode),
    /// The plugin says that it is not well.
    NotOk,
    /// The plugin speaks a version that no API server accepts, or another one than before.
    BadVersion,
    /// The plugin gives no key id, or one that is too long.
    BadKeyId,
    /// The plugin answers with nothing.
    EmptyResponse,
    /// The plugin says that it is well, and cannot encrypt and decrypt.
    RoundTripFailed,
}

impl Cause {
    /// Every cause; of those with a code, one.
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

    /// Its name, without a code: one word of a closed list.
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

    /// What to look at.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::SocketMissing => "look at the state of the plugin's container",
            Self::PermissionDenied => {
                "compare user, mode and SELinux label of the socket with those of this container"
            }
            Self::ConnectionRefused => "the plugin has ended or hangs; look at its container",
            Self::ProtocolError => "another program listens on the socket, or the plugin is broken",
            Self::Timeout => "look at the way from the plugin to its KMS",
            Self::RpcError(RpcCode::UNIMPLEMENTED) => "the plugin does not speak KMS v2; update it",
            Self::RpcError(_) => "look at the plugin's log and at its credentials",
            Self::NotOk => "look at the plugin's log and at its KMS",
            Self::BadVersion => "API servers accept v2 and v2beta1, and no change between them",
            Self::BadKeyId => "API servers accept key ids of 1 to 1024 bytes",
            Self::EmptyResponse => "the plugin is broken; update it",
            Self::RoundTripFailed => "look at what the plugin may do with its key",
        }
    }

    /// The cause that a detail begins with, if one of ours does.
    #[must_use]
    pub fn of_detail(detail: &str) -> Option<Self> {
        let word = detail.split(':').next().unwrap_or_default();
        if let Some(code) = word.strip_prefix("RpcError(").and_then(|rest| rest.strip_suffix(')')) {
            return RpcCode::named(code).map(Self::RpcError);
        }
        Self::ALL.into_iter().find(|cause| !matches!(cause, Self::RpcError(_)) && cause.name() == word)
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

/// A code of gRPC that is no success. One that gRPC does not know counts as Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RpcCode(u8);

impl RpcCode {
    /// The call is not known.
    pub const UNIMPLEMENTED: Self = Self(12);

    /// Names by number, from 1 on, as gRPC has them.
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

    /// The code of a number.
    #[must_use]
    pub fn new(number: i32) -> Self {
        Self(u8::try_from(number).ok().filter(|number| (1..=16).contains(number)).unwrap_or(2))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0.saturating_sub(1))).copied().unwrap_or("Unknown")
    }

    fn named(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        u8::try_from(index + 1).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_tells_its_cause() {
        let codes = (1..=16).map(|number| Cause::RpcError(RpcCode::new(number)));
        for cause in Cause::ALL.into_iter().chain(codes) {
            assert_eq!(Cause::of_detail(&format!("{cause}: dial: no such file")), Some(cause));
        }
        for foreign in ["", "rpc error: code = Unavailable", "RpcError(Lazy): x", "RpcError: x", "err"] {
            assert_eq!(Cause::of_detail(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn codes_that_grpc_does_not_know_are_unknown() {
        assert_eq!(RpcCode::new(7).name(), "PermissionDenied");
        assert_eq!(RpcCode::new(12), RpcCode::UNIMPLEMENTED);
        for number in [-1, 0, 17, 4711] {
            assert_eq!(RpcCode::new(number).name(), "Unknown");
        }
    }
}
