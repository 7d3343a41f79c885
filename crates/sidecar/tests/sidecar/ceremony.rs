//! How a new chain begins: `generate-identity`, `generate-gentx`, `upload-genesis-artifacts`, `assemble-and-upload-genesis`,
//! `configure-genesis`, `set-genesis-peers`. Whether seid takes it is shown by the suite `judge`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testbed::{Context, TestResult};

use crate::ground::{Ground, Sidecar};

const BALANCE: &str = "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom";

async fn completed(sidecar: &Sidecar, kind: &str, params: &Value) -> Result<Value, testbed::Error> {
    let task = sidecar.done(kind, params).await?;
    assert_eq!(task["status"], "completed", "{kind} {params}: {task}");
    Ok(task["result"].clone())
}

async fn refused(sidecar: &Sidecar, kind: &str, params: &Value, why: &str) -> TestResult {
    let task = sidecar.done(kind, params).await?;
    let error = task["error"].as_str().unwrap_or_default();
    assert!(task["status"] == "failed" && error.contains(why), "{kind} {params}: {task}");
    Ok(())
}

/// What a node does before the others are needed.
async fn prepare(sidecar: &Sidecar, name: &str) -> Result<Value, testbed::Error> {
    completed(sidecar, "generate-identity", &json!({"chainId": "test-1", "moniker": name})).await?;
    let gentx = json!({"chainId": "test-1", "stakingAmount": "10000000usei", "accountBalance": BALANCE});
    let declared = completed(sidecar, "generate-gentx", &gentx).await?;
    completed(sidecar, "upload-genesis-artifacts", &json!({"nodeName": name})).await?;
    Ok(declared)
}

/// Every file below a folder, with its content.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
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
    fs::metadata(path).map_or(0, |about| about.permissions().mode() & 0o777)
}

