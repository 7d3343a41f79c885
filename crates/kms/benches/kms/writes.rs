//! Writes of reporters in the API server's audit log.

use std::collections::BTreeMap;
use std::time::Duration;

use testbed::Error;
use testbed::cluster::control_plane::{AuditReader, AuditedRequest};

use crate::environment::{Environment, USER};

/// Writes of a period.
#[derive(Debug, Default)]
pub struct Writes {
    /// Number of successful writes.
    pub stored: usize,
    /// Number of failed writes by status code.
    pub failed: BTreeMap<u16, usize>,
    /// Latency of each write.
    pub times: Vec<Duration>,
}

impl Writes {
    /// Returns the number of failed writes.
    pub fn lost(&self) -> usize {
        self.failed.values().sum()
    }

    fn count(&mut self, request: &AuditedRequest) {
        self.times.extend(Duration::try_from(request.responded.0.duration_since(request.received.0)));
        if request.code < 300 {
            self.stored += 1;
        } else {
            *self.failed.entry(request.code).or_default() += 1;
        }
    }
}

/// Follows the audit log.
pub struct AuditLog(AuditReader);

impl AuditLog {
    /// Starts at the beginning of the log.
    pub fn new(environment: &Environment) -> Self {
        Self(environment.plane.audit().reader())
    }

    /// Returns the writes since the last call.
    pub fn new_writes(&mut self) -> Result<Writes, Error> {
        let mut writes = Writes::default();
        for request in self.0.read_new()? {
            if request.user == USER && request.is_write() {
                writes.count(&request);
            }
        }
        Ok(writes)
    }
}
