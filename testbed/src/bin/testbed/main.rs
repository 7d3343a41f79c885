//! Builds the test-bed's parts, cleans what killed runs left, and runs the demo and all tests.

mod demo;
mod image;
mod suites;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testbed::cluster::site;
use testbed::{Part, Result};

/// The real world for Outrigger's tests and its demo.
#[derive(Parser)]
#[command(name = "testbed", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build parts into the cache, those that it lacks.
    Build {
        /// The parts: kubernetes, dns, cert-manager, s3, seid, openshift.
        #[arg(required = true)]
        parts: Vec<Part>,
    },
    /// Remove what killed runs left on this machine; live runs are not touched.
    Clean,
    /// Run all tests of the workspace except those in documentation, some binaries at a time.
    Suites {
        /// How many at a time.
        #[arg(long, default_value_t = 2)]
        at_once: usize,
    },
    /// Write the container image of the released program, and tell what it weighs.
    Image {
        /// The file to write.
        file: PathBuf,
    },
    /// The product on a real cluster, shown with kubectl.
    Demo {
        /// End, or wait, once the operator is up.
        #[arg(long)]
        quick: bool,
        /// End when everything is shown, instead of waiting for Ctrl-C.
        #[arg(long)]
        exit: bool,
    },
}

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Build { parts } => {
            for part in parts {
                let folder = match part {
                    Part::Kubernetes => Part::kubernetes()?.folder().to_owned(),
                    part => part.ensure()?,
                };
                println!("testbed: {part} is in {}", folder.display());
            }
        }
        Command::Image { file } => image::write(&file)?,
        Command::Demo { quick, exit } => demo::run_demo(demo::Ways { quick, exit })?,
        Command::Suites { at_once } => suites::run_suites(at_once.max(1))?,
        Command::Clean => {
            for number in site::sweep_abandoned()? {
                println!("testbed: removed what a killed run left of site {number}");
            }
        }
    }
    Ok(())
}
