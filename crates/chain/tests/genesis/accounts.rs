//! Non-validator accounts and overrides.

use chain::address::Prefix;
use chain::genesis::{Genesis, NewAccount, Vesting};
use chain::json::Json;

use crate::ceremony::{account_key, assembled_with, gentx};

fn account(number: u8, balance: &str, vesting: Option<(&str, i64, bool)>) -> NewAccount {
    NewAccount {
        address: account_key(number).address().to_bech32(Prefix::Account),
        balance: balance.into(),
        vesting: vesting.map(|(amount, end_time, delayed)| Vesting {
            amount: amount.into(),
            end_time,
            delayed,
        }),
    }
}

fn assemble_with(accounts: &[NewAccount]) -> Result<Json, String> {
    let file = assembled_with(&[("a", &gentx(3))], accounts, &[]).map_err(|error| error.to_string())?.file;
    Ok(Json::parse(file.as_bytes()).unwrap())
}

/// Genesis time in Unix seconds.
const GENESIS_TIME: i64 = 1_767_323_045;

#[test]
fn accounts_and_vesting_match_seid_format() {
    let json = assemble_with(&[
        account(20, "5usei,7uatom", None),
        account(21, "5usei", Some(("4usei", GENESIS_TIME + 1, false))),
        account(22, "5usei", Some(("5usei", GENESIS_TIME + 100, true))),
    ])
    .unwrap();
    let accounts = json.at(&["app_state", "auth", "accounts"]).unwrap().as_array().unwrap();
    let address = |number| account_key(number).address().to_bech32(Prefix::Account);
    assert_eq!(accounts.len(), 4);
    assert_eq!(
        accounts[1].compact(),
        format!(
            r#"{{"@type":"/cosmos.auth.v1beta1.BaseAccount","address":"{}","pub_key":null,"account_number":"0","sequence":"0"}}"#,
            address(20)
        )
    );
    assert_eq!(
        accounts[2].compact(),
        format!(
            r#"{{"@type":"/cosmos.vesting.v1beta1.ContinuousVestingAccount","base_vesting_account":{{"base_account":{{"address":"{}","pub_key":null,"account_number":"0","sequence":"0"}},"original_vesting":[{{"denom":"usei","amount":"4"}}],"delegated_free":[],"delegated_vesting":[],"end_time":"{}","admin":"","cancelled_time":"0"}},"start_time":"{GENESIS_TIME}"}}"#,
            address(21),
            GENESIS_TIME + 1
        )
    );
    let delayed = accounts[3].compact();
    assert!(delayed.starts_with(r#"{"@type":"/cosmos.vesting.v1beta1.DelayedVestingAccount""#), "{delayed}");
    assert!(!delayed.contains("start_time"), "{delayed}");
    let balances = json.at(&["app_state", "bank", "balances"]).unwrap().as_array().unwrap();
    let order: Vec<&str> =
        balances.iter().map(|one| one.at(&["address"]).unwrap().as_text().unwrap()).collect();
    let mut by_bytes: Vec<_> = [3, 20, 21, 22].map(|number| account_key(number).address()).into();
    by_bytes.sort();
    assert_eq!(order, by_bytes.iter().map(|one| one.to_bech32(Prefix::Account)).collect::<Vec<_>>());
    let coins =
        balances.iter().find(|one| one.at(&["address"]).unwrap().as_text() == Some(&address(20))).unwrap();
    assert_eq!(
        coins.at(&["coins"]).unwrap().compact(),
        r#"[{"denom":"uatom","amount":"7"},{"denom":"usei","amount":"5"}]"#
    );
}

#[test]
fn invalid_accounts_are_rejected() {
    let error = assemble_with(&[account(3, "5usei", None)]).unwrap_err();
    assert!(
        error.ends_with("already exists; list each account once, and do not list validator accounts"),
        "{error}"
    );
    let error = assemble_with(&[account(20, "5usei", None), account(20, "5usei", None)]).unwrap_err();
    assert!(
        error.ends_with("already exists; list each account once, and do not list validator accounts"),
        "{error}"
    );
    for (account, why) in [
        (account(20, "", None), "balance is empty"),
        (account(20, "0.5usei", None), "balance is empty"),
        (account(20, "five", None), "invalid amount"),
        (account(20, "5usei", Some(("6usei", GENESIS_TIME + 1, false))), "not exceed balance"),
        (account(20, "5usei", Some(("0.9usei", GENESIS_TIME + 1, false))), "must be positive"),
        (account(20, "5usei", Some(("1uatom", GENESIS_TIME + 1, false))), "not exceed balance"),
        (account(20, "5usei", Some(("5usei", GENESIS_TIME, true))), "after the genesis time"),
    ] {
        let error = assemble_with(&[account]).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let foreign = NewAccount { address: "cosmos1x".into(), balance: "1usei".into(), vesting: None };
    assert!(assemble_with(&[foreign]).unwrap_err().contains("invalid address"));
}

#[test]
fn overrides_replace_values_by_path() {
    let overridden = |path: &str, value: &str| {
        let file = assembled_with(&[("a", &gentx(3))], &[], &[(path, value)])
            .map_err(|error| error.to_string())?
            .file;
        Ok::<_, String>(Json::parse(file.as_bytes()).unwrap())
    };
    let json = overridden("gov.voting_params.voting_period", "\"60s\"").unwrap();
    assert_eq!(
        json.at(&["app_state", "gov", "voting_params"]).unwrap().compact(),
        r#"{"voting_period":"60s","expedited_voting_period":"86400s"}"#
    );
    let json = overridden("gov.new.deep", "{\"z\":1,\"a\":1e400}").unwrap();
    assert_eq!(json.at(&["app_state", "gov", "new"]).unwrap().compact(), r#"{"deep":{"z":1,"a":1e400}}"#);
    for (path, value, why) in [
        ("gov", "1", "expected <module>.<field>"),
        ("", "1", "expected <module>.<field>"),
        ("gov..x", "1", "expected <module>.<field>"),
        ("gov.x.", "1", "expected <module>.<field>"),
        ("nothing.x", "1", "has no module \"nothing\""),
        ("gov.starting_proposal_id.x", "1", "\"starting_proposal_id\" is not an object"),
        ("gov.deposits.x", "1", "\"deposits\" is not an object"),
        ("gov.x", "", "invalid value: not JSON"),
        ("gov.x", "{", "invalid value: not JSON"),
    ] {
        let error = overridden(path, value).unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    }
}

#[test]
fn add_account_is_idempotent() {
    let mut genesis: Genesis = crate::ceremony::base();
    let key = account_key(3);
    let balance = chain::coin::Coins::parse("7usei").unwrap();
    for _ in 0..2 {
        genesis.add_account(key.address(), &balance).unwrap();
        genesis.associate(key.address(), &key.evm_address()).unwrap();
    }
    let json = Json::parse(genesis.file().as_bytes()).unwrap();
    for path in [["auth", "accounts"], ["bank", "balances"], ["evm", "address_associations"]] {
        let list = json.at(&["app_state"]).unwrap().at(&path).unwrap().as_array().unwrap();
        assert_eq!(list.len(), 1, "{path:?}");
    }
    let again = Genesis::parse(genesis.file().as_bytes()).unwrap();
    assert_eq!(again.file(), genesis.file());
}
