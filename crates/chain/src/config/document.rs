//! TOML file of a node. Edits preserve key order, comments and unknown keys.

use api::duration;
use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value as Toml};

use super::table::{File, Kind};
use super::value::{InvalidValue, Value, parse_list};

/// Error returned when a file cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Malformed TOML.
    #[error("{file} is not valid TOML: {what}")]
    Syntax {
        /// File name.
        file: &'static str,
        /// Parser error, on one line.
        what: String,
    },
    /// A key holds a value of the wrong type.
    #[error("{file}: {path} {why}; expected {kind}")]
    Kind {
        /// File name.
        file: &'static str,
        /// Key.
        path: String,
        /// Reason, a clause that follows the key.
        why: String,
        /// Expected type.
        kind: &'static str,
    },
    /// A section is not a table.
    #[error("{file}: {path} is not a table; write it as [{path}]")]
    NotATable {
        /// File name.
        file: &'static str,
        /// Key.
        path: String,
    },
}

/// Parsed file.
pub(crate) struct Document {
    file: &'static str,
    toml: DocumentMut,
}

impl Document {
    pub(crate) fn parse(file: File, text: &str) -> Result<Self, FileError> {
        Self::parse_named(file.name(), text)
    }

    pub(crate) fn parse_named(file: &'static str, text: &str) -> Result<Self, FileError> {
        let toml = text.parse().map_err(|error: toml_edit::TomlError| FileError::Syntax {
            file,
            what: one_line(&error, text),
        })?;
        Ok(Self { file, toml })
    }

    pub(crate) fn root(&mut self) -> &mut Table {
        self.toml.as_table_mut()
    }

    pub(crate) fn text(&self) -> String {
        self.toml.to_string()
    }

    /// Returns the value at a path, if present.
    pub(crate) fn read(&self, path: &str, kind: Kind) -> Result<Option<Value>, FileError> {
        let Some(item) = self.item(path)? else { return Ok(None) };
        to_value(item, kind).map(Some).map_err(|InvalidValue(why)| FileError::Kind {
            file: self.file,
            path: path.into(),
            why,
            kind: kind.name(),
        })
    }

    /// Sets the value at a path and keeps the comment next to the old value. A new key is inserted after the key `after` of
    /// the same table.
    pub(crate) fn write(&mut self, path: &str, literal: &str, after: Option<&str>) -> Result<(), FileError> {
        let (file, syntax_error) =
            (self.file, |error| FileError::Syntax { file: self.file, what: one_line(&error, "") });
        let new: Toml = literal.parse().map_err(syntax_error)?;
        let root = self.toml.as_table_mut();
        let Some((section, name)) = path.split_once('.') else {
            insert(root, path, new, after);
            return Ok(());
        };
        let key = find_key(root, section).unwrap_or_else(|| section.to_owned());
        match root.entry(&key).or_insert_with(|| Item::Table(new_table())) {
            Item::Table(table) => insert(table, name, new, after),
            item => {
                let not_a_table = || FileError::NotATable { file, path: section.into() };
                put(item.as_table_like_mut().ok_or_else(not_a_table)?, name, new);
            }
        }
        Ok(())
    }

    /// Reports whether the path exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.item(path).is_ok_and(|item| item.is_some())
    }

    fn item(&self, path: &str) -> Result<Option<&Item>, FileError> {
        let root: &dyn TableLike = self.toml.as_table();
        let Some((section, name)) = path.split_once('.') else {
            return Ok(find_key(root, path).and_then(|path| root.get(&path)));
        };
        let Some(item) = find_key(root, section).and_then(|section| root.get(&section)) else {
            return Ok(None);
        };
        let table = item
            .as_table_like()
            .ok_or_else(|| FileError::NotATable { file: self.file, path: section.into() })?;
        Ok(find_key(table, name).and_then(|name| table.get(&name)))
    }
}

/// Formats a parser error with its line number, on one line.
fn one_line(error: &toml_edit::TomlError, text: &str) -> String {
    let what = error.message().trim().replace('\n', ", ");
    let Some(span) = error.span() else { return what };
    let line = text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {what}")
}

/// Creates a table that is preceded by a blank line.
fn new_table() -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    table
}

