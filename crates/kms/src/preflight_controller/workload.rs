//! Creates and deletes the objects of a check.

use std::io::Read;

use api::names::kms::preflight as names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use plan::kms::preflight::{
    PreflightPodConfig, PreflightWorkload, RequestedCheck, render_pods, render_role, render_role_binding,
    render_service_account,
};
use plan::kms::secret_layout::EncryptionSecret;
use runtime::write::{NamespacedObject, WriteOutcome, Writer};

use super::observe::{Observed, fingerprint_content};
use super::reconcile::Error;

/// Deletes the observed pods and Secret, by UID. A failure to delete one object does not keep the others.
pub(super) async fn clean_up(writer: &Writer, observed: &Observed) -> Result<(), Error> {
    let mut failures = Vec::new();
    for pod in observed.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        failures.extend(require("deleting a check pod", writer.delete(pod).await?).err());
    }
    if let Some(secret) = &observed.secret {
        failures.extend(require("deleting the check Secret", writer.delete(secret).await?).err());
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => {
            let messages: Vec<String> = failures.iter().map(ToString::to_string).collect();
            Err(Error::Write(messages.join("; ")))
        }
    }
}

/// One attempt of a check.
pub(super) struct Attempt<'a> {
    pub(super) number: u32,
    /// Value of the retry annotation that it was started for.
    pub(super) retry: Option<&'a str>,
}

/// Creates all objects of a check, pods last, so that everything they need exists when they start.
pub(super) async fn deploy(
    writer: &Writer,
    pod_config: &PreflightPodConfig,
    nodes: &[String],
    desired: &RequestedCheck,
    content: &EncryptionSecret,
    attempt: &Attempt<'_>,
) -> Result<(), Error> {
    let key = random_key().map_err(|error| Error::Write(format!("generating a random key: {error}")))?;
    let fingerprint = fingerprint_content(&key, content);
    let workload = PreflightWorkload {
        content,
        hash: &desired.hash,
        fingerprint: &fingerprint,
        attempt: attempt.number,
        retry: attempt.retry,
    };
    // Rendered before anything is created: a configuration that cannot be rendered leaves no objects behind.
    let pods = render_pods(pod_config, &workload, nodes)?;
    let mut data = content.write();
    data.insert(names::FINGERPRINT_KEY.into(), ByteString(key));
    let secret = Secret {
        metadata: ObjectMeta {
            namespace: Some(pod_config.namespace.clone()),
            name: Some(names::SECRET.into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    };
    require("creating the check Secret", writer.create(&secret).await?)?;
    apply(writer, &render_service_account(&pod_config.namespace)?).await?;
    apply(writer, &render_role(&pod_config.namespace, nodes)?).await?;
    apply(writer, &render_role_binding(&pod_config.namespace)?).await?;
    for pod in &pods {
        require("creating a check pod", writer.create(pod).await?)?;
    }
    Ok(())
}

async fn apply<K: NamespacedObject>(writer: &Writer, object: &K) -> Result<(), Error> {
    require("applying the checker's RBAC", writer.apply(object, None::<&K>).await?)
}

fn require<K>(what: &str, outcome: WriteOutcome<K>) -> Result<(), Error> {
    outcome.into_result().map(drop).map_err(|why| Error::Write(format!("{what}: {why}")))
}

fn random_key() -> std::io::Result<Vec<u8>> {
    let mut key = vec![0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}
