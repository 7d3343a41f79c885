//! `outrigger crds`: the definitions of our kinds.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print the definitions of our kinds, ready for `kubectl apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrigger crds | kubectl apply --server-side -f -\n  \
    outrigger crds --output-dir deploy/crds")]
pub(crate) struct Args {
    /// Write one file per kind into this folder, instead of all of them to standard output.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

/// Writes the definitions to standard output, or one file each.
pub(crate) fn run(Args { output_dir }: Args) -> io::Result<()> {
    let documents = documents()?;
    let Some(folder) = output_dir else {
        let mut out = io::stdout().lock();
        for (_, yaml) in documents {
            write!(out, "---\n{yaml}")?;
        }
        return out.flush();
    };
    let context = |path: &PathBuf, error: io::Error| {
        io::Error::new(error.kind(), format!("writing {}: {error}", path.display()))
    };
    fs::create_dir_all(&folder).map_err(|error| context(&folder, error))?;
    for (name, yaml) in documents {
        let path = folder.join(name);
        fs::write(&path, yaml).map_err(|error| context(&path, error))?;
    }
    Ok(())
}

/// The name of each definition's file, and its text.
fn documents() -> io::Result<Vec<(String, String)>> {
    api::crd::all()
        .iter()
        .map(|crd| {
            let yaml = serde_saphyr::to_string(crd).map_err(io::Error::other)?;
            Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml))
        })
        .collect()
}
