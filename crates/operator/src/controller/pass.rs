//! A pass: observe, decide, act, and again until nothing is left to do at once; then record, once.

use std::sync::Arc;
use std::time::Duration;

use api::SeiNode;
use api::names::finalizer;
use api::sei_node::PlanPhase;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use plan::node::{Decision, Needs, World, decide, needs};
use runtime::Key;
use runtime::write::{Outcome, Writer};

use super::act::Actor;
use super::{Controller, Error};

/// Decisions in one pass: more than any plan has steps.
const MOST_ROUNDS: usize = 200;

/// Passes that one turn of a key may take, each with its own record. A plan that was just stored is begun in the same turn.
const MOST_PASSES: usize = 8;

/// How soon a node is looked at again whose stored state is newer than what we read.
const SOON: Duration = Duration::from_millis(100);

/// Works on a node until there is nothing to do at once. Returns when to look again.
pub(super) async fn turn(
    controller: Arc<Controller>,
    writer: Writer,
    key: Key,
) -> Result<Option<Duration>, Error> {
    let mut stored = controller.objects.nodes.get(&controller.client, &key).await?;
    for _ in 0..MOST_PASSES {
        let Some(node) = stored else {
            controller.forget(&key);
            return Ok(None);
        };
        match pass(&controller, &writer, &key, &node).await? {
            Next::Pass(node) => stored = Some(node),
            Next::Wait(after) => return Ok(after),
            Next::Rest(after) => {
                controller.objects.rest(&node);
                return Ok(after);
            }
        }
    }
    Ok(Some(SOON))
}

/// What follows a pass.
enum Next {
    /// Another one, with the node as it is stored now.
    Pass(Arc<SeiNode>),
    /// Nothing, until something happens, or until then.
    Wait(Option<Duration>),
    /// The same, and nothing is expected to happen: no plan is carried out.
    Rest(Option<Duration>),
}

async fn pass(
    controller: &Controller,
    writer: &Writer,
    key: &Key,
    node: &Arc<SeiNode>,
) -> Result<Next, Error> {
    let mut world = controller.objects.world_of(&controller.client, node).await?;
    world.memo = controller.memo(key);
    let decision = settle(controller, writer, key, node, &mut world).await?;
    // Whatever becomes of the status, which most repairs do not change.
    controller.tell_repaired(node, &decision.repaired);
    if decision.drop_finalizer {
        return match writer.drop_finalizer(&**node, finalizer::NODE).await? {
            Outcome::Unchanged | Outcome::Applied(_) | Outcome::Missing => Ok(Next::Wait(None)),
            Outcome::Stale(_) => Ok(Next::Wait(Some(SOON))),
            // A refusal that were asked about ten times a second would be a load, and in nobody's log.
            Outcome::Conflict(why)
            | Outcome::Rejected(why)
            | Outcome::Forbidden(why)
            | Outcome::Unavailable(why)
            | Outcome::Unknown(why) => Err(Error::Finalizer(why)),
        };
    }
    let status = decision.status;
    let recorded = writer.pass(&**node).record(&status).await?;
    let stored = match recorded {
        Outcome::Unchanged => {
            let after = decision.look_again.map(|after| after.max(SOON));
            let busy = status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active);
            return Ok(if busy { Next::Wait(after) } else { Next::Rest(after) });
        }
        Outcome::Applied(stored) => controller.objects.nodes.wrote(stored),
        // Gone meanwhile.
        Outcome::Missing => return Ok(Next::Wait(None)),
        Outcome::Stale(_) => return Ok(Next::Wait(Some(SOON))),
        Outcome::Conflict(why)
        | Outcome::Rejected(why)
        | Outcome::Forbidden(why)
        | Outcome::Unavailable(why)
        | Outcome::Unknown(why) => return Err(Error::Status(why)),
    };
    tracing::debug!(
        phase = ?status.phase,
        step = status.plan_step,
        waiting_for = status.waiting_for.as_ref().map(|waiting| &waiting.target),
        why = status.waiting_for.as_ref().and_then(|waiting| waiting.message.as_ref()),
        "a status was stored"
    );
    controller.tell(&stored, node.status.as_ref());
    if decision.look_again == Some(Duration::ZERO) {
        return Ok(Next::Pass(stored));
    }
    Ok(Next::Wait(decision.look_again))
}