/// Sets a value in a table. A new key is inserted after the key `after`, if that exists.
fn insert(table: &mut Table, name: &str, new: Toml, after: Option<&str>) {
    if !put(table, name, new) {
        return;
    }
    let order: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
    let after = after.and_then(|after| find_key(table, after));
    let Some(anchor) = order.iter().position(|key| after.as_ref() == Some(key)) else { return };
    // Doubled indexes leave room for one key between two others.
    let rank = |key: &str| match order.iter().position(|other| other == key) {
        Some(_) if key == name => 2 * anchor + 1,
        Some(index) => 2 * index,
        None => usize::MAX,
    };
    table.sort_values_by(|a, _, b, _| rank(a.get()).cmp(&rank(b.get())));
}

/// Sets a value in a table: replaces the existing one, or appends it with the indentation of the other keys. Returns whether
/// the key is new.
pub(crate) fn put(table: &mut dyn TableLike, name: &str, mut new: Toml) -> bool {
    let key = find_key(table, name).unwrap_or_else(|| name.to_owned());
    if let Some(old) = table.get_mut(&key) {
        if let Some(old) = old.as_value() {
            *new.decor_mut() = old.decor().clone();
        }
        *old = Item::Value(new);
        return false;
    }
    let indent = table.iter().next().and_then(|(first, _)| table.key(first)).map(indentation);
    table.insert(&key, Item::Value(new));
    if let (Some(indent), Some(mut key)) = (indent, table.key_mut(&key)) {
        key.leaf_decor_mut().set_prefix(indent);
    }
    true
}

/// Returns the indentation of a key.
fn indentation(key: &Key) -> String {
    let prefix = key.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    let line = prefix.rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).collect()
}

/// Returns a key in the spelling of the table: seid matches keys case-insensitively.
pub(crate) fn find_key(table: &dyn TableLike, name: &str) -> Option<String> {
    if table.contains_key(name) {
        return Some(name.to_owned());
    }
    table.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(key, _)| key.to_owned())
}

/// Converts an item to a value. Numbers and booleans may be quoted, because `seid init` quotes some of them.
fn to_value(item: &Item, kind: Kind) -> Result<Value, InvalidValue> {
    let Some(value) = item.as_value() else { return Err(InvalidValue("is a table".into())) };
    let wrong_type = || InvalidValue(format!("is {} {}", article(value.type_name()), value.type_name()));
    let strings = |value: &Toml| -> Result<Vec<String>, InvalidValue> {
        let entries = value.as_array().ok_or_else(wrong_type)?;
        entries.iter().map(|entry| entry.as_str().map(str::to_owned).ok_or_else(wrong_type)).collect()
    };
    match (kind, value) {
        (Kind::Text, Toml::String(text)) => Ok(Value::Text(text.value().clone())),
        (Kind::Text, Toml::Integer(number)) => Ok(Value::Text(number.value().to_string())),
        (Kind::Bool | Kind::OptionalBool, Toml::Boolean(flag)) => Ok(Value::Bool(*flag.value())),
        (Kind::Bool | Kind::OptionalBool, Toml::String(text)) => Value::parse(Kind::Bool, text.value()),
        (Kind::Int(..), Toml::Integer(number)) => Value::parse(kind, &number.value().to_string()),
        // Some writers emit 7000.0 for 7000.
        (Kind::Int(..), Toml::Float(number)) if number.value().fract() == 0.0 => {
            Value::parse(kind, &format!("{:.0}", number.value()))
        }
        (Kind::Int(..) | Kind::Float, Toml::String(text)) => Value::parse(kind, text.value()),
        (Kind::Float, Toml::Float(number)) if number.value().is_finite() => Ok(Value::Float(*number.value())),
        (Kind::Float, Toml::Integer(number)) => Value::parse(kind, &number.value().to_string()),
        (Kind::Duration, Toml::String(text)) => duration::parse(text.value())
            .map(Value::Duration)
            .ok_or_else(|| InvalidValue(format!("is {:?}", text.value()))),
        // seid reads a bare number as nanoseconds.
        (Kind::Duration, Toml::Integer(number)) => Ok(Value::Duration(*number.value())),
        (Kind::CommaSeparated, Toml::String(text)) => parse_list(text.value().trim()).map(Value::List),
        (Kind::List | Kind::CommaSeparated, _) => strings(value).map(Value::List),
        (Kind::Labels, _) => {
            let lists = value.as_array().ok_or_else(wrong_type)?;
            lists.iter().map(strings).collect::<Result<_, _>>().map(Value::Labels)
        }
        _ => Err(wrong_type()),
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
