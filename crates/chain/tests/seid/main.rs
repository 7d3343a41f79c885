//! Real seid judges: it starts with our files, reads our keys, makes the same gentx and the same genesis, and dies of what
//! we refuse.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic; clippy recognizes only those of the usual runner"
)]

mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use chain::address::Prefix;
use chain::coin::{Coin, Coins};
use chain::config::{Mode, Patchable, patch};
use chain::genesis::{Ceremony, Genesis, Participant, assemble};
use chain::gentx::{Declaration, Gentx};
use chain::json::Json;
use home::{CHAIN, Home, account_key, consensus_key, node_key};
use serde_json::json;
use testbed::harness::wait;
use testbed::{Context, TestResult};

testbed::suite![
    the_files_of_every_mode_start_seid,
    what_is_refused_here_kills_seid,
    the_genesis_of_a_new_chain_is_that_of_seid_init,
    the_assembled_genesis_is_that_of_collect_gentxs,
    seid_reads_our_keys_and_makes_the_same_gentx,
    accounts_that_vest_are_taken,
];

/// How long a start may take on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(90);

/// Scenario 35, and GEN-08: one validator with the list makes blocks.
async fn the_files_of_every_mode_start_seid(cx: Context) -> TestResult {
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
        let wanted: BTreeSet<u16> = ports.iter().copied().collect();
        wait::until(format!("{mode} to listen"), STARTS_WITHIN, || async {
            seid.check_alive().map_err(|error| error.to_string())?;
            let found = home::listening(pid);
            // The servers of the EVM open with the first block.
            let found: BTreeSet<u16> = found.difference(&BTreeSet::from([8545, 8546])).copied().collect();
            if found == wanted { Ok(()) } else { Err(format!("it listens on {found:?}, not on {wanted:?}")) }
        })
        .await?;
        if mode == Mode::Validator {
            let rpc = (site.addresses().control_plane(), 26657);
            wait::until("the third block", STARTS_WITHIN, || async {
                match home::height(rpc).await {
                    Some(height) if height >= 3 => Ok(()),
                    other => Err(format!("the height is {other:?}")),
                }
            })
            .await?;
        }
        seid.check_alive()?;
        seid.stop(Duration::from_secs(10))?;
    }
    Ok(())
}

/// Scenario 36: forced upon seid, what our rules refuse ends it.
async fn what_is_refused_here_kills_seid(cx: Context) -> TestResult {
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
        (Mode::Full, Config, json!({ "p2p": { "persistent-peers": "a.b:26656" } }), "invalid peer address"),
        (Mode::Full, Config, json!({ "p2p": { "bootstrap-peers": "ab@c:1" } }), "invalid peer address"),
        (Mode::Full, Config, json!({ "p2p": { "blocksync-peers": "x" } }), "invalid peer address"),
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
    for (number, (mode, file, tree, last_words)) in cases.iter().enumerate() {
        let home = Home::new(&site.dir().join(number.to_string()), *mode);
        let path = home.config(file.name());
        let text = patch(*file, &fs::read_to_string(&path)?, tree.as_object().unwrap())?;
        fs::write(&path, text)?;
        let seid = home.start(&site, &format!("refused-{number}"))?;
        wait::until(format!("seid to die of {tree}"), STARTS_WITHIN, || async {
            if seid.check_alive().is_err() { Ok(()) } else { Err("it lives") }
        })
        .await?;
        let log = fs::read_to_string(seid.log())?;
        assert!(log.contains(last_words), "seid did not die of {tree}:\n{log}");
    }
    Ok(())
}

/// GEN-14: when this fails, the template is of another version than seid.
async fn the_genesis_of_a_new_chain_is_that_of_seid_init(cx: Context) -> TestResult {
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
    let theirs = fs::read(home.join("config/genesis.json"))?;
    let ours = Genesis::new(CHAIN, "2026-01-02T03:04:05Z".parse()?)?.file();
    assert_eq!(without_times(ours.as_bytes()), without_times(&theirs));
    // What was read is written as it was.
    assert_eq!(Genesis::parse(&theirs)?.file().as_bytes(), theirs);
    Ok(())
}

/// GEN-10.
async fn the_assembled_genesis_is_that_of_collect_gentxs(cx: Context) -> TestResult {
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
    let theirs = fs::read_to_string(home.join("config/genesis.json"))?;

    let participants: Vec<Participant<'_>> =
        gentxs.iter().map(|(name, file)| Participant { name, gentx: file.as_bytes() }).collect();
    let ours = assemble(Ceremony {
        base,
        participants: &participants,
        balance: &balance,
        accounts: &[],
        overrides: &BTreeMap::new(),
    })?;
    let mut without_list = Json::parse(ours.file.as_bytes())?;
    let Json::Object(members) = &mut without_list else { panic!("no object") };
    assert_eq!(members.take("validators").unwrap().as_array().unwrap().len(), 3);
    assert_eq!(without_list.pretty(), theirs);
    let file = home.join("ours.json");
    fs::write(&file, &ours.file)?;
    home::seid(&["validate-genesis", file.to_str().unwrap(), "--home", home_text])?;
    Ok(())
}

/// GEN-01, GEN-03 and GEN-05.
async fn seid_reads_our_keys_and_makes_the_same_gentx(cx: Context) -> TestResult {
    let site = cx.site()?;
    let home = Home::new(&site.dir().join("keys"), Mode::Validator);
    let ask = |args: &[&str]| home::seid(&[args, &["--home", home.text()]].concat());
    assert_eq!(ask(&["tendermint", "show-node-id"])?.trim(), node_key(home::SEED).id());
    assert_eq!(ask(&["tendermint", "show-address"])?.trim(), consensus_key(home::SEED).address());

    home.write_keyring();
    let listed = ask(&["keys", "list", "--keyring-backend", "test", "--output", "json"])?;
    let listed: serde_json::Value = serde_json::from_str(listed.trim())?;
    assert_eq!(listed[0]["name"], "validator");
    let address = account_key(home::SEED).address().to_text(Prefix::Account);
    assert_eq!(listed[0]["address"], address.as_str());

    let document = home.config("theirs.json");
    ask(&[
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
    let declaration = Declaration {
        chain_id: CHAIN,
        moniker: "val-0",
        node_id: &node_key(home::SEED).id(),
        address: "192.0.2.1",
        consensus_key: consensus_key(home::SEED).public(),
        stake: &Coin::parse("10000000usei")?,
        gas_limit: 200_000,
    };
    let ours = Gentx::sign(&declaration, &account_key(home::SEED))?.file();
    assert_eq!(fs::read_to_string(document)?, ours);
    Ok(())
}

/// GEN-15, and an override: seid begins with them.
async fn accounts_that_vest_are_taken(cx: Context) -> TestResult {
    let site = cx.site()?;
    let home = Home::with_strangers(&site.dir().join("vesting"));
    let seid = home.start(&site, "vesting")?;
    let rpc = (site.addresses().control_plane(), 26657);
    wait::until("the second block", STARTS_WITHIN, || async {
        seid.check_alive().map_err(|error| error.to_string())?;
        match home::height(rpc).await {
            Some(height) if height >= 2 => Ok(()),
            other => Err(format!("the height is {other:?}")),
        }
    })
    .await?;
    seid.stop(Duration::from_secs(10))?;
    Ok(())
}
