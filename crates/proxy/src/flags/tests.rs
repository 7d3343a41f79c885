use std::ffi::OsString;

use clap::{Command, FromArgMatches as _};

use super::*;

fn command() -> Command {
    <Args as clap::Args>::augment_args(Command::new("proxy"))
}

fn parsed(args: &[&str]) -> Result<Args, clap::Error> {
    let args = std::iter::once("proxy").chain(args.iter().copied()).map(OsString::from);
    Args::from_arg_matches(&command().try_get_matches_from(normalize_args(args))?)
}

#[test]
fn command_definition_is_valid() {
    command().debug_assert();
}

#[test]
fn underscores_in_flag_names_become_hyphens() {
    let args = parsed(&["--insecure_listen_address=a_b:1", "--upstream_ca_file", "/x_y/--z_z"]).unwrap();
    assert_eq!(args.listen.insecure_listen_address, "a_b:1");
    assert_eq!(args.listen.upstream_ca_file, "/x_y/--z_z");
}

#[test]
fn values_may_start_with_hyphens() {
    let args = parsed(&["--auth-header-groups-field-separator", "--", "--config-file=-"]).unwrap();
    assert_eq!(args.authentication.auth_header_groups_field_separator, "--");
    assert_eq!(args.listen.config_file, "-");
}

#[test]
fn booleans_take_an_optional_value() {
    let args = parsed(&["--upstream-force-h2c", "--auth-header-fields-enabled=false", "--logtostderr=true"]);
    let args = args.unwrap();
    assert_eq!(args.listen.upstream_force_h2c, "true");
    assert_eq!(args.authentication.auth_header_fields_enabled, "false");
    assert_eq!(args.hidden.deprecated.passed().len(), 1);
}

#[test]
fn positional_arguments_are_rejected_unless_empty() {
    assert!(parsed(&["stray"]).is_err());
    assert!(parsed(&["--http2-disable", "true"]).is_err(), "a boolean takes no separate value");
    assert!(parsed(&["", "--http2-disable", ""]).is_ok());
}

#[test]
fn verbosity_is_accepted_in_every_form() {
    for args in [&["-v", "4"][..], &["-v=4"], &["--v=4"], &["--v", "4"], &["-v4"]] {
        assert_eq!(parsed(args).unwrap().hidden.verbosity, "4", "{args:?}");
    }
}

#[test]
fn lists_are_split_at_commas_outside_quotes() {
    let list = |given: &[&str]| parse_list(&given.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
    let assert_list = |given: &[&str], values: &[&str]| assert_eq!(list(given).unwrap(), values, "{given:?}");
    assert_list(&["/a,/b", "/c"], &["/a", "/b", "/c"]);
    assert_list(&["\"/a,b\",/c"], &["/a,b", "/c"]);
    assert_list(&["\"say \"\"no\"\"\""], &["say \"no\""]);
    assert_list(&[""], &[]);
    assert_list(&["/a,"], &["/a", ""]);
    assert_eq!(list(&["\"/a"]), None);
    assert_eq!(list(&["/a\"b"]), None);
}

#[test]
fn binary_name_selects_the_proxy() {
    assert!(invoked_as_kube_rbac_proxy(&"/usr/local/bin/kube-rbac-proxy".into()));
    assert!(!invoked_as_kube_rbac_proxy(&"/usr/bin/outrigger".into()));
}
