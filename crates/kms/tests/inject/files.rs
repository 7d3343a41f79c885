//! `kms-inject` with files, without a cluster.

use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::fixture::{init_containers, inject, parse, secret, static_pod, write};

/// T-L1: YAML and JSON input.
pub async fn pod_is_printed_in_its_input_format(cx: Context) -> TestResult {
    let secret = write(cx.logs(), "secret.json", &secret("n", "encryption-config", &[1, 2]));
    let secret = secret.to_string_lossy().into_owned();
    let args = ["-f", "-", "--secret-file", &secret];
    let json = inject(&args, &static_pod("n").to_string()).success();
    assert!(json.starts_with("{\n"), "{json}");
    let yaml = serde_saphyr::to_string(&static_pod("n")).expect("a pod is YAML");
    let yaml = inject(&args, &yaml).success();
    assert!(yaml.starts_with("apiVersion: v1\n"), "{yaml}");
    assert_eq!(parse(&json), parse(&yaml));
    let names = init_containers(&parse(&json)["spec"]);
    assert_eq!(names, ["vault-kms-plugin-2", "vault-kms-plugin-1", "kms-health-reporter"]);
    let other = inject(&["-f", "-", "--secret-file", &secret, "-o", "yaml"], &json).success();
    assert_eq!(other, yaml);
    Ok(())
}

/// T-L1: repeated injection, and injection without keys.
pub async fn injection_is_idempotent_and_reversible(cx: Context) -> TestResult {
    let with = write(cx.logs(), "with.json", &secret("n", "encryption-config", &[7]));
    let without = write(cx.logs(), "without.json", &secret("n", "encryption-config", &[]));
    let (with, without) = (with.to_string_lossy().into_owned(), without.to_string_lossy().into_owned());
    let before = static_pod("n").to_string();
    let check = |pod: &str, secret: &str| inject(&["-f", "-", "--secret-file", secret, "--check"], pod);
    let ended = check(&before, &with);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let expected = "standard input is out of sync with the Secret: initContainers/vault-kms-plugin-7 added";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    let mut once = inject(&["-f", "-", "--secret-file", &with], &before).success();
    for _ in 0..10 {
        check(&once, &with).success();
        let again = inject(&["-f", "-", "--secret-file", &with], &once).success();
        assert_eq!(again, once);
        once = again;
    }
    let back = inject(&["-f", "-", "--secret-file", &without], &once).success();
    assert_eq!(parse(&back), static_pod("n"));
    Ok(())
}

/// T-L3: invalid Secrets and pods.
pub async fn invalid_input_fails_with_one_line(cx: Context) -> TestResult {
    let change = |name: &str, how: &dyn Fn(&mut Value)| {
        let mut secret = secret("n", "encryption-config", &[1]);
        how(&mut secret);
        write(cx.logs(), name, &secret).to_string_lossy().into_owned()
    };
    let data = |key: &'static str, value: Value| {
        move |secret: &mut Value| {
            secret["stringData"][key] = value.clone();
        }
    };
    let good = change("good.json", &|_| {});
    for (secret, expected) in [
        (
            change("1.json", &data("kms-plugin-config-x", json!("{}"))),
            "key \"kms-plugin-config-x\" of the secret must end in",
        ),
        (
            change("2.json", &data("kms-plugin-config-1", json!(""))),
            "key \"kms-plugin-config-1\" of the secret is empty",
        ),
        (
            change("3.json", &data("kms-plugin-config-1", json!("{}"))),
            "key \"kms-plugin-config-1\" of the secret must be an APIServer",
        ),
        (
            change("4.json", &data("encryption-config", json!("x: y"))),
            "key \"encryption-config\" of the secret is not an EncryptionConfiguration",
        ),
        (
            change("5.json", &|secret| {
                let data = secret["stringData"].as_object_mut().expect("data");
                data.remove("kms-plugin-secret-vault-approle_secret-id-1");
            }),
            "key \"kms-plugin-secret-vault-approle_secret-id-1\" of the secret is missing",
        ),
        (
            change("6.json", &|secret| secret["kind"] = json!("ConfigMap")),
            "unexpected kind \"ConfigMap\": expected Secret",
        ),
        ("/nowhere".to_owned(), "reading /nowhere: "),
    ] {
        let ended = inject(&["-f", "-", "--secret-file", &secret], &static_pod("n").to_string());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(
            ended.stderr.starts_with("outrigger: ") && ended.stderr.contains(expected),
            "{}",
            ended.stderr
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    let other = ["-f", "-", "--secret-file", &good, "--container", "apiserver"];
    let ended = inject(&other, &static_pod("n").to_string());
    assert!(ended.stderr.contains("the pod has no container \"apiserver\""), "{}", ended.stderr);
    let ended = inject(&["-f", "-", "--secret-file", &good], "kind: Service");
    assert!(ended.stderr.contains("standard input: a Service has no pod spec"), "{}", ended.stderr);
    Ok(())
}

pub async fn usage_error_exits_with_2(_: Context) -> TestResult {
    for (args, expected) in [
        (&[][..], "--filename"),
        (&["-f", "-"], "--secret-file"),
        (&["-f", "-", "--deployment", "a/b", "--secret-file", "x"], "--deployment"),
        (&["--deployment", "a", "--secret-file", "x"], "NAMESPACE/NAME"),
        (&["-f", "-", "--secret-file", "x", "--apply"], "--deployment"),
        (&["-f", "-", "--secret-file", "x", "--require-secret"], "--secret"),
        (&["-f", "-", "--secret-file", "-"], "cannot both be standard input"),
    ] {
        let ended = inject(args, "");
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
    }
    Ok(())
}
