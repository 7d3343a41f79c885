//! The bootstrap Job, which syncs a node from a snapshot to a height, and its Service.

use api::SeiNode;
use api::names::object;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Service;

use super::service::{self, PROXY_PORT};
use super::{RenderError, meta, pod};
use crate::platform::Platform;

/// Renders the Service of a node's bootstrap pod. It has the name of the node's own Service, so that the sidecar has
/// the same host name.
#[must_use]
pub fn bootstrap_service(node: &SeiNode) -> Service {
    let labels = meta::bootstrap_labels(node);
    service::headless(node, labels.clone(), labels, [PROXY_PORT].into_iter())
}

/// Renders the bootstrap Job. It runs once, and has no TTL: a Job that deletes itself looks like one that was deleted
/// before it completed.
pub fn bootstrap_job(node: &SeiNode, platform: &Platform) -> Result<Job, RenderError> {
    Ok(Job {
        metadata: meta::object_meta(
            node,
            object::bootstrap_job(meta::name(node)),
            meta::bootstrap_labels(node),
        ),
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            template: pod::bootstrap_template(node, platform)?,
            ..JobSpec::default()
        }),
        status: None,
    })
}
