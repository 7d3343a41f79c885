//! What went wrong with an object, in a sentence that says what to do.

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place is none.
    #[error("S3: {place} cannot be used: {why} [hint: {hint}]")]
    Place {
        /// The bucket or folder.
        place: String,
        /// Why.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// An object is larger than it may be.
    #[error("S3: {place}/{key} is larger than {most} bytes")]
    TooLarge {
        /// The bucket or folder.
        place: String,
        /// The object.
        key: String,
        /// As large as it may be.
        most: u64,
    },
    /// A file of the node could not be written.
    #[error("writing {0}: {1}")]
    Io(String, std::io::Error),
}

/// What a failure is about: the same words for every task.
pub(super) fn classify(place: &str, key: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Cause;
    let said = error.to_string();
    let hint = match error {
        Cause::NotFound { .. } if said.contains("NoSuchBucket") => {
            "there is no such bucket: look at its name and region"
        }
        Cause::NotFound { .. } => "there is no such object: has it been uploaded?",
        Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
            "access is denied: look at the policy of the pod's identity"
        }
        Cause::Precondition { .. } => "the object was replaced meanwhile: try again",
        _ if said.contains("SlowDown") || said.contains("503") => "throttled: try again later",
        _ if said.contains("error sending request") || said.contains("connect") => {
            "it was not reached: look at the network and the region"
        }
        _ => "look at the bucket's name, region and policy",
    };
    // The first line: what follows is the whole answer.
    let why = said.lines().next().unwrap_or_default().chars().take(300).collect();
    Error::Place { place: format!("{place}/{key}"), why, hint }
}
