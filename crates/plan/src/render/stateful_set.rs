//! The StatefulSet of a node.

use api::SeiNode;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};

use super::{RenderError, meta, pod};
use crate::platform::Platform;

/// Renders the StatefulSet of a node. Only plans replace its pod, never the StatefulSet controller: a plan knows what
/// must happen before and after.
pub fn stateful_set(node: &SeiNode, platform: &Platform) -> Result<StatefulSet, RenderError> {
    Ok(StatefulSet {
        metadata: meta::object_meta(node, meta::name(node).into(), meta::labels(node)),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(meta::name(node).into()),
            selector: meta::match_labels(meta::selector(node)),
            template: pod::node_template(node, platform)?,
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".into()),
                rolling_update: None,
            }),
            ..StatefulSetSpec::default()
        }),
        status: None,
    })
}
