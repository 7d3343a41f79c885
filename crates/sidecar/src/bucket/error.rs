//! Bucket errors with a hint how to fix them.

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("S3: {location}: {message} [hint: {hint}]")]
    Request {
        /// The bucket or directory, and the key.
        location: String,
        /// The cause, in one line.
        message: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// An object exceeds the size limit.
    #[error("S3: {location}/{key} is larger than {limit} bytes")]
    TooLarge {
        /// The bucket or directory, and the key.
        location: String,
        /// The object key.
        key: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// Writing a local file failed.
    #[error("writing {0}: {1}")]
    Io(String, std::io::Error),
}

/// Maps a failure to an error with a hint.
pub(super) fn classify(location: &str, key: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Cause;
    let text = error.to_string();
    let hint = match error {
        Cause::NotFound { .. } if text.contains("NoSuchBucket") => {
            "bucket not found: check its name and region"
        }
        Cause::NotFound { .. } => "object not found: check that it was uploaded",
        Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
            "access denied: check the IAM policy of the pod"
        }
        Cause::Precondition { .. } => "the object was replaced during the download: retry",
        _ if text.contains("SlowDown") || text.contains("503") => "throttled: retry later",
        _ if text.contains("error sending request") || text.contains("connect") => {
            "unreachable: check the network and the region"
        }
        _ => "check the bucket name, region and policy",
    };
    // Only the first line: the rest is the response body.
    let message = text.lines().next().unwrap_or_default().chars().take(300).collect();
    Error::Request { location: format!("{location}/{key}"), message, hint }
}
