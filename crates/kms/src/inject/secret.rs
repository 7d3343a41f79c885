//! Reads the encryption-config Secret from a file or from the cluster.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use plan::kms::secret_layout::EncryptionSecret;

use super::cluster::Cluster;
use super::{Args, Error, display_path, parse_yaml, read_input};

/// Result of reading the Secret.
pub(super) enum SecretLookup {
    /// The Secret exists.
    Found {
        /// Its parsed data.
        content: EncryptionSecret,
        /// Its name.
        name: String,
    },
    /// The Secret does not exist: no KMS encrypts anything yet. Holds its kind and name.
    NotFound(String),
}

pub(super) async fn find(args: &Args, cluster: &Cluster) -> Result<SecretLookup, Error> {
    let (source, secret) = match (&args.secret.secret_file, &args.secret.secret) {
        (Some(file), _) => {
            let source = display_path(file);
            (source.clone(), parse_secret(&source, &read_input(file)?)?)
        }
        (_, Some(name)) => {
            let source = format!("Secret {name}");
            match cluster.secret(name).await? {
                Some(secret) => (source, secret),
                None if args.require_secret => {
                    return Err(Error::Document { from: source, why: "not found".into() });
                }
                None => return Ok(SecretLookup::NotFound(source)),
            }
        }
        // clap requires one of them.
        (None, None) => {
            return Err(Error::Usage("--secret-file or --secret is required".into()));
        }
    };
    let invalid = |why: String| Error::Document { from: source.clone(), why };
    let name = secret.metadata.name.clone().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid("metadata.name is missing".into()))?;
    let content = EncryptionSecret::read(&data(secret)).map_err(|error| invalid(error.to_string()))?;
    Ok(SecretLookup::Found { content, name })
}

fn parse_secret(source: &str, text: &str) -> Result<Secret, Error> {
    let invalid = |why: String| Error::Document { from: source.into(), why };
    let value = parse_yaml(source, text)?;
    if value["kind"] != "Secret" {
        return Err(invalid(format!("unexpected kind {}: expected Secret", value["kind"])));
    }
    serde_json::from_value(value).map_err(|error| invalid(format!("not a valid Secret: {error}")))
}

/// Returns `data` merged with `stringData`.
fn data(secret: Secret) -> BTreeMap<String, ByteString> {
    let mut data = secret.data.unwrap_or_default();
    let plain = secret.string_data.unwrap_or_default();
    data.extend(plain.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))));
    data
}
