//! The genesis ceremony: `generate-identity`, `generate-gentx`, `upload-genesis-artifacts`, `assemble-and-upload-genesis`,
//! `configure-genesis`, `set-genesis-peers`. The `seid` module runs a chain with the result.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar};

const BALANCE: &str = "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom";

async fn run_completed(sidecar: &Sidecar, task_type: &str, params: &Value) -> Result<Value, testbed::Error> {
    let task = sidecar.run_task(task_type, params).await?;
    assert_eq!(task["status"], "completed", "{task_type} {params}: {task}");
    Ok(task["result"].clone())
}

async fn assert_fails(sidecar: &Sidecar, task_type: &str, params: &Value, expected: &str) -> TestResult {
    let task = sidecar.run_task(task_type, params).await?;
    let error = task["error"].as_str().unwrap_or_default();
    assert!(task["status"] == "failed" && error.contains(expected), "{task_type} {params}: {task}");
    Ok(())
}

/// Runs the tasks of a node that do not depend on the others.
async fn prepare(sidecar: &Sidecar, name: &str) -> Result<Value, testbed::Error> {
    run_completed(sidecar, "generate-identity", &json!({"chainId": "test-1", "moniker": name})).await?;
    let gentx = json!({"chainId": "test-1", "stakingAmount": "10000000usei", "accountBalance": BALANCE});
    let gentx_result = run_completed(sidecar, "generate-gentx", &gentx).await?;
    run_completed(sidecar, "upload-genesis-artifacts", &json!({"nodeName": name})).await?;
    Ok(gentx_result)
}

/// Returns every file below a directory with its content.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(contents(&entry.path())),
            _ => {
                found.insert(entry.path().display().to_string(), fs::read(entry.path()).unwrap_or_default());
            }
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o777)
}

