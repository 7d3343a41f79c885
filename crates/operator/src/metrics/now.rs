//! What is true of nodes now, counted when somebody asks.

use std::collections::BTreeMap;
use std::fmt;

use api::SeiNode;
use api::condition::{Reason, SidecarReady, Status};
use api::sei_node::{PlanPhase, SeiNodePhase};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use runtime::metrics::catalogue::Description;

use super::{CONDITIONS, CONTROLLER, PHASE, PHASES, PLAN_ACTIVE, SIDECAR_READY, phase_name};

type ShowNodes = dyn Fn(&mut dyn FnMut(&SeiNode)) + Send + Sync;

/// What is true of nodes now.
pub(super) struct Now(Box<ShowNodes>);

impl Now {
    /// Of the nodes that are shown.
    pub(super) fn of(nodes: impl Fn(&mut dyn FnMut(&SeiNode)) + Send + Sync + 'static) -> Self {
        Self(Box::new(nodes))
    }
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Now").finish_non_exhaustive()
    }
}

/// What is told of nodes. They are shown one after the other, and none is kept: those at rest take ten times as much memory
/// while they are looked at.
#[derive(Default)]
struct Told {
    nodes: Vec<Node>,
    active_plans: BTreeMap<String, i64>,
    conditions: BTreeMap<[String; 4], i64>,
}

struct Node {
    namespace: String,
    name: String,
    phase: Option<SeiNodePhase>,
    sidecar_is_ready: Option<bool>,
}

impl Told {
    fn add(&mut self, node: &SeiNode) {
        let (Some(namespace), Some(name), Some(status)) =
            (&node.metadata.namespace, &node.metadata.name, &node.status)
        else {
            return;
        };
        let ready = status.conditions.iter().find(|condition| condition.type_ == SidecarReady::CONDITION);
        self.nodes.push(Node {
            namespace: namespace.clone(),
            name: name.clone(),
            phase: status.phase,
            sidecar_is_ready: ready.map(|ready| ready.status == Status::True.as_str()),
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

/// Samples of one gauge: labels in the order of its description, and the value.
type Samples<'a> = Vec<(Vec<&'a str>, i64)>;

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut told = Told::default();
        (self.0)(&mut |node| told.add(node));
        gauge(&mut encoder, &PHASE, phases(&told))?;
        gauge(&mut encoder, &PLAN_ACTIVE, active_plans(&told))?;
        gauge(&mut encoder, &SIDECAR_READY, ready_sidecars(&told))?;
        gauge(&mut encoder, &CONDITIONS, conditions(&told))
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

fn phases(told: &Told) -> Samples<'_> {
    let known = told.nodes.iter().filter_map(|node| Some((node, node.phase?)));
    let all = known.flat_map(|(node, is)| {
        PHASES.map(|phase| {
            (vec![node.namespace.as_str(), &node.name, phase_name(phase)], i64::from(phase == is))
        })
    });
    all.collect()
}

fn active_plans(told: &Told) -> Samples<'_> {
    let all = told.active_plans.iter();
    all.map(|(namespace, count)| (vec![CONTROLLER, namespace.as_str()], *count)).collect()
}

fn ready_sidecars(told: &Told) -> Samples<'_> {
    let asked = told.nodes.iter().filter_map(|node| {
        let ready = node.sidecar_is_ready?;
        Some((vec![node.namespace.as_str(), node.name.as_str()], i64::from(ready)))
    });
    asked.collect()
}

fn conditions(told: &Told) -> Samples<'_> {
    let all = told.conditions.iter().map(|(labels, count)| {
        let labels = std::iter::once("SeiNode").chain(labels.iter().map(String::as_str));
        (labels.collect(), *count)
    });
    all.collect()
}
