//! Dependencies: the SBOM matches the lock file, scripts never change the lock file, and the policy in `deny.toml` gives reasons.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::ZlibDecoder;
use serde_json::Value;

/// The subcommands of cargo that resolve dependencies.
const RESOLVING: [&str; 11] =
    ["bench", "build", "check", "clippy", "deny", "doc", "install", "metadata", "run", "test", "tree"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the calls of cargo in a shell script that may change the lock file: those without `--locked` behind the subcommand.
fn unlocked_calls(script: &str) -> Vec<&str> {
    let code = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    let is_unlocked = |call: &str| {
        let mut words = call.split_whitespace();
        words.next().is_some_and(|word| RESOLVING.contains(&word)) && words.next() != Some("--locked")
    };
    code.filter(|line| line.split("cargo ").skip(1).any(is_unlocked)).map(str::trim).collect()
}

#[test]
fn unlocked_call_is_found() {
    let script = "# cargo build\ncargo build --locked\n  x=1 cargo test --quiet\nstep cargo fmt --all\ncargo test --locked; cargo run\n";
    assert_eq!(unlocked_calls(script), ["x=1 cargo test --quiet", "cargo test --locked; cargo run"]);
}

#[test]
fn scripts_call_cargo_with_the_lock_file() {
    let mut files: Vec<PathBuf> = ["scripts", ".ci"]
        .iter()
        .flat_map(|dir| fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    files.extend(["Makefile", "CONTRIBUTING.md", "README.md"].map(|name| root().join(name)));
    let (mut calls, mut unlocked) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        calls += text.matches("--locked").count();
        unlocked.extend(unlocked_calls(&text).into_iter().map(|call| format!("{}: {call}", file.display())));
    }
    assert!(calls > 30, "{calls}: are the scripts elsewhere?");
    assert_eq!(unlocked, Vec::<String>::new(), "add --locked behind the subcommand");
}

/// Returns the checksums in the lock file by package URL. Our own crates have none.
fn locked() -> BTreeMap<String, Option<String>> {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
        line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
    };
    lock.split("[[package]]")
        .skip(1)
        .map(|package| {
            let purl = format!(
                "pkg:cargo/{}@{}",
                field(package, "name").unwrap(),
                field(package, "version").unwrap()
            );
            (purl, field(package, "checksum"))
        })
        .collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} in {value}"))
}

#[test]
fn sbom_lists_compiled_crates_with_lock_file_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let written = Command::new(env!("CARGO_BIN_EXE_testbed")).arg("sbom").arg(dir.path()).output().unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let document: Value =
        serde_json::from_slice(&fs::read(dir.path().join("outrigger.cdx.json")).unwrap()).unwrap();
    assert_eq!((text(&document, "bomFormat"), text(&document, "specVersion")), ("CycloneDX", "1.6"));
    let main = &document["metadata"]["component"];
    assert_eq!((text(main, "type"), text(main, "name")), ("application", "outrigger"));
    let locked = locked();
    let components = document["components"].as_array().unwrap();
    let mut refs = BTreeSet::from([text(main, "bom-ref")]);
    for component in components {
        let purl = text(component, "purl");
        assert!(refs.insert(text(component, "bom-ref")), "{purl} is listed twice");
        let checksum = locked.get(purl).unwrap_or_else(|| panic!("{purl} is not in the lock file"));
        assert_eq!(component["hashes"][0]["content"].as_str(), checksum.as_deref(), "{purl}");
        assert!(checksum.is_some() || text(component, "name").starts_with("outrigger-"), "{purl}");
        assert!(!text(&component["licenses"][0], "expression").is_empty(), "{purl}");
    }
    let named: BTreeSet<&str> = components.iter().map(|component| text(component, "name")).collect();
    for compiled in ["tokio", "aws-lc-sys", "rusqlite", "outrigger-plan"] {
        assert!(named.contains(compiled), "{compiled} is missing");
    }
    for absent in ["proptest", "outrigger-testbed", "windows-sys", "ring", "cc"] {
        assert!(!named.contains(absent), "{absent} is not compiled into the binary");
    }
    let mut connected = BTreeSet::new();
    for entry in document["dependencies"].as_array().unwrap() {
        connected.insert(text(entry, "ref"));
        for to in entry["dependsOn"].as_array().unwrap() {
            assert!(refs.contains(to.as_str().unwrap()), "{to} is not a component");
        }
    }
    assert_eq!(connected, refs, "each component has an entry in dependencies");
    let section = fs::read(dir.path().join("outrigger.dep-v0")).unwrap();
    let mut json = String::new();
    ZlibDecoder::new(&*section).read_to_string(&mut json).unwrap();
    let auditable: Value = serde_json::from_str(&json).unwrap();
    let packages = auditable["packages"].as_array().unwrap();
    let purls: BTreeSet<String> = packages
        .iter()
        .map(|package| format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version")))
        .collect();
    assert!(purls.iter().map(String::as_str).eq(refs), "both list the same packages");
    assert_eq!(packages.iter().filter(|package| package["root"] == true).count(), 1);
}
