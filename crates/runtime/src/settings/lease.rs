//! Settings of an election.

use super::{Check, text};
use crate::lease;
use crate::setting;

/// One leader among several processes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "One leader among several")]
pub struct LeaseArgs {
    /// Act only while holding the Lease
    #[arg(
        long,
        env = "OUTRIGGER_LEADER_ELECT",
        value_name = "BOOL",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true
    )]
    leader_elect: String,
    /// How long others wait after the last renewal before they take the Lease
    #[arg(
        long,
        env = "OUTRIGGER_LEADER_ELECT_LEASE_DURATION",
        value_name = "DURATION",
        default_value = "60s"
    )]
    leader_elect_lease_duration: String,
    /// How long after the last renewal the leader still writes
    #[arg(
        long,
        env = "OUTRIGGER_LEADER_ELECT_RENEW_DEADLINE",
        value_name = "DURATION",
        default_value = "45s"
    )]
    leader_elect_renew_deadline: String,
    /// Time between two looks or renewals
    #[arg(long, env = "OUTRIGGER_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "5s")]
    leader_elect_retry_period: String,
}

impl LeaseArgs {
    /// The Lease with this name that is to be held while acting; none for a process that is alone. Its times are checked in any
    /// case. The namespace is asked for only when there is an election; when there is none to be found, whoever is asked says so.
    pub fn read(
        &self,
        check: &mut Check,
        namespace: impl FnOnce(&mut Check) -> Option<String>,
        name: &str,
        identity: &str,
    ) -> Option<lease::Config> {
        let elect = check.read(setting!(self.leader_elect), text::boolean);
        let duration = check.read(setting!(self.leader_elect_lease_duration), text::duration);
        let write_for = check.read(setting!(self.leader_elect_renew_deadline), text::duration);
        let every = check.read(setting!(self.leader_elect_retry_period), text::duration);
        let namespace = if elect == Some(false) { None } else { namespace(check) };
        let config = lease::Config {
            duration: duration?,
            write_for: write_for?,
            every: every?,
            ..lease::Config::new(namespace.as_deref().unwrap_or_default(), name, identity)
        };
        if let Err(why) = config.check() {
            check.say("leader_elect_lease_duration", why);
        }
        namespace.map(|_| config)
    }
}
