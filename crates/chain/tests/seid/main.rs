//! Tests against a real seid: it starts with our files, reads our keys, creates the same gentx and genesis, and does not start
//! with settings that we reject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may panic; clippy recognizes libtest tests only"
)]

mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use chain::address::Prefix;
use chain::coin::{Coin, Coins};
use chain::config::{Mode, Patchable, patch};
use chain::genesis::{Ceremony, Genesis, Participant, assemble};
use chain::gentx::{Gentx, GentxParams};
use chain::json::Json;
use home::{CHAIN, Home, account_key, consensus_key, node_key};
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

testbed::suite![
    seid_starts_in_every_mode,
    rejected_settings_keep_seid_from_starting,
    new_genesis_matches_seid_init,
    assembled_genesis_matches_collect_gentxs,
    keys_and_gentx_match_seid,
    seid_accepts_vesting_accounts,
];

/// Startup timeout, generous for busy machines.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(90);

/// A chain with one validator in the genesis validator list produces blocks.
async fn seid_starts_in_every_mode(cx: Context) -> TestResult {
    for (mode, ports) in [
        (Mode::Validator, &[26656, 26657, 26660][..]),
        (Mode::Full, &[1317, 9090, 9091, 26656, 26657, 26660]),
        (Mode::Seed, &[26656]),
        (Mode::Archive, &[1317, 9090, 9091, 26656, 26657, 26660]),
    ] {
        let site = cx.site()?;
        let home = Home::new(&site.dir().join(mode.name()), mode);
        let seid = home.start(&site, mode.name())?;
        let pid = seid.pid()?;
        let expected: BTreeSet<u16> = ports.iter().copied().collect();
        wait::until(format!("{mode} to listen"), STARTUP_TIMEOUT, || async {
            seid.check_alive().map_err(|error| error.to_string())?;
            let found = home::listening(pid);
            // The EVM servers start with the first block.
            let found: BTreeSet<u16> = found.difference(&BTreeSet::from([8545, 8546])).copied().collect();
            if found == expected {
                Ok(())
            } else {
                Err(format!("listening on {found:?}, expected {expected:?}"))
            }
        })
        .await?;
        if mode == Mode::Validator {
            let rpc = (site.addresses().control_plane(), 26657);
            wait::until("the third block", STARTUP_TIMEOUT, || async {
                match home::height(rpc).await {
                    Some(height) if height >= 3 => Ok(()),
                    other => Err(format!("height is {other:?}")),
                }
            })
            .await?;
        }
        seid.check_alive()?;
        seid.stop(Duration::from_secs(10))?;
    }
    Ok(())
}

