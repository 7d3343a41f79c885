//! On a real API server: what it keeps is what was put there, and is not put there again.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::fixture::{Ended, init_containers, inject, secret, static_pod};

/// Whatever went wrong; tests only show it.
type Error = Box<dyn std::error::Error + Send + Sync>;

struct Ground {
    client: Client,
    namespace: String,
    kubeconfig: String,
}

impl Ground {
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

    async fn put(&self, group: &str, object: &Value) -> Result<DynamicObject, Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let params = PatchParams::apply("test").force();
        Ok(self.api(group, kind).patch(name, &params, &Patch::Apply(object)).await?)
    }

    async fn secret(&self, keys: &[u64]) -> Result<(), Error> {
        // Applied text would leave keys behind that are gone.
        let _ = self.api("", "Secret").delete("encryption-config", &Default::default()).await;
        self.put("", &secret(&self.namespace, "encryption-config", keys)).await.map(drop)
    }

    async fn deployment(&self) -> Result<DynamicObject, Error> {
        let labels = json!({ "app": "apiserver" });
        let containers = json!([{ "name": "openshift-apiserver", "image": "images.example/a:v1" }]);
        self.put(
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

    /// Runs on the Deployment.
    fn on_deployment(&self, more: &[&str]) -> Ended {
        let (deployment, secret) =
            (format!("{}/apiserver", self.namespace), format!("{}/encryption-config", self.namespace));
        let mut args =
            vec!["--kubeconfig", &self.kubeconfig, "--deployment", &deployment, "--secret", &secret];
        args.extend(["--container", "openshift-apiserver"]);
        args.extend(more);
        inject(&args, "")
    }
}

/// T-L1.
pub async fn a_deployment_gets_its_plugins_and_is_not_changed_again(cx: Context) -> TestResult {
    let ground = Ground::new(&cx).await?;
    ground.secret(&[3, 2]).await?;
    let before = ground.deployment().await?;
    let printed = ground.on_deployment(&[]).output();
    assert!(printed.contains("name: vault-kms-plugin-3"), "{printed}");
    let api = ground.api("apps", "Deployment");
    let unchanged = api.get("apiserver").await?;
    assert_eq!(unchanged.resource_version(), before.resource_version(), "printing changed it");
    let said = ground.on_deployment(&["--apply"]).output();
    assert!(said.contains("changed: vault-kms-plugin-3 of initContainers comes"), "{said}");
    let after = api.get("apiserver").await?;
    let pod = &after.data["spec"]["template"]["spec"];
    assert_eq!(init_containers(pod), ["vault-kms-plugin-3", "vault-kms-plugin-2", "kms-health-reporter"]);
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "encryption-config");
    // What the API server filled in is no change.
    ground.on_deployment(&["--check"]).output();
    let said = ground.on_deployment(&["--apply"]).output();
    assert!(said.ends_with("unchanged\n"), "{said}");
    let again = api.get("apiserver").await?;
    assert_eq!(again.resource_version(), after.resource_version());
    Ok(())
}

/// T-L1.
pub async fn a_deployment_loses_plugins_whose_keys_are_gone_and_at_last_all(cx: Context) -> TestResult {
    let ground = Ground::new(&cx).await?;
    let before = ground.deployment().await?;
    let api = ground.api("apps", "Deployment");
    for (keys, expected) in [
        (&[2, 1][..], &["vault-kms-plugin-2", "vault-kms-plugin-1", "kms-health-reporter"][..]),
        (&[2], &["vault-kms-plugin-2", "kms-health-reporter"]),
        (&[], &[]),
    ] {
        ground.secret(keys).await?;
        ground.on_deployment(&["--apply"]).output();
        let now = api.get("apiserver").await?;
        assert_eq!(init_containers(&now.data["spec"]["template"]["spec"]), expected);
    }
    let now = api.get("apiserver").await?;
    assert_eq!(now.data["spec"], before.data["spec"]);
    Ok(())
}

