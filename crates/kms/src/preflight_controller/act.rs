//! Makes and removes what a check needs.

use std::io::Read;

use api::names::kms::preflight as names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use plan::kms::preflight::{Place, Wanted, Workload, pods, role, role_binding, service_account};
use plan::kms::secret_layout::Content;
use runtime::write::{Outcome, Writer, Written};

use super::pass::Error;
use super::world::{World, fingerprint_of};

/// Removes pods and Secret; these very ones, not others that have their names by now. What cannot be removed does not keep the
/// other from going.
pub(super) async fn clean_up(writer: &Writer, world: &World) -> Result<(), Error> {
    let mut failures = Vec::new();
    for pod in world.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        failures.extend(done("removing a pod of the check", writer.delete(pod).await?).err());
    }
    if let Some(secret) = &world.secret {
        failures.extend(done("removing the Secret of the check", writer.delete(secret).await?).err());
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => {
            let all: Vec<String> = failures.iter().map(ToString::to_string).collect();
            Err(Error::Write(all.join("; ")))
        }
    }
}

/// Which try.
pub(super) struct Try<'a> {
    pub(super) attempt: u32,
    pub(super) retry: Option<&'a str>,
}

/// Makes everything, the pods last: they find all that they need.
pub(super) async fn deploy(
    writer: &Writer,
    place: &Place,
    nodes: &[String],
    wanted: &Wanted,
    content: &Content,
    this: &Try<'_>,
) -> Result<(), Error> {
    let key = random_key().map_err(|error| Error::Write(format!("no random key could be made: {error}")))?;
    let fingerprint = fingerprint_of(&key, content);
    let workload = Workload {
        content,
        hash: &wanted.hash,
        fingerprint: &fingerprint,
        attempt: this.attempt,
        retry: this.retry,
    };
    // Rendered before anything is made: what cannot be rendered leaves nothing behind.
    let pods = pods(place, &workload, nodes)?;
    let mut data = content.write();
    data.insert(names::FINGERPRINT_KEY.into(), ByteString(key));
    let secret = Secret {
        metadata: ObjectMeta {
            namespace: Some(place.namespace.clone()),
            name: Some(names::SECRET.into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    };
    done("making the Secret of the check", writer.create(&secret).await?)?;
    apply(writer, &service_account(&place.namespace)?).await?;
    apply(writer, &role(&place.namespace, nodes)?).await?;
    apply(writer, &role_binding(&place.namespace)?).await?;
    for pod in &pods {
        done("making a pod of the check", writer.create(pod).await?)?;
    }
    Ok(())
}

async fn apply<K: Written>(writer: &Writer, object: &K) -> Result<(), Error> {
    done("granting the checker its rights", writer.apply(object, None::<&K>).await?)
}

fn done<K>(what: &str, outcome: Outcome<K>) -> Result<(), Error> {
    match outcome {
        Outcome::Unchanged | Outcome::Applied(_) => Ok(()),
        Outcome::Missing => Err(Error::Write(format!("{what}: there is no such object or namespace"))),
        Outcome::Stale(why)
        | Outcome::Conflict(why)
        | Outcome::Rejected(why)
        | Outcome::Forbidden(why)
        | Outcome::Unavailable(why)
        | Outcome::Unknown(why) => Err(Error::Write(format!("{what}: {why}"))),
    }
}

fn random_key() -> std::io::Result<Vec<u8>> {
    let mut key = vec![0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}
