//! The observe stage of fleets: from the caches, with this process's own writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::condition::{self, ChainSynced, Ready};
use api::names::{label, object};
use api::{SeiNode, SeiNodeDeployment};
use kube::ResourceExt;
use plan::fleet::{ChainValidator, Observed, node_name, revision_hash};
use runtime::Key;
use runtime::sync::lock;

use super::{Error, FleetController};

impl FleetController {
    /// Returns the observed state of a fleet.
    pub(super) async fn observe(&self, key: &Key, fleet: &SeiNodeDeployment) -> Result<Observed, Error> {
        let named = |name: String| Key { namespace: key.namespace.clone(), name };
        // By name, so that what this process has just created is found, too.
        let mut nodes: BTreeSet<Key> =
            (0..fleet.spec.replicas).map(|ordinal| named(node_name(fleet, ordinal))).collect();
        let prefix = format!("{}-", key.name);
        let has_prefix = |node: &Key| node.namespace == key.namespace && node.name.starts_with(&prefix);
        let is_member = |node: &Arc<SeiNode>| node.labels().get(label::FLEET) == Some(&key.name);
        let labeled = self.nodes.list(has_prefix).into_iter().filter(is_member);
        nodes.extend(labeled.map(|node| Key::from_object(&*node)));
        let active_since = lock(&self.active_since).clone();
        let mut observed = Observed {
            active_since,
            internal_service: self
                .services
                .get(&self.client, &named(object::internal_service(&key.name)))
                .await?,
            external_service: self
                .services
                .get(&self.client, &named(object::external_service(&key.name)))
                .await?,
            ..Observed::default()
        };
        for node in &nodes {
            observed.nodes.extend(self.nodes.get(&self.client, node).await?);
        }
        let collisions = fleet.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let mut revisions: BTreeSet<Key> = (0..=collisions)
            .map(|count| named(format!("{prefix}{}", revision_hash(&fleet.spec.template, count))))
            .collect();
        let is_owned =
            |revision: &Key| revision.namespace == key.namespace && revision.name.starts_with(&prefix);
        revisions.extend(self.revisions.list(is_owned).iter().map(|revision| Key::from_object(&**revision)));
        for revision in &revisions {
            let found = self.revisions.get(&self.client, revision).await?;
            // The name of another fleet may start with that of this one.
            let found = found.filter(|revision| {
                revision.metadata.deletion_timestamp.is_none()
                    && revision
                        .owner_references()
                        .iter()
                        .any(|owner| Some(&owner.uid) == fleet.metadata.uid.as_ref())
            });
            observed.revisions.extend(found);
        }
        if fleet.spec.template.spec.validator.is_some() {
            self.observe_validators(fleet, &mut observed);
        }
        Ok(observed)
    }

    /// Observes the validators of the chain in the whole cluster: they share its voting power.
    fn observe_validators(&self, fleet: &SeiNodeDeployment, observed: &mut Observed) {
        let mut validators = Vec::new();
        self.nodes.for_each(|node| {
            if node.spec.validator.is_none() || node.spec.chain_id != fleet.spec.template.spec.chain_id {
                return;
            }
            let key = Key::from_object(node);
            let power = self.heights.voting_power(&key);
            observed.total_power = observed.total_power.max(power.map(|power| power.total));
            validators.push(ChainValidator {
                power: power.map(|power| power.own),
                is_available: is_available(node),
                name: key.name,
                namespace: key.namespace,
            });
        });
        observed.validators = validators;
    }
}

/// Returns whether a validator signs, as far as its status tells.
fn is_available(node: &SeiNode) -> bool {
    let conditions = node.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_behind = condition::find::<ChainSynced>(conditions).is_some_and(|chain| chain.status == "False");
    node.metadata.deletion_timestamp.is_none() && condition::is_true::<Ready>(conditions) && !is_behind
}
