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
            "limits": quantities("Maximum amount of compute resources, by resource (cpu, memory, ...)."),
            "requests": quantities("Minimum amount of compute resources, by resource (cpu, memory, ...)."),
        },
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
