//! One of a node's files, changed without touching what was not asked for: order, comments and keys that nobody here
//! knows stay as they are.

use api::duration;
use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value as Toml};

use super::table::{File, Kind};
use super::value::{Unfit, Value, list};

/// Why a file cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not TOML.
    #[error("{file} is not TOML: {what}")]
    Syntax {
        /// Its name.
        file: &'static str,
        /// What the parser says, on one line.
        what: String,
    },
    /// A key holds something else than its setting does.
    #[error("{file}: {path} {why}; it takes a value of kind {kind}")]
    Kind {
        /// Its name.
        file: &'static str,
        /// The key.
        path: String,
        /// What is wrong.
        why: String,
        /// What it should be.
        kind: &'static str,
    },
    /// What should be a table is none.
    #[error("{file}: {path} is not a table; write it as [{path}]")]
    NoTable {
        /// Its name.
        file: &'static str,
        /// The key.
        path: String,
    },
}

/// One file.
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

    /// The value at a path, if there is one.
    pub(crate) fn read(&self, path: &str, kind: Kind) -> Result<Option<Value>, FileError> {
        let Some(item) = self.item(path)? else { return Ok(None) };
        value(item, kind).map(Some).map_err(|Unfit(why)| FileError::Kind {
            file: self.file,
            path: path.into(),
            why,
            kind: kind.name(),
        })
    }

    /// Puts a value at a path. A comment beside the old one stays; a new one comes after a key of the same table.
    pub(crate) fn write(&mut self, path: &str, literal: &str, after: Option<&str>) -> Result<(), FileError> {
        let (file, wrong) =
            (self.file, |error| FileError::Syntax { file: self.file, what: one_line(&error, "") });
        let new: Toml = literal.parse().map_err(wrong)?;
        let root = self.toml.as_table_mut();
        let Some((section, name)) = path.split_once('.') else {
            insert(root, path, new, after);
            return Ok(());
        };
        let spelled = spelled(root, section).unwrap_or_else(|| section.to_owned());
        match root.entry(&spelled).or_insert_with(|| Item::Table(new_table())) {
            Item::Table(table) => insert(table, name, new, after),
            item => {
                let no_table = || FileError::NoTable { file, path: section.into() };
                put(item.as_table_like_mut().ok_or_else(no_table)?, name, new);
            }
        }
        Ok(())
    }

    /// Whether there is a key at a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.item(path).is_ok_and(|item| item.is_some())
    }

    fn item(&self, path: &str) -> Result<Option<&Item>, FileError> {
        let root: &dyn TableLike = self.toml.as_table();
        let Some((section, name)) = path.split_once('.') else {
            return Ok(spelled(root, path).and_then(|path| root.get(&path)));
        };
        let Some(item) = spelled(root, section).and_then(|section| root.get(&section)) else {
            return Ok(None);
        };
        let table = item
            .as_table_like()
            .ok_or_else(|| FileError::NoTable { file: self.file, path: section.into() })?;
        Ok(spelled(table, name).and_then(|name| table.get(&name)))
    }
}

/// What the parser says, with the line, on one line.
fn one_line(error: &toml_edit::TomlError, text: &str) -> String {
    let what = error.message().trim().replace('\n', ", ");
    let Some(span) = error.span() else { return what };
    let line = text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {what}")
}

/// A table that is added to a file, after a blank line.
fn new_table() -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    table
}

/// Puts a value into a table; one that is new there comes after a key, if there is that key.
fn insert(table: &mut Table, name: &str, new: Toml, after: Option<&str>) {
    if !put(table, name, new) {
        return;
    }
    let order: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
    let after = after.and_then(|after| spelled(table, after));
    let Some(place) = order.iter().position(|key| after.as_ref() == Some(key)) else { return };
    // Twice the place leaves room for one between two others.
    let rank = |key: &str| match order.iter().position(|other| other == key) {
        Some(_) if key == name => 2 * place + 1,
        Some(place) => 2 * place,
        None => usize::MAX,
    };
    table.sort_values_by(|a, _, b, _| rank(a.get()).cmp(&rank(b.get())));
}