/// Every rule in `seid_rules` and `network_rules` corresponds to a startup failure of seid.
async fn rejected_settings_keep_seid_from_starting(cx: Context) -> TestResult {
    use Patchable::{App, Config};
    let cases = [
        (
            Mode::Validator,
            App,
            json!({ "state-sync": { "snapshot-interval": 2000 } }),
            "SS store needs to be enabled",
        ),
        (Mode::Validator, App, json!({ "pruning": "custom" }), "invalid 'Interval' when pruning everything"),
        (Mode::Full, App, json!({ "pruning-interval": "0" }), "invalid 'Interval' when pruning: 0"),
        (Mode::Full, App, json!({ "pruning-keep-every": "1" }), "invalid 'Interval' when pruning nothing"),
        (Mode::Full, App, json!({ "pruning-interval": "ten" }), "--pruning-interval"),
        (Mode::Full, Config, json!({ "log-level": "trace" }), "failed to parse log level"),
        (Mode::Full, Config, json!({ "log-level": "" }), "failed to parse log level"),
        (Mode::Full, App, json!({ "minimum-gas-prices": "free" }), "invalid minimum gas prices"),
        (Mode::Full, App, json!({ "minimum-gas-prices": "0.01usei,1usei" }), "duplicate denomination"),
        (
            Mode::Full,
            App,
            json!({ "minimum-gas-prices": "0.1234567890123456789usei" }),
            "exceeds max precision",
        ),
        (
            Mode::Full,
            Config,
            json!({ "tx-index": { "indexer": ["elastic"] } }),
            "unsupported event sink type",
        ),
        (Mode::Full, Config, json!({ "tx-index": { "indexer": ["kv", "KV"] } }), "duplicated sinks"),
        (Mode::Full, Config, json!({ "tx-index": { "indexer": ["psql"] } }), "psql connection settings"),
        (
            Mode::Full,
            App,
            json!({ "receipt-store": { "rs-backend": "leveldb" } }),
            "unsupported receipt-store backend",
        ),
        (
            Mode::Full,
            App,
            json!({ "receipt-store": { "rs-backend": "" } }),
            "unsupported receipt-store backend",
        ),
        (Mode::Full, App, json!({ "state-commit": { "sc-write-mode": "evm_only" } }), "invalid write mode"),
        (Mode::Full, Config, json!({ "mode": "archive" }), "archive"),
        (Mode::Full, App, json!({ "pruning-keep-recent": "many" }), "--pruning-keep-recent"),
        (Mode::Full, Config, json!({ "p2p": { "private-peer-ids": "x" } }), "invalid private peer ID"),
        (
            Mode::Full,
            Config,
            json!({ "p2p": { "unconditional-peer-ids": "x" } }),
            "invalid unconditional peer ID",
        ),
        (Mode::Full, Config, json!({ "p2p": { "laddr": "0.0.0.0" } }), "missing port in address"),
        (Mode::Full, Config, json!({ "priv-validator": { "laddr": "signer" } }), "missing port in address"),
        (Mode::Full, Config, json!({ "db-backend": "rocksdb" }), "unknown db_backend"),
    ];
    let site = cx.site()?;
    for (number, (mode, file, tree, log_message)) in cases.iter().enumerate() {
        let home = Home::new(&site.dir().join(number.to_string()), *mode);
        let path = home.config(file.name());
        let text = patch(*file, &fs::read_to_string(&path)?, tree.as_object().unwrap())?;
        fs::write(&path, text)?;
        let seid = home.start(&site, &format!("rejected-{number}"))?;
        wait::until(format!("seid to exit because of {tree}"), STARTUP_TIMEOUT, || async {
            if seid.check_alive().is_err() { Ok(()) } else { Err("still running") }
        })
        .await?;
        let log = fs::read_to_string(seid.log())?;
        assert!(log.contains(log_message), "seid did not exit because of {tree}:\n{log}");
    }
    Ok(())
}

/// If this fails, the template and seid have different versions.
async fn new_genesis_matches_seid_init(cx: Context) -> TestResult {
    let site = cx.site()?;
    let home = site.dir().join("init");
    home::seid(&["init", "m", "--chain-id", CHAIN, "--home", home.to_str().unwrap()])?;
    let without_times = |file: &[u8]| {
        let mut json = Json::parse(file).unwrap();
        for path in [
            &["genesis_time"][..],
            &["app_state", "epoch", "epoch", "genesis_time"],
            &["app_state", "epoch", "epoch", "current_epoch_start_time"],
        ] {
            *json.at_mut(path).unwrap() = Json::Null;
        }
        json.pretty()
    };
    let expected = fs::read(home.join("config/genesis.json"))?;
    let actual = Genesis::new(CHAIN, "2026-01-02T03:04:05Z".parse()?)?.file();
    assert_eq!(without_times(actual.as_bytes()), without_times(&expected));
    // Parsing and rendering preserves every byte.
    assert_eq!(Genesis::parse(&expected)?.file().as_bytes(), expected);
    Ok(())
}

