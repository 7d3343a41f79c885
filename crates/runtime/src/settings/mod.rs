//! Command-line settings. Clap takes the values as text; they are validated together, so that all invalid settings are reported
//! at once.

mod identity;
mod lease;
mod loopback;
pub mod parse;
mod validator;

pub use self::identity::{identity, own_namespace};
pub use self::lease::LeaseArgs;
pub use self::loopback::{ADMIN_ADDRESS, LoopbackAddress};
pub use self::validator::{InvalidSettings, Validator};

/// Names a setting and borrows its value: `setting!(args.log_level)`.
#[macro_export]
macro_rules! setting {
    ($args:ident . $name:ident) => {
        (stringify!($name), &$args.$name)
    };
}

/// Trims `text`; `None` if nothing is left.
#[must_use]
pub fn non_empty(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}