/// Puts a value into a table: in the place of the one that is there, or after the others, indented as they are. Returns
/// whether it is new there.
pub(crate) fn put(table: &mut dyn TableLike, name: &str, mut new: Toml) -> bool {
    let spelled = spelled(table, name).unwrap_or_else(|| name.to_owned());
    if let Some(old) = table.get_mut(&spelled) {
        if let Some(old) = old.as_value() {
            *new.decor_mut() = old.decor().clone();
        }
        *old = Item::Value(new);
        return false;
    }
    let indent = table.iter().next().and_then(|(first, _)| table.key(first)).map(indent_of);
    table.insert(&spelled, Item::Value(new));
    if let (Some(indent), Some(mut key)) = (indent, table.key_mut(&spelled)) {
        key.leaf_decor_mut().set_prefix(indent);
    }
    true
}

/// The blanks before a key on its line.
fn indent_of(key: &Key) -> String {
    let prefix = key.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    let line = prefix.rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).collect()
}

/// A key as the table spells it: seid does not tell upper from lower case.
pub(crate) fn spelled(table: &dyn TableLike, name: &str) -> Option<String> {
    if table.contains_key(name) {
        return Some(name.to_owned());
    }
    table.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(key, _)| key.to_owned())
}

/// The value of an item. Numbers and bools may be quoted, as `seid init` writes some of them.
fn value(item: &Item, kind: Kind) -> Result<Value, Unfit> {
    let Some(value) = item.as_value() else { return Err(Unfit("is a table".into())) };
    let wrong = || Unfit(format!("is {} {}", article(value.type_name()), value.type_name()));
    let texts = |value: &Toml| -> Result<Vec<String>, Unfit> {
        let entries = value.as_array().ok_or_else(wrong)?;
        entries.iter().map(|entry| entry.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    };
    match (kind, value) {
        (Kind::Text, Toml::String(text)) => Ok(Value::Text(text.value().clone())),
        (Kind::Text, Toml::Integer(number)) => Ok(Value::Text(number.value().to_string())),
        (Kind::Bool | Kind::OptionalBool, Toml::Boolean(flag)) => Ok(Value::Bool(*flag.value())),
        (Kind::Bool | Kind::OptionalBool, Toml::String(text)) => Value::parse(Kind::Bool, text.value()),
        (Kind::Int(..), Toml::Integer(number)) => Value::parse(kind, &number.value().to_string()),
        // Another program writes 7000.0 for 7000.
        (Kind::Int(..), Toml::Float(number)) if number.value().fract() == 0.0 => {
            Value::parse(kind, &format!("{:.0}", number.value()))
        }
        (Kind::Int(..) | Kind::Float, Toml::String(text)) => Value::parse(kind, text.value()),
        (Kind::Float, Toml::Float(number)) if number.value().is_finite() => Ok(Value::Float(*number.value())),
        (Kind::Float, Toml::Integer(number)) => Value::parse(kind, &number.value().to_string()),
        (Kind::Duration, Toml::String(text)) => duration::parse(text.value())
            .map(Value::Duration)
            .ok_or_else(|| Unfit(format!("is {:?}", text.value()))),
        // A bare number is nanoseconds to seid.
        (Kind::Duration, Toml::Integer(number)) => Ok(Value::Duration(*number.value())),
        (Kind::Joined, Toml::String(text)) => list(text.value().trim()).map(Value::List),
        (Kind::List | Kind::Joined, _) => texts(value).map(Value::List),
        (Kind::Labels, _) => {
            let lists = value.as_array().ok_or_else(wrong)?;
            lists.iter().map(texts).collect::<Result<_, _>>().map(Value::Labels)
        }
        _ => Err(wrong()),
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
