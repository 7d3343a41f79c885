//! Injection errors are one line with the problem and the fix.

use plan::kms::inject::{InjectOptions, Reporter, SocketConsumer, inject};
use plan::kms::secret_layout::EncryptionSecret;
use serde_json::{Value, json};

use crate::pods::{Form, content, options, pod};

fn inject_error(pod: &Value, content: &EncryptionSecret, options: &InjectOptions) -> String {
    let error = inject(pod, content, options).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn invalid_secret_error_names_the_key() {
    let options = options(Form::Deployment);
    let pod = pod(Form::Deployment);
    let error = inject_error(&pod, &EncryptionSecret::default(), &options);
    assert_eq!(error, "the secret has no key \"encryption-config\": add it or use another secret");
    let mut incomplete = content(&[1, 2]);
    incomplete.plugins.remove(&1);
    let error = inject_error(&pod, &incomplete, &options);
    assert!(error.starts_with("key \"kms-plugin-config-1\" of the secret is missing"), "{error}");
    for (config, expected) in [
        ("{}", "must be an APIServer in JSON with spec.encryption.kms"),
        (
            "{\"spec\":{\"encryption\":{\"kms\":{\"type\":\"AWS\"}}}}",
            "has unsupported spec.encryption.kms.type \"AWS\": use Vault",
        ),
    ] {
        let mut invalid = content(&[1]);
        invalid.plugins.get_mut(&1).unwrap().config = Some(config.into());
        let error = inject_error(&pod, &invalid, &options);
        assert!(error.starts_with("key \"kms-plugin-config-1\" of the secret"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn unsuitable_pod_error_names_the_problem() {
    let valid = options(Form::Deployment);
    let other = InjectOptions { container: "kube-apiserver".into(), ..valid.clone() };
    assert_eq!(
        inject_error(&pod(Form::Deployment), &content(&[1]), &other),
        "the pod has no container \"kube-apiserver\": use the API server container; found openshift-apiserver, check-endpoints"
    );
    assert!(inject_error(&json!({}), &content(&[1]), &other).ends_with("found none"));
    let nameless = InjectOptions { container: String::new(), ..valid.clone() };
    assert!(inject_error(&pod(Form::Deployment), &content(&[1]), &nameless).contains("is required"));
    let mut mounted = pod(Form::Deployment);
    mounted["containers"][0]["volumeMounts"] = json!([{ "name": "mine", "mountPath": "/var/run/kmsplugin" }]);
    let error = inject_error(&mounted, &content(&[1]), &valid);
    assert!(
        error.contains("volume \"mine\" at /var/run/kmsplugin") && error.contains("remove that mount"),
        "{error}"
    );
    let mut without = pod(Form::Static);
    without["volumes"] = json!([]);
    let error = inject_error(&without, &content(&[1]), &options(Form::Static));
    assert!(error.contains("no volume \"resource-dir\""), "{error}");
    let mut odd = pod(Form::Deployment);
    odd["volumes"] = json!("none");
    assert_eq!(inject_error(&odd, &content(&[1]), &valid), "field volumes of the pod must be a list");
}

#[test]
fn reporter_without_image_or_command_is_rejected() {
    for (image, command, error) in [
        ("", vec!["outrigger".to_owned()], "reporter image is required"),
        ("i", vec![], "reporter command is required: the program and its subcommand"),
        ("i", vec![String::new()], "reporter command is required: the program and its subcommand"),
    ] {
        let reporter = Reporter { image: image.into(), command, args: vec![] };
        let valid =
            InjectOptions { consumer: SocketConsumer::Reporter(reporter), ..options(Form::Deployment) };
        assert_eq!(inject_error(&pod(Form::Deployment), &content(&[1]), &valid), error);
    }
}
