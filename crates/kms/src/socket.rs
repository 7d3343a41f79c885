//! The address of a plugin's socket: its name tells the number of its key.

use std::path::{Path, PathBuf};

/// A plugin's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Number of the key, as it is written in the name.
    pub key_number: String,
    /// Where it is.
    pub path: PathBuf,
}

impl Socket {
    /// Reads `unix://FOLDER/kms-N.sock`, and nothing around it.
    pub(crate) fn parse(address: &str, folder: &Path) -> Result<Self, String> {
        let refused = || {
            format!(
                "--kms-sockets: {address:?} is no plugin's socket: use unix://{}/kms-N.sock with a number N",
                folder.display()
            )
        };
        let path = Path::new(address.strip_prefix("unix://").ok_or_else(refused)?);
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(refused)?;
        // Rebuilt, so that `//` and `..` and whatever else stands for the same folder is refused.
        if path.as_os_str() != folder.join(name).as_os_str() {
            return Err(refused());
        }
        let number =
            name.strip_prefix("kms-").and_then(|rest| rest.strip_suffix(".sock")).ok_or_else(refused)?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        // Two ways to write one number would be two keys.
        if (number.len() > 1 && number.starts_with('0')) || number.parse::<u64>().is_err() {
            return Err(format!(
                "--kms-sockets: the number of {address:?} must have no leading zeros and be at most {}",
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
    fn only_addresses_of_plugins_are_taken() {
        let folder = Path::new("/var/run/kmsplugin");
        for number in ["0", "1", "42", "18446744073709551615"] {
            let socket =
                Socket::parse(&format!("unix:///var/run/kmsplugin/kms-{number}.sock"), folder).unwrap();
            assert_eq!(socket.key_number, number);
            assert_eq!(socket.path, folder.join(format!("kms-{number}.sock")));
        }
        for refused in [
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
            let error = Socket::parse(refused, folder).unwrap_err();
            assert!(error.starts_with("--kms-sockets: ") && !error.contains('\n'), "{refused}: {error}");
        }
    }
}
