//! `kms-inject` with objects of a real API server, which defaults fields.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::fixture::{Ended, init_containers, inject, secret, static_pod};

/// Any error of a test.
type Error = Box<dyn std::error::Error + Send + Sync>;

struct Cluster {
    client: Client,
    namespace: String,
    kubeconfig: String,
}

impl Cluster {
    async fn new(cx: &Context) -> Result<Self, Error> {
        let plane = cx.control_plane().await?;
        std::fs::create_dir_all(cx.logs())?;
        let kubeconfig = plane.admin().write_kubeconfig(cx.logs())?.display().to_string();
        let client = plane.client().await?;
        Ok(Self { client, namespace: cx.namespace().await?, kubeconfig })
    }

    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }

    async fn apply(&self, group: &str, object: &Value) -> Result<DynamicObject, Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let params = PatchParams::apply("test").force();
        Ok(self.api(group, kind).patch(name, &params, &Patch::Apply(object)).await?)
    }

    async fn apply_secret(&self, keys: &[u64]) -> Result<(), Error> {
        // An apply of stringData would not remove old keys.
        let _ = self.api("", "Secret").delete("encryption-config", &Default::default()).await;
        self.apply("", &secret(&self.namespace, "encryption-config", keys)).await.map(drop)
    }

    async fn apply_deployment(&self) -> Result<DynamicObject, Error> {
        let labels = json!({ "app": "apiserver" });
        let containers = json!([{ "name": "openshift-apiserver", "image": "images.example/a:v1" }]);
        self.apply(
            "apps",
            &json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "namespace": self.namespace, "name": "apiserver" },
                "spec": {
                    "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
                },
            }),
        )
        .await
    }

    /// Runs `kms-inject` for the Deployment.
    fn inject_deployment(&self, more: &[&str]) -> Ended {
        let (deployment, secret) =
            (format!("{}/apiserver", self.namespace), format!("{}/encryption-config", self.namespace));
        let mut args =
            vec!["--kubeconfig", &self.kubeconfig, "--deployment", &deployment, "--secret", &secret];
        args.extend(["--container", "openshift-apiserver"]);
        args.extend(more);
        inject(&args, "")
    }
}

/// T-L1: a Deployment with two keys.
pub async fn deployment_gets_plugins_once(cx: Context) -> TestResult {
    let cluster = Cluster::new(&cx).await?;
    cluster.apply_secret(&[3, 2]).await?;
    let before = cluster.apply_deployment().await?;
    let printed = cluster.inject_deployment(&[]).success();
    assert!(printed.contains("name: vault-kms-plugin-3"), "{printed}");
    let api = cluster.api("apps", "Deployment");
    let unchanged = api.get("apiserver").await?;
    assert_eq!(unchanged.resource_version(), before.resource_version(), "printing changed it");
    let output = cluster.inject_deployment(&["--apply"]).success();
    assert!(output.contains("changed: initContainers/vault-kms-plugin-3 added"), "{output}");
    let after = api.get("apiserver").await?;
    let pod = &after.data["spec"]["template"]["spec"];
    assert_eq!(init_containers(pod), ["vault-kms-plugin-3", "vault-kms-plugin-2", "kms-health-reporter"]);
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "encryption-config");
    // Fields defaulted by the API server are not drift.
    cluster.inject_deployment(&["--check"]).success();
    let output = cluster.inject_deployment(&["--apply"]).success();
    assert!(output.ends_with("unchanged\n"), "{output}");
    let again = api.get("apiserver").await?;
    assert_eq!(again.resource_version(), after.resource_version());
    Ok(())
}

/// T-L1: keys are removed until none is left.
pub async fn plugins_of_removed_keys_are_removed(cx: Context) -> TestResult {
    let cluster = Cluster::new(&cx).await?;
    let before = cluster.apply_deployment().await?;
    let api = cluster.api("apps", "Deployment");
    for (keys, expected) in [
        (&[2, 1][..], &["vault-kms-plugin-2", "vault-kms-plugin-1", "kms-health-reporter"][..]),
        (&[2], &["vault-kms-plugin-2", "kms-health-reporter"]),
        (&[], &[]),
    ] {
        cluster.apply_secret(keys).await?;
        cluster.inject_deployment(&["--apply"]).success();
        let now = api.get("apiserver").await?;
        assert_eq!(init_containers(&now.data["spec"]["template"]["spec"]), expected);
    }
    let now = api.get("apiserver").await?;
    assert_eq!(now.data["spec"], before.data["spec"]);
    Ok(())
}

