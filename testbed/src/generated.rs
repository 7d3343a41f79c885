//! Files that are generated and checked in: a test compares them with what the generator gives now.

use std::fs;
use std::path::Path;

use crate::error::{Error, IoContext, Result};

/// Set, the files are written instead of compared.
const WRITE: &str = "OUTRIGGER_WRITE_GENERATED";

/// Fails when a file of this repository (its path from the root) is not what was generated.
pub fn check(path: &str, generated: &str) -> Result<()> {
    check_at(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path),
        path,
        generated,
        std::env::var_os(WRITE).is_some(),
    )
}

fn check_at(file: &Path, path: &str, generated: &str, write: bool) -> Result<()> {
    if write {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
        }
        return fs::write(file, generated).context(|| format!("writing {path}"));
    }
    // A file that is missing differs in its first line.
    let present = fs::read_to_string(file).unwrap_or_default();
    if present == generated {
        return Ok(());
    }
    let lines = present.lines().map(Some).chain(std::iter::repeat(None));
    let first = generated.lines().zip(lines).position(|(wanted, present)| Some(wanted) != present);
    let line = first.unwrap_or_else(|| generated.lines().count()) + 1;
    Err(Error::Refused(format!(
        "{path} is not what is generated now (from line {line} on): run the same test with {WRITE}=1, and commit the file"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_is_named_with_its_line_and_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("docs/a.md");
        let check =
            |text: &str, write| check_at(&file, "docs/a.md", text, write).map_err(|error| error.to_string());
        let error = check("one\ntwo\n", false).unwrap_err();
        assert!(
            error.starts_with(
                "docs/a.md is not what is generated now (from line 1 on): run the same test with"
            ),
            "{error}"
        );
        check("one\ntwo\n", true).unwrap();
        check("one\ntwo\n", false).unwrap();
        assert!(check("one\nthree\n", false).unwrap_err().contains("from line 2 on"));
        assert!(check("one\n", false).unwrap_err().contains("from line 2 on"), "a line too many");
    }
}
