//! Values of settings: parsed from overrides, formatted as TOML literals.

use api::duration;

use super::table::Kind;

/// Value of one setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// String.
    Text(String),
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Decimal number.
    Float(f64),
    /// Nanoseconds.
    Duration(i64),
    /// List of strings.
    List(Vec<String>),
    /// List of string lists.
    Labels(Vec<Vec<String>>),
}

/// Error returned for an invalid value. The message is a clause that follows the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(pub(crate) String);

fn invalid<T>(why: impl Into<String>) -> Result<T, InvalidValue> {
    Err(InvalidValue(why.into()))
}

impl Value {
    /// Parses an override. Rejects trailing characters: a lenient parser reads `9545abc` as port 9545.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, InvalidValue> {
        match kind {
            Kind::Text => Ok(Self::Text(text.into())),
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" => Ok(Self::Bool(true)),
                "false" | "0" | "no" => Ok(Self::Bool(false)),
                _ => invalid("is not true or false"),
            },
            Kind::Int(min, max) => parse_int(text, min, max).map(Self::Int),
            Kind::Float => match text.trim_start().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Self::Float(number)),
                _ => invalid("is not a decimal number"),
            },
            Kind::Duration => match duration::parse(text) {
                Some(nanoseconds) => Ok(Self::Duration(nanoseconds)),
                None => invalid("is not a duration such as 10s, 1m30s or 500ms"),
            },
            Kind::List | Kind::CommaSeparated => parse_list(text).map(Self::List),
            Kind::Labels | Kind::OptionalBool => invalid("cannot be set by an override"),
        }
    }

    /// Formats the value as a TOML literal.
    #[must_use]
    pub fn literal(&self, kind: Kind) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::Bool(flag) => flag.to_string(),
            Self::Int(number) => number.to_string(),
            // Rust formats floats without an exponent; TOML requires the decimal point.
            Self::Float(number) if number.fract() == 0.0 => format!("{number:.1}"),
            Self::Float(number) => number.to_string(),
            Self::Duration(nanoseconds) => quote(&duration::format(*nanoseconds)),
            Self::List(texts) if kind == Kind::CommaSeparated => quote(&texts.join(",")),
            Self::List(texts) => format_array(texts.iter().map(|text| quote(text))),
            Self::Labels(lists) => {
                format_array(lists.iter().map(|texts| format_array(texts.iter().map(|text| quote(text)))))
            }
        }
    }
}

fn parse_int(text: &str, min: i64, max: i64) -> Result<i64, InvalidValue> {
    let digits = text.trim_start();
    let unsigned = min == 0;
    if unsigned && digits.starts_with(['+', '-']) {
        return invalid("must have no sign");
    }
    match digits.parse::<i128>() {
        Ok(number) if (i128::from(min)..=i128::from(max)).contains(&number) => {
            i64::try_from(number).or_else(|_| invalid("is out of range"))
        }
        Ok(_) => invalid(format!("is out of range: from {min} to {max}")),
        Err(_) => invalid("is not an integer"),
    }
}

/// Parses comma-separated entries and trims them. An empty string is an empty list.
pub(crate) fn parse_list(text: &str) -> Result<Vec<String>, InvalidValue> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let entries: Vec<String> = text.split(',').map(|entry| entry.trim().to_owned()).collect();
    if entries.iter().any(String::is_empty) {
        return invalid("has an empty entry");
    }
    Ok(entries)
}

fn format_array(entries: impl Iterator<Item = String>) -> String {
    format!("[{}]", entries.collect::<Vec<_>>().join(", "))
}

/// Formats a TOML basic string.
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
