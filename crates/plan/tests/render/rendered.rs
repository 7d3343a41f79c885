//! Rendered objects on a real API server: it accepts them without a warning, stores them as written, and a second apply
//! changes nothing.

#![allow(
    clippy::expect_used,
    reason = "tests may panic; clippy only recognizes those of the default harness"
)]

mod cases;
mod quantities;

use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::{Mutex, PoisonError};

use api::SeiNode;
use api::drift::{self, Drift};
use api::names::annotation::APPLIED_HASH;
use api::names::manager;
use kube_core::{DynamicObject, ResourceExt};
use serde_json::{Value, json};
use testbed::cluster::parts::Part;
use testbed::{Context, ControlPlane, TestResult};

use crate::quantities::quantities_are_stored_in_canonical_form;

/// The label of a namespace that warns about every pod which violates the restricted Pod Security Standard.
const WARN_RESTRICTED: &str = "pod-security.kubernetes.io/warn=restricted";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

testbed::suite![rendered_objects_are_accepted_and_stored_as_written, quantities_are_stored_in_canonical_form,];

/// Any error; tests only print it.
type Error = Box<dyn std::error::Error + Send + Sync>;

async fn rendered_objects_are_accepted_and_stored_as_written(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let certificates = Part::CertManager.ensure()?.join("crds").display().to_string();
    succeed(plane, &["apply", "--server-side", "-f", &certificates], "")?;
    succeed(plane, &["wait", "--for=condition=Established", "--timeout=30s", "-f", &certificates], "")?;
    // The Service of a bootstrap pod has the name of the node's own Service: they need separate namespaces.
    let mut objects = Vec::new();
    for (name, render) in
        [("own", cases::own_objects as fn(&SeiNode) -> Vec<Value>), ("bootstrap", cases::bootstrap_objects)]
    {
        let namespace = plane.namespace(name).await?;
        succeed(plane, &["label", "namespace", &namespace, WARN_RESTRICTED], "")?;
        objects.extend(cases::all().iter().flat_map(|case| render(&case.node(&case.name, &namespace))));
    }
    let desired: Vec<Value> = objects.into_iter().map(signed).collect();
    let (first, second) = (apply(plane, &desired)?, apply(plane, &desired)?);
    for ((desired, live), later) in desired.iter().zip(&first).zip(&second) {
        let what = format!("{} {}", desired["kind"], desired["metadata"]["name"]);
        assert_eq!(compare(live, desired)?, Drift::InSync, "{what}:\n{desired}\n{live}");
        // The operator creates a claim and never applies it: a second apply would remove the finalizer of the API
        // server.
        if desired["kind"] != "PersistentVolumeClaim" {
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            assert_eq!(version(live), version(later), "{what}: the second apply changed it");
        }
    }
    println!("rendered: {} objects of {} nodes", desired.len(), cases::all().len());
    Ok(())
}

fn signed(desired: Value) -> Value {
    let mut object: DynamicObject = serde_json::from_value(desired).expect("the object is valid");
    let hash = drift::hash(&object).expect("the object serializes");
    drift::annotate(&mut object, &hash);
    json!(object)
}

/// Compares a stored object with the applied one.
fn compare(live: &Value, desired: &Value) -> Result<Drift, Error> {
    let object = |value: &Value| serde_json::from_value::<DynamicObject>(value.clone());
    let (live, desired) = (object(live)?, object(desired)?);
    let hash = desired.annotations().get(APPLIED_HASH).cloned().unwrap_or_default();
    Ok(drift::detect(&live, &desired, &hash)?)
}

/// Applies objects as the operator does, and returns them as stored. Unknown fields and warnings are errors.
fn apply(plane: &ControlPlane, objects: &[Value]) -> Result<Vec<Value>, Error> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string();
    let field_manager = format!("--field-manager={}", manager::NODE);
    let args = ["apply", "--server-side", &field_manager, "--validate=strict", "--output=json", "-f", "-"];
    let output = kubectl(plane, &args, &list)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !errors.is_empty() {
        return Err(errors.into());
    }
    let stored: Value = serde_json::from_slice(&output.stdout)?;
    let items = stored["items"].as_array().ok_or("not a list")?.clone();
    assert_eq!(items.len(), objects.len());
    Ok(items)
}

/// Runs `kubectl` and returns its output.
fn succeed(plane: &ControlPlane, args: &[&str], input: &str) -> Result<Vec<u8>, Error> {
    let output = kubectl(plane, args, input)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into())
}

fn kubectl(plane: &ControlPlane, args: &[&str], input: &str) -> Result<Output, Error> {
    // Every call rewrites the same file of credentials: a concurrent call could read half of it.
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = plane.kubectl()?;
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    Ok(child.wait_with_output()?)
}
