//! Compares checked-in generated files with the current output of their generator.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, IoContext, Result};

/// Renders the flags of a command as Markdown tables, one per heading.
#[must_use]
pub fn flag_tables(command: &clap::Command) -> String {
    let (mut page, mut heading) = (String::new(), None);
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if arg.get_help_heading() != heading || page.is_empty() {
            heading = arg.get_help_heading();
            if let Some(heading) = heading {
                let _ = writeln!(page, "\n## {heading}");
            }
            page.push_str("\n| flag | environment | default | description |\n|---|---|---|---|\n");
        }
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let takes = arg.get_action().takes_values();
        let value = arg.get_value_names().and_then(|names| names.first()).filter(|_| takes);
        let name = arg.get_long().map_or_else(String::new, |long| format!("--{long} "));
        let default = arg.get_default_values().iter().filter_map(|value| value.to_str()).filter(|_| takes);
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            format!("{name}{}", value.map(|name| name.as_str()).unwrap_or_default()).trim_end(),
            code(arg.get_env().and_then(|name| name.to_str()).unwrap_or_default()),
            code(&default.collect::<Vec<_>>().join(",")),
            arg.get_help().map(ToString::to_string).unwrap_or_default(),
        );
    }
    page
}

/// If set, files are written instead of compared.
const WRITE: &str = "OUTRIGGER_WRITE_GENERATED";

/// Fails if a file of this repository differs from these documents, written as YAML with `---` separators.
pub fn check_yaml(path: &str, documents: &[Value]) -> Result<()> {
    let yaml = |document| {
        let text = serde_saphyr::to_string(document);
        text.map(|text| format!("---\n{text}")).map_err(|error| Error::Other(format!("{path}: {error}")))
    };
    check(path, &documents.iter().map(yaml).collect::<Result<String>>()?)
}

/// Fails if a file of this repository (path from the root) differs from the generated text.
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
            fs::create_dir_all(folder).context(|| format!("creating {}", folder.display()))?;
        }
        return fs::write(file, generated).context(|| format!("writing {path}"));
    }
    // A missing file differs in line 1.
    let current = fs::read_to_string(file).unwrap_or_default();
    if current == generated {
        return Ok(());
    }
    let line = current.lines().zip(generated.lines()).take_while(|(is, expected)| is == expected).count();
    let at = |text: &str| text.lines().nth(line).map_or_else(|| "(end of file)".to_owned(), str::to_owned);
    Err(Error::Other(format!(
        "{path}:{} is out of date:\n  {}\nexpected:\n  {}\nto update it, run the same test with {WRITE}=1 and commit the file",
        line + 1,
        at(&current),
        at(generated),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outdated_file_error_names_line_and_fix() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("docs/a.md");
        let check =
            |text: &str, write| check_at(&file, "docs/a.md", text, write).map_err(|error| error.to_string());
        let error = check("one\ntwo\n", false).unwrap_err();
        let fix = "to update it, run the same test with OUTRIGGER_WRITE_GENERATED=1 and commit the file";
        assert_eq!(error, format!("docs/a.md:1 is out of date:\n  (end of file)\nexpected:\n  one\n{fix}"));
        check("one\ntwo\n", true).unwrap();
        check("one\ntwo\n", false).unwrap();
        let error = check("one\nthree\n", false).unwrap_err();
        assert!(error.starts_with("docs/a.md:2 is out of date:\n  two\nexpected:\n  three\n"), "{error}");
        let error = check("one\n", false).unwrap_err();
        assert!(
            error.starts_with("docs/a.md:2 is out of date:\n  two\nexpected:\n  (end of file)\n"),
            "{error}"
        );
    }
}
