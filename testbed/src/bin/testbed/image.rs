//! `testbed image`: the container image that is released.

use std::path::Path;

use testbed::bench;
use testbed::{Image, Result};

/// Writes the image, and tells its names, what it weighs, and how to use it.
pub fn write(file: &Path) -> Result<()> {
    let image = Image::released(bench::released()?);
    let bytes = image.write(file)?;
    let shown = file.display();
    println!("{shown}: {:.1} MB", bytes as f64 / 1e6);
    for name in image.names() {
        println!("  {name}");
    }
    println!("To load it:  ctr --namespace k8s.io images import {shown}   (or: docker load --input {shown})");
    println!(
        "To push it:  skopeo copy oci-archive:{shown}:{} docker://REGISTRY/NAME:TAG",
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}
