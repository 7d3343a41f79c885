//! `outrigger crds`: CustomResourceDefinitions.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print the CustomResourceDefinitions, ready for `kubectl apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrigger crds | kubectl apply --server-side -f -\n  \
    outrigger crds --output-dir deploy/crds")]
pub(crate) struct Args {
    /// Directory to write one file per CRD to. If empty, print all CRDs to standard output.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

/// Writes the CRDs to standard output or to one file each.
pub(crate) fn run(Args { output_dir }: Args) -> io::Result<()> {
    let documents = render_crds()?;
    let Some(dir) = output_dir else {
        let mut out = io::stdout().lock();
        for (_, yaml) in documents {
            write!(out, "---\n{yaml}")?;
        }
        return out.flush();
    };
    let context = |path: &PathBuf, error: io::Error| {
        io::Error::new(error.kind(), format!("writing {}: {error}", path.display()))
    };
    fs::create_dir_all(&dir).map_err(|error| context(&dir, error))?;
    for (name, yaml) in documents {
        let path = dir.join(name);
        fs::write(&path, yaml).map_err(|error| context(&path, error))?;
    }
    Ok(())
}

/// Returns file name and YAML of each CRD.
fn render_crds() -> io::Result<Vec<(String, String)>> {
    api::crd::all()
        .iter()
        .map(|crd| {
            let yaml = serde_saphyr::to_string(crd).map_err(io::Error::other)?;
            Ok((format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural), yaml))
        })
        .collect()
}
