//! Schemas that the derive macro cannot generate: types of Kubernetes, and fields that must not be pruned.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::rule::{Rule, validations};

/// Drops the description of a type, so that fields of the type keep their own: for an optional enum the type's would win.
pub(crate) fn undescribed(schema: &mut Schema) {
    schema.remove("description");
}

/// Any JSON. Nothing in it is pruned.
pub(crate) fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A map from names to any JSON.
pub(crate) fn map_of_any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// A map from names to strings. The limits keep the estimated cost of CEL rules within the API server's budget.
pub(crate) fn settings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": { "type": "string", "maxLength": 8192 },
    })
}

/// Labels.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63 },
        "x-kubernetes-validations": validations(LABELS),
    })
}

const LABELS: &[Rule] = &[Rule::invalid(
    "",
    "self.all(key, self[key].matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'))",
    "label values must consist of letters, digits, dashes, dots and underscores, and start and end with a letter \
     or digit",
)];

/// Compute resources of a container. Quantities may be numbers (`cpu: 4`), as in a Pod.
pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "claims": {
                "description": "Resources, defined in the pod's resourceClaims, that the container uses.",
                "type": "array",
                "maxItems": 16,
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {
                            "description": "Name of an entry in the pod's resourceClaims.",
                            "type": "string",
                            "maxLength": 253,
                        },
                        "request": {
                            "description": "Name of the request in the claim. If unset, everything in the claim is available.",
                            "type": "string",
                            "maxLength": 253,
                        },
                    },
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "limits": limits(),
            "requests": requests(),
        },
    })
}

/// Compute resources of a container without resource claims, which its pod does not define.
pub(crate) fn requests_and_limits(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": { "limits": limits(), "requests": requests() },
        "x-kubernetes-map-type": "atomic",
    })
}

fn limits() -> Schema {
    quantities("Maximum amount of compute resources, by resource (cpu, memory, ...).")
}

fn requests() -> Schema {
    quantities("Minimum amount of compute resources, by resource (cpu, memory, ...).")
}

/// A positive quantity. It may be a number, as in a PersistentVolumeClaim.
pub(crate) fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true, "x-kubernetes-validations": validations(SIZE) })
}

const SIZE: &[Rule] = &[Rule::invalid(
    "",
    "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",
    "must be a positive quantity, like 500Gi or 2Ti",
)];

/// Tolerations of a pod.
pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": {
            "type": "object",
            "properties": {
                "effect": {
                    "description": "Effect of the taint. If unset, all effects are tolerated.",
                    "type": "string",
                    "enum": ["NoExecute", "NoSchedule", "PreferNoSchedule"],
                },
                "key": {
                    "description": "Key of the taint. If unset, the operator must be Exists, and all taints are tolerated.",
                    "type": "string",
                    "maxLength": 316,
                },
                "operator": {
                    "description": "Relation of the key to the value: Equal (default) or Exists.",
                    "type": "string",
                    "enum": ["Equal", "Exists"],
                },
                "tolerationSeconds": {
                    "description": "How long the pod stays on a Kubernetes node with a new taint of effect NoExecute. If unset, it is never evicted for it.",
                    "type": "integer",
                    "format": "int64",
                },
                "value": {
                    "description": "Value of the taint, with operator Equal.",
                    "type": "string",
                    "maxLength": 63,
                },
            },
            "x-kubernetes-validations": validations(TOLERATION),
        },
    })
}

const TOLERATION: &[Rule] = &[
    Rule::forbidden(
        ".value",
        "!has(self.value) || !has(self.operator) || self.operator != 'Exists'",
        "value is not allowed with operator Exists, which tolerates every value: remove one of them",
    ),
    Rule::required(
        ".key",
        "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
        "a toleration without key tolerates all taints: set key, or set operator to Exists",
    ),
    Rule::forbidden(
        ".tolerationSeconds",
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        "tolerationSeconds requires effect NoExecute: set it, or remove tolerationSeconds",
    ),
];

/// An affinity, which the API server validates in the pod. Its full schema is larger than that of all other fields.
pub(crate) fn affinity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Topology spread constraints of a pod.
pub(crate) fn topology_spread_constraints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": {
            "type": "object",
            "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
            "properties": {
                "labelSelector": label_selector("Pods that are counted."),
                "matchLabelKeys": {
                    "description": "Labels of the pod whose values counted pods must share. Requires labelSelector.",
                    "type": "array",
                    "maxItems": 16,
                    "items": { "type": "string", "maxLength": 316 },
                },
                "maxSkew": {
                    "description": "Maximum difference between the numbers of pods in two domains.",
                    "type": "integer",
                    "format": "int32",
                    "minimum": 1,
                },
                "minDomains": {
                    "description": "Minimum number of domains. Requires whenUnsatisfiable DoNotSchedule.",
                    "type": "integer",
                    "format": "int32",
                    "minimum": 1,
                },
                "nodeAffinityPolicy": {
                    "description": "Whether Kubernetes nodes that the affinity excludes count: Honor (default, they do not) or Ignore.",
                    "type": "string",
                    "enum": ["Honor", "Ignore"],
                },
                "nodeTaintsPolicy": {
                    "description": "Whether Kubernetes nodes with taints that are not tolerated count: Ignore (default, they do) or Honor.",
                    "type": "string",
                    "enum": ["Honor", "Ignore"],
                },
                "topologyKey": {
                    "description": "Label of Kubernetes nodes whose values are the domains, for example topology.kubernetes.io/zone.",
                    "type": "string",
                    "maxLength": 316,
                },
                "whenUnsatisfiable": {
                    "description": "What happens if the constraint cannot be met: DoNotSchedule or ScheduleAnyway.",
                    "type": "string",
                    "enum": ["DoNotSchedule", "ScheduleAnyway"],
                },
            },
        },
    })
}

fn label_selector(description: &str) -> Schema {
    json_schema!({
        "description": description,
        "type": "object",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that must all be met.",
                "type": "array",
                "maxItems": 16,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "Key of the label.", "type": "string", "maxLength": 316 },
                        "operator": {
                            "description": "Relation of the label to the values: In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "Values of the label, with operator In or NotIn.",
                            "type": "array",
                            "maxItems": 64,
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                },
            },
            "matchLabels": {
                "description": "Labels that must be present.",
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn quantities(description: &str) -> Schema {
    json_schema!({
        "description": description,
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "x-kubernetes-int-or-string": true },
        "x-kubernetes-validations": validations(QUANTITIES),
    })
}

const QUANTITIES: &[Rule] = &[Rule::invalid(
    "",
    "self.all(name, type(self[name]) == int || isQuantity(self[name]))",
    "must be a quantity, like 250m, 4 or 2Gi",
)];

/// Conditions, with the limits of `metav1.Condition`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "Time of the last change of the status.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "Human-readable details.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "observedGeneration": {
                    "description": "Generation of the object that the condition is based on.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "CamelCase reason. All reasons are documented in docs/reference/conditions.md.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "Status of the condition: True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "Type of the condition.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}
