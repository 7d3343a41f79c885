//! What a scenario saw, held against what it must see. The peer is held against the same, and where it differs, that is written
//! down in `differences.yaml` with what it does and why ours does not.

use std::sync::{LazyLock, Mutex, PoisonError};

use serde::Deserialize;

/// One check that the upstream program does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The scenario's id.
    pub scenario: String,
    /// The check's name within it.
    pub check: String,
    /// What the upstream program does.
    pub upstream: String,
    /// What ours does.
    pub ours: String,
    /// Why.
    pub reason: String,
}

/// Everything in which the two are known to differ.
pub static DIFFERENCES: LazyLock<Result<Vec<Difference>, String>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("differences.yaml")).map_err(|error| error.to_string())
});

/// Which program is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Ours.
    Ours,
    /// The upstream program, named by `OUTRIGGER_PEER_PROXY`.
    Peer,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub wanted: String,
    pub seen: String,
}

/// The checks of one scenario, as they were made.
#[derive(Debug, Default)]
pub struct Checks(Mutex<Vec<Check>>);

impl Checks {
    pub fn add(&self, name: &str, wanted: impl ToString, seen: impl ToString) {
        let check = Check { name: name.into(), wanted: wanted.to_string(), seen: seen.to_string() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(check);
    }

    pub fn all(&self) -> Vec<Check> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is wrong with the checks of one scenario, one line each.
pub fn judge(target: Target, scenario: &str, checks: &[Check], known: &[Difference]) -> Vec<String> {
    let mut wrong = Vec::new();
    if checks.is_empty() {
        wrong.push(format!("{scenario} checked nothing"));
    }
    let known: Vec<&Difference> = known.iter().filter(|one| one.scenario == scenario).collect();
    for Check { name, wanted, seen } in checks {
        if checks.iter().filter(|other| other.name == *name).count() > 1 {
            wrong.push(format!("{scenario}, {name}: two checks of one name"));
        }
        let difference = known.iter().find(|one| one.check == *name);
        if let Some(difference) = difference.filter(|one| one.ours != *wanted) {
            let noted = &difference.ours;
            wrong.push(format!("{scenario}, {name}: wanted is {wanted:?}, differences.yaml says {noted:?}"));
        }
        match (target, difference) {
            (Target::Peer, Some(difference)) if difference.upstream == *seen && seen != wanted => {}
            (Target::Peer, Some(_)) if seen == wanted => {
                let name = format!("{scenario}, {name}");
                wrong.push(format!("{name}: the peer does not differ: remove it from differences.yaml"));
            }
            (Target::Peer, Some(difference)) => {
                let noted = &difference.upstream;
                wrong.push(format!(
                    "{scenario}, {name}: the peer did {seen:?}, differences.yaml says {noted:?}"
                ));
            }
            (Target::Peer, None) | (Target::Ours, _) if seen != wanted => {
                wrong.push(format!("{scenario}, {name}: wanted {wanted:?}, seen {seen:?}"));
            }
            _ => {}
        }
    }
    for difference in known {
        if !checks.iter().any(|check| check.name == difference.check) {
            wrong.push(format!("{scenario}, {}: in differences.yaml, but no check", difference.check));
        }
    }
    wrong
}
