//! Table of all settings: key, location in the files, type and default per mode.

mod app_toml;
mod config_toml;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::host::Host;
use super::mode::Mode;
use super::value::Value;

/// Configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// Consensus and p2p settings.
    Config,
    /// Application settings.
    App,
}

impl File {
    /// Returns the file name in the `config` directory of the node's home.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config.toml",
            Self::App => "app.toml",
        }
    }
}

/// Line of a file.
#[derive(Debug)]
pub struct Line {
    /// Key in the file, prefixed with its table and a dot unless it is top-level.
    pub path: &'static str,
    /// Content of the line.
    pub content: LineContent,
}

/// Content of a line.
#[derive(Debug)]
pub enum LineContent {
    /// Setting that is written to and read from this line.
    Setting(Field),
    /// Copy of the setting with this key; write-only.
    Copy(&'static str),
    /// Fixed string.
    Constant(&'static str),
}

/// Setting.
#[derive(Debug)]
pub struct Field {
    /// Dotted key.
    pub key: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default.
    pub default: DefaultValue,
    /// Whether it can be changed by `config-reload`.
    pub reloadable: bool,
    /// Unit of the number; empty if the reference names none.
    pub unit: &'static str,
}

/// Type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// String.
    Text,
    /// Boolean.
    Bool,
    /// Boolean or absent. Cannot be overridden.
    OptionalBool,
    /// Integer in an inclusive range.
    Int(i64, i64),
    /// Decimal number.
    Float,
    /// Go duration.
    Duration,
    /// List of strings.
    List,
    /// List of strings, written as one comma-separated string.
    CommaSeparated,
    /// List of string lists. Cannot be overridden.
    Labels,
}

// TOML integers are signed 64-bit: a larger value could be written but not parsed.
const INT: Kind = Kind::Int(i64::MIN, i64::MAX);
const INT32: Kind = Kind::Int(i32::MIN as i64, i32::MAX as i64);
const UINT: Kind = Kind::Int(0, i64::MAX);
const UINT32: Kind = Kind::Int(0, u32::MAX as i64);
const UINT16: Kind = Kind::Int(0, u16::MAX as i64);

impl Kind {
    /// Reports whether settings of this type can be overridden.
    #[must_use]
    pub fn overridable(self) -> bool {
        !matches!(self, Self::Labels | Self::OptionalBool)
    }

    /// Returns the type name for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Bool | Self::OptionalBool => "bool",
            Self::Int(0, _) => "uint",
            Self::Int(..) => "int",
            Self::Float => "float",
            Self::Duration => "duration",
            Self::List | Self::CommaSeparated => "list",
            Self::Labels => "list of lists",
        }
    }
}

/// Default of a setting.
#[derive(Debug)]
pub enum DefaultValue {
    /// Same in every mode.
    Same(Literal),
    /// One per mode, in the order of [`Mode::ALL`].
    Each([Literal; 4]),
    /// Host name.
    Moniker,
    /// Transaction workers: derived from the processors on validator and seed nodes, fixed on nodes that serve queries.
    ConcurrencyWorkers,
    /// EVM query workers, derived from the processors.
    EvmWorkers,
}

/// Default value as a constant.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// The key is not written.
    Absent,
    /// String.
    Text(&'static str),
    /// Boolean.
    Flag(bool),
    /// Integer.
    Number(i64),
    /// Decimal number.
    Real(f64),
    /// Nanoseconds.
    Span(i64),
    /// List of strings, or an empty list of string lists.
    Texts(&'static [&'static str]),
}

const fn field(path: &'static str, key: &'static str, kind: Kind, default: DefaultValue) -> Line {
    Line { path, content: LineContent::Setting(Field { key, kind, default, reloadable: false, unit: "" }) }
}

const fn copy(path: &'static str, key: &'static str) -> Line {
    Line { path, content: LineContent::Copy(key) }
}

const fn constant(path: &'static str, value: &'static str) -> Line {
    Line { path, content: LineContent::Constant(value) }
}

impl Line {
    const fn reloadable(mut self) -> Self {
        if let LineContent::Setting(field) = &mut self.content {
            field.reloadable = true;
        }
        self
    }

    const fn unit(mut self, unit: &'static str) -> Self {
        if let LineContent::Setting(field) = &mut self.content {
            field.unit = unit;
        }
        self
    }
}

/// Accepted but not written: the chain ID is in the genesis file and in `client.toml`.
static CHAIN_ID: Field = Field {
    key: "chain.chain_id",
    kind: Kind::Text,
    default: DefaultValue::Same(Literal::Text("")),
    reloadable: false,
    unit: "",
};

/// Returns the lines of a file, in file order.
#[must_use]
pub fn lines(file: File) -> &'static [Line] {
    match file {
        File::Config => &config_toml::LINES,
        File::App => &app_toml::LINES,
    }
}

/// Location of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Location {
    /// File.
    pub file: File,
    /// Key in the file, prefixed with its table and a dot unless it is top-level.
    pub path: &'static str,
}

/// Settings by key, each with its location unless it is not written.
static INDEX: LazyLock<BTreeMap<&'static str, (&'static Field, Option<Location>)>> = LazyLock::new(|| {
    let mut index = BTreeMap::from([(CHAIN_ID.key, (&CHAIN_ID, None))]);
    for file in [File::Config, File::App] {
        for line in lines(file) {
            if let LineContent::Setting(field) = &line.content {
                index.insert(field.key, (field, Some(Location { file, path: line.path })));
            }
        }
    }
    index
});

/// Returns the settings sorted by key, each with its location unless it is not written.
pub fn fields() -> impl Iterator<Item = (&'static Field, Option<Location>)> {
    INDEX.values().copied()
}

/// Returns the setting with this key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Field> {
    INDEX.get(key).map(|(field, _)| *field)
}

impl Field {
    /// Returns the default for a mode and host, or `None` if the key is not written.
    #[must_use]
    pub fn default_in(&self, mode: Mode, host: &Host) -> Option<Value> {
        match &self.default {
            DefaultValue::Same(literal) => literal.to_value(self.kind),
            DefaultValue::Each(literals) => {
                let index = Mode::ALL.iter().position(|other| *other == mode);
                index.and_then(|index| literals.get(index)).and_then(|literal| literal.to_value(self.kind))
            }
            DefaultValue::Moniker => Some(Value::Text(host.moniker().into())),
            DefaultValue::ConcurrencyWorkers => Some(Value::Int(match mode {
                Mode::Validator | Mode::Seed => host.double_processors().clamp(10, 128),
                Mode::Full | Mode::Archive => 500,
            })),
            DefaultValue::EvmWorkers => Some(Value::Int(host.double_processors().min(64))),
        }
    }
}

impl Literal {
    fn to_value(self, kind: Kind) -> Option<Value> {
        Some(match self {
            Self::Absent => return None,
            Self::Text(text) => Value::Text(text.into()),
            Self::Flag(flag) => Value::Bool(flag),
            Self::Number(number) => Value::Int(number),
            Self::Real(number) => Value::Float(number),
            Self::Span(nanoseconds) => Value::Duration(nanoseconds),
            Self::Texts(texts) => match kind {
                Kind::Labels => Value::Labels(Vec::new()),
                _ => Value::List(texts.iter().map(|text| (*text).to_owned()).collect()),
            },
        })
    }
}
