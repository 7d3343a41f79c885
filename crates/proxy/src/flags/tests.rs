use std::ffi::OsString;

use clap::{Command, FromArgMatches as _};

use super::*;

fn command() -> Command {
    <Args as clap::Args>::augment_args(Command::new("proxy"))
}

fn parsed(words: &[&str]) -> Result<Args, clap::Error> {
    let words = std::iter::once("proxy").chain(words.iter().copied()).map(OsString::from);
    Args::from_arg_matches(&command().try_get_matches_from(normalized(words))?)
}

#[test]
fn the_arguments_are_sound() {
    command().debug_assert();
}

/// CLI-02.
#[test]
fn underscores_are_hyphens_in_names_and_stay_in_values() {
    let args = parsed(&["--insecure_listen_address=a_b:1", "--upstream_ca_file", "/x_y/--z_z"]).unwrap();
    assert_eq!(args.listen.insecure_listen_address, "a_b:1");
    assert_eq!(args.listen.upstream_ca_file, "/x_y/--z_z");
}

#[test]
fn values_may_begin_with_hyphens() {
    let args = parsed(&["--auth-header-groups-field-separator", "--", "--config-file=-"]).unwrap();
    assert_eq!(args.authentication.auth_header_groups_field_separator, "--");
    assert_eq!(args.listen.config_file, "-");
}

#[test]
fn booleans_stand_alone_or_with_a_value_behind_a_sign() {
    let args = parsed(&["--upstream-force-h2c", "--auth-header-fields-enabled=false", "--logtostderr=true"]);
    let args = args.unwrap();
    assert_eq!(args.listen.upstream_force_h2c, "true");
    assert_eq!(args.authentication.auth_header_fields_enabled, "false");
    assert_eq!(args.hidden.dead.given().len(), 1);
}

/// CLI-10.
#[test]
fn words_beside_flags_are_refused_and_empty_ones_are_not() {
    assert!(parsed(&["stray"]).is_err());
    assert!(parsed(&["--http2-disable", "true"]).is_err(), "a boolean takes no second word");
    assert!(parsed(&["", "--http2-disable", ""]).is_ok());
}

#[test]
fn verbosity_is_taken_in_every_form() {
    for words in [&["-v", "4"][..], &["-v=4"], &["--v=4"], &["--v", "4"], &["-v4"]] {
        assert_eq!(parsed(words).unwrap().hidden.verbosity, "4", "{words:?}");
    }
}

/// CLI-03.
#[test]
fn lists_are_split_by_commas_protected_by_quotes_and_added_up() {
    let lists = |given: &[&str]| split_all(&given.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
    let is = |given: &[&str], values: &[&str]| assert_eq!(lists(given).unwrap(), values, "{given:?}");
    is(&["/a,/b", "/c"], &["/a", "/b", "/c"]);
    is(&["\"/a,b\",/c"], &["/a,b", "/c"]);
    is(&["\"say \"\"no\"\"\""], &["say \"no\""]);
    is(&[""], &[]);
    is(&["/a,"], &["/a", ""]);
    assert_eq!(lists(&["\"/a"]), None);
    assert_eq!(lists(&["/a\"b"]), None);
}

#[test]
fn the_name_of_the_binary_makes_it_the_proxy() {
    assert!(called_as_upstream(&"/usr/local/bin/kube-rbac-proxy".into()));
    assert!(!called_as_upstream(&"/usr/bin/outrigger".into()));
}
