//! What the API server stores, and what `kubectl` prints.

use api::kms::{
    ConditionEntry, DETAIL_LIMIT, KEY_ID_LIMIT, MAX_REPORTS, PluginStatus, encode_message, parse_message,
    sanitize,
};
use serde_json::{Value, json};
use testbed::{Context, TestResult};

use crate::documents;
use crate::plane::{call, collection, kubectl, kubectl_output, with_crds};

pub async fn full_documents_are_stored_unchanged(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let documents = documents::all();
    for document in &documents {
        let (path, name) =
            (collection(document, &ns), document["metadata"]["name"].as_str().unwrap_or_default());
        let strict = format!("{path}?fieldValidation=Strict");
        let mut stored =
            call(&client, "POST", &strict, document).await.map_err(|error| format!("{name}: {error}"))?;
        assert_eq!(stored["spec"], document["spec"], "{name}");
        if document["status"].is_object() {
            stored["status"] = document["status"].clone();
            let status = format!("{path}/{name}/status?fieldValidation=Strict");
            let written =
                call(&client, "PUT", &status, &stored).await.map_err(|error| format!("{name}: {error}"))?;
            assert_eq!(written["status"], document["status"], "{name}");
        }
    }
    println!("full documents: {}", documents.len());
    Ok(())
}

pub async fn defaults_are_set(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let keyring = json!({ "secretName": "a", "passphraseSecretRef": { "secretName": "b", "key": "c" } });
    let template = json!({ "spec": {
        "chainId": "devnet-1", "image": "sei", "sidecar": {}, "validator": { "operatorKeyring": { "secret": keyring } },
    } });
    let fleet = json!({
        "apiVersion": "sei.io/v1alpha1", "kind": "SeiNodeDeployment", "metadata": { "name": "defaults" },
        "spec": { "replicas": 3, "genesis": { "chainId": "devnet-1" }, "template": template },
    });
    let spec = call(&client, "POST", &collection(&fleet, &ns), &fleet).await?["spec"].clone();
    let node = &spec["template"]["spec"];
    for (what, value, expected) in [
        ("minimum ready time", &spec["minReadySeconds"], json!(0)),
        ("progress deadline", &spec["progressDeadlineSeconds"], json!(1800)),
        ("deletion policy", &spec["deletionPolicy"], json!("Delete")),
        ("strategy", &spec["updateStrategy"], json!({ "type": "InPlace" })),
        ("stake", &spec["genesis"]["stakingAmount"], json!("10000000usei")),
        (
            "balance",
            &spec["genesis"]["accountBalance"],
            json!("1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom"),
        ),
        ("ceremony", &spec["genesis"]["maxCeremonyDuration"], json!("15m")),
        ("sidecar port", &node["sidecar"]["port"], json!(7777)),
        ("key name", &node["validator"]["operatorKeyring"]["secret"]["keyName"], json!("node_admin")),
    ] {
        assert_eq!(*value, expected, "{what}");
    }
    Ok(())
}

