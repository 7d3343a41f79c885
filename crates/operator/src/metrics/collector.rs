//! Gauges that are computed from the watched nodes at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::SeiNode;
use api::condition::{Reason, SidecarReady, Status};
use api::sei_node::{PlanPhase, Scheme, SeiNodePhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use runtime::Key;
use runtime::metrics::catalog::Description;

use super::{
    CERTIFICATE_EXPIRATION, CONDITIONS, CONTROLLER, HEIGHT, HEIGHT_LAG, PEERS, PHASE, PHASES, PLAN_ACTIVE,
    SIDECAR_READY, phase_name,
};
use crate::chain_progress::{ChainHeights, HeightSample};

type ForEachNode = dyn Fn(&mut dyn FnMut(&SeiNode)) + Send + Sync;
type CertificateExpiry = dyn Fn(&Key) -> Option<i64> + Send + Sync;

/// Collects the gauges of nodes.
pub(super) struct NodeCollector {
    for_each_node: Box<ForEachNode>,
    heights: Arc<ChainHeights>,
    certificate_expiry: Box<CertificateExpiry>,
}

impl NodeCollector {
    pub(super) fn new(
        for_each_node: impl Fn(&mut dyn FnMut(&SeiNode)) + Send + Sync + 'static,
        heights: Arc<ChainHeights>,
        certificate_expiry: impl Fn(&Key) -> Option<i64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            for_each_node: Box::new(for_each_node),
            heights,
            certificate_expiry: Box::new(certificate_expiry),
        }
    }
}

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCollector").finish_non_exhaustive()
    }
}

/// What the gauges need of all nodes. Nodes are visited one at a time and not kept: decompressed, a converged node takes ten
/// times as much memory.
#[derive(Default)]
struct Snapshot {
    nodes: Vec<NodeSnapshot>,
    active_plans: BTreeMap<String, i64>,
    conditions: BTreeMap<[String; 4], i64>,
}

struct NodeSnapshot {
    namespace: String,
    name: String,
    phase: Option<SeiNodePhase>,
    sidecar_is_ready: Option<bool>,
    /// The Secret whose certificate the sidecar API is served with.
    tls_secret: Option<Key>,
}

impl Snapshot {
    fn add(&mut self, node: &SeiNode) {
        let (Some(namespace), Some(name), Some(status)) =
            (&node.metadata.namespace, &node.metadata.name, &node.status)
        else {
            return;
        };
        let ready = status.conditions.iter().find(|condition| condition.type_ == SidecarReady::CONDITION);
        let tls = status.current_sidecar_tls.as_ref().filter(|tls| tls.scheme == Scheme::Https);
        let tls_secret = tls.and_then(|tls| tls.secret_name.clone());
        self.nodes.push(NodeSnapshot {
            namespace: namespace.clone(),
            name: name.clone(),
            phase: status.phase,
            sidecar_is_ready: ready.map(|ready| ready.status == Status::True.as_str()),
            tls_secret: tls_secret.map(|name| Key { namespace: namespace.clone(), name }),
        });
        let is_active = status.plan.as_ref().is_some_and(|plan| plan.phase == PlanPhase::Active);
        *self.active_plans.entry(namespace.clone()).or_default() += i64::from(is_active);
        for condition in &status.conditions {
            let (type_, status, reason) =
                (condition.type_.clone(), condition.status.clone(), condition.reason.clone());
            *self.conditions.entry([namespace.clone(), type_, status, reason]).or_default() += 1;
        }
    }
}

impl NodeCollector {
    fn certificate_expirations<'a>(&self, snapshot: &'a Snapshot) -> Samples<'a> {
        let known = snapshot.nodes.iter().filter_map(|node| {
            let expiry = (self.certificate_expiry)(node.tls_secret.as_ref()?)?;
            Some((vec![node.namespace.as_str(), node.name.as_str()], expiry))
        });
        known.collect()
    }
}

/// Samples of one gauge: labels in the order of its description, and the value.
type Samples<'a> = Vec<(Vec<&'a str>, i64)>;

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut snapshot = Snapshot::default();
        (self.for_each_node)(&mut |node| snapshot.add(node));
        let heights = self.heights.samples(&Time(Timestamp::now()));
        gauge(&mut encoder, &PHASE, phases(&snapshot))?;
        gauge(&mut encoder, &PLAN_ACTIVE, active_plans(&snapshot))?;
        gauge(&mut encoder, &SIDECAR_READY, ready_sidecars(&snapshot))?;
        gauge(&mut encoder, &HEIGHT, of_nodes(&heights, |sample| sample.height))?;
        gauge(&mut encoder, &HEIGHT_LAG, of_nodes(&heights, |sample| sample.lag))?;
        gauge(&mut encoder, &PEERS, of_nodes(&heights, |sample| sample.peers.into()))?;
        gauge(&mut encoder, &CERTIFICATE_EXPIRATION, self.certificate_expirations(&snapshot))?;
        gauge(&mut encoder, &CONDITIONS, conditions(&snapshot))
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    description: &Description,
    samples: Samples<'_>,
) -> Result<(), fmt::Error> {
    let mut encoder =
        encoder.encode_descriptor(description.name, description.help, None, MetricType::Gauge)?;
    for (values, value) in samples {
        let labels: Vec<(&str, &str)> = description.labels.iter().copied().zip(values).collect();
        ConstGauge::new(value).encode(encoder.encode_family(&labels)?)?;
    }
    Ok(())
}

fn phases(snapshot: &Snapshot) -> Samples<'_> {
    let known = snapshot.nodes.iter().filter_map(|node| Some((node, node.phase?)));
    let all = known.flat_map(|(node, current)| {
        PHASES.map(|phase| {
            (vec![node.namespace.as_str(), &node.name, phase_name(phase)], i64::from(phase == current))
        })
    });
    all.collect()
}

fn active_plans(snapshot: &Snapshot) -> Samples<'_> {
    let all = snapshot.active_plans.iter();
    all.map(|(namespace, count)| (vec![CONTROLLER, namespace.as_str()], *count)).collect()
}

fn ready_sidecars(snapshot: &Snapshot) -> Samples<'_> {
    let probed = snapshot.nodes.iter().filter_map(|node| {
        let ready = node.sidecar_is_ready?;
        Some((vec![node.namespace.as_str(), node.name.as_str()], i64::from(ready)))
    });
    probed.collect()
}

fn of_nodes(heights: &[HeightSample], value: fn(&HeightSample) -> i64) -> Samples<'_> {
    let samples = heights.iter();
    samples.map(|sample| (vec![sample.node.namespace.as_str(), &sample.node.name], value(sample))).collect()
}

fn conditions(snapshot: &Snapshot) -> Samples<'_> {
    let all = snapshot.conditions.iter().map(|(labels, count)| {
        let labels = std::iter::once("SeiNode").chain(labels.iter().map(String::as_str));
        (labels.collect(), *count)
    });
    all.collect()
}
