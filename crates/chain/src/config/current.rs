//! Existing files of a node. Updates change requested settings only.

use super::document::{Document, FileError};
use super::host::Host;
use super::mode::Mode;
use super::settings::{CURRENT_VERSION, Files, MODE, Settings, VERSION};
use super::table::{self, File, Kind, LineContent};
use super::value::Value;

/// Key of the mode that seid uses. Outrigger reads it only if `app.toml` has no mode label.
pub(crate) const MODE_IN_CONFIG_TOML: &str = "mode";
/// Key of Outrigger's mode label.
const MODE_IN_APP_TOML: &str = "sei.mode";

/// Alternative keys in `app.toml` that take precedence in seid when present. `seid init` writes them.
const OVERRIDING_KEYS: [(&str, &str); 4] = [
    ("storage.pruning", "iavl.pruning"),
    ("storage.pruning_keep_recent", "iavl.pruning-keep-recent"),
    ("storage.pruning_keep_every", "iavl.pruning-keep-every"),
    ("storage.pruning_interval", "iavl.pruning-interval"),
];

/// Both files and their settings.
pub(crate) struct CurrentFiles {
    config: Document,
    app: Document,
    /// Settings. Keys that the files lack have the defaults of the mode.
    pub(crate) settings: Settings,
    /// Mode that seid uses, if it differs from the mode label.
    pub(crate) conflicting_mode: Option<String>,
}

impl CurrentFiles {
    /// Reads both files. Missing keys get the defaults of the mode: zero values would open port 0 and disable metrics.
    pub(crate) fn read(files: &Files, host: &Host) -> Result<Self, FileError> {
        let config = Document::parse(File::Config, &files.config)?;
        let app = Document::parse(File::App, &files.app)?;
        let (label, conflicting_mode) = read_mode(&config, &app)?;
        let mut settings = Settings::defaults_for(label.parse().unwrap_or(Mode::Full), host);
        for (field, location) in table::fields() {
            let Some(location) = location else { continue };
            let document = if location.file == File::Config { &config } else { &app };
            let overriding = match overriding_key(field.key) {
                Some(path) => {
                    app.read(path, field.kind)?.filter(|value| *value != Value::Text(String::new()))
                }
                None => None,
            };
            if let Some(value) = overriding
                .map_or_else(|| document.read(location.path, field.kind).transpose(), |v| Some(Ok(v)))
            {
                settings.set(field.key, value?);
            }
        }
        settings.set(MODE, Value::Text(label));
        if settings.int(VERSION) < 1 {
            settings.set(VERSION, Value::Int(CURRENT_VERSION));
        }
        Ok(Self { config, app, settings, conflicting_mode })
    }

    /// Renders the files with the settings selected by `touch`. Lines that already have the value stay unchanged; missing lines
    /// are added.
    pub(crate) fn render_with(
        mut self,
        settings: &Settings,
        touch: impl Fn(&str) -> bool,
    ) -> Result<Files, FileError> {
        for file in [File::Config, File::App] {
            let document = if file == File::Config { &mut self.config } else { &mut self.app };
            let mut before: Option<&str> = None;
            for line in table::lines(file) {
                if let Some(literal) = settings.literal(&line.content) {
                    write_line(document, line, &literal, before, &touch)?;
                }
                before = Some(line.path).filter(|path| document.has(path)).or(before);
            }
        }
        Ok(Files { config: self.config.text(), app: self.app.text() })
    }
}

/// Writes one line, if `touch` selects it and its value differs.
fn write_line(
    document: &mut Document,
    line: &table::Line,
    literal: &str,
    before: Option<&str>,
    touch: impl Fn(&str) -> bool,
) -> Result<(), FileError> {
    let (key, kind) = match &line.content {
        LineContent::Setting(field) => (field.key, field.kind),
        LineContent::Copy(key) => (*key, table::find(key).map_or(Kind::Text, |field| field.kind)),
        LineContent::Constant(_) => (line.path, Kind::Text),
    };
    if !touch(key) {
        return Ok(());
    }
    let section = |path: &str| path.split_once('.').map(|(section, _)| section.to_owned());
    let name = |path: &'_ str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let after = before.filter(|before| section(before) == section(line.path)).map(name);
    let paths = [Some(line.path), overriding_key(key)];
    for (path, is_primary) in paths.into_iter().flatten().zip([true, false]) {
        let must_write = match (&line.content, document.read(path, kind)?) {
            // A different genesis file path is intentional.
            (LineContent::Constant(_), Some(_)) => false,
            (_, Some(existing)) => existing.literal(kind) != literal,
            (_, None) => is_primary,
        };
        if must_write {
            document.write(path, literal, after.as_deref())?;
        }
    }
    Ok(())
}

/// Returns the mode label and seid's mode, if that differs.
fn read_mode(config: &Document, app: &Document) -> Result<(String, Option<String>), FileError> {
    let read = |document: &Document, path| -> Result<Option<String>, FileError> {
        Ok(match document.read(path, Kind::Text)? {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        })
    };
    let label = read(app, MODE_IN_APP_TOML)?;
    let seid_mode = read(config, MODE_IN_CONFIG_TOML)?;
    let label = label.or_else(|| seid_mode.clone()).unwrap_or_else(|| Mode::Full.name().into());
    let same =
        |seid_mode: &String| label.parse::<Mode>().is_ok_and(|mode| mode.name_in_config_toml() == seid_mode);
    let other = seid_mode.filter(|seid_mode| *seid_mode != label && !same(seid_mode));
    Ok((label, other))
}

/// Returns the alternative key that takes precedence in seid, if there is one.
fn overriding_key(key: &str) -> Option<&'static str> {
    OVERRIDING_KEYS.into_iter().find(|(setting, _)| *setting == key).map(|(_, path)| path)
}

/// Returns keys that are not in the table of settings. seid may still use them.
pub fn unknown_keys(files: &Files) -> Result<Vec<(File, String)>, FileError> {
    let mut unknown = Vec::new();
    for (file, text) in [(File::Config, &files.config), (File::App, &files.app)] {
        let mut document = Document::parse(file, text)?;
        let known = |path: &str| {
            table::lines(file).iter().any(|line| line.path.eq_ignore_ascii_case(path))
                || (file == File::App
                    && OVERRIDING_KEYS.iter().any(|(_, key)| key.eq_ignore_ascii_case(path)))
        };
        for (name, item) in document.root().iter() {
            match item.as_table_like() {
                Some(section) => {
                    let paths = section.iter().map(|(key, _)| format!("{name}.{key}"));
                    unknown.extend(paths.filter(|path| !known(path)).map(|path| (file, path)));
                }
                None if !known(name) => unknown.push((file, name.to_owned())),
                None => {}
            }
        }
    }
    Ok(unknown)
}