/// Splits the output of `kubectl get` into cells.
fn table(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .map(|line| {
            line.split("   ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
        })
        .collect()
}

pub async fn kubectl_get_prints_health_columns(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    for document in documents::all().iter().filter(|document| document["metadata"]["name"] == "observed") {
        let mut document = document.clone();
        document["metadata"]["name"] = "shown".into();
        let path = collection(&document, &ns);
        let mut stored = call(&client, "POST", &path, &document).await?;
        stored["status"] = document["status"].clone();
        call(&client, "PUT", &format!("{path}/shown/status"), &stored).await?;
    }
    for (kind, header, row) in [
        (
            "snode",
            "NAME PHASE READY IMAGE STEP WAITING FOR AGE",
            "shown Running False sei:v6.0.6 3/7 Pod/observed-0",
        ),
        (
            "snd",
            "NAME PHASE READY REPLICAS UPDATED UNAVAILABLE IMAGE WAITING FOR AGE",
            "shown Upgrading 1 2 1 1 sei:v6.1.0 SeiNode/observed-0",
        ),
        (
            "kmshealth/shown",
            "NAME DEGRADED REASON AVAILABLE KEY CONVERGED AGE",
            "shown True PluginError True",
        ),
    ] {
        let printed = table(&kubectl_output(plane, &["get", kind, "--namespace", &ns])?);
        assert_eq!(printed[0].join(" "), header, "{kind}");
        assert!(printed[1].join(" ").starts_with(row), "{kind}: {printed:?}");
    }
    let all = kubectl_output(plane, &["get", "sei", "--namespace", &ns, "--output", "name"])?;
    for object in ["seinode.sei.io/shown", "seinodedeployment.sei.io/shown", "kmshealth.outrigger.dev/shown"]
    {
        assert!(all.contains(object), "{object} is not in category sei: {all}");
    }
    Ok(())
}

pub async fn kubectl_explain_describes_every_kind(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    for kind in ["seinode", "seinodedeployment", "kmshealth"] {
        for part in ["spec", "status"] {
            let text = kubectl_output(plane, &["explain", &format!("{kind}.{part}"), "--recursive"])?;
            assert!(!text.contains("<no description>"), "{kind}.{part}:\n{text}");
            assert!(text.contains("DESCRIPTION:\n"), "{kind}.{part}:\n{text}");
        }
    }
    let field = kubectl_output(plane, &["explain", "seinode.spec.sidecar.tls.issuerKind"])?;
    assert!(field.contains("Kind of the issuer. Defaults to `ClusterIssuer`."), "{field}");
    assert!(field.contains("ENUM:\n    Issuer\n    ClusterIssuer\n"), "{field}");
    Ok(())
}

pub async fn fleet_with_signing_key_cannot_be_scaled(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let (client, ns) = (plane.client().await?, cx.namespace().await?);
    let keys = json!({ "signingKey": { "secret": { "secretName": "a" } }, "nodeKey": { "secret": { "secretName": "b" } } });
    for (name, kind) in [("free", json!({ "fullNode": {} })), ("keyed", json!({ "validator": keys }))] {
        let mut node = json!({ "chainId": "pacific-1", "image": "sei" });
        crate::plane::merge(&mut node, &kind);
        let fleet = json!({
            "apiVersion": "sei.io/v1alpha1", "kind": "SeiNodeDeployment", "metadata": { "name": name },
            "spec": { "replicas": 1, "template": { "spec": node } },
        });
        call(&client, "POST", &collection(&fleet, &ns), &fleet).await?;
    }
    let scale = |name: &str| kubectl(plane, &["scale", "snd", name, "--replicas=3", "--namespace", &ns], "");
    let free = scale("free")?;
    assert!(free.status.success(), "{}", String::from_utf8_lossy(&free.stderr));
    let replicas = kubectl_output(
        plane,
        &["get", "snd", "free", "--namespace", &ns, "--output", "jsonpath={.spec.replicas}"],
    )?;
    assert_eq!(replicas, "3");
    let keyed = scale("keyed")?;
    let stderr = String::from_utf8(keyed.stderr)?;
    assert!(!keyed.status.success() && stderr.contains("slashed for double signing"), "{stderr}");
    Ok(())
}

/// Returns texts that a plugin could return, each short enough for a report: all control characters, all noncharacters, and a
/// sample of the others.
fn everything_unicode() -> Vec<String> {
    let odd = |c: &char| {
        c.is_control()
            || (*c as u32) & 0xfff0 == 0xfff0
            || ('\u{fd00}'..='\u{ffff}').contains(c)
            || *c < '\u{3000}'
    };
    let (odd, others): (Vec<char>, Vec<char>) = ('\0'..=char::MAX).partition(odd);
    let chars: Vec<char> = odd.into_iter().chain(others.into_iter().step_by(97)).collect();
    chars.chunks(DETAIL_LIMIT / 2).map(|chunk| chunk.iter().collect()).collect()
}

pub async fn reports_of_failing_plugins_are_always_storable(cx: Context) -> TestResult {
    let plane = with_crds(&cx).await?;
    let client = plane.client().await?;
    let object = json!({ "apiVersion": "outrigger.dev/v1alpha1", "kind": "KMSHealth", "metadata": { "name": "unhealthy" }, "spec": {} });
    let path = collection(&object, "");
    call(&client, "POST", &path, &object).await?;
    let apply = async |node: &str, reports: &Value, conditions: &Value| {
        let mut applied = object.clone();
        applied["status"] = json!({ "healthReports": reports, "conditions": conditions });
        let path = format!("{path}/unhealthy/status?fieldManager=kms-health-reporter-{node}&force=true");
        call(&client, "PATCH", &path, &applied).await
    };
    let report = |node: &str, key: String| {
        json!({
            "nodeName": node, "keyID": key, "status": "Error", "lastCheckedTime": "2026-05-18T10:00:00Z",
        })
    };
    // A plugin that returns nothing, and one that returns every kind of text.
    apply("quiet", &json!([report("quiet", "1".into())]), &json!([])).await?;
    let (mut reports, mut entries) = (Vec::new(), Vec::new());
    for (n, text) in everything_unicode().iter().enumerate() {
        let mut one = report("loud", n.to_string());
        one["remoteKeyID"] = sanitize(text, KEY_ID_LIMIT).into();
        one["detail"] = sanitize(&text.repeat(2), DETAIL_LIMIT).into();
        reports.push(one);
        entries.push(ConditionEntry {
            key_id: n.to_string(),
            kek_id: Some(text.clone()),
            status: PluginStatus::Error,
            last_checked: serde_json::from_value("2026-05-18T10:00:00Z".into())?,
            detail: Some(text.clone()),
        });
    }
    let condition = json!([{
        "type": api::kms::condition_type("loud"), "status": "True", "reason": "AsExpected", "message": encode_message(&entries)?,
        "lastTransitionTime": "2026-05-18T10:00:00Z", "observedGeneration": 1,
    }]);
    let stored = apply("loud", &Value::Array(reports.clone()), &condition).await?;
    let all = stored["status"]["healthReports"].as_array().ok_or("no reports")?;
    assert_eq!(all.len(), reports.len() + 1, "the reports of the other node are missing");
    assert!(reports.iter().all(|report| all.contains(report)), "the stored reports differ");
    let message = stored["status"]["conditions"][0]["message"].as_str().ok_or("no message")?;
    assert_eq!(parse_message(message)?.len(), entries.len());

    // The maximum number of reports of maximum length must fit into etcd.
    let most: Vec<Value> = (0..MAX_REPORTS)
        .map(|n| {
            let mut one = report("many", n.to_string());
            one["remoteKeyID"] = "x".repeat(KEY_ID_LIMIT).into();
            one["detail"] = "y".repeat(DETAIL_LIMIT).into();
            one
        })
        .collect();
    apply("loud", &json!([]), &json!([])).await?;
    apply("quiet", &json!([]), &json!([])).await?;
    let stored = apply("many", &Value::Array(most), &json!([])).await?;
    assert_eq!(stored["status"]["healthReports"].as_array().map(Vec::len), Some(MAX_REPORTS));
    Ok(())
}
