//! The Job that takes a node from a snapshot to a height, and its Service.

use api::SeiNode;
use api::names::object;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Service;

use super::service::{self, PROXY_PORT};
use super::{Refusal, meta, pod};
use crate::platform::Platform;

/// The Service of a node's bootstrap pod. It has the name of the node's own, so that the sidecar's host name is the same.
#[must_use]
pub fn bootstrap_service(node: &SeiNode) -> Service {
    let labels = meta::bootstrap_labels(node);
    service::headless(node, labels.clone(), labels, [PROXY_PORT].into_iter())
}

/// The Job that takes a node from a snapshot to a height. It is tried once, and stays until the plan has seen its end: one
/// that removes itself looks like one that somebody has deleted.
pub fn bootstrap_job(node: &SeiNode, platform: &Platform) -> Result<Job, Refusal> {
    Ok(Job {
        metadata: meta::of(node, object::bootstrap_job(meta::name(node)), meta::bootstrap_labels(node)),
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            template: pod::of_the_bootstrap(node, platform)?,
            ..JobSpec::default()
        }),
        status: None,
    })
}
