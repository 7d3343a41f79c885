//! Revisions of a template. Two templates are the same revision if they mean the same to this operator: a field that a newer
//! operator adds, or a changed default, must not restart the nodes of every fleet.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::SeiNodeDeployment;
use api::fleet::{NodeTemplate, TemplateMetadata};
use api::names::label;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube_core::Resource;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::observed::Observed;

/// How many revisions are kept besides those that nodes have.
const HISTORY_LIMIT: usize = 10;

/// The key of the template in the data of a revision.
const TEMPLATE: &str = "template";

/// A revision of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The hash in its name, which is also the label of nodes.
    pub hash: String,
    /// Its rising number.
    pub number: i64,
    /// The template.
    pub template: NodeTemplate,
}

impl Revision {
    /// Reads a stored revision. One that this operator cannot read is kept, and matches no template.
    fn read(fleet: &SeiNodeDeployment, stored: &ControllerRevision) -> Option<Self> {
        let hash = stored.metadata.name.as_deref()?.strip_prefix(&prefix(fleet))?;
        let template = stored.data.as_ref()?.0.get(TEMPLATE)?.clone();
        let template = serde_json::from_value(template).ok()?;
        Some(Self { hash: hash.into(), number: stored.revision, template: canonical(template) })
    }
}

/// The revisions of a fleet, and what has to be done about them.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    revisions: Vec<(Revision, Arc<ControllerRevision>)>,
}

impl History {
    /// Reads the stored revisions.
    pub(super) fn read(fleet: &SeiNodeDeployment, observed: &Observed) -> Self {
        let mut revisions: Vec<_> = observed
            .revisions
            .iter()
            .filter_map(|stored| Some((Revision::read(fleet, stored)?, stored.clone())))
            .collect();
        revisions.sort_by(|(one, _), (other, _)| (one.number, &one.hash).cmp(&(other.number, &other.hash)));
        Self { revisions }
    }

    /// Returns the revision with a hash, or a name.
    pub(super) fn find(&self, fleet: &SeiNodeDeployment, name: &str) -> Option<&Revision> {
        let hash = name.strip_prefix(&prefix(fleet)).unwrap_or(name);
        self.revisions.iter().map(|(revision, _)| revision).find(|revision| revision.hash == hash)
    }

    /// Returns the revision of a template, the newest one if there are several.
    pub(super) fn of_template(&self, template: &NodeTemplate) -> Option<&Revision> {
        let template = canonical(template.clone());
        self.revisions
            .iter()
            .rev()
            .map(|(revision, _)| revision)
            .find(|revision| revision.template == template)
    }

    /// Returns the number of the next revision.
    pub(super) fn next_number(&self) -> i64 {
        self.revisions.last().map_or(1, |(revision, _)| revision.number + 1)
    }

    /// Returns the revisions that may be deleted: the oldest ones that no node has.
    pub(super) fn obsolete(&self, used: &BTreeSet<&str>) -> Vec<Arc<ControllerRevision>> {
        let unused: Vec<_> =
            self.revisions.iter().filter(|(revision, _)| !used.contains(revision.hash.as_str())).collect();
        let excess = unused.len().saturating_sub(HISTORY_LIMIT);
        unused.into_iter().take(excess).map(|(_, stored)| stored.clone()).collect()
    }
}

/// Returns the object that stores a revision.
pub(super) fn object(fleet: &SeiNodeDeployment, revision: &Revision) -> ControllerRevision {
    let fleet_name = fleet.metadata.name.clone().unwrap_or_default();
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}{}", prefix(fleet), revision.hash)),
            namespace: fleet.metadata.namespace.clone(),
            labels: Some([(label::FLEET.to_owned(), fleet_name)].into()),
            owner_references: fleet.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        revision: revision.number,
        data: Some(RawExtension(json!({ TEMPLATE: projection(&revision.template) }))),
    }
}

/// Returns the hash that names the revision of a template. `collisions` is the number of names that another template has taken.
#[must_use]
pub fn revision_hash(template: &NodeTemplate, collisions: i32) -> String {
    let text = format!("{}#{collisions}", projection(&canonical(template.clone())));
    Sha256::digest(text).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a template without what is no part of a revision: pausing is not an update, and empty metadata is the same as none.
pub(super) fn canonical(mut template: NodeTemplate) -> NodeTemplate {
    template.spec.paused = false;
    template.metadata = template.metadata.filter(|metadata| *metadata != TemplateMetadata::default());
    template
}

/// Returns the stored form of a template. Maps are sorted, and absent fields are left out, so that equal templates have equal texts.
fn projection(template: &NodeTemplate) -> Value {
    // Templates are plain data: serialization cannot fail.
    serde_json::to_value(template).unwrap_or_default()
}

fn prefix(fleet: &SeiNodeDeployment) -> String {
    format!("{}-", fleet.metadata.name.as_deref().unwrap_or_default())
}
