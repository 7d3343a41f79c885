//! Closed lists of reasons.

/// What a condition can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

impl Status {
    /// As Kubernetes writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Why a condition is what it is: one word of a closed list.
pub trait Reason: Copy {
    /// The type of the condition that the reason belongs to.
    const CONDITION: &'static str;

    /// The word.
    fn as_str(self) -> &'static str;

    /// The status that the reason goes with.
    fn status(self) -> Status;
}

/// One line of `docs/reference/conditions.md`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The kinds of objects that have the condition.
    pub kinds: &'static str,
    /// The condition's type.
    pub condition: &'static str,
    /// What the condition is about.
    pub about: &'static str,
    /// The status that goes with the reason.
    pub status: Status,
    /// The reason.
    pub reason: &'static str,
    /// What the reason says.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Declares the conditions of a kind: an enum of reasons for each, and the list that the documentation is made from.
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

        /// Every condition of the kind with every reason.
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
