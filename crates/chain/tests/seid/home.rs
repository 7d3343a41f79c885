//! Test fixture: a seid home directory rendered by this crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use chain::account::AccountKey;
use chain::address::Prefix;
use chain::coin::{Coin, Coins};
use chain::config::{Host, Intent, Mode, resolve, set_client_chain_id};
use chain::genesis::{Ceremony, Genesis, NewAccount, Participant, Vesting, assemble};
use chain::gentx::{Gentx, GentxParams};
use chain::identity::{ConsensusKey, INITIAL_VALIDATOR_STATE, NodeKey};
use chain::keyring;
use testbed::cluster::parts::Part;
use testbed::cluster::site::Site;
use testbed::process::{Process, Program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

pub const CHAIN: &str = "gx-judge-1";
/// Seed of the validator's keys.
pub const SEED: u8 = 42;

pub fn node_key(seed: u8) -> NodeKey {
    NodeKey::from_seed(&Zeroizing::new([seed; 32]))
}

pub fn consensus_key(seed: u8) -> ConsensusKey {
    ConsensusKey::from_seed(&Zeroizing::new([seed.wrapping_add(100); 32]))
}

pub fn account_key(seed: u8) -> AccountKey {
    AccountKey::from_bytes(&Zeroizing::new([seed; 32])).unwrap()
}

pub fn gentx(seed: u8, moniker: &str) -> Gentx {
    let declaration = GentxParams {
        chain_id: CHAIN,
        moniker,
        node_id: &node_key(seed).id(),
        address: "192.0.2.1",
        consensus_key: consensus_key(seed).public(),
        stake: &Coin::parse("10000000usei").unwrap(),
        gas_limit: 0,
    };
    Gentx::sign(&declaration, &account_key(seed)).unwrap()
}

fn genesis(accounts: &[NewAccount], overrides: &BTreeMap<String, Vec<u8>>) -> String {
    let file = gentx(SEED, "val-0").file();
    let ceremony = Ceremony {
        base: Genesis::new(CHAIN, "2026-01-02T03:04:05Z".parse().unwrap()).unwrap(),
        participants: &[Participant { name: "val-0", gentx: file.as_bytes() }],
        balance: &Coins::parse("1000000000000000000000usei,1000000000000000000000uusdc").unwrap(),
        accounts,
        overrides,
    };
    assemble(ceremony).unwrap().file
}

pub struct Home(PathBuf);

impl Home {
    /// Creates a home for a mode, on a chain with one validator.
    pub fn new(path: &Path, mode: Mode) -> Self {
        Self::with_genesis(path, mode, &genesis(&[], &BTreeMap::new()))
    }

    /// Creates the validator's home, on a chain with non-validator accounts.
    pub fn with_extra_accounts(path: &Path) -> Self {
        let account = |seed, vesting| NewAccount {
            address: account_key(seed).address().to_bech32(Prefix::Account),
            balance: "500usei,7uatom".into(),
            vesting,
        };
        let later = |delayed| Some(Vesting { amount: "400usei".into(), end_time: 4_000_000_000, delayed });
        let accounts = [account(1, None), account(2, later(false)), account(3, later(true))];
        let overrides = BTreeMap::from([("gov.voting_params.voting_period".to_owned(), b"\"60s\"".to_vec())]);
        Self::with_genesis(path, Mode::Validator, &genesis(&accounts, &overrides))
    }

    fn with_genesis(path: &Path, mode: Mode, genesis: &str) -> Self {
        let home = Self(path.to_owned());
        fs::create_dir_all(path.join("config")).unwrap();
        fs::create_dir_all(path.join("data")).unwrap();
        // Only the validator has the keys in the genesis file.
        let seed = if mode == Mode::Validator { SEED } else { SEED + 1 };
        let host = Host { name: "judge".into(), processors: 2 };
        let intent = Intent { mode: mode.name().into(), ..Intent::default() };
        let files = resolve(&intent, None, &host).unwrap().files;
        for (name, content) in [
            ("node_key.json", node_key(seed).render_file().expose()),
            ("priv_validator_key.json", consensus_key(seed).file().expose()),
            ("genesis.json", genesis.as_bytes()),
            ("client.toml", set_client_chain_id("", CHAIN).unwrap().as_bytes()),
            ("config.toml", files.config.as_bytes()),
            ("app.toml", files.app.as_bytes()),
        ] {
            fs::write(home.config(name), content).unwrap();
        }
        fs::write(path.join("data/priv_validator_state.json"), INITIAL_VALIDATOR_STATE).unwrap();
        home
    }

    pub fn config(&self, name: &str) -> PathBuf {
        self.0.join("config").join(name)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub fn write_keyring(&self) {
        let random = |seed| keyring::Randomness {
            content_key: Zeroizing::new([seed; 32]),
            salt: [seed; 12],
            nonce: [seed; 12],
        };
        let folder = self.0.join("keyring-test");
        fs::create_dir(&folder).unwrap();
        for file in keyring::render_files(&account_key(SEED), [random(1), random(2)]).unwrap() {
            fs::write(folder.join(file.name), file.content.expose()).unwrap();
        }
    }

    /// Starts seid in the site's network namespace, because it binds fixed ports on all addresses.
    pub fn start(&self, site: &Site, name: &str) -> testbed::Result<Process> {
        let program = Part::Seid.ensure()?.join("bin/seid");
        Program::new(name, program)
            .args(["start", "--home", self.text(), "--chain-id", CHAIN])
            .in_netns(site.netns())
            .start(site)
    }
}

/// Runs a seid command and returns its output.
pub fn seid(args: &[&str]) -> Result<String, String> {
    let program = Part::Seid.ensure().map_err(|error| error.to_string())?.join("bin/seid");
    let output = Command::new(program).args(args).env_clear().env("HOME", "/nonexistent").output();
    let output = output.map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("seid {args:?}: {}: {errors}", output.status));
    }
    // Some commands print their result to stderr.
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(if answer.trim().is_empty() { errors } else { answer })
}

/// Returns the listening ports in the network namespace of a process.
pub fn listening(pid: u32) -> BTreeSet<u16> {
    let tables =
        ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let listens = *columns.get(3)? == "0A";
            let port = columns.get(1)?.rsplit(':').next()?;
            u16::from_str_radix(port, 16).ok().filter(|_| listens)
        })
        .collect()
}

/// Returns the block height of a node, if it responds.
pub async fn height(rpc: (Ipv4Addr, u16)) -> Option<u64> {
    let mut stream = TcpStream::connect(rpc).await.ok()?;
    stream.write_all(b"GET /status HTTP/1.0\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    let status = body.get("result").unwrap_or(&body);
    status["sync_info"]["latest_block_height"].as_str()?.parse().ok()
}
