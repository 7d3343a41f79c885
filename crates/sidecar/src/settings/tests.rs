use clap::{Args as _, FromArgMatches as _};

use super::*;

fn command() -> clap::Command {
    Args::augment_args(clap::Command::new("sidecar"))
}

fn settings(flags: &[&str]) -> Result<Settings, InvalidSettings> {
    let matches = command().get_matches_from(std::iter::once("sidecar").chain(flags.iter().copied()));
    Settings::try_from(Args::from_arg_matches(&matches).unwrap())
}

const REQUIRED: [&str; 5] = [
    "--chain-id=arctic-1",
    "--genesis-bucket=g",
    "--genesis-region=eu",
    "--snapshot-bucket=s",
    "--snapshot-region=eu",
];

#[test]
fn clap_definitions_are_valid() {
    command().debug_assert();
}

#[test]
fn all_invalid_settings_are_reported_together() {
    let problems =
        settings(&["--authn-mode=trusted_header", "--port=x", "--snapshot-upload-timeout=soon"]).unwrap_err();
    for flag in [
        "--chain-id",
        "--genesis-bucket",
        "--genesis-region",
        "--snapshot-bucket",
        "--snapshot-region",
        "--authn-mode",
        "--port",
        "--snapshot-upload-timeout",
    ] {
        assert!(problems.lines().iter().any(|line| line.starts_with(flag)), "{flag}: {problems}");
    }
}

#[test]
fn authn_mode_is_parsed_strictly() {
    for text in ["unauthenticated", " Unauthenticated "] {
        assert_eq!(AuthnMode::parse(text), Ok(AuthnMode::Unauthenticated), "{text:?}");
    }
    for text in ["", "  ", "trusted-header", " Trusted-Header\n"] {
        assert_eq!(AuthnMode::parse(text), Ok(AuthnMode::TrustedHeader), "{text:?}");
    }
    for text in ["trusted_header", "trustedheader", "mtls", "trusted-header,unauthenticated"] {
        assert!(AuthnMode::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn default_is_authenticated_on_loopback() {
    let default = settings(&REQUIRED).unwrap();
    assert_eq!(
        (default.authn, &default.listen),
        (AuthnMode::TrustedHeader, &Listen::Tcp(Listen::loopback(7777)))
    );
    let with = |flags: &[&str]| settings(&[&REQUIRED[..], flags].concat());
    let open = with(&["--authn-mode=unauthenticated"]).unwrap();
    assert!(!open.listen.is_remote(), "{:?}", open.listen);
    for mode in ["trusted-header", "unauthenticated"] {
        for (address, is_valid) in [
            ("tcp:0.0.0.0:7777", false),
            ("tcp:10.0.0.1:7777", false),
            ("tcp:[::]:7777", false),
            ("tcp:127.0.0.2:7777", true),
            ("unix:/run/api.sock", true),
        ] {
            let read = with(&[&format!("--listen={address}"), &format!("--authn-mode={mode}")]);
            assert_eq!(read.is_ok(), is_valid, "{mode} {address}");
            let problem = read.err().map(|problems| problems.lines().join("\n")).unwrap_or_default();
            assert!(is_valid || problem.contains("run a proxy"), "{mode} {address}: {problem}");
        }
    }
    assert!(with(&["--seid-control-dir=control"]).is_err());
    assert!(with(&["--result-export-bucket=b"]).is_err(), "the region is missing");
    let export = with(&["--result-export-bucket=b", "--result-export-region=r"]).unwrap().result_export;
    assert!(export.is_some_and(|export| export.prefix.is_empty()));
}

#[test]
fn defaults_and_zero_intervals_match_upstream() {
    let read = settings(&REQUIRED).unwrap();
    assert_eq!((read.port, read.home.to_str()), (7777, Some("/sei")));
    assert_eq!(read.snapshot_upload_interval, DEFAULT_UPLOAD_INTERVAL);
    for text in ["0", "0s", "-5m", "00h"] {
        assert_eq!(parse_interval(text), Ok(DEFAULT_UPLOAD_INTERVAL), "{text}");
    }
    for (text, seconds) in [("1h", 3600), ("1.5h", 5400), ("0h90s", 90)] {
        assert_eq!(parse_interval(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    assert!(parse_interval("often").is_err());
    assert!(settings(&[&REQUIRED[..], &["--keyring-backend=file"]].concat()).is_ok());
    assert!(settings(&[&REQUIRED[..], &["--keyring-backend=vault"]].concat()).is_err());
}

#[test]
fn keyring_passphrase_is_never_read() {
    let command = command();
    let is_passphrase = |text: &str| text.to_ascii_lowercase().contains("passphrase");
    for arg in command.get_arguments() {
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        assert!(!is_passphrase(arg.get_id().as_str()) && !is_passphrase(&variable), "{}", arg.get_id());
    }
}

#[test]
fn settings_reference_is_up_to_date() -> testbed::Result<()> {
    let mut page = String::from(
        "# Sidecar settings\n\n\
         Generated from the code; a test keeps it up to date. `outrigger sidecar` (also `seictl serve`) validates all settings before\n\
         it does anything and reports every invalid one, with exit code 2. S3 credentials come from the variables that every AWS\n\
         client reads, or from the pod's identity; `AWS_ENDPOINT_URL` selects another server.\n",
    );
    page.push_str(&testbed::harness::generated::flag_tables(&command()));
    testbed::harness::generated::check("docs/reference/sidecar-settings.md", &page)
}
