//! The encryption-config secret, from a file or from the cluster.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use plan::kms::secret_layout::Content;

use super::live::Cluster;
use super::{Args, Error, parse, shown, text_of};

/// The secret that was asked for.
pub(super) enum Found {
    /// It is there.
    Secret {
        /// What it holds.
        content: Content,
        /// Its name.
        name: String,
    },
    /// It is not, which one may accept: nothing is encrypted by a KMS yet.
    Absent(String),
}

pub(super) async fn find(args: &Args, cluster: &Cluster) -> Result<Found, Error> {
    let (from, secret) = match (&args.secret.secret_file, &args.secret.secret) {
        (Some(file), _) => {
            let from = shown(file);
            (from.clone(), read(&from, &text_of(file)?)?)
        }
        (_, Some(name)) => {
            let from = format!("Secret {name}");
            match cluster.secret(name).await? {
                Some(secret) => (from, secret),
                None if args.require_secret => {
                    return Err(Error::Document { from, why: "it is not there: create it".into() });
                }
                None => return Ok(Found::Absent(from)),
            }
        }
        // One of them is required.
        (None, None) => {
            return Err(Error::Document { from: "the arguments".into(), why: "no secret was named".into() });
        }
    };
    let wrong = |why: String| Error::Document { from: from.clone(), why };
    let name = secret.metadata.name.clone().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong("the secret has no name: set metadata.name".into()))?;
    let content = Content::read(&data(secret)).map_err(|error| wrong(error.to_string()))?;
    Ok(Found::Secret { content, name })
}

fn read(from: &str, text: &str) -> Result<Secret, Error> {
    let wrong = |why: String| Error::Document { from: from.into(), why };
    let value = parse(from, text)?;
    if value["kind"] != "Secret" {
        return Err(wrong(format!("its kind is {}: give a Secret", value["kind"])));
    }
    serde_json::from_value(value).map_err(|error| wrong(format!("it is no Secret: {error}")))
}

/// Its values, also those that are written as plain text.
fn data(secret: Secret) -> BTreeMap<String, ByteString> {
    let mut data = secret.data.unwrap_or_default();
    let plain = secret.string_data.unwrap_or_default();
    data.extend(plain.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))));
    data
}
