//! The API, described for programs. The file is made from here, and a test asks the server for everything that it names.

use api::sidecar_wire::{TaskType, path};
use serde_json::{Value, json};

/// The document (OpenAPI 3.1).
#[must_use]
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sidecar of a Sei node",
            "version": "0.8.0",
            "description": "Takes tasks, does them, and says what became of them. Errors of the ledger are 503 with Retry-After.",
        },
        "paths": {
            path::HEALTHZ: { "get": { "summary": "Whether seid may start", "responses": { "200": empty("It may"), "503": empty("Not yet") } } },
            path::STARTUPZ: { "get": { "summary": "The same as healthz", "responses": { "200": empty("It may"), "503": empty("Not yet") } } },
            path::LIVEZ: { "get": {
                "summary": "Whether the sidecar works",
                "parameters": [{ "name": "verbose", "in": "query", "schema": { "const": "1" }, "description": "Say which check failed" }],
                "responses": { "200": empty("It works"), "503": answer("It hangs: restart it", "Error") },
            } },
            path::METRICS: { "get": { "summary": "Metrics", "responses": { "200": { "description": "OpenMetrics", "content": { "application/openmetrics-text": { "schema": { "type": "string" } } } } } } },
            path::STATUS: { "get": { "summary": "Whether seid may start, in words", "responses": { "200": answer("As it is", "Status") } } },
            path::NODE_ID: { "get": { "summary": "Who the node is among its peers", "responses": {
                "200": answer("Its id", "NodeId"), "500": answer("There is no key, or none that can be read", "Error"),
            } } },
            path::TASKS: {
                "get": { "summary": "The newest hundred tasks, the newest first", "responses": {
                    "200": { "description": "The tasks", "content": { "application/json": { "schema": { "type": "array", "items": reference("Task") } } } },
                    "503": answer("The ledger does not answer", "Error"),
                } },
                "post": {
                    "summary": "Give a task. The same id is the same task: only what failed is begun again",
                    "requestBody": { "required": true, "content": { "application/json": { "schema": reference("Submission") } } },
                    "responses": {
                        "201": answer("It is stored: new, known already, or begun again", "Submitted"),
                        "400": answer("It is none, or none that this build does", "Error"),
                        "413": answer("It is too large", "Error"),
                        "503": answer("It could not be stored, or too many are under way", "Error"),
                    },
                },
            },
            "/v0/tasks/{id}": {
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string", "format": "uuid" } }],
                "get": { "summary": "One task", "responses": {
                    "200": answer("What is known of it", "Task"), "404": answer("There is none", "Error"), "503": answer("The ledger does not answer", "Error"),
                } },
                "delete": { "summary": "Cancel a task and forget it", "responses": {
                    "204": empty("It is gone"), "404": answer("There is none", "Error"), "503": answer("It could not be removed, and goes on", "Error"),
                } },
            },
        },
        "components": { "schemas": schemas() },
    })
}

fn schemas() -> Value {
    let kinds: Vec<&str> = TaskType::ALL.iter().map(|kind| kind.as_str()).collect();
    let id = json!({ "type": "string", "format": "uuid" });
    let time = json!({ "type": "string", "format": "date-time" });
    json!({
        "Error": object(&["error"], &json!({ "error": { "type": "string" } })),
        "Status": object(&["status"], &json!({ "status": { "enum": ["Initializing", "Ready"] } })),
        "NodeId": object(&["nodeId"], &json!({ "nodeId": { "type": "string", "pattern": "^[0-9a-f]{40}$" } })),
        "Submitted": object(&["id"], &json!({ "id": id })),
        "Submission": object(&["type"], &json!({ "id": id, "type": { "enum": kinds }, "params": { "type": "object" } })),
        "Task": object(&["id", "type", "status", "run", "submittedAt"], &json!({
            "id": id,
            "type": { "type": "string" },
            "status": { "enum": ["running", "completed", "failed"] },
            "run": { "type": "integer", "minimum": 1, "description": "Which attempt this is" },
            "params": { "type": "object" },
            "result": { "description": "What it returned; while it runs, how far it is" },
            "error": { "type": "string", "description": "Why it failed" },
            "submittedAt": time,
            "completedAt": time,
        })),
    })
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn answer(description: &str, schema: &str) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": reference(schema) } } })
}

fn empty(description: &str) -> Value {
    json!({ "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_what_the_code_says() -> testbed::Result<()> {
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        testbed::harness::generated::check("docs/reference/sidecar-openapi.json", &text)
    }
}
