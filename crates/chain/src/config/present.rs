//! The files that are there, read and changed without touching what was not asked for.

use super::document::{Document, FileError};
use super::host::Host;
use super::mode::Mode;
use super::settings::{CURRENT_VERSION, Files, MODE, Settings, VERSION};
use super::table::{self, File, Holds, Kind};
use super::value::Value;

/// Where seid reads the mode, which is not read back from there if there is another.
pub(crate) const MODE_IN_CONFIG_TOML: &str = "mode";
/// Where our mode stands.
const MODE_IN_APP_TOML: &str = "sei.mode";

/// Places in `app.toml` that seid prefers to the one in the table, if something is there. `seid init` writes them.
const PREFERRED: [(&str, &str); 4] = [
    ("storage.pruning", "iavl.pruning"),
    ("storage.pruning_keep_recent", "iavl.pruning-keep-recent"),
    ("storage.pruning_keep_every", "iavl.pruning-keep-every"),
    ("storage.pruning_interval", "iavl.pruning-interval"),
];

/// Both files, and the settings in them.
pub(crate) struct Present {
    config: Document,
    app: Document,
    /// The settings; those that the files lack are as the mode has them.
    pub(crate) settings: Settings,
    /// The mode that seid reads, if it is another than the one that the node is labelled with.
    pub(crate) other_mode: Option<String>,
}

impl Present {
    /// Reads both files. What they lack is as the mode has it: a zero would open port 0 and silence the metrics.
    pub(crate) fn read(files: &Files, host: &Host) -> Result<Self, FileError> {
        let config = Document::parse(File::Config, &files.config)?;
        let app = Document::parse(File::App, &files.app)?;
        let (label, other_mode) = mode(&config, &app)?;
        let mut settings = Settings::of_mode(label.parse().unwrap_or(Mode::Full), host);
        for (field, place) in table::fields() {
            let Some(place) = place else { continue };
            let document = if place.file == File::Config { &config } else { &app };
            let preferred = match preferred(field.key) {
                Some(path) => {
                    app.read(path, field.kind)?.filter(|value| *value != Value::Text(String::new()))
                }
                None => None,
            };
            if let Some(value) =
                preferred.map_or_else(|| document.read(place.path, field.kind).transpose(), |v| Some(Ok(v)))
            {
                settings.set(field.key, value?);
            }
        }
        settings.set(MODE, Value::Text(label));
        if settings.int(VERSION) < 1 {
            settings.set(VERSION, Value::Int(CURRENT_VERSION));
        }
        Ok(Self { config, app, settings, other_mode })
    }

    /// The files with these settings, as far as they are to be touched. A line that says so already stays as it is; one
    /// that is missing is added.
    pub(crate) fn written(
        mut self,
        settings: &Settings,
        touch: impl Fn(&str) -> bool,
    ) -> Result<Files, FileError> {
        for file in [File::Config, File::App] {
            let document = if file == File::Config { &mut self.config } else { &mut self.app };
            let mut before: Option<&str> = None;
            for line in table::lines(file) {
                if let Some(literal) = settings.literal(&line.holds) {
                    write_line(document, line, &literal, before, &touch)?;
                }
                before = Some(line.path).filter(|path| document.has(path)).or(before);
            }
        }
        Ok(Files { config: self.config.text(), app: self.app.text() })
    }
}

/// Writes one line, if it is to be touched and does not say so already.
fn write_line(
    document: &mut Document,
    line: &table::Line,
    literal: &str,
    before: Option<&str>,
    touch: impl Fn(&str) -> bool,
) -> Result<(), FileError> {
    let (key, kind) = match &line.holds {
        Holds::Setting(field) => (field.key, field.kind),
        Holds::Copy(key) => (*key, table::find(key).map_or(Kind::Text, |field| field.kind)),
        Holds::Constant(_) => (line.path, Kind::Text),
    };
    if !touch(key) {
        return Ok(());
    }
    let section = |path: &str| path.split_once('.').map(|(section, _)| section.to_owned());
    let name = |path: &'_ str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let after = before.filter(|before| section(before) == section(line.path)).map(name);
    let paths = [Some(line.path), preferred(key)];
    for (path, main) in paths.into_iter().flatten().zip([true, false]) {
        let wanted = match (&line.holds, document.read(path, kind)?) {
            // A file that names another genesis file knows why.
            (Holds::Constant(_), Some(_)) => false,
            (_, Some(present)) => present.literal(kind) != literal,
            (_, None) => main,
        };
        if wanted {
            document.write(path, literal, after.as_deref())?;
        }
    }
    Ok(())
}

/// The label of the node, and what seid takes it for if that is something else.
fn mode(config: &Document, app: &Document) -> Result<(String, Option<String>), FileError> {
    let read = |document: &Document, path| -> Result<Option<String>, FileError> {
        Ok(match document.read(path, Kind::Text)? {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        })
    };
    let ours = read(app, MODE_IN_APP_TOML)?;
    let seids = read(config, MODE_IN_CONFIG_TOML)?;
    let label = ours.or_else(|| seids.clone()).unwrap_or_else(|| Mode::Full.name().into());
    let same = |seids: &String| label.parse::<Mode>().is_ok_and(|mode| mode.name_in_config_toml() == seids);
    let other = seids.filter(|seids| *seids != label && !same(seids));
    Ok((label, other))
}

/// A place that seid prefers to that of the table.
fn preferred(key: &str) -> Option<&'static str> {
    PREFERRED.into_iter().find(|(preferred, _)| *preferred == key).map(|(_, path)| path)
}

/// Keys of the files that no setting has: seid may know them, this build does not.
pub fn unknown_keys(files: &Files) -> Result<Vec<(File, String)>, FileError> {
    let mut unknown = Vec::new();
    for (file, text) in [(File::Config, &files.config), (File::App, &files.app)] {
        let mut document = Document::parse(file, text)?;
        let known = |path: &str| {
            table::lines(file).iter().any(|line| line.path.eq_ignore_ascii_case(path))
                || (file == File::App && PREFERRED.iter().any(|(_, place)| place.eq_ignore_ascii_case(path)))
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