pub async fn missing_secret_leaves_pod_unchanged(cx: Context) -> TestResult {
    let cluster = Cluster::new(&cx).await?;
    let before = cluster.apply_deployment().await?;
    let ended = cluster.inject_deployment(&["--apply"]);
    assert!(ended.stderr.contains("encryption-config not found: the pod is unchanged"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(0));
    let now = cluster.api("apps", "Deployment").get("apiserver").await?;
    assert_eq!(now.resource_version(), before.resource_version());
    let ended = cluster.inject_deployment(&["--require-secret"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("encryption-config: not found"), "{}", ended.stderr);
    let missing = format!("{}/other", cluster.namespace);
    let args =
        ["--kubeconfig", &cluster.kubeconfig, "--deployment", &missing, "--secret", &format!("{missing}-s")];
    let ended = inject(&args, "");
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("reading Deployment") && ended.stderr.contains("not found"),
        "{}",
        ended.stderr
    );
    Ok(())
}

/// T-L4: the pod of a revision was rendered from the unrevisioned Secret, which changed before the revision was created.
pub async fn check_fails_until_pod_matches_revisioned_secret(cx: Context) -> TestResult {
    let cluster = Cluster::new(&cx).await?;
    let namespace = cluster.namespace.clone();
    let on_disk = ["--disk-secret-name", "encryption-config"];
    cluster.apply("", &secret(&namespace, "encryption-config", &[1])).await?;
    let unrevisioned = format!("{namespace}/encryption-config");
    let render = |pod: &str| {
        let mut args = vec!["-f", "-", "--kubeconfig", &cluster.kubeconfig, "--secret", &unrevisioned];
        args.extend(on_disk);
        inject(&args, pod).success()
    };
    let pod = render(&static_pod(&namespace).to_string());
    // A key is added, and the revision gets the old pod and the new Secret.
    cluster.apply("", &secret(&namespace, "encryption-config-7", &[2, 1])).await?;
    cluster.apply("", &secret(&namespace, "encryption-config", &[2, 1])).await?;
    let revision = |pod: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": namespace, "name": "kube-apiserver-pod-7" },
            "data": { "pod.yaml": pod },
        })
    };
    cluster.apply("", &revision(&pod)).await?;
    let (config_map, revisioned) =
        (format!("{namespace}/kube-apiserver-pod-7"), format!("{namespace}/encryption-config-7"));
    let check = || {
        let mut args = vec!["--kubeconfig", &cluster.kubeconfig, "--static-pod", &config_map];
        args.extend(["--secret", &revisioned, "--check"]);
        args.extend(on_disk);
        inject(&args, "")
    };
    let ended = check();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("initContainers/vault-kms-plugin-2 added"), "{}", ended.stderr);
    assert!(ended.stderr.contains("initContainers/kms-health-reporter changed"), "{}", ended.stderr);
    cluster.apply("", &revision(&render(&pod))).await?;
    assert_eq!(check().code, Some(0));
    Ok(())
}

pub async fn api_server_accepts_injected_static_pod(cx: Context) -> TestResult {
    let cluster = Cluster::new(&cx).await?;
    cluster.apply_secret(&[12, 11, 10]).await?;
    let name = format!("{}/encryption-config", cluster.namespace);
    let args = ["-f", "-", "--kubeconfig", &cluster.kubeconfig, "--secret", &name];
    let pod: Value =
        serde_json::from_str(&inject(&args, &static_pod(&cluster.namespace).to_string()).success())?;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    cluster.apply("", &account).await?;
    let created =
        cluster.api("", "Pod").create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    // The stored pod, with defaulted fields, is in sync.
    let stored = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": created.metadata, "spec": created.data["spec"] });
    let mut check = args.to_vec();
    check.push("--check");
    inject(&check, &stored.to_string()).success();
    Ok(())
}
