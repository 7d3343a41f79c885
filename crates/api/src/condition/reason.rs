//! Typed reasons of conditions.

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// It is unknown whether the condition is true.
    Unknown,
}

impl Status {
    /// Returns the value in the Kubernetes API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A reason of a condition type.
pub trait Reason: Copy {
    /// The type of the condition.
    const CONDITION: &'static str;

    /// Returns the value in the Kubernetes API.
    fn as_str(self) -> &'static str;

    /// Returns the status that the reason implies.
    fn status(self) -> Status;
}

/// A row of `docs/reference/conditions.md`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Kinds that have the condition.
    pub kinds: &'static str,
    /// Type of the condition.
    pub condition: &'static str,
    /// Description of the condition.
    pub about: &'static str,
    /// Status that the reason implies.
    pub status: Status,
    /// The reason.
    pub reason: &'static str,
    /// Description of the reason.
    pub meaning: &'static str,
    /// What the user should do.
    pub remedy: &'static str,
}

/// Declares the conditions of a kind: one enum of reasons per condition, and the table for the documentation.
macro_rules! conditions {
    (
        of $kinds:literal;
        $(
            $condition:ident: $about:literal {
                $($reason:ident => $status:ident, $meaning:literal, $remedy:literal;)+
            }
        )+
    ) => {
        $(
            #[doc = $about]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $condition {
                $(#[doc = $meaning] $reason,)+
            }

            impl $crate::condition::Reason for $condition {
                const CONDITION: &'static str = stringify!($condition);

                fn as_str(self) -> &'static str {
                    match self {
                        $(Self::$reason => stringify!($reason),)+
                    }
                }

                fn status(self) -> $crate::condition::Status {
                    match self {
                        $(Self::$reason => $crate::condition::Status::$status,)+
                    }
                }
            }
        )+

        /// All conditions and reasons of the kind.
        pub(super) const ALL: &[$crate::condition::Entry] = &[
            $($(
                $crate::condition::Entry {
                    kinds: $kinds,
                    condition: stringify!($condition),
                    about: $about,
                    status: $crate::condition::Status::$status,
                    reason: stringify!($reason),
                    meaning: $meaning,
                    remedy: $remedy,
                },
            )+)+
        ];
    };
}

pub(super) use conditions;
