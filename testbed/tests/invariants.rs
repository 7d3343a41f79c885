//! Keeps the documentation of guarantees true: each invariant in the `lib.rs` of a crate names tests that exist, and each
//! scenario id cited in code is listed in a page of `docs/reference`.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Prefixes of scenario ids that stand alone, such as `AUTHN-01`. Ids that start with `T-`, such as `T-G12`, have any
/// letters behind it.
const SCENARIO_PREFIXES: [&str; 27] = [
    "API", "ATTR", "AUTH", "AUTHN", "AUTHZ", "CACHE", "CFG", "CLI", "DOS", "ENG", "FWD", "GEN", "HDR",
    "HOLD", "I", "OIDC", "OPS", "PATH", "SEC", "SMUG", "SNAP", "TASK", "TLS", "UPG", "VERB", "WS", "X509",
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns the directories of all crates.
fn crates() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.push(repository().join("testbed"));
    all.retain(|dir| dir.join("Cargo.toml").is_file());
    all
}

/// Returns the tests that an invariants table names: the words in backticks in its last column.
fn named_tests(lib: &str) -> Vec<String> {
    let rows = lib
        .lines()
        .skip_while(|line| !line.starts_with("//! # Invariants"))
        .map_while(|line| line.strip_prefix("//!"));
    let cells = rows.filter_map(|row| row.trim().strip_suffix('|')?.rsplit('|').next().map(str::to_owned));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns all Rust files below a directory with their content.
fn sources(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// Returns the named tests that are not a function of the crate.
fn missing_tests(lib: &str, source: &str) -> Vec<String> {
    let mut names = named_tests(lib);
    names.retain(|name| {
        let function = name.rsplit("::").next().unwrap_or(name);
        !source.contains(&format!("fn {function}("))
    });
    names
}

/// Returns the scenario ids in a text.
fn scenario_ids(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_');
    words.map(|word| word.trim_matches('-')).filter(|word| is_scenario_id(word)).map(str::to_owned).collect()
}

/// Whether a word is a scenario id: a known prefix, possibly with more words in capitals, and a number.
fn is_scenario_id(word: &str) -> bool {
    let digits = word.bytes().rev().take_while(u8::is_ascii_digit).count();
    let name = &word[..word.len() - digits];
    let capitals = |name: &str| !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_uppercase());
    if digits == 0 {
        return false;
    }
    match name.strip_prefix("T-") {
        Some(letters) => capitals(letters.strip_suffix('-').unwrap_or(letters)),
        None => {
            let Some(name) = name.strip_suffix('-') else { return false };
            let mut words = name.split('-');
            words.next().is_some_and(|first| SCENARIO_PREFIXES.contains(&first)) && words.all(capitals)
        }
    }
}

/// Returns the ids in the first column of the tables of a page.
fn listed_ids(page: &str) -> BTreeSet<String> {
    let first_cells = page.lines().filter_map(|line| line.trim().strip_prefix('|')?.split('|').next());
    first_cells.flat_map(scenario_ids).collect()
}

/// Returns the cited ids that no page lists, each with the file that cites it.
fn unlisted_ids(sources: &[(PathBuf, String)], pages: &[String]) -> Vec<String> {
    let listed: BTreeSet<String> = pages.iter().flat_map(|page| listed_ids(page)).collect();
    let mut cited = BTreeMap::new();
    for (path, text) in sources {
        for id in scenario_ids(text) {
            cited.entry(id).or_insert(path);
        }
    }
    cited.retain(|id, _| !listed.contains(id));
    cited.iter().map(|(id, path)| format!("{id} (cited in {})", path.display())).collect()
}

/// Returns the pages `docs/reference/scenarios-*.md`.
fn scenario_pages() -> Vec<String> {
    let entries = fs::read_dir(repository().join("docs/reference")).unwrap().flatten();
    let is_scenario_page = |name: &str| {
        Path::new(name).extension().is_some_and(|kind| kind == "md") && name.starts_with("scenarios-")
    };
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_scenario_page))
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect()
}

#[test]
fn every_invariant_names_an_existing_test() {
    let crates = crates();
    assert!(crates.len() >= 2, "{crates:?}");
    for dir in crates {
        let lib = fs::read_to_string(dir.join("src/lib.rs")).unwrap();
        assert!(!named_tests(&lib).is_empty(), "{} lists no invariants", dir.display());
        let files = [sources(&dir.join("src")), sources(&dir.join("tests"))].concat();
        let source: String = files.into_iter().map(|(_, text)| text).collect();
        assert_eq!(missing_tests(&lib, &source), Vec::<String>::new(), "in {}", dir.display());
    }
}

#[test]
fn every_cited_scenario_is_listed() {
    let dirs = crates().into_iter().filter(|dir| !dir.ends_with("testbed"));
    let mut files: Vec<(PathBuf, String)> =
        dirs.flat_map(|dir| [sources(&dir.join("src")), sources(&dir.join("tests"))].concat()).collect();
    for (path, _) in &mut files {
        *path = path.strip_prefix(repository()).unwrap().to_owned();
    }
    let unlisted = unlisted_ids(&files, &scenario_pages());
    assert!(
        unlisted.is_empty(),
        "scenario ids without a row in docs/reference/scenarios-*.md:\n  {}",
        unlisted.join("\n  ")
    );
}

#[test]
fn missing_test_is_reported() {
    let lib = "//! # Invariants\n//!\n//! | what | guarded by |\n//! |---|---|\n//! | a | `tests::there`, `tests::gone` |\n\nmod a;";
    assert_eq!(missing_tests(lib, "fn there() {}"), ["tests::gone"]);
}

#[test]
fn unlisted_scenario_is_reported() {
    let file = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let files =
        [file("a.rs", "/// AUTHN-01, `HDR-03`: text"), file("b.rs", "id(\"T-G12\"); HDR-03; SNAP-SEC-2")];
    let page =
        "| id | scenario | test |\n|---|---|---|\n| AUTHN-01 | like HDR-03 | `a` |\n| `T-G12` | b | `b` |\n";
    assert_eq!(
        unlisted_ids(&files, &[page.to_owned()]),
        ["HDR-03 (cited in a.rs)", "SNAP-SEC-2 (cited in b.rs)"],
        "an id in another column than the first is not a listing"
    );
    let other = "| HDR-03 | c | `c` |\n| SNAP-SEC-2 | d | `d` |\n";
    assert_eq!(unlisted_ids(&files, &[page.to_owned(), other.to_owned()]), Vec::<String>::new());
}

#[test]
fn only_scenario_ids_are_recognized() {
    let ids = "AUTHN-01 WS-3, (T-G12) T-GEN-4 SNAP-SEC-10 \"CLI-07\" ENG-05a X509-02";
    let found: Vec<String> = scenario_ids(ids).into_iter().collect();
    assert_eq!(found, ["AUTHN-01", "CLI-07", "SNAP-SEC-10", "T-G12", "T-GEN-4", "WS-3", "X509-02"]);
    let others =
        "SHA-256 UTF-8 HMAC-SHA-256 X-1 API API-key TLS1 TLS-1.2x FNV-1a http2-TLS-3 my_API-3 -API- T-12";
    assert_eq!(scenario_ids(others), BTreeSet::from(["TLS-1".to_owned()]), "TLS-1.2 reads as TLS-1");
}
