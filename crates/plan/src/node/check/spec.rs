//! Validates what a spec asks for beyond its schema, before anything of the node is touched.

use api::sei_node::{ConfigChange, PlanChanges};
use chain::config::{self, ConfigError, Host, Intent, Severity};
use k8s_openapi::apimachinery::pkg::api::resource;
use serde_json::Value;

use super::image;
use crate::node::context::NodeContext;
use crate::node::drift::{scheduling, seid_resources};
use crate::node::settings::settings;
use crate::node::volume;
use crate::quantity::Quantity;
use crate::render;

/// Defaults depend on the machine; the validity of overrides does not.
const ANY_HOST: Host = Host { name: String::new(), processors: 4 };

/// Returns every problem of what the changes of a plan apply, with its field and what to do. Other parts of the spec are not
/// judged: a node of another operator may run with settings that are unknown here.
pub(in crate::node) fn problems(context: NodeContext<'_>, changes: PlanChanges) -> Vec<String> {
    let mut problems = if changes.pod { pod_problems(context) } else { Vec::new() };
    // Applied without a plan, so that it is always judged.
    problems.extend(volume::assess(context).problem());
    if changes.config != ConfigChange::Unchanged {
        problems.extend(peer_problems(context));
        problems.extend(config_problems(context));
    }
    problems
}

fn pod_problems(context: NodeContext<'_>) -> Vec<String> {
    let mut problems = image_problems(context);
    problems.extend(resource_problems(context));
    if let Some(affinity) = scheduling(context.node).affinity {
        match render::parse_affinity(&affinity) {
            Ok(parsed) => {
                // Plain data: serialization cannot fail.
                let known = serde_json::to_value(parsed).unwrap_or_default();
                add_unknown_fields(&affinity, &known, "spec.scheduling.affinity", &mut problems);
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    problems
}

/// Returns the requests above their limits. A rule of the schema would exceed the budget of the API server.
fn resource_problems(context: NodeContext<'_>) -> Vec<String> {
    let resources = seid_resources(context.node);
    let limits = resources.limits.unwrap_or_default();
    let requests = resources.requests.unwrap_or_default();
    let exceeds = |(name, request): (String, resource::Quantity)| {
        let limit = limits.get(&name)?;
        let is_above = Quantity::parse(&request.0)? > Quantity::parse(&limit.0)?;
        let (request, limit) = (request.0, &limit.0);
        is_above.then(|| {
            format!(
                "spec.resources.requests[{name}]: {request} is more than its limit of {limit}: lower it, or raise the limit"
            )
        })
    };
    requests.into_iter().filter_map(exceeds).collect()
}

/// Adds the fields of a value that were dropped when it was parsed.
fn add_unknown_fields(given: &Value, known: &Value, path: &str, problems: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(known) => add_unknown_fields(value, known, &path, problems),
                    None => problems.push(format!("{path}: unknown field; remove it or correct its name")),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                add_unknown_fields(given, known, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn image_problems(context: NodeContext<'_>) -> Vec<String> {
    let spec = &context.node.spec;
    let sidecar = spec.sidecar.as_ref().and_then(|sidecar| sidecar.image.as_deref()).unwrap_or_default();
    let bootstrap = context.kind.bootstrap().map(|(image, _)| image).unwrap_or_default();
    let bootstrap_field = format!("spec.{}.snapshot.bootstrapImage", context.kind.field());
    [("spec.image", spec.image.as_str()), ("spec.sidecar.image", sidecar), (&bootstrap_field, bootstrap)]
        .into_iter()
        .filter(|(field, reference)| *field == "spec.image" || !reference.is_empty())
        .filter_map(|(field, reference)| {
            let problem = image::problem(reference)?;
            Some(format!("{field}: {reference:?} is not an image reference: {problem}"))
        })
        .collect()
}

fn peer_problems(context: NodeContext<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, source) in context.node.spec.peers.iter().enumerate() {
        let addresses = source.static_peers.iter().flat_map(|peers| &peers.addresses);
        for address in addresses.filter(|address| !config::is_peer_address(address)) {
            problems.push(format!(
                "spec.peers[{index}].static.addresses: {address:?} is not a peer: use <node id>@<host>:<port>"
            ));
        }
    }
    problems
}

/// Returns the problems of overrides: unknown keys, wrong types, and combinations that make seid exit.
fn config_problems(context: NodeContext<'_>) -> Vec<String> {
    let intent = Intent {
        mode: context.kind.config_mode().as_str().into(),
        overrides: settings(context.node, context.kind),
        ..Intent::default()
    };
    let is_error = |finding: &config::Finding| finding.severity == Severity::Error;
    let errors: Vec<_> = config::check_intent(&intent).into_iter().filter(is_error).collect();
    if !errors.is_empty() {
        return errors.into_iter().map(|error| format!("spec.{}: {}", error.field, error.message)).collect();
    }
    match config::resolve(&intent, None, &ANY_HOST) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(findings)) => findings
            .into_iter()
            .filter(is_error)
            .map(|error| format!("spec.overrides: {}: {}", error.field, error.message))
            .collect(),
        Err(error) => vec![format!("spec.overrides: {error}")],
    }
}
