//! Checks that the documentation points to what exists: files named by the architecture page, and targets of relative links.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers may panic")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Lists files and directories below a directory, relative to the root, without build output and hidden ones.
fn walk(dir: &Path, root: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if name == "target" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        paths.push(format!("/{}", path.strip_prefix(root).unwrap().display()));
        if entry.file_type().unwrap().is_dir() {
            walk(&path, root, paths);
        }
    }
}

fn repository_paths() -> Vec<String> {
    let (root, mut paths) = (root(), Vec::new());
    walk(&root, &root, &mut paths);
    paths
}

/// Returns the inline code spans that name a source file or a directory.
fn named_paths(page: &str) -> Vec<&str> {
    let spans = page.split('`').skip(1).step_by(2);
    spans.filter(|span| !span.contains(' ') && (span.ends_with(".rs") || span.ends_with('/'))).collect()
}

fn missing_paths<'a>(page: &'a str, paths: &[String]) -> Vec<&'a str> {
    let exists =
        |name: &str| paths.iter().any(|path| path.ends_with(&format!("/{}", name.trim_end_matches('/'))));
    named_paths(page).into_iter().filter(|name| !exists(name)).collect()
}

/// Returns the relative targets of inline links, without fragments.
fn link_targets(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        .collect()
}

#[test]
fn architecture_page_names_existing_files() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let paths = repository_paths();
    assert!(named_paths(&page).len() > 50, "the page names too few files to be a map");
    assert_eq!(missing_paths(&page, &paths), Vec::<&str>::new());
}

#[test]
fn renamed_file_is_reported() {
    let paths = vec!["/crates/plan/src/node/drift.rs".to_owned(), "/crates/plan/src/node".to_owned()];
    let page = "`node/drift.rs` `node/` `node/wish.rs` `kubectl get -A`";
    assert_eq!(missing_paths(page, &paths), ["node/wish.rs"]);
}

#[test]
fn relative_links_resolve() {
    let (root, mut broken) = (root(), Vec::new());
    for path in repository_paths().iter().filter(|path| path.ends_with(".md")) {
        let file = root.join(path.trim_start_matches('/'));
        let page = fs::read_to_string(&file).unwrap();
        for target in link_targets(&page) {
            if !file.parent().unwrap().join(target).exists() {
                broken.push(format!("{path}: {target}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn link_targets_are_parsed() {
    let page = "[a](b.md#c) [d](https://e.example) [f](#g) [h](../i/j.md)";
    assert_eq!(link_targets(page), ["b.md", "../i/j.md"]);
}