async fn assembled_genesis_matches_collect_gentxs(cx: Context) -> TestResult {
    let site = cx.site()?;
    let home = site.dir().join("collect");
    let home_text = home.to_str().unwrap();
    home::seid(&["init", "m", "--chain-id", CHAIN, "--home", home_text])?;
    let mut base = Genesis::parse(&fs::read(home.join("config/genesis.json"))?)?;
    let balance = Coins::parse("1000000000000000000000usei,7uatom")?;
    let mut gentxs = BTreeMap::new();
    for (seed, name) in [(11, "val-0"), (12, "val-1"), (13, "val-10")] {
        base.add_account(account_key(seed).address(), &balance)?;
        gentxs.insert(name, home::gentx(seed, &format!("{name} <&>")).file());
    }
    fs::write(home.join("config/genesis.json"), base.file())?;
    fs::create_dir_all(home.join("config/gentx"))?;
    for (name, file) in &gentxs {
        fs::write(home.join(format!("config/gentx/gentx-{name}.json")), file)?;
    }
    home::seid(&["collect-gentxs", "--home", home_text])?;
    let expected = fs::read_to_string(home.join("config/genesis.json"))?;

    let participants: Vec<Participant<'_>> =
        gentxs.iter().map(|(name, file)| Participant { name, gentx: file.as_bytes() }).collect();
    let actual = assemble(Ceremony {
        base,
        participants: &participants,
        balance: &balance,
        accounts: &[],
        overrides: &BTreeMap::new(),
    })?;
    let mut without_list = Json::parse(actual.file.as_bytes())?;
    let Json::Object(members) = &mut without_list else { panic!("not an object") };
    assert_eq!(members.remove("validators").unwrap().as_array().unwrap().len(), 3);
    assert_eq!(without_list.pretty(), expected);
    let file = home.join("actual.json");
    fs::write(&file, &actual.file)?;
    home::seid(&["validate-genesis", file.to_str().unwrap(), "--home", home_text])?;
    Ok(())
}

async fn keys_and_gentx_match_seid(cx: Context) -> TestResult {
    let site = cx.site()?;
    let home = Home::new(&site.dir().join("keys"), Mode::Validator);
    let run_seid = |args: &[&str]| home::seid(&[args, &["--home", home.text()]].concat());
    assert_eq!(run_seid(&["tendermint", "show-node-id"])?.trim(), node_key(home::SEED).id());
    assert_eq!(run_seid(&["tendermint", "show-address"])?.trim(), consensus_key(home::SEED).address());

    home.write_keyring();
    let listed = run_seid(&["keys", "list", "--keyring-backend", "test", "--output", "json"])?;
    let listed: serde_json::Value = serde_json::from_str(listed.trim())?;
    assert_eq!(listed[0]["name"], "validator");
    let address = account_key(home::SEED).address().to_bech32(Prefix::Account);
    assert_eq!(listed[0]["address"], address.as_str());

    let document = home.config("expected.json");
    run_seid(&[
        "gentx",
        "validator",
        "10000000usei",
        "--chain-id",
        CHAIN,
        "--moniker",
        "val-0",
        "--ip",
        "192.0.2.1",
        "--keyring-backend",
        "test",
        "--output-document",
        document.to_str().unwrap(),
    ])?;
    let declaration = GentxParams {
        chain_id: CHAIN,
        moniker: "val-0",
        node_id: &node_key(home::SEED).id(),
        address: "192.0.2.1",
        consensus_key: consensus_key(home::SEED).public(),
        stake: &Coin::parse("10000000usei")?,
        gas_limit: 200_000,
    };
    let actual = Gentx::sign(&declaration, &account_key(home::SEED))?.file();
    assert_eq!(fs::read_to_string(document)?, actual);
    Ok(())
}

/// Also covers a genesis override.
async fn seid_accepts_vesting_accounts(cx: Context) -> TestResult {
    let site = cx.site()?;
    let home = Home::with_extra_accounts(&site.dir().join("vesting"));
    let seid = home.start(&site, "vesting")?;
    let rpc = (site.addresses().control_plane(), 26657);
    wait::until("the second block", STARTUP_TIMEOUT, || async {
        seid.check_alive().map_err(|error| error.to_string())?;
        match home::height(rpc).await {
            Some(height) if height >= 2 => Ok(()),
            other => Err(format!("height is {other:?}")),
        }
    })
    .await?;
    seid.stop(Duration::from_secs(10))?;
    Ok(())
}
