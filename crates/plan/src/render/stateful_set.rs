//! The StatefulSet of a node.

use api::SeiNode;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};

use super::{Refusal, meta, pod};
use crate::platform::Platform;

/// The StatefulSet of a node. Its one pod is replaced by plans only, never by the controller of StatefulSets: a plan knows
/// what has to be done before and after.
pub fn stateful_set(node: &SeiNode, platform: &Platform) -> Result<StatefulSet, Refusal> {
    Ok(StatefulSet {
        metadata: meta::of(node, meta::name(node).into(), meta::labels(node)),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(meta::name(node).into()),
            selector: meta::matching(meta::selector(node)),
            template: pod::of_the_node(node, platform)?,
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".into()),
                rolling_update: None,
            }),
            ..StatefulSetSpec::default()
        }),
        status: None,
    })
}
