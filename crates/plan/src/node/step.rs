//! What the world says of a step: that it is done, what is to be done for it, or what it waits for.

use std::time::Duration;

use api::SeiNode;
use api::applied::{self, Standing};
use api::condition::SidecarTLSSecretReady;
use api::names::{container, object};
use api::sei_node::{PlannedTask, SeiNodeStatus};
use api::sidecar_wire::{TaskRequest, TaskState};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use kube_core::Resource;
use serde::Serialize;

use super::action::{Action, Doomed, Object, Transport};
use super::check::{Verdict, claim, keys, tls_secret};
use super::kind::Kind;
use super::observe::kind_of;
use super::task::Step;
use super::world::{Refusal, Served, Submission, TaskSight, World};
use super::{drift, mirrors, observe};
use crate::platform::Platform;
use crate::render;

/// What steps look at.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) node: &'a SeiNode,
    pub(super) kind: Kind<'a>,
    pub(super) platform: &'a Platform,
    pub(super) world: &'a World,
}

/// What the world says of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Look {
    /// It is done.
    Done,
    /// This is to be done for it.
    Do(Action),
    /// Something else must happen first.
    Wait(Wait),
    /// An attempt has failed.
    Failed(String),
    /// It can never be done.
    Never(String),
}

/// Something that must happen first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The kind of it.
    pub(super) what: &'static str,
    /// The name of it.
    pub(super) name: String,
    /// What is known of it.
    pub(super) message: Option<String>,
    /// What is said instead once it takes long: where it is held up, and what to look at.
    pub(super) late: Option<String>,
    /// Whether nobody tells when it happens, so that it must be looked at again soon.
    pub(super) asked: bool,
}

impl<'a> Scene<'a> {
    /// Looks at a step. What it saw goes into the status.
    pub(super) fn look(self, step: Step, task: &PlannedTask, status: &mut SeiNodeStatus) -> Look {
        match step {
            Step::EnsureDataClaim => self.data_claim(),
            Step::ValidateSigningKey => {
                let name = self.kind.keys().signing_key.unwrap_or_default();
                judged(keys::signing_key(&name, self.world), "Secret", &name)
            }
            Step::ValidateNodeKey => {
                let name = self.kind.keys().node_key.unwrap_or_default();
                judged(keys::node_key(&name, self.world), "Secret", &name)
            }
            Step::ValidateOperatorKeyring => {
                let ring = self.kind.keys().operator_keyring.unwrap_or_default();
                judged(keys::operator_keyring(&ring, self.world), "Secret", &ring.secret_name)
            }
            Step::ApplyCertificate => {
                let desired = || render::certificate(self.node);
                self.applied(self.world.certificate.as_deref(), desired, Object::Certificate)
            }
            Step::WaitForTlsSecret => self.tls_secret(),
            Step::RemoveCertificate => self.remove_certificate(),
            Step::ApplyNetworkPolicy => {
                let desired = || Ok(render::network_policy(self.node, self.platform));
                self.applied(self.world.network_policy.as_deref(), desired, Object::NetworkPolicy)
            }
            Step::ApplyProxyConfig => {
                let desired = || Ok(render::proxy_config(self.node));
                self.applied(self.world.proxy_config.as_deref(), desired, Object::ConfigMap)
            }
            Step::ApplyStatefulSet => {
                let desired = || render::stateful_set(self.node, self.platform);
                self.applied(self.world.stateful_set.as_deref(), desired, Object::StatefulSet)
            }
            Step::ApplyService => {
                let desired = || Ok(render::service(self.node));
                self.applied(self.world.service.as_deref(), desired, Object::Service)
            }
            Step::ReplacePod => self.replace_pod(),
            Step::ObserveImage => self.observe_image(status),
            Step::ObserveTls => self.observe_tls(status),
            Step::DeployBootstrapService => {
                let desired = || Ok(render::bootstrap_service(self.node));
                self.created(self.world.service.as_deref(), desired, Object::Service)
            }
            Step::DeployBootstrapJob => {
                // The one of a plan before this, which was edited because of it.
                let failed = |job: &&Job| {
                    observe::is_ours(self.node, *job)
                        && matches!(ended(job), Some(Err(_)))
                        && !observe::is_going(*job)
                };
                if let Some(job) = self.world.job.as_deref().filter(failed) {
                    return self.deleted("Job", Doomed::Job(Box::new(job.clone())));
                }
                let desired = || render::bootstrap_job(self.node, self.platform);
                self.created(self.world.job.as_deref(), desired, Object::Job)
            }
            Step::AwaitBootstrap => self.await_bootstrap(),
            Step::TeardownBootstrap => self.teardown_bootstrap(),
            Step::Sidecar(_) => self.sidecar(step, task, status),
        }
    }

