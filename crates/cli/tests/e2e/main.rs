//! Everything together, in real pods: our image, installed with the manifests that are shipped.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod ground;
mod install;

use std::process::ExitCode;

use testbed::harness::Suite;

macro_rules! suite {
    ($($module:ident::$test:ident),* $(,)?) => {
        Suite::new("e2e")$(.test(stringify!($test), |cx| Box::pin($module::$test(cx))))*
    };
}

fn main() -> ExitCode {
    suite![
        install::the_manifests_install_an_operator_of_which_another_takes_over,
        install::an_operator_without_settings_says_what_is_missing_where_people_look,
    ]
    .run()
}
