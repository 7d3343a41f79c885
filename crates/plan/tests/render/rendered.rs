//! Rendered objects on the real API server: it takes them as they are, keeps them as they were written, and a second apply
//! finds nothing to do.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod cases;
mod quantities;

use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::{Mutex, PoisonError};

use api::SeiNode;
use api::applied::{self, Standing};
use api::names::annotation::APPLIED_HASH;
use api::names::manager;
use kube_core::{DynamicObject, ResourceExt};
use serde_json::{Value, json};
use testbed::cluster::parts::Part;
use testbed::{Context, ControlPlane, TestResult};

use crate::quantities::quantities_are_kept_in_their_canonical_form;

/// A namespace with it warns of every pod that has more rights than the strictest of Kubernetes' standards allows.
const STRICT: &str = "pod-security.kubernetes.io/warn=restricted";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

testbed::suite![
    rendered_objects_are_taken_without_a_warning_and_kept_as_they_are,
    quantities_are_kept_in_their_canonical_form,
];

/// Whatever went wrong; tests only show it.
type Error = Box<dyn std::error::Error + Send + Sync>;

async fn rendered_objects_are_taken_without_a_warning_and_kept_as_they_are(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let certificates = Part::CertManager.ensure()?.join("crds").display().to_string();
    succeed(plane, &["apply", "--server-side", "-f", &certificates], "")?;
    succeed(plane, &["wait", "--for=condition=Established", "--timeout=30s", "-f", &certificates], "")?;
    // The Service of a bootstrap pod has the name of the node's own: they meet in no namespace.
    let mut objects = Vec::new();
    for (name, render) in
        [("own", cases::own_objects as fn(&SeiNode) -> Vec<Value>), ("bootstrap", cases::bootstrap_objects)]
    {
        let namespace = plane.namespace(name).await?;
        succeed(plane, &["label", "namespace", &namespace, STRICT], "")?;
        objects.extend(cases::all().iter().flat_map(|case| render(&case.node(&case.name, &namespace))));
    }
    let wishes: Vec<Value> = objects.into_iter().map(signed).collect();
    let (kept, again) = (apply(plane, &wishes)?, apply(plane, &wishes)?);
    for ((wish, live), later) in wishes.iter().zip(&kept).zip(&again) {
        let what = format!("{} {}", wish["kind"], wish["metadata"]["name"]);
        assert_eq!(standing(live, wish)?, Standing::AsWished, "{what}:\n{wish}\n{live}");
        // A claim is made, and never applied: the finalizer that it gets from the API server then counts as ours.
        if wish["kind"] != "PersistentVolumeClaim" {
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            assert_eq!(version(live), version(later), "{what}: a second apply found something to do");
        }
    }
    println!("rendered: {} objects of {} nodes", wishes.len(), cases::all().len());
    Ok(())
}

fn signed(wish: Value) -> Value {
    let mut object: DynamicObject = serde_json::from_value(wish).expect("an object");
    let hash = applied::hash(&object).expect("an object is JSON");
    applied::sign(&mut object, &hash);
    json!(object)
}

/// How what is kept stands to what was applied.
fn standing(live: &Value, wish: &Value) -> Result<Standing, Error> {
    let object = |value: &Value| serde_json::from_value::<DynamicObject>(value.clone());
    let (live, wish) = (object(live)?, object(wish)?);
    let hash = wish.annotations().get(APPLIED_HASH).cloned().unwrap_or_default();
    Ok(applied::standing(&live, &wish, &hash)?)
}

/// Applies objects as the operator does, with every unknown field an error and every warning one too. What is kept of them.
fn apply(plane: &ControlPlane, wishes: &[Value]) -> Result<Vec<Value>, Error> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": wishes }).to_string();
    let as_us = format!("--field-manager={}", manager::NODE);
    let args = ["apply", "--server-side", &as_us, "--validate=strict", "--output=json", "-f", "-"];
    let output = kubectl(plane, &args, &list)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.is_empty() {
        return Err(said.into());
    }
    let kept: Value = serde_json::from_slice(&output.stdout)?;
    let items = kept["items"].as_array().ok_or("no list")?.clone();
    assert_eq!(items.len(), wishes.len());
    Ok(items)
}

/// Runs `kubectl`, which must succeed.
fn succeed(plane: &ControlPlane, args: &[&str], input: &str) -> Result<Vec<u8>, Error> {
    let output = kubectl(plane, args, input)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into())
}

fn kubectl(plane: &ControlPlane, args: &[&str], input: &str) -> Result<Output, Error> {
    // Each is given its credentials anew, in the same file: one that starts meanwhile would find half of them.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = plane.kubectl()?;
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    Ok(child.wait_with_output()?)
}
