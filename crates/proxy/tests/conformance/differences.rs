//! Tests of the list of differences and of the evaluation that uses it.

use testbed::{Context, TestResult};

use crate::IDS;
use crate::checks::{Check, DIFFERENCES, Difference, Implementation, evaluate};

/// Nothing would check the difference of a scenario that no longer exists.
pub async fn name_existing_scenarios(_: Context) -> TestResult {
    let differences = DIFFERENCES.as_ref().map_err(|error| format!("differences.yaml: {error}"))?;
    let ids = IDS.get().map(Vec::as_slice).unwrap_or_default();
    for (index, difference) in differences.iter().enumerate() {
        let Difference { scenario, check, .. } = difference;
        assert!(ids.contains(&scenario.as_str()), "{scenario}: unknown scenario");
        assert!(difference.ours != difference.upstream, "{scenario}, {check}: both values are equal");
        assert!(!difference.reason.trim().is_empty(), "{scenario}, {check}: missing reason");
        let is_same = |other: &Difference| other.scenario == *scenario && other.check == *check;
        assert!(!differences[..index].iter().any(is_same), "{scenario}, {check}: listed twice");
    }
    Ok(())
}

/// Fails on a difference that is not listed, and on a listed difference that does not exist.
pub async fn unlisted_or_stale_differences_fail(_: Context) -> TestResult {
    let check = |expected: &str, actual: &str| Check {
        name: "c".into(),
        expected: expected.into(),
        actual: actual.into(),
    };
    let differences = [Difference {
        scenario: "X-01".into(),
        check: "c".into(),
        upstream: "200".into(),
        ours: "400".into(),
        reason: "safer".into(),
    }];
    let failures = |implementation, scenario, checks: &[Check]| {
        evaluate(implementation, scenario, checks, &differences).len()
    };
    let (ours, peer) = (Implementation::Ours, Implementation::Peer);
    assert_eq!(failures(ours, "X-01", &[check("400", "400")]), 0, "ours returns the expected value");
    assert_eq!(failures(ours, "X-01", &[check("400", "200")]), 1, "ours returns the peer's value");
    assert_eq!(failures(peer, "X-01", &[check("400", "200")]), 0, "the peer differs as listed");
    assert_eq!(failures(peer, "X-01", &[check("400", "500")]), 1, "the peer differs in another way");
    assert_eq!(failures(peer, "X-01", &[check("400", "400")]), 1, "the peer no longer differs");
    assert_eq!(
        failures(ours, "X-01", &[check("401", "401")]),
        1,
        "the test expects another value than listed"
    );
    assert_eq!(failures(peer, "X-02", &[check("400", "200")]), 1, "the difference is not listed");
    assert_eq!(failures(peer, "X-01", &[]), 2, "no check at all, and none for the listed difference");
    Ok(())
}