/// Object keys, hash, peers, and no private key outside the node.
pub async fn ceremony_produces_genesis_without_leaking_keys(cx: Context) -> TestResult {
    let first = Fixture::new(&cx)?;
    let mut nodes = vec![
        ("val-0", Fixture::sharing_objects(&cx, &first)?),
        ("val-1", Fixture::sharing_objects(&cx, &first)?),
    ];
    nodes.push(("val-2", Fixture::sharing_objects(&cx, &first)?));
    let mut sidecars = Vec::new();
    for (name, fixture) in &nodes {
        let sidecar = fixture.start().await?;
        prepare(&sidecar, name).await?;
        sidecars.push(sidecar);
    }
    let stranger = "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37";
    let assemble = json!({
        "accountBalance": BALANCE, "namespace": "sei", "nodes": [{"name": "val-2"}, {"name": "val-0"}, {"name": "val-1"}],
        "accounts": [{"address": stranger, "balance": "7usei"}],
        "overrides": {"gov.voting_params.voting_period": "60s", "staking.params.max_validators": 4},
    });
    let assembled = run_completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?;
    let uploaded = fs::read(first.objects.join("test-1/genesis.json"))?;
    let hash: String = Sha256::digest(&uploaded).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(assembled, json!({"genesisHash": hash}));
    let genesis: Value = serde_json::from_slice(&uploaded)?;
    assert_eq!(genesis["validators"].as_array().map(Vec::len), Some(3), "the validators of the first block");
    assert_eq!(genesis["app_state"]["genutil"]["gen_txs"].as_array().map(Vec::len), Some(3));
    assert_eq!(genesis["app_state"]["gov"]["voting_params"]["voting_period"], "60s");
    // A rerun with the marker returns the same result; different parameters are reported.
    let again = run_completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?;
    assert_eq!((&again["genesisHash"], &again["skipped"]), (&json!(hash), &json!("already done")));
    let other =
        run_completed(&sidecars[0], "assemble-and-upload-genesis", &json!({"namespace": "x"})).await?;
    assert_eq!(other["doneWith"]["namespace"], "sei", "{other}");
    // Without the marker, and with the assembled file already in place: the same bytes.
    run_completed(&sidecars[0], "configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
    fs::remove_file(nodes[0].1.home.join(".sei-sidecar-assemble-done"))?;
    assert_eq!(run_completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?, assembled);
    // Upstream's marker is empty: the hash is computed from the existing file.
    fs::write(nodes[0].1.home.join(".sei-sidecar-assemble-done"), "")?;
    let legacy = run_completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?;
    assert_eq!(legacy["genesisHash"], json!(hash));

    let peers: Vec<String> = serde_json::from_slice(&fs::read(first.objects.join("test-1/peers.json"))?)?;
    let hosts: Vec<&str> = peers.iter().filter_map(|peer| Some(peer.split_once('@')?.1)).collect();
    let host = |name: &str| format!("{name}-0.{name}.sei.svc.cluster.local:26656");
    assert_eq!(hosts, [host("val-2"), host("val-0"), host("val-1")]);
    for ((_, fixture), sidecar) in nodes.iter().zip(&sidecars) {
        run_completed(sidecar, "configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
        assert_eq!(fs::read(fixture.home.join("config/genesis.json"))?, uploaded);
        assert_eq!(run_completed(sidecar, "set-genesis-peers", &json!({})).await?, json!({"peers": 2}));
        let own = sidecar.get("/v0/node-id").await?.json()["nodeId"].as_str().unwrap_or_default().to_owned();
        let config = fs::read_to_string(fixture.home.join("config/config.toml"))?;
        assert_eq!(peers.iter().filter(|peer| config.contains(peer.as_str())).count(), 2);
        assert!(!config.contains(&own), "the node is not its own peer");
    }
    let objects = contents(&first.objects);
    assert_eq!(objects.len(), 3 * 2 + 2, "{:?}", objects.keys());
    for (_, fixture) in &nodes {
        for file in ["config/node_key.json", "config/priv_validator_key.json"] {
            let key: Value = serde_json::from_slice(&fs::read(fixture.home.join(file))?)?;
            let private = key["priv_key"]["value"].as_str().unwrap_or_default();
            // The second half is the public key.
            let private = &private[..40];
            for (name, object) in &objects {
                let found = object.windows(private.len()).any(|part| part == private.as_bytes());
                assert!(!found, "{name} contains the key of {file}");
            }
            assert!(
                !sidecars.iter().any(|sidecar| sidecar.log().contains(private)),
                "a log contains the key of {file}"
            );
        }
    }
    Ok(())
}

/// File modes; a rerun after a crash at any step keeps every byte.
pub async fn rerun_of_ceremony_keeps_keys_and_gentx(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let gentx_result = prepare(&sidecar, "val-0").await?;
    let gentx = fixture.home.join(gentx_result["file"].as_str().unwrap_or_default());
    for (file, expected) in [
        ("config/node_key.json", 0o600),
        ("config/priv_validator_key.json", 0o600),
        ("data/priv_validator_state.json", 0o600),
        ("config/genesis.json", 0o644),
        ("config/gentx", 0o700),
        ("keyring-test", 0o700),
        ("keyring-test/validator.info", 0o600),
    ] {
        assert_eq!(mode(&fixture.home.join(file)), expected, "{file}");
    }
    assert_eq!(mode(&gentx), 0o600);
    let client = fs::read_to_string(fixture.home.join("config/client.toml"))?;
    assert!(client.contains("chain-id = \"test-1\""), "{client}");
    let config = fs::read_to_string(fixture.home.join("config/config.toml"))?;
    assert!(config.contains("moniker = \"val-0\""), "{config}");
    let key_files = |home: &Path| {
        let mut all = contents(&home.join("config"));
        all.extend(contents(&home.join("keyring-test")));
        all.insert("state".into(), fs::read(home.join("data/priv_validator_state.json")).unwrap_or_default());
        all
    };
    let before = key_files(&fixture.home);
    // Each rerun as after a crash before the marker, with another file missing.
    let missing_files = [None, Some("config/client.toml".to_owned()), Some(gentx_name(&gentx_result))];
    for file in missing_files {
        for name in
            [".sei-sidecar-identity-done", ".sei-sidecar-gentx-done", ".sei-sidecar-artifact-upload-done"]
        {
            fs::remove_file(fixture.home.join(name))?;
        }
        if let Some(file) = &file {
            fs::remove_file(fixture.home.join(file))?;
        }
        assert_eq!(prepare(&sidecar, "val-0").await?, gentx_result, "{file:?}");
        assert_eq!(key_files(&fixture.home), before, "{file:?}");
    }
    // A key without signing state may have signed before.
    fs::remove_file(fixture.home.join(".sei-sidecar-identity-done"))?;
    fs::remove_file(fixture.home.join("data/priv_validator_state.json"))?;
    let identity = json!({"chainId": "test-1", "moniker": "val-0"});
    assert_fails(&sidecar, "generate-identity", &identity, "restore the signing state").await?;
    assert!(!fixture.home.join("data/priv_validator_state.json").exists());
    Ok(())
}

fn gentx_name(gentx_result: &Value) -> String {
    gentx_result["file"].as_str().unwrap_or_default().to_owned()
}

/// Missing and invalid parameters, and missing artifacts of other nodes.
pub async fn ceremony_rejects_invalid_params(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let gentx = |stake: &str, balance: &str| json!({"chainId": "test-1", "stakingAmount": stake, "accountBalance": balance});
    for (task_type, params, expected) in [
        ("generate-identity", json!({"moniker": "m"}), "missing required param 'chainId'"),
        ("generate-identity", json!({"chainId": "test-1"}), "missing required param 'moniker'"),
        ("generate-identity", json!({"chainId": "other-1", "moniker": "m"}), "this sidecar serves test-1"),
        (
            "generate-gentx",
            json!({"chainId": "test-1", "accountBalance": "1usei"}),
            "missing required param 'stakingAmount'",
        ),
        (
            "generate-gentx",
            json!({"chainId": "test-1", "stakingAmount": "1usei"}),
            "missing required param 'accountBalance'",
        ),
        ("generate-gentx", gentx("1usei,2uatom", "5usei"), "stakingAmount: "),
        ("generate-gentx", gentx("10usei", "five"), "accountBalance: "),
        ("generate-gentx", gentx("10usei", "9usei"), "accountBalance is less than stakingAmount"),
        (
            "generate-gentx",
            gentx("1000000usei", "1000000usei"),
            "config/genesis.json not found: run generate-identity first",
        ),
        ("upload-genesis-artifacts", json!({}), "missing required param 'nodeName'"),
        ("upload-genesis-artifacts", json!({"nodeName": "../../other"}), "invalid nodeName"),
        ("upload-genesis-artifacts", json!({"nodeName": "val-0"}), "config/node_key.json not found"),
        (
            "assemble-and-upload-genesis",
            json!({"namespace": "n", "nodes": [{"name": "a"}]}),
            "missing required param 'accountBalance'",
        ),
        (
            "assemble-and-upload-genesis",
            json!({"accountBalance": "1usei", "nodes": [{"name": "a"}]}),
            "missing required param 'namespace'",
        ),
        (
            "assemble-and-upload-genesis",
            json!({"accountBalance": "1usei", "namespace": "n", "nodes": []}),
            "'nodes' list is empty",
        ),
        (
            "assemble-and-upload-genesis",
            json!({"accountBalance": "1usei", "namespace": "n", "nodes": [{"name": "a/b"}]}),
            "nodes[0].name",
        ),
        (
            "assemble-and-upload-genesis",
            json!({"accountBalance": "1usei", "namespace": "n", "nodes": [{"name": "val-0"}]}),
            "object not found",
        ),
        ("set-genesis-peers", json!({}), "node_key.json not found"),
    ] {
        assert_fails(&sidecar, task_type, &params, expected).await?;
    }
    assert!(contents(&fixture.objects).is_empty(), "nothing was uploaded");
    prepare(&sidecar, "val-0").await?;
    let assemble = |nodes: Value, rest: Value| {
        let mut params = json!({"accountBalance": BALANCE, "namespace": "sei", "nodes": nodes});
        for (name, value) in rest.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        params
    };
    let one = json!([{"name": "val-0"}]);
    // The same node under another name: two validators with the same keys.
    fs::create_dir_all(fixture.objects.join("test-1/val-9"))?;
    for name in ["gentx.json", "identity.json"] {
        fs::copy(
            fixture.objects.join("test-1/val-0").join(name),
            fixture.objects.join("test-1/val-9").join(name),
        )?;
    }
    let end = json!({"amount": "1usei", "endTime": 5});
    let account = |address: &str, vesting: &Value| json!({"accounts": [{"address": address, "balance": "7usei", "vesting": vesting}]});
    let stranger = "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37";
    for (params, expected) in [
        (
            assemble(json!([{"name": "val-0"}, {"name": "val-9"}]), json!({})),
            "nodes val-0 and val-9 have the same delegator",
        ),
        (assemble(one.clone(), account("sei1nobody", &Value::Null)), "sei1nobody"),
        (assemble(one.clone(), account(stranger, &end)), "vesting.endTime must be after the genesis time"),
        (assemble(one.clone(), json!({"overrides": {"nothing.a": 1}})), "has no module \"nothing\""),
        (assemble(one.clone(), json!({"overrides": {"staking.params.max_validators": 0}})), "1"),
    ] {
        assert_fails(&sidecar, "assemble-and-upload-genesis", &params, expected).await?;
        assert!(!fixture.objects.join("test-1/genesis.json").exists(), "{params}");
    }
    // Amounts that exceed a float keep every digit.
    let exact = json!({"overrides": {"bank.params": {"default_send_enabled": true, "send_enabled": []}}});
    let text = assemble(one, exact)
        .to_string()
        .replace("\"send_enabled\":[]", "\"send_enabled\":[],\"x\":100000000000000000000000001");
    let response = sidecar
        .request(
            "POST",
            "/v0/tasks",
            &format!("{{\"type\":\"assemble-and-upload-genesis\",\"params\":{text}}}"),
        )
        .await?;
    let assembled = sidecar.wait_finished(response.json()["id"].as_str().unwrap_or_default()).await?;
    assert_eq!(assembled["status"], "completed", "{assembled}");
    let genesis = fs::read_to_string(fixture.objects.join("test-1/genesis.json"))?;
    assert!(genesis.contains("100000000000000000000000001"), "digits were lost");
    Ok(())
}
