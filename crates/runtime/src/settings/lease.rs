//! Settings of leader election.

use super::{Validator, parse};
use crate::lease;
use crate::setting;

/// Flags of leader election.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Enable leader election: act only while holding the Lease
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
    /// How long other replicas wait after the last renewal before they take over the Lease
    #[arg(
        long,
        env = "OUTRIGGER_LEADER_ELECT_LEASE_DURATION",
        value_name = "DURATION",
        default_value = "60s"
    )]
    leader_elect_lease_duration: String,
    /// How long after the last renewal the leader continues to write
    #[arg(
        long,
        env = "OUTRIGGER_LEADER_ELECT_RENEW_DEADLINE",
        value_name = "DURATION",
        default_value = "45s"
    )]
    leader_elect_renew_deadline: String,
    /// Time between two attempts to acquire or renew the Lease
    #[arg(long, env = "OUTRIGGER_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "5s")]
    leader_elect_retry_period: String,
}

impl LeaseArgs {
    /// Returns the configuration of the Lease `name`; `None` if leader election is disabled. The timing is validated either way.
    /// `namespace` is called only if leader election is enabled, and must report a problem if it returns `None`.
    pub fn resolve(
        &self,
        validator: &mut Validator,
        namespace: impl FnOnce(&mut Validator) -> Option<String>,
        name: &str,
        identity: &str,
    ) -> Option<lease::Config> {
        let elect = validator.read(setting!(self.leader_elect), parse::boolean);
        let duration = validator.read(setting!(self.leader_elect_lease_duration), parse::duration);
        let renew_deadline = validator.read(setting!(self.leader_elect_renew_deadline), parse::duration);
        let retry_period = validator.read(setting!(self.leader_elect_retry_period), parse::duration);
        let namespace = if elect == Some(false) { None } else { namespace(validator) };
        let config = lease::Config {
            duration: duration?,
            renew_deadline: renew_deadline?,
            retry_period: retry_period?,
            ..lease::Config::new(namespace.as_deref().unwrap_or_default(), name, identity)
        };
        if let Err(error) = config.check() {
            validator.add_problem("leader_elect_lease_duration", error);
        }
        namespace.map(|_| config)
    }
}
