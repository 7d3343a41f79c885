//! Single settings of `config.toml`. Comments, order and everything else stay as they are.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, Value};

use super::{files, home};

/// Why a setting could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TomlError {
    /// The file cannot be read or written.
    #[error("config.toml: {0}")]
    Io(#[from] std::io::Error),
    /// The file is no TOML.
    #[error("config.toml is no TOML: {0}")]
    Toml(#[from] toml_edit::TomlError),
    /// What should be a table is none.
    #[error("config.toml: {0} is no table")]
    NoTable(String),
}

/// Reads a text of a table; empty if there is none.
pub fn text(node_home: &Path, table: &str, key: &str) -> Result<String, TomlError> {
    let text = files::read(&node_home.join(home::CONFIG))?.unwrap_or_default();
    let document: DocumentMut = text.parse()?;
    let found = document.get(table).and_then(|table| table.get(key));
    Ok(found.and_then(Item::as_str).unwrap_or_default().to_owned())
}

/// Sets values of a table, all at once.
pub fn set(node_home: &Path, table: &str, values: Vec<(&str, Value)>) -> Result<(), TomlError> {
    let path = node_home.join(home::CONFIG);
    let mut document: DocumentMut = files::read(&path)?.unwrap_or_default().parse()?;
    let item = document.entry(table).or_insert_with(|| Item::Table(Table::new()));
    let settings = item.as_table_like_mut().ok_or_else(|| TomlError::NoTable(table.to_owned()))?;
    for (key, value) in values {
        match settings.get_mut(key).and_then(Item::as_value_mut) {
            Some(there) => {
                let decor = there.decor().clone();
                *there = value;
                *there.decor_mut() = decor;
            }
            None => drop(settings.insert(key, Item::Value(value))),
        }
    }
    Ok(files::write(&path, document.to_string().as_bytes(), 0o644)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_changes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("config")).unwrap();
        let file = dir.path().join(home::CONFIG);
        std::fs::write(
            &file,
            "# ours\n[p2p]\nladdr = \"x\" # where\npersistent-peers = \"a\" # who\n[other]\nkept = 1\n",
        )
        .unwrap();
        set(dir.path(), "p2p", vec![("persistent-peers", "b,c".into()), ("new", 5.into())]).unwrap();
        let text_now = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            text_now,
            "# ours\n[p2p]\nladdr = \"x\" # where\npersistent-peers = \"b,c\" # who\nnew = 5\n[other]\nkept = 1\n"
        );
        assert_eq!(text(dir.path(), "p2p", "persistent-peers").unwrap(), "b,c");
        std::fs::write(&file, "p2p = 1\n").unwrap();
        assert!(set(dir.path(), "p2p", vec![("a", 1.into())]).is_err());
    }
}
