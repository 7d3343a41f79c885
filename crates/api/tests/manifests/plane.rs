//! The shared control plane with the CRDs installed, and helpers for requests.

use std::io::Write;
use std::process::{Output, Stdio};
use std::time::Duration;

use http::Request;
use kube::Client;
use serde_json::{Value, json};
use testbed::{Context, ControlPlane};
use tokio::sync::OnceCell;

/// Any error; tests only print it.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

static INSTALLED: OnceCell<String> = OnceCell::const_new();

/// Returns the shared control plane once the CRDs are served.
pub async fn with_crds(cx: &Context) -> Result<&ControlPlane, Error> {
    let plane = cx.control_plane().await?;
    INSTALLED.get_or_try_init(|| install(plane)).await?;
    Ok(plane)
}

/// Returns what `kubectl` printed to standard error while it installed the CRDs.
pub async fn warnings(cx: &Context) -> Result<&'static str, Error> {
    let plane = cx.control_plane().await?;
    Ok(INSTALLED.get_or_try_init(|| install(plane)).await?)
}

/// Installs the CRDs and waits until they are served. Returns what `kubectl` printed to standard error.
pub async fn install(plane: &ControlPlane) -> Result<String, Error> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let mut stderr = String::new();
    // Client-side and server-side apply are both supported.
    for args in [&["apply", "-k", folder][..], &["apply", "--server-side", "--force-conflicts", "-k", folder]]
    {
        let applied = kubectl(plane, args, "")?;
        stderr.push_str(&String::from_utf8_lossy(&applied.stderr));
        if !applied.status.success() {
            return Err(stderr.into());
        }
    }
    let client = plane.client().await?;
    for path in [
        "/apis/sei.io/v1alpha1/seinodes",
        "/apis/sei.io/v1alpha1/seinodedeployments",
        "/apis/outrigger.dev/v1alpha1/kmshealths",
    ] {
        testbed::harness::wait::until(path, Duration::from_secs(30), || {
            call(&client, "GET", path, &Value::Null)
        })
        .await?;
    }
    Ok(stderr)
}

/// Runs `kubectl` and waits for it.
pub fn kubectl(plane: &ControlPlane, args: &[&str], input: &str) -> Result<Output, Error> {
    let mut command = plane.kubectl()?;
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    Ok(child.wait_with_output()?)
}

/// Runs `kubectl` and returns its standard output. If it fails, the error is its standard error.
pub fn kubectl_output(plane: &ControlPlane, args: &[&str]) -> Result<String, Error> {
    let output = kubectl(plane, args, "")?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)).into())
}

/// Sends a request to the API server. The error is the message of its response.
pub async fn call(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let content_type = match method {
        "PATCH" if path.contains("fieldManager=") => "application/apply-patch+yaml",
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body)
        .map_err(|error| error.to_string())?;
    client.request::<Value>(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

/// Returns the collection path of a manifest's kind.
pub fn collection(manifest: &Value, namespace: &str) -> String {
    let version = manifest["apiVersion"].as_str().unwrap_or_default();
    match manifest["kind"].as_str().unwrap_or_default() {
        "SeiNode" => format!("/apis/{version}/namespaces/{namespace}/seinodes"),
        "SeiNodeDeployment" => format!("/apis/{version}/namespaces/{namespace}/seinodedeployments"),
        _ => format!("/apis/{version}/kmshealths"),
    }
}

/// Applies a JSON merge patch (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    if let Some(target) = target.as_object_mut() {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}
