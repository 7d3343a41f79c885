//! Each crate's `lib.rs` lists what always holds, and the tests that guard it. A list that names a test which was renamed
//! or removed promises what nobody checks any more.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of all crates.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all: Vec<PathBuf> =
        fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.push(root.join("testbed"));
    all.retain(|folder| folder.join("Cargo.toml").is_file());
    all
}

/// The tests that a list names: what stands in backquotes in the last column of its table.
fn guards(lib: &str) -> Vec<String> {
    let rows = lib
        .lines()
        .skip_while(|line| !line.starts_with("//! # Invariants"))
        .map_while(|line| line.strip_prefix("//!"));
    let cells = rows.filter_map(|row| row.trim().strip_suffix('|')?.rsplit('|').next().map(str::to_owned));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// All Rust source below a folder.
fn source(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&source(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    text
}

/// The names in a list that are no function of the crate.
fn missing(lib: &str, source: &str) -> Vec<String> {
    let mut names = guards(lib);
    names.retain(|name| {
        let function = name.rsplit("::").next().unwrap_or(name);
        !source.contains(&format!("fn {function}("))
    });
    names
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let crates = crates();
    assert!(crates.len() >= 2, "{crates:?}");
    for folder in crates {
        let lib = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        assert!(!guards(&lib).is_empty(), "{} lists no invariants", folder.display());
        let source = source(&folder.join("src")) + &source(&folder.join("tests"));
        assert_eq!(missing(&lib, &source), Vec::<String>::new(), "in {}", folder.display());
    }
}

#[test]
fn a_name_without_a_test_is_found() {
    let lib = "//! # Invariants\n//!\n//! | what | guarded by |\n//! |---|---|\n//! | a | `tests::there`, `tests::gone` |\n\nmod a;";
    assert_eq!(missing(lib, "fn there() {}"), ["tests::gone"]);
}
