//! Counts writes of the operator in the audit log.

use std::time::Duration;

use testbed::Error;
use testbed::cluster::control_plane::AuditReader;
use testbed::demo::platform::OPERATOR_USER;
use testbed::demo::sei_nodes::SeiNodes;

/// Writes of the operator to the API server, other than those to its Lease.
pub struct StatusWrites(AuditReader);

impl StatusWrites {
    /// Starts to count.
    pub fn record(nodes: &SeiNodes<'_>) -> Result<Self, Error> {
        Ok(Self(nodes.plane().audit().reader_from_now()?))
    }

    /// Waits and returns the number of writes.
    pub async fn throughout(mut self, time: Duration) -> Result<usize, Error> {
        tokio::time::sleep(time).await;
        let requests = self.0.read_new()?;
        // Renewals of the Lease show that the log is complete and the operator active.
        let ours = || requests.iter().filter(|one| one.user == OPERATOR_USER && one.is_write());
        if ours().all(|one| one.resource != "leases") {
            return Err(Error::Other(format!("no request of {OPERATOR_USER} in {time:?}")));
        }
        Ok(ours().filter(|one| one.resource != "leases").count())
    }
}
