//! The OpenAPI document. A test checks that the server behaves as documented.

use api::sidecar_wire::{APP_HASH_AT, TASK_KIND_HEADER, TaskType, path};
use serde_json::{Value, json};

/// Returns the OpenAPI 3.1 document.
#[must_use]
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sei node sidecar",
            "version": "0.8.0",
            "description": "Runs tasks on a node and reports their results. Ledger failures return 503 with Retry-After. If the API listens on a Unix socket, the TCP port serves only GET /v0/healthz.",
        },
        "paths": {
            path::HEALTHZ: { "get": { "summary": "Report whether seid may start", "responses": { "200": empty("seid may start"), "503": empty("seid must not start yet") } } },
            path::STARTUPZ: { "get": { "summary": "Same as /v0/healthz", "responses": { "200": empty("seid may start"), "503": empty("seid must not start yet") } } },
            path::LIVEZ: { "get": {
                "summary": "Report whether the sidecar is alive",
                "parameters": [{ "name": "verbose", "in": "query", "schema": { "const": "1" }, "description": "Name the failed check" }],
                "responses": { "200": empty("Alive"), "503": response("Not alive: restart the sidecar", "Error") },
            } },
            path::METRICS: { "get": { "summary": "Get metrics", "responses": { "200": { "description": "Metrics in OpenMetrics format", "content": { "application/openmetrics-text": { "schema": { "type": "string" } } } } } } },
            path::STATUS: { "get": { "summary": "Get the status of the sidecar", "responses": { "200": response("The status", "Status") } } },
            path::NODE_ID: { "get": { "summary": "Get the node ID", "responses": {
                "200": response("The node ID", "NodeId"), "500": response("The node key is missing or invalid", "Error"),
            } } },
            path::CHAIN: { "get": {
                "summary": "Get the state of the chain from seid's RPC, within about a second",
                "parameters": [{
                    "name": APP_HASH_AT, "in": "query", "schema": { "type": "integer", "format": "int64", "minimum": 1 },
                    "description": "Also get the app hash after the block at this height, from the header of the next block",
                }],
                "responses": {
                    "200": response("The state of the chain", "ChainStatus"),
                    "400": response("Invalid parameter", "Error"),
                    "503": response("seid's RPC does not answer, or too many concurrent requests", "Error"),
                },
            } },
            path::TASKS: {
                "get": { "summary": "List the newest 100 tasks, newest first", "responses": {
                    "200": { "description": "The tasks", "content": { "application/json": { "schema": { "type": "array", "items": reference("TaskResult") } } } },
                    "503": response("Ledger unavailable", "Error"),
                } },
                "post": {
                    "summary": "Submit a task. Submitting an existing ID has no effect unless that task failed; then it runs again",
                    "parameters": [task_kind()],
                    "requestBody": { "required": true, "content": { "application/json": { "schema": reference("TaskRequest") } } },
                    "responses": {
                        "201": response("The task is stored: it is new, exists already, or runs again", "SubmittedTask"),
                        "400": response("Invalid request, unsupported task type, or a type other than in the header", "Error"),
                        "413": response("Request body too large", "Error"),
                        "503": response("Ledger unavailable, or too many tasks in progress", "Error"),
                    },
                },
            },
            path::DRY_RUN: { "post": {
                "summary": "Check what a task would check, without executing it: nothing is written, and no task is stored. An ID is ignored",
                "parameters": [task_kind()],
                "requestBody": { "required": true, "content": { "application/json": { "schema": reference("TaskRequest") } } },
                "responses": {
                    "200": response("The task can be executed, as far as it can be checked", "DryRunResult"),
                    "400": response("Invalid request, unsupported task type, or a type other than in the header", "Error"),
                    "413": response("Request body too large", "Error"),
                    "422": response("The task would fail with this error", "Error"),
                    "503": response("Too many concurrent requests, or a task is changing what is read", "Error"),
                },
            } },
            "/v0/tasks/{id}": {
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string", "format": "uuid" } }],
                "get": { "summary": "Get a task", "responses": {
                    "200": response("The task", "TaskResult"), "404": response("Task not found", "Error"), "503": response("Ledger unavailable", "Error"),
                } },
                "delete": { "summary": "Cancel and delete a task", "responses": {
                    "204": empty("Deleted"), "404": response("Task not found", "Error"), "503": response("Ledger unavailable; the task was not deleted and continues", "Error"),
                } },
            },
        },
        "components": { "schemas": schemas() },
    })
}

