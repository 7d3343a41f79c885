use clap::{Args as _, FromArgMatches as _};

use super::*;

fn command() -> clap::Command {
    Args::augment_args(clap::Command::new("sidecar"))
}

fn settings(flags: &[&str]) -> Result<Settings, Problems> {
    let matches = command().get_matches_from(std::iter::once("sidecar").chain(flags.iter().copied()));
    Settings::try_from(Args::from_arg_matches(&matches).unwrap())
}

const NEEDED: [&str; 5] = [
    "--chain-id=arctic-1",
    "--genesis-bucket=g",
    "--genesis-region=eu",
    "--snapshot-bucket=s",
    "--snapshot-region=eu",
];

#[test]
fn the_arguments_are_sound() {
    command().debug_assert();
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let problems =
        settings(&["--authn-mode=trusted_header", "--port=x", "--snapshot-upload-timeout=soon"]).unwrap_err();
    for said in [
        "--chain-id",
        "--genesis-bucket",
        "--genesis-region",
        "--snapshot-bucket",
        "--snapshot-region",
        "--authn-mode",
        "--port",
        "--snapshot-upload-timeout",
    ] {
        assert!(problems.lines().iter().any(|line| line.starts_with(said)), "{said}: {problems}");
    }
}

/// AUTH-01.
#[test]
fn a_mode_is_read_strictly() {
    for text in ["", "  ", "unauthenticated", " Unauthenticated "] {
        assert_eq!(Authn::read(text), Ok(Authn::Unauthenticated), "{text:?}");
    }
    for text in ["trusted-header", " Trusted-Header\n"] {
        assert_eq!(Authn::read(text), Ok(Authn::TrustedHeader), "{text:?}");
    }
    for text in ["trusted_header", "trustedheader", "mtls", "trusted-header,unauthenticated"] {
        assert!(Authn::read(text).is_err(), "{text:?}");
    }
}

#[test]
fn defaults_and_the_period_that_makes_no_sense_are_upstreams() {
    let read = settings(&NEEDED).unwrap();
    assert_eq!((read.port, read.home.to_str()), (7777, Some("/sei")));
    assert_eq!(read.snapshot_upload_interval, UPLOAD_EVERY);
    for text in ["0", "0s", "-5m", "00h"] {
        assert_eq!(interval(text), Ok(UPLOAD_EVERY), "{text}");
    }
    for (text, seconds) in [("1h", 3600), ("1.5h", 5400), ("0h90s", 90)] {
        assert_eq!(interval(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    assert!(interval("often").is_err());
    assert!(settings(&[&NEEDED[..], &["--keyring-backend=file"]].concat()).is_ok());
    assert!(settings(&[&NEEDED[..], &["--keyring-backend=vault"]].concat()).is_err());
}

/// S10.
#[test]
fn s10_the_passphrase_of_a_keyring_is_no_setting() {
    let command = command();
    let asks = |text: &str| text.to_ascii_lowercase().contains("passphrase");
    for arg in command.get_arguments() {
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        assert!(!asks(arg.get_id().as_str()) && !asks(&variable), "{}", arg.get_id());
    }
}

#[test]
fn the_documentation_is_what_the_code_says() -> testbed::Result<()> {
    let mut page = String::from(
        "# Settings of the sidecar\n\n\
         Generated from the code; a test compares. `outrigger sidecar` (also `seictl serve`) checks all of them before it begins\n\
         anything; what is wrong is told at once, with exit code 2. Credentials of S3 come from the variables that every AWS client\n\
         reads, or from the pod's identity; `AWS_ENDPOINT_URL` names another server.\n",
    );
    page.push_str(&testbed::harness::generated::settings(&command()));
    testbed::harness::generated::check("docs/reference/sidecar-settings.md", &page)
}