    /// An object that is applied is done when it is seen as it is wanted.
    fn applied<K, L>(
        self,
        live: Option<&L>,
        desired: impl Fn() -> Result<K, render::Refusal>,
        wrap: fn(Box<K>) -> Object,
    ) -> Look
    where
        K: Resource<DynamicType = ()> + Serialize,
        L: Resource<DynamicType = ()> + Serialize,
    {
        let kind = kind_of::<K>();
        if let Some(live) = live {
            if observe::is_going(live) {
                return waits(kind, name_of(live), "it is being deleted");
            }
            if !observe::is_ours(self.node, live) && !is_unowned(live) {
                return belongs_to_somebody_else(live);
            }
            let memo = &self.world.memo;
            match memo.wish(self.node, kind, &desired) {
                Ok(hash) if memo.standing(self.node, live, &hash, &desired) == Standing::AsWished => {
                    return Look::Done;
                }
                Ok(_) => {}
                Err(refusal) => return Look::Never(refusal.to_string()),
            }
        }
        self.written(desired(), wrap, Action::Apply)
    }

    /// An object that is made once is done when it is there and ours.
    fn created<K>(
        self,
        live: Option<&K>,
        desired: impl Fn() -> Result<K, render::Refusal>,
        wrap: fn(Box<K>) -> Object,
    ) -> Look
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        match live {
            Some(live) if observe::is_going(live) => {
                waits(kind_of::<K>(), name_of(live), "the one before it is being deleted")
            }
            Some(live) if observe::is_ours(self.node, live) => Look::Done,
            Some(live) => belongs_to_somebody_else(live),
            None => self.written(desired(), wrap, Action::Create),
        }
    }

    /// An object that is to be written, unless it cannot be made, or was refused in this pass.
    fn written<K>(
        self,
        desired: Result<K, render::Refusal>,
        wrap: fn(Box<K>) -> Object,
        write: fn(Object) -> Action,
    ) -> Look {
        let object = match desired {
            Ok(desired) => wrap(Box::new(desired)),
            Err(refusal) => return Look::Never(refusal.to_string()),
        };
        match self.world.refused.get(object.kind()) {
            None => Look::Do(write(object)),
            Some(refusal) => refused(&object, refusal),
        }
    }

    fn data_claim(self) -> Look {
        if let Some(name) = claim::imported(self.node) {
            let verdict = claim::check(name, self.kind, self.platform, self.world);
            return judged(verdict, "PersistentVolumeClaim", name);
        }
        let name = object::data_claim(self.name());
        match self.world.claim.as_deref() {
            Some(live) if !observe::is_ours(self.node, live) && !observe::is_going(live) => {
                Look::Never(format!(
                    "PersistentVolumeClaim {name} belongs to somebody else: import it with spec.dataVolume.import, or delete it"
                ))
            }
            live => {
                let desired = || render::data_claim(self.node, self.platform);
                self.created(live, desired, Object::Claim)
            }
        }
    }

    fn tls_secret(self) -> Look {
        let wanted = drift::tls(self.node);
        let found = tls_secret::check(self.node, &wanted, self.world);
        let name = wanted.secret_name.clone().unwrap_or_default();
        match found.reason {
            SidecarTLSSecretReady::TLSNotRequested | SidecarTLSSecretReady::TLSSecretReady => Look::Done,
            // A bad issuer must not be waited for; the plan ends, the node is left running, and an edit is taken up at once.
            SidecarTLSSecretReady::CertificateFailed => Look::Never(found.message),
            SidecarTLSSecretReady::CertificateNotReady => waits("Certificate", &name, &found.message),
            _ => waits("Secret", &name, &found.message),
        }
    }

    fn remove_certificate(self) -> Look {
        match self.world.certificate.as_deref() {
            Some(live) if observe::is_ours(self.node, live) => {
                if observe::is_going(live) {
                    return waits("Certificate", name_of(live), "it is being deleted");
                }
                self.deleted("Certificate", Doomed::Certificate(Box::new(live.clone())))
            }
            _ => Look::Done,
        }
    }

    /// Deletes a pod of an older revision. It does not wait for readiness: a seid that was halted is never ready, and is
    /// what an update is for.
    fn replace_pod(self) -> Look {
        let Some(set) = self.world.stateful_set.as_deref() else {
            return waits("StatefulSet", self.name(), "it is not there");
        };
        if set.replicas().is_some_and(|replicas| replicas > 1) {
            return Look::Never(format!("StatefulSet {} has more than one replica", self.name()));
        }
        // What is deleted follows from the template: it must be the one that is wanted, and its controller must know it.
        let desired = || render::stateful_set(self.node, self.platform);
        let hash = match self.world.memo.wish(self.node, kind_of::<StatefulSet>(), desired) {
            Ok(hash) => hash,
            Err(refusal) => return Look::Never(refusal.to_string()),
        };
        if !applied::is_from(set, &hash) {
            return waits("StatefulSet", self.name(), "it is not seen with its new template yet");
        }
        let Some(newest) = set.newest_revision() else {
            return waits("StatefulSet", self.name(), "its controller has not seen the new template yet");
        };
        let pod = observe::pod(self.node, self.world);
        match pod.map(|pod| (pod, observe::revision_of(pod))) {
            Some((pod, Some(revision))) if revision != newest => {
                if observe::is_going(&**pod) {
                    return waits("Pod", name_of(&**pod), "the one of the older revision is ending");
                }
                self.deleted("Pod", Doomed::Pod(Box::new((**pod).clone())))
            }
            _ => Look::Done,
        }
    }

    fn observe_image(self, status: &mut SeiNodeStatus) -> Look {
        let pod_name = object::pod(self.name());
        // The same words until something is wrong or takes long: on its way, a pod passes through more states than are worth a
        // write.
        let starting = |late: &str| {
            let (name, message, late) = (pod_name.clone(), Some("it is starting".into()), Some(late.into()));
            Look::Wait(Wait { what: "Pod", name, message, late, asked: false })
        };
        // A template that was applied once more, before it was recorded that it had been, has left a pod of the one before. It
        // would be waited for in vain.
        match self.replace_pod() {
            Look::Done => {}
            Look::Wait(wait) => return starting(&wait.message.unwrap_or_default()),
            other => return other,
        }
        let Some(pod) = observe::pod(self.node, self.world) else {
            return starting(
                "its StatefulSet has not made it: look at the events of the StatefulSet, and whether kube-controller-manager runs",
            );
        };
        if observe::is_going(&**pod) {
            return starting("the one before is still ending: look whether its node is there");
        }
        if !pod.runs(container::SEID) {
            return match pod.trouble() {
                Some(trouble) => waits("Pod", &pod_name, &trouble),
                None if !pod.is_scheduled() => starting(
                    "no node was chosen for it, and nothing says why: look whether kube-scheduler runs",
                ),
                None => starting("its containers are not started: look at the events of the pod"),
            };
        }
        mirrors::stamp_pod(status, self.node, self.kind, pod);
        Look::Done
    }

    /// Sees how the new pod serves, and only then believes it. It does not wait for the pod to be ready: that waits for
    /// mark-ready, which comes later.
    fn observe_tls(self, status: &mut SeiNodeStatus) -> Look {
        let wanted = drift::tls(self.node);
        let Some(transport) = observe::transport_by(self.node, self.world, &wanted) else {
            return waits("Pod", &object::pod(self.name()), "it is not there yet");
        };
        let sidecar = |message: Option<&str>| {
            let (name, message) = (transport.host.clone(), message.map(str::to_owned));
            Look::Wait(Wait { what: "Sidecar", name, message, late: None, asked: true })
        };
        match &self.world.sidecar.served {
            Served::Unasked => sidecar(None),
            Served::Otherwise(why) => sidecar(Some(why)),
            Served::As(scheme, _) if *scheme != wanted.scheme => {
                sidecar(Some("it is not served as wanted yet"))
            }
            Served::As(_, served) => {
                let secret = wanted.secret_name.as_deref().and_then(|name| self.world.secrets.get(name));
                let expected = tls_secret::fingerprint(secret);
                if served.is_some() && expected.is_some() && *served != expected {
                    return sidecar(Some("it still serves the certificate before"));
                }
                status.current_sidecar_tls = Some(wanted);
                Look::Done
            }
        }
    }

    fn await_bootstrap(self) -> Look {
        let name = object::bootstrap_job(self.name());
        let Some(job) = self.world.job.as_deref() else {
            return Look::Never(format!("Job {name} is gone before it was done"));
        };
        match ended(job) {
            Some(Ok(())) => Look::Done,
            Some(Err(why)) => self.bootstrap_failed(&why),
            None => {
                let trouble = observe::bootstrap_pod(self.world).and_then(|pod| pod.trouble());
                waits("Job", &name, trouble.as_deref().unwrap_or("seid is on its way to the height"))
            }
        }
    }

    /// A Job says only that its pod has failed; why, the pod says.
    fn bootstrap_failed(self, why: &str) -> Look {
        let name = object::bootstrap_job(self.name());
        let trouble = observe::bootstrap_pod(self.world).and_then(|pod| pod.trouble());
        Look::Never(match trouble {
            Some(trouble) => format!("Job {name} failed: {why}: {trouble}"),
            None => format!("Job {name} failed: {why}"),
        })
    }

    /// Both must be gone before the node's own pod comes: the volume can be mounted by one of them only.
    fn teardown_bootstrap(self) -> Look {
        if let Some(job) = self.world.job.as_deref() {
            if observe::is_going(job) {
                return waits("Job", name_of(job), "it is being deleted, and its pod before it");
            }
            return self.deleted("Job", Doomed::Job(Box::new(job.clone())));
        }
        match self.world.service.as_deref() {
            // The Service of the node itself has the same name, and comes after.
            Some(service) if render::is_bootstrap(service) => {
                if observe::is_going(service) {
                    return waits("Service", name_of(service), "it is being deleted");
                }
                self.deleted("Service", Doomed::Service(Box::new(service.clone())))
            }
            _ => match self.world.pods.iter().find(|pod| render::is_bootstrap(&***pod)) {
                Some(pod) => waits("Pod", name_of(&**pod), "the bootstrap pod is ending"),
                None => Look::Done,
            },
        }
    }

    fn deleted(self, kind: &'static str, doomed: Doomed) -> Look {
        match self.world.refused.get(kind) {
            None => Look::Do(Action::Delete(doomed)),
            Some(Refusal::Rejected(why)) => {
                Look::Never(format!("the API server does not delete the {kind}: {why}"))
            }
            Some(Refusal::Conflict(why) | Refusal::NotNow(why)) => waits(kind, self.name(), why),
        }
    }

    /// A task of the sidecar: asked about, given once, then only asked about. It is given again when the sidecar has lost it,
    /// and after a failure that was counted.
    fn sidecar(self, step: Step, task: &PlannedTask, status: &SeiNodeStatus) -> Look {
        // The bootstrap's seid starts after all tasks of its sidecar, and ends with it: nobody is left to ask about them.
        if is_of_the_bootstrap(task, status)
            && let Some(end) = self.world.job.as_deref().and_then(ended)
        {
            return end.map_or_else(|why| self.bootstrap_failed(&why), |()| Look::Done);
        }
        let Some(transport) = self.sidecar_transport(task, status) else {
            return waits("Pod", &object::pod(self.name()), "it is not there yet");
        };
        let sight = &self.world.sidecar;
        let attempts_before = task.retry_count.unwrap_or_default();
        let result = match sight.task_of(&task.id) {
            TaskSight::Unasked => return self.asked(step, None),
            TaskSight::Unreachable(why) => return self.unreachable(&transport, why),
            TaskSight::NotFound => None,
            TaskSight::Found(result) => Some(result),
        };
        let give = || match sight.submission_of(&task.id) {
            None => Look::Do(Action::Submit(transport.clone(), request(task))),
            Some(Submission::Taken) if step.is_only_begun() => Look::Done,
            Some(Submission::Taken) => self.asked(step, Some("it was given")),
            Some(Submission::Rejected(why)) => Look::Never(why.clone()),
            Some(Submission::Unknown(why)) => self.unreachable(&transport, why),
        };
        let Some(result) = result else { return give() };
        match result.status {
            TaskState::Completed => Look::Done,
            TaskState::Running if step.is_only_begun() => Look::Done,
            TaskState::Running => self.asked(step, Some("it was given")),
            // The attempt before, which was counted already.
            TaskState::Failed if i64::from(result.run) <= i64::from(attempts_before) => give(),
            TaskState::Failed => {
                Look::Failed(result.error.clone().unwrap_or_else(|| "the sidecar does not say why".into()))
            }
        }
    }

    /// Whose sidecar a task is for: the bootstrap pod's until that is torn down.
    pub(super) fn sidecar_transport(self, task: &PlannedTask, status: &SeiNodeStatus) -> Option<Transport> {
        if is_of_the_bootstrap(task, status) {
            observe::bootstrap_transport(self.node, self.world)
        } else {
            observe::transport(self.node, status, self.world)
        }
    }

    /// The sidecar is at work, or, without a message, its answer is still to come.
    fn asked(self, step: Step, message: Option<&str>) -> Look {
        let message = message.map(str::to_owned);
        let name = step.name().into();
        Look::Wait(Wait { what: "SidecarTask", name, message, late: None, asked: true })
    }

    fn unreachable(self, transport: &Transport, why: &str) -> Look {
        let trouble = observe::pod(self.node, self.world).and_then(|pod| pod.trouble());
        let message = trouble.unwrap_or_else(|| why.to_owned());
        Look::Wait(Wait {
            what: "Sidecar",
            name: transport.host.clone(),
            message: Some(message),
            late: None,
            asked: true,
        })
    }

    fn name(self) -> &'a str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Whether a task is one for the sidecar of the bootstrap pod, which is there until it is torn down.