/// GEN-06, GEN-11, GEN-19, GEN-20, S3: keys of objects, hash, peers, and nothing private outside the node.
pub async fn s03_a_new_chain_begins_and_no_private_key_leaves_its_node(cx: Context) -> TestResult {
    let first = Ground::new(&cx)?;
    let mut nodes = vec![("val-0", Ground::beside(&cx, &first)?), ("val-1", Ground::beside(&cx, &first)?)];
    nodes.push(("val-2", Ground::beside(&cx, &first)?));
    let mut sidecars = Vec::new();
    for (name, ground) in &nodes {
        let sidecar = ground.start().await?;
        prepare(&sidecar, name).await?;
        sidecars.push(sidecar);
    }
    let stranger = "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37";
    let assemble = json!({
        "accountBalance": BALANCE, "namespace": "sei", "nodes": [{"name": "val-2"}, {"name": "val-0"}, {"name": "val-1"}],
        "accounts": [{"address": stranger, "balance": "7usei"}],
        "overrides": {"gov.voting_params.voting_period": "60s", "staking.params.max_validators": 4},
    });
    let made = completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?;
    let uploaded = fs::read(first.objects.join("test-1/genesis.json"))?;
    let hash: String = Sha256::digest(&uploaded).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(made, json!({"genesisHash": hash}));
    let genesis: Value = serde_json::from_slice(&uploaded)?;
    assert_eq!(genesis["validators"].as_array().map(Vec::len), Some(3), "the list that lets a chain begin");
    assert_eq!(genesis["app_state"]["genutil"]["gen_txs"].as_array().map(Vec::len), Some(3));
    assert_eq!(genesis["app_state"]["gov"]["voting_params"]["voting_period"], "60s");
    // Done again, with the marker: the same answer; with other parameters: told.
    let again = completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?;
    assert_eq!((&again["genesisHash"], &again["skipped"]), (&json!(hash), &json!("done already")));
    let other = completed(&sidecars[0], "assemble-and-upload-genesis", &json!({"namespace": "x"})).await?;
    assert_eq!(other["doneWith"]["namespace"], "sei", "{other}");
    // Without it, and with the chain's own file in its place by now: the same bytes.
    completed(&sidecars[0], "configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
    fs::remove_file(nodes[0].1.home.join(".sei-sidecar-assemble-done"))?;
    assert_eq!(completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?, made);
    // Upstream's marker says nothing: the hash is that of the file that is there.
    fs::write(nodes[0].1.home.join(".sei-sidecar-assemble-done"), "")?;
    let theirs = completed(&sidecars[0], "assemble-and-upload-genesis", &assemble).await?;
    assert_eq!(theirs["genesisHash"], json!(hash));

    let peers: Vec<String> = serde_json::from_slice(&fs::read(first.objects.join("test-1/peers.json"))?)?;
    let hosts: Vec<&str> = peers.iter().filter_map(|peer| Some(peer.split_once('@')?.1)).collect();
    let host = |name: &str| format!("{name}-0.{name}.sei.svc.cluster.local:26656");
    assert_eq!(hosts, [host("val-2"), host("val-0"), host("val-1")]);
    for ((_, ground), sidecar) in nodes.iter().zip(&sidecars) {
        completed(sidecar, "configure-genesis", &json!({"expectedGenesisHash": hash})).await?;
        assert_eq!(fs::read(ground.home.join("config/genesis.json"))?, uploaded);
        assert_eq!(completed(sidecar, "set-genesis-peers", &json!({})).await?, json!({"peers": 2}));
        let own = sidecar.get("/v0/node-id").await?.json()["nodeId"].as_str().unwrap_or_default().to_owned();
        let config = fs::read_to_string(ground.home.join("config/config.toml"))?;
        assert_eq!(peers.iter().filter(|peer| config.contains(peer.as_str())).count(), 2);
        assert!(!config.contains(&own), "a node does not dial itself");
    }
    let objects = contents(&first.objects);
    assert_eq!(objects.len(), 3 * 2 + 2, "{:?}", objects.keys());
    for (_, ground) in &nodes {
        for file in ["config/node_key.json", "config/priv_validator_key.json"] {
            let key: Value = serde_json::from_slice(&fs::read(ground.home.join(file))?)?;
            let private = key["priv_key"]["value"].as_str().unwrap_or_default();
            // The second half is the public key, which everybody may see.
            let private = &private[..40];
            for (name, object) in &objects {
                let found = object.windows(private.len()).any(|part| part == private.as_bytes());
                assert!(!found, "{name} holds the key of {file}");
            }
            assert!(
                !sidecars.iter().any(|sidecar| sidecar.log().contains(private)),
                "a log holds the key of {file}"
            );
        }
    }
    Ok(())
}

/// GEN-01, GEN-02: modes of files; done again after a kill at any step, every byte stays.
pub async fn what_a_ceremony_made_is_kept_when_it_is_done_again(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let declared = prepare(&sidecar, "val-0").await?;
    let gentx = ground.home.join(declared["file"].as_str().unwrap_or_default());
    for (file, wanted) in [
        ("config/node_key.json", 0o600),
        ("config/priv_validator_key.json", 0o600),
        ("data/priv_validator_state.json", 0o600),
        ("config/genesis.json", 0o644),
        ("config/gentx", 0o700),
        ("keyring-test", 0o700),
        ("keyring-test/validator.info", 0o600),
    ] {
        assert_eq!(mode(&ground.home.join(file)), wanted, "{file}");
    }
    assert_eq!(mode(&gentx), 0o600);
    let client = fs::read_to_string(ground.home.join("config/client.toml"))?;
    assert!(client.contains("chain-id = \"test-1\""), "{client}");
    let config = fs::read_to_string(ground.home.join("config/config.toml"))?;
    assert!(config.contains("moniker = \"val-0\""), "{config}");
    let keys = |home: &Path| {
        let mut all = contents(&home.join("config"));
        all.extend(contents(&home.join("keyring-test")));
        all.insert("state".into(), fs::read(home.join("data/priv_validator_state.json")).unwrap_or_default());
        all
    };
    let before = keys(&ground.home);
    // Each step as after a kill before its marker, with one more of its files missing each time.
    let gone = [None, Some("config/client.toml".to_owned()), Some(gentx_name(&declared))];
    for file in gone {
        for name in
            [".sei-sidecar-identity-done", ".sei-sidecar-gentx-done", ".sei-sidecar-artifact-upload-done"]
        {
            fs::remove_file(ground.home.join(name))?;
        }
        if let Some(file) = &file {
            fs::remove_file(ground.home.join(file))?;
        }
        assert_eq!(prepare(&sidecar, "val-0").await?, declared, "{file:?}");
        assert_eq!(keys(&ground.home), before, "{file:?}");
    }
    // A key whose state is gone may have signed.
    fs::remove_file(ground.home.join(".sei-sidecar-identity-done"))?;
    fs::remove_file(ground.home.join("data/priv_validator_state.json"))?;
    let identity = json!({"chainId": "test-1", "moniker": "val-0"});
    refused(&sidecar, "generate-identity", &identity, "restore what it has signed").await?;
    assert!(!ground.home.join("data/priv_validator_state.json").exists());
    Ok(())
}

fn gentx_name(declared: &Value) -> String {
    declared["file"].as_str().unwrap_or_default().to_owned()
}

/// GEN-12 as far as it is the sidecar's: each missing or wrong parameter, and what others did not upload.
pub async fn a_ceremony_refuses_what_cannot_be(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let sidecar = ground.start().await?;
    let gentx = |stake: &str, balance: &str| json!({"chainId": "test-1", "stakingAmount": stake, "accountBalance": balance});
    for (kind, params, why) in [
        ("generate-identity", json!({"moniker": "m"}), "missing required param 'chainId'"),
        ("generate-identity", json!({"chainId": "test-1"}), "missing required param 'moniker'"),
        ("generate-identity", json!({"chainId": "other-1", "moniker": "m"}), "this sidecar is of test-1"),
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
            "there is no config/genesis.json: generate-identity makes it",
        ),
        ("upload-genesis-artifacts", json!({}), "missing required param 'nodeName'"),
        ("upload-genesis-artifacts", json!({"nodeName": "../../other"}), "is no name of a node"),
        ("upload-genesis-artifacts", json!({"nodeName": "val-0"}), "there is no config/node_key.json"),
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
            "there is no such object",
        ),
        ("set-genesis-peers", json!({}), "there is no node_key.json"),
    ] {
        refused(&sidecar, kind, &params, why).await?;
    }
    assert!(contents(&ground.objects).is_empty(), "nothing was uploaded");
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
    fs::create_dir_all(ground.objects.join("test-1/val-9"))?;
    for name in ["gentx.json", "identity.json"] {
        fs::copy(
            ground.objects.join("test-1/val-0").join(name),
            ground.objects.join("test-1/val-9").join(name),
        )?;
    }
    let end = json!({"amount": "1usei", "endTime": 5});
    let account = |address: &str, vesting: &Value| json!({"accounts": [{"address": address, "balance": "7usei", "vesting": vesting}]});
    let stranger = "sei1r5v5srda7xfth3hn2s26txvrcrntldjuk8kd37";
    for (params, why) in [
        (
            assemble(json!([{"name": "val-0"}, {"name": "val-9"}]), json!({})),
            "nodes val-0 and val-9 have the same delegator",
        ),
        (assemble(one.clone(), account("sei1nobody", &Value::Null)), "sei1nobody"),
        (assemble(one.clone(), account(stranger, &end)), "vesting.endTime must be after the genesis time"),
        (assemble(one.clone(), json!({"overrides": {"nothing.a": 1}})), "has no module \"nothing\""),
        (assemble(one.clone(), json!({"overrides": {"staking.params.max_validators": 0}})), "1"),
    ] {
        refused(&sidecar, "assemble-and-upload-genesis", &params, why).await?;
        assert!(!ground.objects.join("test-1/genesis.json").exists(), "{params}");
    }
    // Amounts that other readers of JSON cannot hold keep every digit.
    let exact = json!({"overrides": {"bank.params": {"default_send_enabled": true, "send_enabled": []}}});
    let text = assemble(one, exact)
        .to_string()
        .replace("\"send_enabled\":[]", "\"send_enabled\":[],\"x\":100000000000000000000000001");
    let answer = sidecar
        .ask("POST", "/v0/tasks", &format!("{{\"type\":\"assemble-and-upload-genesis\",\"params\":{text}}}"))
        .await?;
    let made = sidecar.ended(answer.json()["id"].as_str().unwrap_or_default()).await?;
    assert_eq!(made["status"], "completed", "{made}");
    let genesis = fs::read_to_string(ground.objects.join("test-1/genesis.json"))?;
    assert!(genesis.contains("100000000000000000000000001"), "digits were lost");
    Ok(())
}
