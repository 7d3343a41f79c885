//! Schemas that the derive macro cannot know: what Kubernetes itself says of a type, and where a server may not prune.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::rule::{Rule, validations};

/// Drops the description of a type, so that a field of the type keeps its own: in an optional field of an enum the type's
/// would win.
pub(crate) fn undescribed(schema: &mut Schema) {
    schema.remove("description");
}

/// Any JSON. Nothing below is pruned.
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

/// A map from names to text. The limits are those that rules on it need to be cheap enough for the API server.
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
    "the value of a label has letters, digits, dashes, dots and underscores, and begins and ends with a letter or digit",
)];

/// Resources of a container. Amounts may be written as numbers (`cpu: 4`), as in a Pod: a schema that takes only strings
/// would refuse manifests that people have.
pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "claims": {
                "description": "Names of resources, defined in the pod's resourceClaims, that the container uses.",
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
                            "description": "The request of that claim to use; all of them when absent.",
                            "type": "string",
                            "maxLength": 253,
                        },
                    },
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "limits": amounts("Most the container may use, by resource (cpu, memory, ...)."),
            "requests": amounts("What the scheduler sets aside for the container, by resource (cpu, memory, ...)."),
        },
    })
}

fn amounts(description: &str) -> Schema {
    json_schema!({
        "description": description,
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "x-kubernetes-int-or-string": true },
        "x-kubernetes-validations": validations(AMOUNTS),
    })
}

const AMOUNTS: &[Rule] = &[Rule::invalid(
    "",
    "self.all(name, type(self[name]) == int || isQuantity(self[name]))",
    "an amount is a number with a unit or without, as in 250m, 4 or 2Gi",
)];

/// Conditions, with the limits that Kubernetes puts on its own.
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
                    "description": "When the status last changed; other changes do not move it.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "What was seen, for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "observedGeneration": {
                    "description": "The generation of the object that this was judged by.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "Why, in one word of a closed list: see docs/reference/conditions.md.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "What the condition is about.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}
