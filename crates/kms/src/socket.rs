//! The `unix://` address of a plugin's socket, whose file name holds the number of the plugin's key.

use std::path::{Path, PathBuf};

/// A plugin's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSocket {
    /// Key number, as written in the file name.
    pub key_number: String,
    /// Path of the socket.
    pub path: PathBuf,
}

impl PluginSocket {
    /// Parses `unix://DIR/kms-N.sock`. Rejects any other spelling of the same path.
    pub(crate) fn parse(address: &str, dir: &Path) -> Result<Self, String> {
        let invalid =
            || format!("invalid --kms-sockets {address:?}: expected unix://{}/kms-N.sock", dir.display());
        let path = Path::new(address.strip_prefix("unix://").ok_or_else(invalid)?);
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(invalid)?;
        // Rebuilt and compared: `//`, `..` and other spellings of the same directory are rejected.
        if path.as_os_str() != dir.join(name).as_os_str() {
            return Err(invalid());
        }
        let number =
            name.strip_prefix("kms-").and_then(|name| name.strip_suffix(".sock")).ok_or_else(invalid)?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        // Two spellings of one number would be two keys.
        if (number.len() > 1 && number.starts_with('0')) || number.parse::<u64>().is_err() {
            return Err(format!(
                "invalid --kms-sockets {address:?}: the key number must have no leading zeros and be at most {}",
                u64::MAX
            ));
        }
        Ok(Self { key_number: number.to_owned(), path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugin_socket_addresses_are_accepted() {
        let dir = Path::new("/var/run/kmsplugin");
        for number in ["0", "1", "42", "18446744073709551615"] {
            let socket =
                PluginSocket::parse(&format!("unix:///var/run/kmsplugin/kms-{number}.sock"), dir).unwrap();
            assert_eq!(socket.key_number, number);
            assert_eq!(socket.path, dir.join(format!("kms-{number}.sock")));
        }
        for rejected in [
            "",
            "unix://",
            "/var/run/kmsplugin/kms-1.sock",
            "tcp:///var/run/kmsplugin/kms-1.sock",
            "unix:///var/run/other/kms-1.sock",
            "unix:///var/run/kmsplugin/../kmsplugin/kms-1.sock",
            "unix:///var/run/kmsplugin//kms-1.sock",
            "unix:///var/run/kmsplugin/kms-1.sock/",
            "unix:///var/run/kmsplugin/kms-one.sock",
            "unix:///var/run/kmsplugin/kms-.sock",
            "unix:///var/run/kmsplugin/kms-1",
            "unix:///var/run/kmsplugin/kms-1.sock ",
            " unix:///var/run/kmsplugin/kms-1.sock",
            "unix:///@kms-1.sock",
            "unix:///var/run/kmsplugin/kms-007.sock",
            "unix:///var/run/kmsplugin/kms-18446744073709551616.sock",
            "unix:///var/run/kmsplugin/kms-٣.sock",
        ] {
            let error = PluginSocket::parse(rejected, dir).unwrap_err();
            assert!(
                error.starts_with("invalid --kms-sockets ") && !error.contains('\n'),
                "{rejected}: {error}"
            );
        }
    }
}