pub async fn a_secret_that_is_not_there_leaves_the_pod_as_it_is(cx: Context) -> TestResult {
    let ground = Ground::new(&cx).await?;
    let before = ground.deployment().await?;
    let ended = ground.on_deployment(&["--apply"]);
    assert!(
        ended.said.contains("encryption-config is not there: the pod is left as it is"),
        "{}",
        ended.said
    );
    assert_eq!(ended.code, Some(0));
    let now = ground.api("apps", "Deployment").get("apiserver").await?;
    assert_eq!(now.resource_version(), before.resource_version());
    let ended = ground.on_deployment(&["--require-secret"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.said.contains("encryption-config: it is not there: create it"), "{}", ended.said);
    let missing = format!("{}/other", ground.namespace);
    let args =
        ["--kubeconfig", &ground.kubeconfig, "--deployment", &missing, "--secret", &format!("{missing}-s")];
    let ended = inject(&args, "");
    assert_eq!(ended.code, Some(1));
    assert!(ended.said.contains("reading Deployment") && ended.said.contains("not found"), "{}", ended.said);
    Ok(())
}

/// T-L4: the pod of a revision was rendered from the unrevisioned secret, which has changed before the revision was made.
pub async fn a_revision_is_ready_only_when_its_pod_and_its_secret_agree(cx: Context) -> TestResult {
    let ground = Ground::new(&cx).await?;
    let namespace = ground.namespace.clone();
    let on_disk = ["--disk-secret-name", "encryption-config"];
    ground.put("", &secret(&namespace, "encryption-config", &[1])).await?;
    let unrevisioned = format!("{namespace}/encryption-config");
    let render = |pod: &str| {
        let mut args = vec!["-f", "-", "--kubeconfig", &ground.kubeconfig, "--secret", &unrevisioned];
        args.extend(on_disk);
        inject(&args, pod).output()
    };
    let pod = render(&static_pod(&namespace).to_string());
    // Meanwhile the next key comes, and the revision is made of the old pod and the new secret.
    ground.put("", &secret(&namespace, "encryption-config-7", &[2, 1])).await?;
    ground.put("", &secret(&namespace, "encryption-config", &[2, 1])).await?;
    let revision = |pod: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "namespace": namespace, "name": "kube-apiserver-pod-7" },
            "data": { "pod.yaml": pod },
        })
    };
    ground.put("", &revision(&pod)).await?;
    let (config_map, revisioned) =
        (format!("{namespace}/kube-apiserver-pod-7"), format!("{namespace}/encryption-config-7"));
    let check = || {
        let mut args = vec!["--kubeconfig", &ground.kubeconfig, "--static-pod", &config_map];
        args.extend(["--secret", &revisioned, "--check"]);
        args.extend(on_disk);
        inject(&args, "")
    };
    let ended = check();
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""));
    assert!(ended.said.contains("vault-kms-plugin-2 of initContainers comes"), "{}", ended.said);
    assert!(ended.said.contains("kms-health-reporter of initContainers changes"), "{}", ended.said);
    ground.put("", &revision(&render(&pod))).await?;
    assert_eq!(check().code, Some(0));
    Ok(())
}

pub async fn static_pods_are_taken_by_the_api_server(cx: Context) -> TestResult {
    let ground = Ground::new(&cx).await?;
    ground.secret(&[12, 11, 10]).await?;
    let name = format!("{}/encryption-config", ground.namespace);
    let args = ["-f", "-", "--kubeconfig", &ground.kubeconfig, "--secret", &name];
    let pod: Value =
        serde_json::from_str(&inject(&args, &static_pod(&ground.namespace).to_string()).output())?;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    ground.put("", &account).await?;
    let made = ground.api("", "Pod").create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    // As the API server keeps it, it is as it should be.
    let kept =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": made.metadata, "spec": made.data["spec"] });
    let mut check = args.to_vec();
    check.push("--check");
    inject(&check, &kept.to_string()).output();
    Ok(())
}
