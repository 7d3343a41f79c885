//! What the API server has logged of reporters.

use std::collections::BTreeMap;
use std::time::Duration;

use testbed::Error;
use testbed::cluster::control_plane::{AuditReader, AuditedRequest};

use crate::world::{USER, World};

/// Writes of a time.
#[derive(Debug, Default)]
pub struct Writes {
    /// Those that were stored.
    pub stored: usize,
    /// Those that were not, by the answer's code.
    pub failed: BTreeMap<u16, usize>,
    /// How long each took, from its arrival to its answer.
    pub times: Vec<Duration>,
}

impl Writes {
    /// How many failed.
    pub fn lost(&self) -> usize {
        self.failed.values().sum()
    }

    fn count(&mut self, request: &AuditedRequest) {
        self.times.extend(Duration::try_from(request.answered.0.duration_since(request.received.0)));
        if request.code < 300 {
            self.stored += 1;
        } else {
            *self.failed.entry(request.code).or_default() += 1;
        }
    }
}

/// Reads the log as it grows.
pub struct Log(AuditReader);

impl Log {
    /// From the beginning.
    pub fn of(world: &World) -> Self {
        Self(world.plane.audit().reader())
    }

    /// Writes since the last call.
    pub fn news(&mut self) -> Result<Writes, Error> {
        let mut writes = Writes::default();
        for request in self.0.news()? {
            if request.user == USER && request.is_write() {
                writes.count(&request);
            }
        }
        Ok(writes)
    }
}
