//! The node's settings: `config.toml`, `app.toml` and `client.toml`. What they hold is decided in `chain`.

use std::io;
use std::path::Path;

use chain::config::{self, Files, Host, PatchError, Patchable};
use serde_json::{Map, Value};

use super::files;

/// Why settings could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
    /// What was asked for does not fit the file.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

fn io(file: Patchable) -> impl Fn(io::Error) -> ConfigError {
    move |error| ConfigError::Io(file.name(), error)
}

/// The text of one file; none if there is no such file.
fn text(home: &Path, file: Patchable) -> Result<Option<String>, ConfigError> {
    files::read(&home.join("config").join(file.name())).map_err(io(file))
}

/// Reads both files of settings. They belong together: one alone is as good as none.
pub fn read(home: &Path) -> Result<Files, ConfigError> {
    let needed = |file| {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
        text(home, file)?.ok_or_else(|| ConfigError::Io(file.name(), missing()))
    };
    Ok(Files { config: needed(Patchable::Config)?, app: needed(Patchable::App)? })
}

/// Writes both files of settings. Nothing is put in its place before both are on disk: a full disk changes nothing.
pub fn write(home: &Path, new: &Files) -> io::Result<()> {
    let folder = home.join("config");
    std::fs::create_dir_all(&folder)?;
    let app = files::stage(&folder.join(Patchable::App.name()), new.app.as_bytes(), 0o644)?;
    let config = files::stage(&folder.join(Patchable::Config.name()), new.config.as_bytes(), 0o644)?;
    app.place()?;
    config.place()?;
    files::sync_folder(&folder)
}

/// Merges trees into files, each spelled as the file does. A file that is missing is made; nothing is written unless all
/// can be.
pub fn patch(home: &Path, trees: &[(Patchable, Map<String, Value>)]) -> Result<(), ConfigError> {
    let folder = home.join("config");
    let mut staged = Vec::new();
    for (file, tree) in trees {
        let new = config::patch(*file, &text(home, *file)?.unwrap_or_default(), tree)?;
        let one = files::stage(&folder.join(file.name()), new.as_bytes(), 0o644).map_err(io(*file))?;
        staged.push((*file, one));
    }
    for (file, one) in staged {
        one.place().map_err(io(file))?;
    }
    files::sync_folder(&folder).map_err(io(Patchable::Config))
}

/// Merges one table into `config.toml`.
pub fn set(home: &Path, table: &str, values: Map<String, Value>) -> Result<(), ConfigError> {
    let tree = Map::from_iter([(table.to_owned(), Value::Object(values))]);
    patch(home, &[(Patchable::Config, tree)])
}

/// Names the chain in `client.toml`: seid does not start when another one stands there.
pub fn name_chain(home: &Path, chain_id: &str) -> Result<(), ConfigError> {
    let file = Patchable::Client;
    let there = text(home, file)?.unwrap_or_default();
    let new = config::client_with_chain(&there, chain_id)?;
    if new == there {
        return Ok(());
    }
    files::write(&home.join("config").join(file.name()), new.as_bytes(), 0o644).map_err(io(file))
}

/// Writes the peers in `config.toml`, each as `id@host:port`.
pub fn set_persistent_peers(home: &Path, peers: &[String]) -> Result<(), ConfigError> {
    let file = Patchable::Config;
    let new = config::with_persistent_peers(&text(home, file)?.unwrap_or_default(), peers)?;
    files::write(&home.join("config").join(file.name()), new.as_bytes(), 0o644).map_err(io(file))
}

/// The peers in `config.toml`, as one text with commas.
pub fn persistent_peers(home: &Path) -> Result<String, ConfigError> {
    let file = Patchable::Config;
    let there = text(home, file)?.unwrap_or_default();
    Ok(config::persistent_peers(&there).map_err(PatchError::File)?)
}

/// The machine that settings are made for. A quota of processors does not count, as for the program that we replace.
#[must_use]
pub fn host() -> Host {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let processors = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    Host { name, processors }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn only_what_is_set_changes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("config")).unwrap();
        let file = dir.path().join("config/config.toml");
        std::fs::write(
            &file,
            "# ours\n[p2p]\nladdr = \"x\" # where\npersistent-peers = \"a\" # who\n[other]\nkept = 1\n",
        )
        .unwrap();
        set(dir.path(), "p2p", tree(json!({"persistent-peers": "b,c", "new": 5}))).unwrap();
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "# ours\n[p2p]\nladdr = \"x\" # where\npersistent-peers = \"b,c\" # who\nnew = 5\n[other]\nkept = 1\n"
        );
        assert_eq!(persistent_peers(dir.path()).unwrap(), "b,c");
    }

    #[test]
    fn a_patch_of_which_one_part_does_not_fit_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("config")).unwrap();
        std::fs::write(dir.path().join("config/app.toml"), "no toml").unwrap();
        let trees = [(Patchable::Config, tree(json!({"a": 1}))), (Patchable::App, tree(json!({"b": 2})))];
        let error = patch(dir.path(), &trees).unwrap_err().to_string();
        assert!(error.starts_with("app.toml is not valid TOML"), "{error}");
        let left: Vec<_> = std::fs::read_dir(dir.path().join("config")).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn one_file_of_settings_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let both = Files { config: "a = 1\n".into(), app: "b = 2\n".into() };
        write(dir.path(), &both).unwrap();
        assert_eq!(read(dir.path()).unwrap(), both);
        std::fs::remove_file(dir.path().join("config/app.toml")).unwrap();
        assert_eq!(read(dir.path()).unwrap_err().to_string(), "app.toml: there is no such file");
    }
}
