//! Program in the pods of the testbed, and init process of its nodes.

use std::process::ExitCode;

use clap::Parser;
use testbed::cluster::pod::{self, Args};

fn main() -> ExitCode {
    match pod::run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed-pod: {error}");
            ExitCode::FAILURE
        }
    }
}
