//! `testbed image`: writes the release image.

use std::path::Path;

use testbed::bench;
use testbed::{Image, Result};

/// Writes the image and prints its size, its names, and how to load and push it.
pub fn write(file: &Path) -> Result<()> {
    let image = Image::released(bench::release_binary()?);
    let bytes = image.write(file)?;
    let path = file.display();
    println!("{path}: {:.1} MB", bytes as f64 / 1e6);
    for name in image.names() {
        println!("  {name}");
    }
    println!("Load: ctr --namespace k8s.io images import {path}   (or: docker load --input {path})");
    println!("Push: skopeo copy oci-archive:{path}:{} docker://REGISTRY/NAME:TAG", env!("CARGO_PKG_VERSION"));
    Ok(())
}