/// Decides and acts until nothing is left to do at once.
async fn settle(
    controller: &Controller,
    writer: &Writer,
    key: &Key,
    node: &SeiNode,
    world: &mut World,
) -> Result<Decision, Error> {
    let platform = &controller.platform;
    let fresh = Controller::fresh_id();
    let mut status = node.status.clone().unwrap_or_default();
    let mut repaired = Vec::new();
    let mut asked = Needs::default();
    let actor = Actor { writer, objects: &controller.objects, sidecars: &controller.sidecars, key, node };
    for _ in 0..MOST_ROUNDS {
        let wanted = needs(node, &status, platform, world);
        observe(controller, key, &wanted, &asked, world).await?;
        let now = Time(Timestamp::now());
        let mut decision = decide(node, status, platform, world, &now, &fresh);
        let idle = decision.actions.is_empty();
        // Repairs have a sentence each, and other acts have none. Of one that was refused nobody is told that it was done.
        let mut sentences = std::mem::take(&mut decision.repaired).into_iter();
        for action in std::mem::take(&mut decision.actions) {
            let kind = action.kind();
            actor.act(action, world).await?;
            repaired.extend(sentences.next().filter(|_| !world.refused.contains_key(kind)));
        }
        if idle && needs(node, &decision.status, platform, world) == wanted {
            decision.repaired = repaired;
            return Ok(decision);
        }
        asked = wanted;
        status = decision.status;
    }
    Err(Error::Endless)
}

/// Looks at what the decision needs, as far as it was not looked at in this pass.
async fn observe(
    controller: &Controller,
    key: &Key,
    wanted: &Needs,
    asked: &Needs,
    world: &mut World,
) -> Result<(), Error> {
    let Controller { sidecars, secrets, client, .. } = controller;
    for name in wanted.secrets.difference(&asked.secrets) {
        let sight = secrets.look(&key.namespace, name).await;
        world.secrets.insert(name.clone(), sight);
    }
    if wanted.volume_of.is_some() && wanted.volume_of != asked.volume_of {
        let name = world.claim.as_deref().and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
        world.volume = match name {
            Some(name) => Api::<PersistentVolume>::all(client.clone()).get_opt(&name).await?.map(Arc::new),
            None => None,
        };
    }
    // The public part of what a sidecar serves by TLS is needed to trust it.
    let trust = |transport: &plan::node::Transport, world: &World| {
        transport.secret.as_ref().and_then(|name| world.secrets.get(name).cloned())
    };
    // What the sidecar has done since may have changed how it is: the last task of a plan lets seid start.
    let is_done = asked.task.is_some() && wanted.task.is_none();
    if let Some(to) = wanted.health.as_ref().filter(|_| wanted.health != asked.health || is_done) {
        let trusted = trust(to, world);
        world.sidecar.health = sidecars.health(key, to, trusted.as_ref()).await;
        controller.metrics.probed(&key.namespace, &world.sidecar.health);
    }
    if let Some((to, id)) = &wanted.task
        && (wanted.task != asked.task || world.sidecar.task.0 != *id)
    {
        let trusted = trust(to, world);
        world.sidecar.task = (id.clone(), sidecars.task(key, to, trusted.as_ref(), id).await);
    }
    if let Some(to) = wanted.served.as_ref().filter(|_| wanted.served != asked.served) {
        let trusted = trust(to, world);
        world.sidecar.served = sidecars.served(key, to, trusted.as_ref()).await;
    }
    Ok(())
}
