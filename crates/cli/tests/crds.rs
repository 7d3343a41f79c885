//! Tests of `outrigger crds`.

#![allow(clippy::expect_used, reason = "test helpers may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const REGENERATE: &str = "cargo run --locked --package outrigger -- crds --output-dir deploy/crds";

fn crds(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .arg("crds")
        .args(args)
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Returns names and contents of the files in a directory.
fn files(dir: &Path) -> BTreeMap<String, String> {
    fs::read_dir(dir)
        .expect("directory exists")
        .map(|entry| {
            let path = entry.expect("directory is readable").path();
            let name = path.file_name().expect("file has a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("file is readable"))
        })
        .collect()
}

#[test]
fn deploy_crds_are_up_to_date() {
    let dir = tempfile::tempdir().expect("temporary directory");
    assert_eq!(crds(&["--output-dir", &dir.path().to_string_lossy()]), "");
    let (generated, mut checked_in) =
        (files(dir.path()), files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")));
    // Installs the others, and is generated with the other install manifests.
    assert!(checked_in.remove("kustomization.yaml").is_some());
    assert_eq!(
        generated.keys().collect::<Vec<_>>(),
        checked_in.keys().collect::<Vec<_>>(),
        "deploy/crds has different files; regenerate: {REGENERATE}"
    );
    for (name, text) in &generated {
        assert!(checked_in[name] == *text, "deploy/crds/{name} is not up to date; regenerate: {REGENERATE}");
    }
    let printed: String = generated.values().map(|text| format!("---\n{text}")).collect();
    assert!(crds(&[]) == printed, "printed CRDs differ from written CRDs");
}

#[test]
fn unwritable_directory_error_names_the_path() {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["crds", "--output-dir", "/proc/crds"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.starts_with("outrigger: writing /proc/crds: "), "{stderr}");
}
