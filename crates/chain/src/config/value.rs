//! Values of settings: as overrides give them, and as the files hold them.

use api::duration;

use super::table::Kind;

/// The value of one setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Nanoseconds.
    Duration(i64),
    /// Texts.
    List(Vec<String>),
    /// Lists of texts.
    Labels(Vec<Vec<String>>),
}

/// Why a text is no value: one clause, which follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub(crate) String);

fn unfit<T>(why: impl Into<String>) -> Result<T, Unfit> {
    Err(Unfit(why.into()))
}

impl Value {
    /// Reads the text of an override. Nothing after a number is dropped: `9545abc` was once taken as 9545, and the port
    /// was not the one that somebody meant.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, Unfit> {
        match kind {
            Kind::Text => Ok(Self::Text(text.into())),
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" => Ok(Self::Bool(true)),
                "false" | "0" | "no" => Ok(Self::Bool(false)),
                _ => unfit("is not true or false"),
            },
            Kind::Int(least, most) => int(text, least, most).map(Self::Int),
            Kind::Float => match text.trim_start().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Self::Float(number)),
                _ => unfit("is not a decimal number"),
            },
            Kind::Duration => match duration::parse(text) {
                Some(nanoseconds) => Ok(Self::Duration(nanoseconds)),
                None => unfit("is not a duration such as 10s, 1m30s or 500ms"),
            },
            Kind::List | Kind::Joined => list(text).map(Self::List),
            Kind::Labels | Kind::OptionalBool => unfit("cannot be set by an override"),
        }
    }

    /// The value as it stands in a file.
    #[must_use]
    pub fn literal(&self, kind: Kind) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::Bool(flag) => flag.to_string(),
            Self::Int(number) => number.to_string(),
            // Rust writes a float with all its digits and never with an exponent; TOML wants the point.
            Self::Float(number) if number.fract() == 0.0 => format!("{number:.1}"),
            Self::Float(number) => number.to_string(),
            Self::Duration(nanoseconds) => quote(&duration::format(*nanoseconds)),
            Self::List(texts) if kind == Kind::Joined => quote(&texts.join(",")),
            Self::List(texts) => array(texts.iter().map(|text| quote(text))),
            Self::Labels(lists) => {
                array(lists.iter().map(|texts| array(texts.iter().map(|text| quote(text)))))
            }
        }
    }
}

fn int(text: &str, least: i64, most: i64) -> Result<i64, Unfit> {
    let digits = text.trim_start();
    let unsigned = least == 0;
    if unsigned && digits.starts_with(['+', '-']) {
        return unfit("must have no sign");
    }
    match digits.parse::<i128>() {
        Ok(number) if (i128::from(least)..=i128::from(most)).contains(&number) => {
            i64::try_from(number).or_else(|_| unfit("is out of range"))
        }
        Ok(_) => unfit(format!("is out of range: from {least} to {most}")),
        Err(_) => unfit("is not a whole number"),
    }
}

/// Entries between commas, without the blanks around them. An empty text is an empty list.
pub(crate) fn list(text: &str) -> Result<Vec<String>, Unfit> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let entries: Vec<String> = text.split(',').map(|entry| entry.trim().to_owned()).collect();
    if entries.iter().any(String::is_empty) {
        return unfit("has an empty entry");
    }
    Ok(entries)
}

fn array(entries: impl Iterator<Item = String>) -> String {
    format!("[{}]", entries.collect::<Vec<_>>().join(", "))
}

/// A basic string of TOML.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{8}' => quoted.push_str("\\b"),
            '\t' => quoted.push_str("\\t"),
            '\n' => quoted.push_str("\\n"),
            '\u{c}' => quoted.push_str("\\f"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() && c.is_ascii() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
