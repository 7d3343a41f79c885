//! The checks of a scenario and their evaluation. Both implementations must pass the same checks, except those for which
//! `differences.yaml` lists the result of the peer and the reason.

use std::sync::{LazyLock, Mutex};

use runtime::sync::lock;
use serde::Deserialize;

/// One check that the peer does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The id of the scenario.
    pub scenario: String,
    /// The name of the check within the scenario.
    pub check: String,
    /// The peer's result.
    pub upstream: String,
    /// The result of Outrigger's proxy.
    pub ours: String,
    /// Why they differ.
    pub reason: String,
}

/// All known differences.
pub static DIFFERENCES: LazyLock<Result<Vec<Difference>, String>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("differences.yaml")).map_err(|error| error.to_string())
});

/// The implementation under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Outrigger's proxy.
    Ours,
    /// kube-rbac-proxy, at the path in `OUTRIGGER_PEER_PROXY`.
    Peer,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub expected: String,
    pub actual: String,
}

/// The checks of one scenario, in order.
#[derive(Debug, Default)]
pub struct Checks(Mutex<Vec<Check>>);

impl Checks {
    pub fn add(&self, name: &str, expected: impl ToString, actual: impl ToString) {
        let check = Check { name: name.into(), expected: expected.to_string(), actual: actual.to_string() };
        lock(&self.0).push(check);
    }

    pub fn all(&self) -> Vec<Check> {
        lock(&self.0).clone()
    }
}

/// Returns the failures of a scenario, one line each.
pub fn evaluate(
    implementation: Implementation,
    scenario: &str,
    checks: &[Check],
    differences: &[Difference],
) -> Vec<String> {
    let mut failures = Vec::new();
    if checks.is_empty() {
        failures.push(format!("{scenario}: no checks"));
    }
    let differences: Vec<&Difference> =
        differences.iter().filter(|difference| difference.scenario == scenario).collect();
    for Check { name, expected, actual } in checks {
        if checks.iter().filter(|other| other.name == *name).count() > 1 {
            failures.push(format!("{scenario}, {name}: duplicate check name"));
        }
        let difference = differences.iter().find(|difference| difference.check == *name);
        if let Some(difference) = difference.filter(|difference| difference.ours != *expected) {
            let listed = &difference.ours;
            failures.push(format!(
                "{scenario}, {name}: the test expects {expected:?}, differences.yaml lists {listed:?}"
            ));
        }
        match (implementation, difference) {
            (Implementation::Peer, Some(difference))
                if difference.upstream == *actual && actual != expected => {}
            (Implementation::Peer, Some(_)) if actual == expected => {
                failures.push(format!(
                    "{scenario}, {name}: the peer does not differ; remove the entry from differences.yaml"
                ));
            }
            (Implementation::Peer, Some(difference)) => {
                let listed = &difference.upstream;
                failures.push(format!(
                    "{scenario}, {name}: the peer returned {actual:?}, differences.yaml lists {listed:?}"
                ));
            }
            (Implementation::Peer, None) | (Implementation::Ours, _) if actual != expected => {
                failures.push(format!("{scenario}, {name}: expected {expected:?}, got {actual:?}"));
            }
            _ => {}
        }
    }
    for difference in differences {
        if !checks.iter().any(|check| check.name == difference.check) {
            failures.push(format!(
                "{scenario}, {}: listed in differences.yaml, but the scenario has no such check",
                difference.check
            ));
        }
    }
    failures
}