fn schemas() -> Value {
    let task_types: Vec<&str> = TaskType::ALL.iter().map(|task_type| task_type.as_str()).collect();
    let id = json!({ "type": "string", "format": "uuid" });
    let time = json!({ "type": "string", "format": "date-time" });
    let height = json!({ "type": "integer", "format": "int64", "minimum": 0 });
    let hash = json!({ "type": "string", "pattern": "^[0-9A-F]+$" });
    json!({
        "Error": object(&["error"], &json!({ "error": { "type": "string" } })),
        "Status": object(&["status"], &json!({ "status": { "enum": ["Initializing", "Ready"] } })),
        "NodeId": object(&["nodeId"], &json!({ "nodeId": { "type": "string", "pattern": "^[0-9a-f]{40}$" } })),
        "ChainStatus": object(&["height", "peers", "catchingUp"], &json!({
            "height": described(&height, "The latest executed block; 0 before the first one"),
            "latestBlockTime": described(&time, "Time of the latest stored block, which may be the one after height"),
            "appHash": described(&hash, "The node's own app hash after the block at height"),
            "peers": { "type": "integer", "minimum": 0, "description": "Connected peers" },
            "catchingUp": { "type": "boolean", "description": "Whether seid gets blocks by block sync, which may also follow the chain" },
            "lag": { "type": "integer", "format": "int64", "description": "Blocks behind the highest peer, as seid knows it; absent if unknown or above its lag_threshold" },
            "validatorPower": reference("VotingPower"),
            "appHashAt": reference("AppHashAt"),
        })),
        "VotingPower": object(&["own", "total"], &json!({
            "own": { "type": "integer", "format": "int64", "minimum": 1, "description": "Voting power of the validator" },
            "total": { "type": "integer", "format": "int64", "minimum": 1, "description": "Voting power of all validators of the chain" },
        })),
        "AppHashAt": object(&["height", "appHash"], &json!({
            "height": height,
            "appHash": described(&hash, "The app hash after the block at height, from the header of the next block"),
        })),
        "SubmittedTask": object(&["id"], &json!({ "id": id })),
        "DryRunResult": object(&["valid"], &json!({
            "valid": { "const": true },
            "note": { "type": "string", "description": "What was not checked: only config-apply is checked beyond its request" },
        })),
        "TaskRequest": object(&["type"], &json!({ "id": id, "type": { "enum": task_types }, "params": params() })),
        "TaskResult": object(&["id", "type", "status", "run", "submittedAt"], &json!({
            "id": id,
            "type": { "type": "string" },
            "status": { "enum": ["running", "completed", "failed"] },
            "run": { "type": "integer", "minimum": 1, "description": "The attempt, starting at 1" },
            "params": { "type": "object" },
            "result": { "description": "The result; the progress while the task runs" },
            "error": { "type": "string", "description": "Why the task failed" },
            "submittedAt": time,
            "completedAt": time,
        })),
    })
}

/// The header by which the proxy authorizes a task.
fn task_kind() -> Value {
    let task_types: Vec<&str> = TaskType::ALL.iter().map(|task_type| task_type.as_str()).collect();
    json!({
        "name": TASK_KIND_HEADER, "in": "header", "schema": { "enum": task_types },
        "description": "The type in the body. The proxy then asks for the permission of this type only. Rejected if it differs, if it is repeated, and on all other paths",
    })
}

/// Parameters that restrict what a caller can do. Each task has others.
fn params() -> Value {
    let setting = |text: &str| json!({ "type": "string", "description": format!("result-export: {text} of the sidecar's settings; any other is rejected. Can be omitted") });
    json!({
        "type": "object",
        "properties": {
            "confirmValidatorReset": { "type": "boolean", "default": false, "description": "reset-data: confirms the reset of a node that signs blocks, including the record of its last signature" },
            "expectedGenesisHash": { "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "configure-genesis: SHA-256 of the genesis file; a file with another one is not used" },
            "rpcServers": { "type": "array", "items": { "type": "string" }, "description": "configure-state-sync: RPC servers as host:port. At least two must agree on the trusted block" },
            "bucket": setting("the bucket"),
            "region": setting("the region"),
            "prefix": setting("the key prefix"),
            "rpcEndpoint": setting("the node's RPC"),
        },
    })
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn described(schema: &Value, description: &str) -> Value {
    let mut schema = schema.clone();
    schema["description"] = json!(description);
    schema
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn response(description: &str, schema: &str) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": reference(schema) } } })
}

fn empty(description: &str) -> Value {
    json!({ "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_document_is_up_to_date() -> testbed::Result<()> {
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        testbed::harness::generated::check("docs/reference/sidecar-openapi.json", &text)
    }
}
