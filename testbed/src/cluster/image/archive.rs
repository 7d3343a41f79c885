//! Image archive: an OCI image layout in a tar, plus the `manifest.json` of Docker, so that all runtimes and push tools
//! accept it. Reproducible: the same programs produce the same bytes and the same image ID.

use std::fs;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::Image;
use crate::error::{Error, IoContext, Result};

/// Content-addressed blob of an image.
struct Blob {
    media_type: &'static str,
    bytes: Vec<u8>,
    /// Computed once, because layers are large.
    digest: String,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: hash(&bytes), bytes }
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len() })
    }
}

/// Writes the archive of an image to `out`.
pub(super) fn write(image: &Image, out: &mut impl Write) -> Result<()> {
    let plain = Blob::new("application/vnd.oci.image.layer.v1.tar", layer(image)?);
    let diff_id = format!("sha256:{}", plain.digest);
    let layer = if image.is_compressed {
        Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&plain.bytes)?)
    } else {
        plain
    };
    let (mut index, mut docker_manifest, mut blobs) = (Vec::new(), Vec::new(), Vec::new());
    for (name, entrypoint) in &image.names {
        let config = Blob::new(
            "application/vnd.oci.image.config.v1+json",
            configuration(image, entrypoint, &diff_id)?.to_string().into_bytes(),
        );
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        });
        let manifest =
            Blob::new("application/vnd.oci.image.manifest.v1+json", manifest.to_string().into_bytes());
        let tag = name.rsplit(':').next().unwrap_or_default();
        let mut entry = manifest.descriptor();
        entry["annotations"] =
            json!({ "io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag });
        index.push(entry);
        docker_manifest
            .push(json!({ "Config": config.path(), "RepoTags": [name], "Layers": [layer.path()] }));
        blobs.extend([config, manifest]);
    }
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": index,
    });
    let mut archive = tar::Builder::new(out);
    append_file(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    for blob in [layer].iter().chain(&blobs) {
        append_file(&mut archive, &blob.path(), &blob.bytes, 0o644)?;
    }
    append_file(&mut archive, "index.json", index.to_string().as_bytes(), 0o644)?;
    append_file(&mut archive, "manifest.json", Value::Array(docker_manifest).to_string().as_bytes(), 0o644)?;
    archive.into_inner().map(drop).context(|| "writing an image archive".to_owned())
}

fn configuration(image: &Image, entrypoint: &[String], diff_id: &str) -> Result<Value> {
    let env = [("PATH", "/bin")].iter().chain(&image.env).map(|(name, value)| format!("{name}={value}"));
    let mut config = json!({ "Entrypoint": entrypoint, "Env": env.collect::<Vec<_>>(), "WorkingDir": "/" });
    if let Some(user) = image.user {
        config["User"] = user.into();
    }
    Ok(json!({
        "architecture": architecture()?,
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    }))
}

/// Compresses reproducibly: no time and no name in the header.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).context(|| "compressing a layer".to_owned())
}

/// Builds the only layer: files, symlinks, and the directories that programs expect.
fn layer(image: &Image) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    for (dir, mode) in [("bin/", 0o755), ("etc/", 0o755), ("tmp/", 0o1777)] {
        append_entry(&mut layer, dir, EntryType::Directory, &[], mode)?;
    }
    for source in &image.files {
        let bytes = fs::read(&source.from).context(|| format!("reading {}", source.from.display()))?;
        append_file(&mut layer, &source.to, &bytes, 0o755)?;
    }
    for (name, program) in &image.links {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        header.set_mtime(0);
        layer
            .append_link(&mut header, format!("bin/{name}"), program)
            .context(|| format!("adding {name} to an image archive"))?;
    }
    layer.into_inner().context(|| "writing a layer".to_owned())
}

fn append_file(to: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    append_entry(to, name, EntryType::Regular, bytes, mode)
}

fn append_entry(
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
    to.append_data(&mut header, name, bytes).context(|| format!("adding {name} to an image archive"))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the architecture of this machine, as named in OCI images.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => Err(Error::Other(format!("unsupported architecture {other}: expected x86_64 or aarch64"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::path::PathBuf;

    use serde_json::Value;

    use super::*;
    use crate::cluster::image::File;

    fn archive_of(programs: Vec<PathBuf>, is_compressed: bool) -> Vec<u8> {
        let names =
            vec![("a/b:c".into(), vec!["/bin/it".into()]), ("a/d:c".into(), vec!["/bin/other".into()])];
        let files = programs.into_iter().map(File::program).collect();
        let image = Image {
            names,
            files,
            links: vec![("other", "it")],
            env: vec![("A", "b")],
            user: Some("7"),
            is_compressed,
        };
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
            if let Some(target) = entry.link_name().unwrap() {
                bytes = target.display().to_string().into_bytes();
            }
            let mode = entry.header().mode().unwrap();
            all.insert(entry.path().unwrap().display().to_string(), (mode, bytes));
        }
        all
    }

    #[test]
    fn archive_is_valid_for_oci_and_docker() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("it");
        fs::write(&program, "the program").unwrap();
        for is_compressed in [false, true] {
            let archive = archive_of(vec![program.clone()], is_compressed);
            let files = entries(&archive);
            let json = |path: &str| serde_json::from_slice::<Value>(&files[path].1).unwrap();
            let blob = |descriptor: &Value| {
                let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
                let path = format!("blobs/sha256/{digest}");
                assert_eq!(hash(&files[&path].1), digest);
                assert_eq!(descriptor["size"], files[&path].1.len());
                path
            };
            for (number, (name, entrypoint)) in
                [("a/b:c", "/bin/it"), ("a/d:c", "/bin/other")].iter().enumerate()
            {
                let listed = &json("index.json")["manifests"][number];
                assert_eq!(listed["annotations"]["io.containerd.image.name"], *name);
                let manifest = json(&blob(listed));
                let (config, layer) = (blob(&manifest["config"]), blob(&manifest["layers"][0]));
                let docker_entry = &json("manifest.json")[number];
                assert_eq!(docker_entry, &json!({ "Config": config, "RepoTags": [name], "Layers": [layer] }));
                let config = json(&config);
                assert_eq!(config["config"]["Entrypoint"], json!([entrypoint]));
                assert_eq!(config["config"]["Env"], json!(["PATH=/bin", "A=b"]));
                assert_eq!(config["config"]["User"], "7");
                let mut content = files[&layer].1.clone();
                if is_compressed {
                    let mut plain = Vec::new();
                    flate2::read::GzDecoder::new(content.as_slice()).read_to_end(&mut plain).unwrap();
                    content = plain;
                }
                assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hash(&content)));
                assert_eq!(entries(&content)["bin/it"], (0o755, b"the program".to_vec()));
                assert_eq!(entries(&content)["bin/other"].1, b"it".to_vec());
            }
            assert_eq!(
                archive,
                archive_of(vec![program.clone()], is_compressed),
                "the archive is not reproducible"
            );
        }
    }
}