fn is_of_the_bootstrap(task: &PlannedTask, status: &SeiNodeStatus) -> bool {
    let tasks = status.plan.as_ref().map(|plan| plan.tasks.as_slice()).unwrap_or_default();
    let at = tasks.iter().position(|other| other.id == task.id).unwrap_or_default();
    let teardown = tasks.iter().position(|other| other.task_type == Step::TeardownBootstrap.name());
    teardown.is_some_and(|teardown| at < teardown)
}

/// What the API server's refusal of an object means for a step.
fn refused(object: &Object, refusal: &Refusal) -> Look {
    let kind = object.kind();
    match refusal {
        Refusal::Rejected(why) => Look::Never(format!("the API server refuses the {kind}: {why}")),
        Refusal::Conflict(why) => waits(kind, "fields of somebody else", why),
        Refusal::NotNow(why) => waits(kind, "the API server", why),
    }
}

fn judged(verdict: Verdict, kind: &'static str, name: &str) -> Look {
    match verdict {
        Verdict::Fit => Look::Done,
        Verdict::NotYet(why) => waits(kind, name, &why),
        Verdict::Unfit(why) => Look::Never(why),
    }
}

fn waits(what: &'static str, name: &str, message: &str) -> Look {
    Look::Wait(Wait { what, name: name.into(), message: Some(message.into()), late: None, asked: false })
}

