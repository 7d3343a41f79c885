//! Command line of the test environment: builds components, cleans up after killed runs, and runs the demo and all suites.

mod demo;
mod image;
mod sbom;
mod suites;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testbed::cluster::site;
use testbed::{Part, Result};

/// Test environment of Outrigger.
#[derive(Parser)]
#[command(name = "testbed", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build components that are missing in the cache.
    Build {
        /// Components: kubernetes, dns, cert-manager, s3, seid, openshift.
        #[arg(required = true)]
        parts: Vec<Part>,
    },
    /// Remove the remains of killed runs; live runs are not touched.
    Clean,
    /// Run all tests of the workspace except doc tests, several binaries at a time.
    Suites {
        /// Number of binaries to run concurrently.
        #[arg(long, default_value_t = 2)]
        concurrency: usize,
    },
    /// Write the container image of the release binary and print its size.
    Image {
        /// Output file.
        file: PathBuf,
    },
    /// Write the CycloneDX SBOM of the release binary, and the list of its dependencies for scanners.
    Sbom {
        /// Output directory.
        dir: PathBuf,
    },
    /// Run the product on a real local cluster and narrate it with kubectl commands.
    Demo {
        /// Stop after the operator is installed.
        #[arg(long)]
        quick: bool,
        /// Exit at the end instead of waiting for Ctrl-C.
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
                    Part::Kubernetes => Part::kubernetes()?.dir().to_owned(),
                    part => part.ensure()?,
                };
                println!("testbed: {part} is available in {}", folder.display());
            }
        }
        Command::Image { file } => image::write(&file)?,
        Command::Sbom { dir } => sbom::write(&dir)?,
        Command::Demo { quick, exit } => demo::run_demo(demo::Options { quick, exit })?,
        Command::Suites { concurrency } => suites::run_suites(concurrency.max(1))?,
        Command::Clean => {
            for number in site::sweep_abandoned()? {
                println!("testbed: removed the remains of a killed run (site {number})");
            }
        }
    }
    Ok(())
}
