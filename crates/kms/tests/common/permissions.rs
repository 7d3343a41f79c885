//! Compares generated RBAC with the requests in the audit log.

use std::time::Duration;

use kms::manifests;
use serde_json::Value;
use testbed::harness::{rbac, wait};
use testbed::{ControlPlane, Error};

/// Waits until a user has used every permission of generated files but `unused`, and asserts that no request was forbidden.
pub async fn until_all_used(
    plane: &ControlPlane,
    files: &[&str],
    user: &str,
    unused: &[String],
    timeout: Duration,
) -> Result<(), Error> {
    let generated = manifests::files().into_iter().filter(|(name, _)| files.contains(name));
    let documents: Vec<Value> = generated.flat_map(|(_, all)| all).collect();
    wait::until("the use of every permission", timeout, || async {
        let requests = plane.audit().requests(|one| one.user == user).map_err(|error| error.to_string())?;
        let found = rbac::unused(&documents, &requests);
        if found == unused { Ok(()) } else { Err(format!("unused permissions: {found:#?}")) }
    })
    .await?;
    let forbidden = plane.audit().requests(|one| one.user == user && one.code == 403)?;
    assert!(forbidden.is_empty(), "{forbidden:?}");
    Ok(())
}
