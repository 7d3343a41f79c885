//! Every setting of a node: its name, its place in the files, its kind, its value in each mode.

mod app_toml;
mod config_toml;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::host::Host;
use super::mode::Mode;
use super::value::Value;

/// The files that settings are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// Settings of consensus and of peers.
    Config,
    /// Settings of the application.
    App,
}

impl File {
    /// Its name in the folder `config` of a node's home.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config.toml",
            Self::App => "app.toml",
        }
    }
}

/// One line of a file.
#[derive(Debug)]
pub struct Line {
    /// The key in the file, after the name of its table and a dot if it is in one.
    pub path: &'static str,
    /// What stands there.
    pub holds: Holds,
}

/// What stands on a line.
#[derive(Debug)]
pub enum Holds {
    /// A setting, which is read back from here.
    Setting(Field),
    /// A setting once more, by its key; it is not read back from here.
    Copy(&'static str),
    /// A text that no setting changes.
    Constant(&'static str),
}

/// One setting.
#[derive(Debug)]
pub struct Field {
    /// Its dotted name.
    pub key: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its value unless something else is asked for.
    pub default: Default,
    /// Whether it may be changed on a node that runs.
    pub reloadable: bool,
    /// What its number counts; empty when that is not told.
    pub unit: &'static str,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// True or false.
    Bool,
    /// True, false or absent. It cannot be overridden.
    OptionalBool,
    /// A whole number between two others, both included.
    Int(i64, i64),
    /// A number.
    Float,
    /// A length of time as Go writes it.
    Duration,
    /// Texts.
    List,
    /// Texts that are written as one, with commas.
    Joined,
    /// Lists of texts. It cannot be overridden.
    Labels,
}

// TOML has no integers beyond 63 bits: a larger one could be written and never be read again.
const INT: Kind = Kind::Int(i64::MIN, i64::MAX);
const INT32: Kind = Kind::Int(i32::MIN as i64, i32::MAX as i64);
const UINT: Kind = Kind::Int(0, i64::MAX);
const UINT32: Kind = Kind::Int(0, u32::MAX as i64);
const UINT16: Kind = Kind::Int(0, u16::MAX as i64);

impl Kind {
    /// Whether overrides of such a setting can be taken.
    #[must_use]
    pub fn overridable(self) -> bool {
        !matches!(self, Self::Labels | Self::OptionalBool)
    }

    /// How people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Bool | Self::OptionalBool => "bool",
            Self::Int(0, _) => "uint",
            Self::Int(..) => "int",
            Self::Float => "float",
            Self::Duration => "duration",
            Self::List | Self::Joined => "list",
            Self::Labels => "list of lists",
        }
    }
}

/// The value of a setting unless something else is asked for.
#[derive(Debug)]
pub enum Default {
    /// The same in every mode.
    Same(Literal),
    /// One for each mode, in the order of [`Mode::ALL`].
    Each([Literal; 4]),
    /// The name of the host.
    Moniker,
    /// Workers that run transactions: by processors where nobody queries, a fixed number elsewhere.
    Workers,
    /// Workers that answer queries, by processors.
    Pool,
}

/// A value in the table.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// The key is not written.
    Absent,
    /// A text.
    Text(&'static str),
    /// True or false.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A number.
    Real(f64),
    /// Nanoseconds.
    Span(i64),
    /// Texts, or lists of texts as long as there are none.
    Texts(&'static [&'static str]),
}

const fn field(path: &'static str, key: &'static str, kind: Kind, default: Default) -> Line {
    Line { path, holds: Holds::Setting(Field { key, kind, default, reloadable: false, unit: "" }) }
}

const fn copy(path: &'static str, key: &'static str) -> Line {
    Line { path, holds: Holds::Copy(key) }
}

const fn constant(path: &'static str, value: &'static str) -> Line {
    Line { path, holds: Holds::Constant(value) }
}

impl Line {
    const fn reloadable(mut self) -> Self {
        if let Holds::Setting(field) = &mut self.holds {
            field.reloadable = true;
        }
        self
    }

    const fn unit(mut self, unit: &'static str) -> Self {
        if let Holds::Setting(field) = &mut self.holds {
            field.unit = unit;
        }
        self
    }
}

/// Known, and written nowhere: the chain's name is in the genesis file and in `client.toml`.
static CHAIN_ID: Field = Field {
    key: "chain.chain_id",
    kind: Kind::Text,
    default: Default::Same(Literal::Text("")),
    reloadable: false,
    unit: "",
};

/// The lines of a file, in the order in which they are written.
#[must_use]
pub fn lines(file: File) -> &'static [Line] {
    match file {
        File::Config => &config_toml::LINES,
        File::App => &app_toml::LINES,
    }
}

/// Where a setting is written and read back.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The file.
    pub file: File,
    /// The key in it, after the name of its table and a dot if it is in one.
    pub path: &'static str,
}

/// All settings by key, each with its place unless it is written nowhere.
static INDEX: LazyLock<BTreeMap<&'static str, (&'static Field, Option<Place>)>> = LazyLock::new(|| {
    let mut index = BTreeMap::from([(CHAIN_ID.key, (&CHAIN_ID, None))]);
    for file in [File::Config, File::App] {
        for line in lines(file) {
            if let Holds::Setting(field) = &line.holds {
                index.insert(field.key, (field, Some(Place { file, path: line.path })));
            }
        }
    }
    index
});

/// Every setting in the order of keys, with its place unless it is written nowhere.
pub fn fields() -> impl Iterator<Item = (&'static Field, Option<Place>)> {
    INDEX.values().copied()
}

/// The setting with a key, if there is one.
#[must_use]
pub fn find(key: &str) -> Option<&'static Field> {
    INDEX.get(key).map(|(field, _)| *field)
}

impl Field {
    /// Its value in a mode, on a host; nothing when the key is not written.
    #[must_use]
    pub fn default_in(&self, mode: Mode, host: &Host) -> Option<Value> {
        match &self.default {
            Default::Same(literal) => literal.value(self.kind),
            Default::Each(literals) => {
                let place = Mode::ALL.iter().position(|one| *one == mode);
                place.and_then(|place| literals.get(place)).and_then(|literal| literal.value(self.kind))
            }
            Default::Moniker => Some(Value::Text(host.moniker().into())),
            Default::Workers => Some(Value::Int(match mode {
                Mode::Validator | Mode::Seed => host.twice_the_processors().clamp(10, 128),
                Mode::Full | Mode::Archive => 500,
            })),
            Default::Pool => Some(Value::Int(host.twice_the_processors().min(64))),
        }
    }
}

impl Literal {
    fn value(self, kind: Kind) -> Option<Value> {
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
