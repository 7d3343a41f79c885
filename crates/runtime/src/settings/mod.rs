//! What a process is told at its start. Values are taken as text and checked together, so that somebody who has three of them
//! wrong is told three times at once, and not once in each of three starts.

mod check;
mod lease;
mod own;
pub mod text;

pub use self::check::{Check, Problems};
pub use self::lease::LeaseArgs;
pub use self::own::{identity, own_namespace};

/// A setting by its name in the arguments, with its value: `setting!(args.log_level)`.
#[macro_export]
macro_rules! setting {
    ($args:ident . $name:ident) => {
        (stringify!($name), &$args.$name)
    };
}

/// Text that says something.
#[must_use]
pub fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}
