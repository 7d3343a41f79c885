//! The definitions of our kinds, as a user gets them.

#![allow(clippy::expect_used, reason = "helpers of tests may panic as tests may")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const REGENERATE: &str = "cargo run --package outrigger -- crds --output-dir deploy/crds";

fn crds(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .arg("crds")
        .args(args)
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Names and texts of the files in a folder.
fn files(folder: &Path) -> BTreeMap<String, String> {
    fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("a file can be read"))
        })
        .collect()
}

#[test]
fn the_files_in_deploy_are_what_the_binary_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(crds(&["--output-dir", &folder.path().to_string_lossy()]), "");
    let (now, checked_in) =
        (files(folder.path()), files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")));
    assert_eq!(
        now.keys().collect::<Vec<_>>(),
        checked_in.keys().collect::<Vec<_>>(),
        "deploy/crds has other files; regenerate: {REGENERATE}"
    );
    for (name, text) in &now {
        assert!(checked_in[name] == *text, "deploy/crds/{name} is not up to date; regenerate: {REGENERATE}");
    }
    let printed: String = now.values().map(|text| format!("---\n{text}")).collect();
    assert!(crds(&[]) == printed, "what is printed differs from what is written");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .args(["crds", "--output-dir", "/proc/crds"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("outrigger: writing /proc/crds: "), "{said}");
}
