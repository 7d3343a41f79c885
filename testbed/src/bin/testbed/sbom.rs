//! `testbed sbom`: lists what the release binary is made of, from `cargo metadata` and the lock file: as a CycloneDX document, and as the
//! content of the section `.dep-v0`, in which scanners of binaries look (the format of cargo-auditable).
//!
//! `cargo auditable` itself is a wrapper around rustc. Its path becomes part of symbol names, which the layout of the release binary
//! refers to (docs/decisions/0009-release-binary-layout.md).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use testbed::{Error, Result};

/// The package of the binary.
const ROOT: &str = "outrigger";

/// The lock file of the workspace.
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");

/// A package that is compiled into the binary.
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// SHA-256 of its archive; `None` for our own crates.
    checksum: Option<String>,
    /// Ids of the packages that it is compiled with.
    dependencies: Vec<String>,
}

impl Package {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Writes `outrigger.cdx.json` and `outrigger.dep-v0` to a directory.
pub fn write(dir: &Path) -> Result<()> {
    let packages = packages()?;
    let io = |source| Error::Io { what: format!("writing to {}", dir.display()), source };
    std::fs::create_dir_all(dir).map_err(io)?;
    let document = serde_json::to_string_pretty(&cyclonedx(&packages))?;
    std::fs::write(dir.join("outrigger.cdx.json"), document + "\n").map_err(io)?;
    let mut section = ZlibEncoder::new(Vec::new(), Compression::best());
    section.write_all(auditable(&packages).to_string().as_bytes()).map_err(io)?;
    std::fs::write(dir.join("outrigger.dep-v0"), section.finish().map_err(io)?).map_err(io)?;
    println!("{}: {} packages", dir.join("outrigger.cdx.json").display(), packages.len());
    Ok(())
}

/// Runs cargo and returns its standard output.
fn cargo(args: &[&str]) -> Result<String> {
    let output = Command::new("cargo").args(args).output();
    let command = format!("cargo {}", args.join(" "));
    let output = output.map_err(|source| Error::Io { what: format!("running {command}"), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Command { command, status: output.status, stderr })
}

/// Returns name and version of each package that is compiled. `cargo metadata` also lists optional dependencies that no feature
/// switches on.
fn compiled(target: &str) -> Result<BTreeSet<(String, String)>> {
    let format = ["--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let package = ["tree", "--locked", "--package", ROOT, "--target", target];
    let tree = cargo(&[&package[..], &format].concat())?;
    let package = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split_whitespace().next()?.to_owned()))
    };
    Ok(tree.lines().filter_map(package).collect())
}

/// Returns the packages by id, which is ordered like their names.
fn packages() -> Result<BTreeMap<String, Package>> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let compiled = compiled(&target)?;
    let filter = format!("--filter-platform={target}");
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--format-version=1", &filter])?)?;
    let lock = std::fs::read_to_string(LOCK)
        .map_err(|source| Error::Io { what: format!("reading {LOCK}"), source })?;
    let checksums = checksums(&lock);
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let is_compiled = |package: &&Value| {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        compiled.contains(&(text("name"), text("version")))
    };
    let described: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .filter(is_compiled)
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let root = described.iter().find(|(_, package)| package["name"] == ROOT).map(|(id, _)| *id);
    let mut pending: Vec<&str> = root.into_iter().collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = pending.pop() {
        if described.contains_key(id) && reached.insert(id) {
            pending.extend(nodes.get(id).into_iter().flat_map(|node| runtime_dependencies(node)));
        }
    }
    let package = |id: &str| {
        let text = |field: &str| described.get(id)?[field].as_str().map(str::to_owned);
        let (name, version) = (text("name")?, text("version")?);
        let checksum = checksums.get(&(name.as_str(), version.as_str())).map(|sum| (*sum).to_owned());
        let dependencies = nodes.get(id).into_iter().flat_map(|node| runtime_dependencies(node));
        let dependencies = dependencies.map(str::to_owned).collect();
        Some((id.to_owned(), Package { license: text("license"), name, version, checksum, dependencies }))
    };
    Ok(reached.into_iter().filter_map(package).collect())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the ids of what a package is compiled with, without what only its build script or its tests use.
fn runtime_dependencies(node: &Value) -> impl Iterator<Item = &str> {
    let is_runtime = |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
    list(&node["deps"]).filter(is_runtime).filter_map(|dependency| dependency["pkg"].as_str())
}

/// Returns the checksums in a lock file by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let field = |package: &'_ str, name: &str| -> Option<(usize, usize)> {
        let start = package.find(&format!("\n{name} = \""))? + name.len() + 5;
        Some((start, start + package[start..].find('"')?))
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let text = |name| field(package, name).map(|(start, end)| &package[start..end]);
            Some(((text("name")?, text("version")?), text("checksum")?))
        })
        .collect()
}

/// Returns a CycloneDX document. It has no time and no serial number: the same sources give the same document.
fn cyclonedx(packages: &BTreeMap<String, Package>) -> Value {
    let purls = |ids: &[String]| -> BTreeSet<String> {
        ids.iter().filter_map(|id| packages.get(id)).map(Package::purl).collect()
    };
    let component = |package: &Package| {
        let kind = if package.name == ROOT { "application" } else { "library" };
        let mut component = json!({
            "type": kind, "bom-ref": package.purl(), "name": package.name, "version": package.version, "purl": package.purl(),
        });
        if let Some(license) = &package.license {
            // Old packages separate alternatives with a slash.
            let expression = license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
            component["licenses"] = json!([{ "expression": expression }]);
        }
        if let Some(checksum) = &package.checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let root = packages.values().find(|package| package.name == ROOT).map(component);
    let others = packages.values().filter(|package| package.name != ROOT).map(component);
    let dependencies = packages
        .values()
        .map(|package| json!({ "ref": package.purl(), "dependsOn": purls(&package.dependencies) }));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": root },
        "components": others.collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    })
}

/// Returns the content of `.dep-v0`. Dependencies are positions in the list.
fn auditable(packages: &BTreeMap<String, Package>) -> Value {
    let positions: BTreeMap<&String, usize> =
        packages.keys().enumerate().map(|(position, id)| (id, position)).collect();
    let entries = packages.values().map(|package| {
        let dependencies: BTreeSet<usize> =
            package.dependencies.iter().filter_map(|id| positions.get(id).copied()).collect();
        let source = if package.checksum.is_some() { "crates.io" } else { "local" };
        let mut entry = json!({
            "name": package.name, "version": package.version, "source": source, "dependencies": dependencies,
        });
        if package.name == ROOT {
            entry["root"] = json!(true);
        }
        entry
    });
    json!({ "packages": entries.collect::<Vec<_>>() })
}
