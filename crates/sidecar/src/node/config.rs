//! The node's config files: `config.toml`, `app.toml` and `client.toml`. `chain` decides their content.

use std::io;
use std::path::Path;

use chain::config::{self, Files, Host, PatchError, Patchable};
use serde_json::{Map, Value};

use super::files;

/// Why a config file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Reading or writing a file failed.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
    /// The patch does not apply to the file.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

fn io_error(file: Patchable) -> impl Fn(io::Error) -> ConfigError {
    move |error| ConfigError::Io(file.name(), error)
}

/// Reads one file; `None` if it does not exist.
fn read_file(home: &Path, file: Patchable) -> Result<Option<String>, ConfigError> {
    files::read(&home.join("config").join(file.name())).map_err(io_error(file))
}

/// Reads `config.toml` and `app.toml`. Both must exist.
pub fn read(home: &Path) -> Result<Files, ConfigError> {
    let required = |file| {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "file not found");
        read_file(home, file)?.ok_or_else(|| ConfigError::Io(file.name(), missing()))
    };
    Ok(Files { config: required(Patchable::Config)?, app: required(Patchable::App)? })
}

/// Writes `config.toml` and `app.toml`. Neither is renamed into place before both are on disk: a full disk changes nothing.
pub fn write(home: &Path, new: &Files) -> io::Result<()> {
    let dir = home.join("config");
    std::fs::create_dir_all(&dir)?;
    let app = files::stage(&dir.join(Patchable::App.name()), new.app.as_bytes(), 0o644)?;
    let config = files::stage(&dir.join(Patchable::Config.name()), new.config.as_bytes(), 0o644)?;
    app.commit()?;
    config.commit()?;
    files::sync_dir(&dir)
}

/// Merges trees of keys into files and creates missing files. No file is replaced unless all patches apply.
pub fn patch(home: &Path, trees: &[(Patchable, Map<String, Value>)]) -> Result<(), ConfigError> {
    let dir = home.join("config");
    let mut staged = Vec::new();
    for (file, tree) in trees {
        let new = config::patch(*file, &read_file(home, *file)?.unwrap_or_default(), tree)?;
        let new_file =
            files::stage(&dir.join(file.name()), new.as_bytes(), 0o644).map_err(io_error(*file))?;
        staged.push((*file, new_file));
    }
    for (file, new_file) in staged {
        new_file.commit().map_err(io_error(file))?;
    }
    files::sync_dir(&dir).map_err(io_error(Patchable::Config))
}

/// Merges one table into `config.toml`.
pub fn set(home: &Path, table: &str, values: Map<String, Value>) -> Result<(), ConfigError> {
    let tree = Map::from_iter([(table.to_owned(), Value::Object(values))]);
    patch(home, &[(Patchable::Config, tree)])
}

/// Sets the chain ID in `client.toml`: seid does not start if it differs.
pub fn set_client_chain_id(home: &Path, chain_id: &str) -> Result<(), ConfigError> {
    let file = Patchable::Client;
    let existing = read_file(home, file)?.unwrap_or_default();
    let new = config::set_client_chain_id(&existing, chain_id)?;
    if new == existing {
        return Ok(());
    }
    files::write(&home.join("config").join(file.name()), new.as_bytes(), 0o644).map_err(io_error(file))
}

/// Sets the persistent peers in `config.toml`, each as `id@host:port`.
pub fn set_persistent_peers(home: &Path, peers: &[String]) -> Result<(), ConfigError> {
    let file = Patchable::Config;
    let new = config::set_persistent_peers(&read_file(home, file)?.unwrap_or_default(), peers)?;
    files::write(&home.join("config").join(file.name()), new.as_bytes(), 0o644).map_err(io_error(file))
}

/// Returns the persistent peers in `config.toml` as a comma-separated string.
pub fn persistent_peers(home: &Path) -> Result<String, ConfigError> {
    let file = Patchable::Config;
    let existing = read_file(home, file)?.unwrap_or_default();
    Ok(config::persistent_peers(&existing).map_err(PatchError::File)?)
}

/// Returns the mode that seid runs in, if `config.toml` sets it.
pub fn seid_mode(home: &Path) -> Result<Option<String>, ConfigError> {
    let file = Patchable::Config;
    let existing = read_file(home, file)?.unwrap_or_default();
    Ok(config::seid_mode(&existing).map_err(PatchError::File)?)
}

/// Returns the host the config is rendered for. CPU quotas are ignored, as in upstream.
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
    fn set_preserves_other_keys_and_comments() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("config")).unwrap();
        let file = dir.path().join("config/config.toml");
        std::fs::write(
            &file,
            "# ours\n[p2p]\nladdr = \"x\" # where\npersistent-peers = \"a\" # who\n[other]\nkept = 1\n",
        )
        .unwrap();
        let peer = format!("{}@host:1", "0a".repeat(20));
        set(dir.path(), "p2p", tree(json!({"persistent-peers": peer, "new": 5}))).unwrap();
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            format!(
                "# ours\n[p2p]\nladdr = \"x\" # where\npersistent-peers = \"{peer}\" # who\nnew = 5\n[other]\nkept = 1\n"
            )
        );
        assert_eq!(persistent_peers(dir.path()).unwrap(), peer);
    }

    #[test]
    fn patch_that_fails_for_one_file_changes_none() {
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
    fn read_fails_if_one_config_file_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let both = Files { config: "a = 1\n".into(), app: "b = 2\n".into() };
        write(dir.path(), &both).unwrap();
        assert_eq!(read(dir.path()).unwrap(), both);
        std::fs::remove_file(dir.path().join("config/app.toml")).unwrap();
        assert_eq!(read(dir.path()).unwrap_err().to_string(), "app.toml: file not found");
    }
}
