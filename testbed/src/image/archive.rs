//! A docker archive: a tar of one layer, a configuration that names it by its hash, and a manifest that names both. The
//! same programs give the same bytes, so that an image's id tells whether anything has changed.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::Image;
use crate::error::{Error, IoContext, Result};

/// Writes the archive of an image.
pub(super) fn write(image: &Image, out: &mut impl Write) -> Result<()> {
    let layer = layer(&image.programs)?;
    let config = json!({
        "architecture": architecture()?,
        "os": "linux",
        "config": { "Entrypoint": image.entrypoint, "Env": ["PATH=/bin"], "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hash(&layer))] },
    })
    .to_string();
    let config_name = format!("{}.json", hash(config.as_bytes()));
    let layer_name = "layer.tar";
    let manifest =
        json!([{ "Config": config_name, "RepoTags": [image.name], "Layers": [layer_name] }]).to_string();
    let mut archive = tar::Builder::new(out);
    for (name, bytes) in [
        (config_name.as_str(), config.as_bytes()),
        (layer_name, &layer),
        ("manifest.json", manifest.as_bytes()),
    ] {
        file(&mut archive, name, bytes, 0o644)?;
    }
    archive.into_inner().map(drop).context(|| "writing an archive".to_owned())
}

/// The one layer: the programs in `/bin`, and the folders that programs expect.
fn layer(programs: &[impl AsRef<Path>]) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    for (folder, mode) in [("bin/", 0o755), ("etc/", 0o755), ("tmp/", 0o1777)] {
        entry(&mut layer, folder, EntryType::Directory, &[], mode)?;
    }
    for program in programs.iter().map(AsRef::as_ref) {
        let bytes = fs::read(program).context(|| format!("reading {}", program.display()))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        file(&mut layer, &format!("bin/{name}"), &bytes, 0o755)?;
    }
    layer.into_inner().context(|| "writing a layer".to_owned())
}

fn file(to: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    entry(to, name, EntryType::Regular, bytes, mode)
}

fn entry(
    to: &mut tar::Builder<impl Write>,
    name: &str,
    kind: EntryType,
    bytes: &[u8],
    mode: u32,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    to.append_data(&mut header, name, bytes).context(|| format!("adding {name} to an archive"))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// This machine's architecture, in the words of container images.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => Err(Error::Refused(format!("images for {other} are not known: use x86_64 or aarch64"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::path::PathBuf;

    use serde_json::Value;

    use super::*;

    fn image_of(programs: Vec<PathBuf>) -> Vec<u8> {
        let image =
            Image { name: "a/b:c".into(), programs, entrypoint: vec!["/bin/it".into()], pinned: None };
        let mut bytes = Vec::new();
        write(&image, &mut bytes).unwrap();
        bytes
    }

    fn entries(archive: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut all = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let mode = entry.header().mode().unwrap();
            all.insert(entry.path().unwrap().display().to_string(), (mode, bytes));
        }
        all
    }

    #[test]
    fn the_configuration_names_the_layer_by_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("it");
        fs::write(&program, "the program").unwrap();
        let archive = image_of(vec![program.clone()]);
        let files = entries(&archive);
        let manifest: Value = serde_json::from_slice(&files["manifest.json"].1).unwrap();
        assert_eq!(manifest[0]["RepoTags"][0], "a/b:c");
        let config: Value =
            serde_json::from_slice(&files[manifest[0]["Config"].as_str().unwrap()].1).unwrap();
        let layer = &files[manifest[0]["Layers"][0].as_str().unwrap()].1;
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hash(layer)));
        assert_eq!(entries(layer)["bin/it"], (0o755, b"the program".to_vec()));
        assert_eq!(archive, image_of(vec![program]), "the same programs give the same bytes");
    }
}
