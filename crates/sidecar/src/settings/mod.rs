//! What the sidecar is told at its start. Everything is checked before anything is begun.

mod args;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use runtime::setting;
use runtime::settings::{Check, Problems, text};
use runtime::telemetry::Format;

pub use self::args::Args;

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authn {
    /// Anybody who reaches it.
    Unauthenticated,
    /// Only a proxy on the same host, which names the caller in a header.
    TrustedHeader,
}

impl Authn {
    /// A word that is nearly one of them must not open the API.
    pub fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "unauthenticated" => Ok(Self::Unauthenticated),
            "trusted-header" => Ok(Self::TrustedHeader),
            _ => Err(format!("{text:?} is no mode: use unauthenticated or trusted-header")),
        }
    }
}

/// Where objects are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Its name, or `file:///FOLDER`.
    pub name: String,
    /// Its region.
    pub region: String,
}

/// What the sidecar was told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's home.
    pub home: PathBuf,
    /// The chain.
    pub chain_id: String,
    /// Genesis files.
    pub genesis: Bucket,
    /// Snapshots.
    pub snapshots: Bucket,
    /// The node's RPC.
    pub node_rpc: String,
    /// The port of the API.
    pub port: u16,
    /// Who may call.
    pub authn: Authn,
    /// Time between two uploads of snapshots.
    pub snapshot_upload_interval: Duration,
    /// How long one may take.
    pub snapshot_upload_timeout: Duration,
    /// How many bytes an archive may unpack to.
    pub snapshot_max_bytes: u64,
    /// How many tasks may be under way.
    pub max_tasks: u32,
    /// How many may work at once.
    pub max_working_tasks: usize,
    /// How long tasks are kept after their end.
    pub keep_tasks_for: Duration,
    /// What is logged.
    pub log_level: String,
    /// How log lines look.
    pub log_format: Format,
}

/// The default of the program that we replace, which it also takes for a period that makes no sense.
const UPLOAD_EVERY: Duration = Duration::from_secs(168 * 3600);

impl Settings {
    /// The addresses to listen on: in trusted-header mode only the host's own.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        match self.authn {
            Authn::TrustedHeader => (Ipv4Addr::LOCALHOST, self.port).into(),
            Authn::Unauthenticated => (Ipv6Addr::UNSPECIFIED, self.port).into(),
        }
    }
}

impl TryFrom<Args> for Settings {
    type Error = Problems;

    fn try_from(args: Args) -> Result<Self, Problems> {
        let mut check = Check::of::<Args>("sidecar");
        let Args { node, api, tasks, process } = args;
        let any = |text: &str| Ok::<_, String>(text.to_owned());
        let settings = Self {
            // Upstream takes an empty home for the default.
            home: Some(node.home.trim()).filter(|home| !home.is_empty()).unwrap_or("/sei").into(),
            chain_id: check.required(setting!(node.chain_id), chain),
            genesis: Bucket {
                name: check.required(setting!(node.genesis_bucket), any),
                region: check.required(setting!(node.genesis_region), any),
            },
            snapshots: Bucket {
                name: check.required(setting!(node.snapshot_bucket), any),
                region: check.required(setting!(node.snapshot_region), any),
            },
            node_rpc: check.read(setting!(node.node_rpc), rpc).unwrap_or_default(),
            port: check.read(setting!(api.port), port).unwrap_or_default(),
            authn: match Authn::read(&api.authn_mode) {
                Ok(authn) => authn,
                Err(why) => {
                    check.say("authn_mode", why);
                    Authn::TrustedHeader
                }
            },
            snapshot_upload_interval: check
                .read(setting!(tasks.snapshot_upload_interval), interval)
                .unwrap_or(UPLOAD_EVERY),
            snapshot_upload_timeout: check
                .read(setting!(tasks.snapshot_upload_timeout), text::duration)
                .unwrap_or_default(),
            snapshot_max_bytes: check.read(setting!(tasks.snapshot_max_gib), gib).unwrap_or_default(),
            max_tasks: check.read(setting!(tasks.max_tasks), text::count).unwrap_or_default() as u32,
            max_working_tasks: check.read(setting!(tasks.max_working_tasks), text::count).unwrap_or_default(),
            keep_tasks_for: check.read(setting!(tasks.keep_tasks_for), text::duration).unwrap_or_default(),
            log_level: process.log_level.clone(),
            log_format: check.read(setting!(process.log_format), str::parse).unwrap_or_default(),
        };
        check.optional(setting!(tasks.keyring_backend), |text| match text {
            "test" | "file" | "os" => Ok(()),
            _ => Err(format!("{text:?} is no keyring: use test, file or os, or leave it out")),
        });
        check.end().map(|()| settings)
    }
}

/// The chain's name is part of object keys and labels.
fn chain(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.len() <= 64 && text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no name of a chain: use letters, digits, -, _ and ., like pacific-1"))
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("{text:?} is no port: use one like 7777"))
}

fn rpc(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("{text:?} is no URL: use one like http://localhost:26657"))
}

fn gib(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=1 << 20).contains(number));
    number
        .map(|number| number << 30)
        .ok_or_else(|| format!("{text:?} is no number of GiB: use one like 4096"))
}

/// As upstream: nothing, zero and less are the default.
fn interval(text: &str) -> Result<Duration, String> {
    let is_none =
        text == "0" || text.starts_with('-') || text.trim_start_matches('0').starts_with(['s', 'm', 'h']);
    if is_none { Ok(UPLOAD_EVERY) } else { text::duration(text) }
}

#[cfg(test)]
mod tests {
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
            settings(&["--authn-mode=trusted_header", "--port=x", "--snapshot-upload-timeout=soon"])
                .unwrap_err();
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
        assert_eq!(interval("1h"), Ok(Duration::from_secs(3600)));
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
        page.push_str(&testbed::generated::settings(&command()));
        testbed::generated::check("docs/sidecar-settings.md", &page)
    }
}