fn request(task: &PlannedTask) -> TaskRequest {
    let params = task.params.as_ref().and_then(|params| params.as_object()).cloned();
    TaskRequest { id: Some(task.id.clone()), task_type: task.task_type.clone(), params }
}

/// Another one's object is neither changed nor taken.
fn belongs_to_somebody_else<K: Resource<DynamicType = ()>>(live: &K) -> Look {
    let (kind, name) = (kind_of::<K>(), name_of(live));
    Look::Never(format!("{kind} {name} belongs to somebody else: delete it, or give the node another name"))
}

fn name_of<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn is_unowned<K: Resource>(object: &K) -> bool {
    object.meta().owner_references.as_deref().unwrap_or_default().is_empty()
}

/// How a Job ended, if it has.
pub(super) fn ended(job: &Job) -> Option<Result<(), String>> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let holds = |type_: &str| conditions.iter().find(|one| one.type_ == type_ && one.status == "True");
    if holds("Complete").is_some() {
        return Some(Ok(()));
    }
    let failed = holds("Failed")?;
    let text =
        [failed.reason.as_deref(), failed.message.as_deref()].map(Option::unwrap_or_default).join(": ");
    Some(Err(text))
}

/// How long until something that nobody tells about is looked at again: the longer it has taken, the longer.
pub(super) fn look_again(waited: Duration) -> Duration {
    (waited / 4).clamp(Duration::from_millis(250), Duration::from_secs(5))
}
