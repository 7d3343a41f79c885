//! What cannot be put into a pod is refused in one line that says what to do (T-L3).

use plan::kms::inject::{Beside, Options, Reporter, inject};
use plan::kms::secret_layout::Content;
use serde_json::{Value, json};

use crate::pods::{Form, content, options, pod};

fn refused(pod: &Value, content: &Content, options: &Options) -> String {
    let said = inject(pod, content, options).unwrap_err().to_string();
    assert!(!said.contains('\n'), "{said}");
    said
}

#[test]
fn a_secret_that_lacks_something_is_told_by_its_key() {
    let options = options(Form::Deployment);
    let pod = pod(Form::Deployment);
    let said = refused(&pod, &Content::default(), &options);
    assert_eq!(said, "the secret has no key \"encryption-config\": add it, or name another secret");
    let mut lacking = content(&[1, 2]);
    lacking.plugins.remove(&1);
    let said = refused(&pod, &lacking, &options);
    assert!(said.starts_with("key \"kms-plugin-config-1\" of the secret is missing"), "{said}");
    for (config, expected) in [
        ("{}", "must be an APIServer in JSON with spec.encryption.kms"),
        (
            "{\"spec\":{\"encryption\":{\"kms\":{\"type\":\"AWS\"}}}}",
            "has spec.encryption.kms.type \"AWS\": it must be Vault",
        ),
    ] {
        let mut wrong = content(&[1]);
        wrong.plugins.get_mut(&1).unwrap().config = Some(config.into());
        let said = refused(&pod, &wrong, &options);
        assert!(said.starts_with("key \"kms-plugin-config-1\" of the secret"), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_pod_that_does_not_fit_is_told_what_it_lacks() {
    let wanted = options(Form::Deployment);
    let other = Options { container: "kube-apiserver".into(), ..wanted.clone() };
    assert_eq!(
        refused(&pod(Form::Deployment), &content(&[1]), &other),
        "the pod has no container \"kube-apiserver\": name the API server's; there is openshift-apiserver, check-endpoints"
    );
    assert!(refused(&json!({}), &content(&[1]), &other).ends_with("there is none"));
    let nameless = Options { container: String::new(), ..wanted.clone() };
    assert!(refused(&pod(Form::Deployment), &content(&[1]), &nameless).contains("is empty: give it"));
    let mut mounted = pod(Form::Deployment);
    mounted["containers"][0]["volumeMounts"] = json!([{ "name": "mine", "mountPath": "/var/run/kmsplugin" }]);
    let said = refused(&mounted, &content(&[1]), &wanted);
    assert!(
        said.contains("volume \"mine\" at /var/run/kmsplugin") && said.contains("remove that mount"),
        "{said}"
    );
    let mut without = pod(Form::Static);
    without["volumes"] = json!([]);
    let said = refused(&without, &content(&[1]), &options(Form::Static));
    assert!(said.contains("no volume \"resource-dir\""), "{said}");
    let mut odd = pod(Form::Deployment);
    odd["volumes"] = json!("none");
    assert_eq!(refused(&odd, &content(&[1]), &wanted), "volumes of the pod must be a list");
}

#[test]
fn a_reporter_without_an_image_or_a_command_is_refused() {
    for (image, command, said) in [
        ("", vec!["outrigger".to_owned()], "the reporter has no image: give one"),
        ("i", vec![], "the reporter has no command: give the program and its subcommand"),
        ("i", vec![String::new()], "the reporter has no command: give the program and its subcommand"),
    ] {
        let reporter = Reporter { image: image.into(), command, args: vec![] };
        let wanted = Options { beside: Beside::Reporter(reporter), ..options(Form::Deployment) };
        assert_eq!(refused(&pod(Form::Deployment), &content(&[1]), &wanted), said);
    }
}
