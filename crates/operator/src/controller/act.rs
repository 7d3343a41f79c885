//! Does what was decided. What the API server and the sidecar answer becomes part of what was seen.

use api::SeiNode;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Resource;
use kube::core::ObjectMeta;
use plan::node::{Action, Doomed, Object, Refusal, SeenSet, Submission, World};
use runtime::Key;
use runtime::write::{self, Outcome, Writer, Written};
use serde::Serialize;

use super::Error;
use super::objects::Objects;
use super::seen::{Seen, going};
use crate::sidecar::Sidecars;

/// What an act needs.
pub(super) struct Actor<'a> {
    pub(super) writer: &'a Writer,
    pub(super) objects: &'a Objects,
    pub(super) sidecars: &'a Sidecars,
    pub(super) key: &'a Key,
    pub(super) node: &'a SeiNode,
}

impl Actor<'_> {
    /// Does one thing. An error means that it is not known what the world looks like now: the pass is over, nothing is
    /// recorded, and the next one looks again.
    pub(super) async fn act(&self, action: Action, world: &mut World) -> Result<(), Error> {
        match action {
            Action::Apply(object) => self.write(object, world, false).await,
            Action::Create(object) => self.write(object, world, true).await,
            Action::Delete(doomed) => self.delete(doomed, world).await,
            Action::Submit(transport, request) => {
                let id = request.id.clone().unwrap_or_default();
                let trusted = transport.secret.as_ref().and_then(|name| world.secrets.get(name));
                let said = self.sidecars.submit(self.key, &transport, trusted, &request).await;
                // Given, as far as we know; what it says of the task is asked anew.
                let said = said.unwrap_or_else(|| Submission::Unknown("its answer is still to come".into()));
                world.sidecar.task = Default::default();
                world.sidecar.submitted = Some((id, said));
                Ok(())
            }
        }
    }

    async fn write(&self, object: Object, world: &mut World, new: bool) -> Result<(), Error> {
        let objects = self.objects;
        let kind = object.kind();
        macro_rules! written {
            ($wanted:expr, $live:expr, $seen:expr, $as_seen:expr) => {{
                let live = if new { None } else { $live.clone() };
                let outcome = self.one(&**$wanted, live.as_deref(), new).await?;
                match (&outcome, &live) {
                    // The API server found it as wanted, although it reads differently.
                    (Outcome::Unchanged, Some(live)) => world.memo.found_as_wished(self.node, &**live),
                    (Outcome::Applied(object), _) if !new => world.memo.found_as_wished(self.node, object),
                    _ => {}
                }
                if let Some(object) = self.learn(kind, outcome, world)? {
                    $live = Some($seen.wrote($as_seen(object)?));
                }
            }};
        }
        match &object {
            Object::StatefulSet(wanted) => {
                let as_seen = |set: StatefulSet| SeenSet::try_from(&set).map_err(write::Error::from);
                written!(wanted, world.stateful_set, objects.stateful_sets, as_seen);
            }
            Object::Service(wanted) => written!(wanted, world.service, objects.services, same),
            Object::ConfigMap(wanted) => written!(wanted, world.proxy_config, objects.config_maps, same),
            Object::NetworkPolicy(wanted) => {
                written!(wanted, world.network_policy, objects.network_policies, same);
            }
            Object::Claim(wanted) => written!(wanted, world.claim, objects.claims, same),
            Object::Certificate(wanted) => {
                written!(wanted, world.certificate, objects.certificates.seen, same);
            }
            Object::Job(wanted) => written!(wanted, world.job, objects.jobs, same),
        }
        Ok(())
    }

    async fn one<K, L>(&self, wanted: &K, live: Option<&L>, new: bool) -> Result<Outcome<K>, Error>
    where
        K: Written,
        L: Resource + Serialize,
    {
        if new {
            return Ok(self.writer.create(wanted).await?);
        }
        match live {
            Some(live) if same_controller(wanted, live) => Ok(self.writer.take_back(wanted, live).await?),
            live => Ok(self.writer.apply(wanted, live).await?),
        }
    }

    /// What a write tells. An object that comes back is what was seen from now on.
    fn learn<K: Written>(
        &self,
        kind: &'static str,
        outcome: Outcome<K>,
        world: &mut World,
    ) -> Result<Option<K>, Error> {
        let refusal = match outcome {
            Outcome::Applied(object) => return Ok(Some(object)),
            Outcome::Unchanged => return Ok(None),
            Outcome::Conflict(why) => Refusal::Conflict(why),
            Outcome::Rejected(why) => Refusal::Rejected(why),
            Outcome::Forbidden(why) | Outcome::Unavailable(why) => Refusal::NotNow(why),
            Outcome::Stale(why) | Outcome::Unknown(why) => {
                return Err(Error::LookAgain { what: kind, why });
            }
            Outcome::Missing if kind == "Certificate" => {
                Refusal::NotNow("there is no kind Certificate: install cert-manager".into())
            }
            Outcome::Missing => {
                return Err(Error::LookAgain {
                    what: kind,
                    why: "it, or its namespace, is not there".into(),
                });
            }
        };
        world.refused.insert(kind, refusal);
        Ok(None)
    }

    async fn delete(&self, doomed: Doomed, world: &mut World) -> Result<(), Error> {
        let objects = self.objects;
        match doomed {
            Doomed::Pod(pod) => {
                if self.remove("Pod", &*pod, &objects.pods, world).await? {
                    let same = world.pods.iter_mut().find(|one| one.metadata.uid == pod.metadata.uid);
                    if let Some(place) = same {
                        *place = going(place.clone());
                    }
                }
            }
            Doomed::Service(service) => {
                if self.remove("Service", &*service, &objects.services, world).await? {
                    world.service = world.service.take().map(going);
                }
            }
            Doomed::Job(job) => {
                if self.remove("Job", &*job, &objects.jobs, world).await? {
                    world.job = world.job.take().map(going);
                }
            }
            Doomed::Certificate(certificate) => {
                if self.remove("Certificate", &*certificate, &objects.certificates.seen, world).await? {
                    world.certificate = world.certificate.take().map(going);
                }
            }
        }
        Ok(())
    }

    /// Deletes an object. True when it is on its way out, or gone.
    async fn remove<K: Written>(
        &self,
        kind: &'static str,
        object: &K,
        seen: &Seen<K>,
        world: &mut World,
    ) -> Result<bool, Error> {
        let outcome = self.writer.delete(object).await?;
        let gone = matches!(outcome, Outcome::Unchanged) || self.learn(kind, outcome, world)?.is_some();
        if gone {
            seen.deleted(object);
        }
        Ok(gone)
    }
}

/// Whether an object that is there belongs to the same node as the one that is wanted.
fn same_controller(wanted: &impl Resource, live: &impl Resource) -> bool {
    let controller = |meta: &ObjectMeta| {
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        owner.map(|owner| owner.uid.clone())
    };
    let wanted = controller(wanted.meta());
    wanted.is_some() && wanted == controller(live.meta())
}

/// Of most kinds everything is read.
fn same<K>(object: K) -> Result<K, write::Error> {
    Ok(object)
}
