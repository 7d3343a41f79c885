//! The list of differences, and the judge who reads it.

use testbed::{Context, TestResult};

use crate::IDS;
use crate::verdict::{Check, DIFFERENCES, Difference, Target, judge as judged};

/// A difference of a scenario that is gone would never be looked at again.
pub async fn name_scenarios(_: Context) -> TestResult {
    let known = DIFFERENCES.as_ref().map_err(|error| format!("differences.yaml: {error}"))?;
    let ids = IDS.get().map(Vec::as_slice).unwrap_or_default();
    for (number, one) in known.iter().enumerate() {
        assert!(ids.contains(&one.scenario.as_str()), "{} is no scenario", one.scenario);
        assert!(one.ours != one.upstream, "{}, {}: that is no difference", one.scenario, one.check);
        assert!(!one.reason.trim().is_empty(), "{}, {}: no reason", one.scenario, one.check);
        let same = |other: &Difference| other.scenario == one.scenario && other.check == one.check;
        assert!(!known[..number].iter().any(same), "{}, {}: written twice", one.scenario, one.check);
    }
    Ok(())
}

/// The judge lets nothing pass that is not written down, and nothing stay written down that is not so.
pub async fn are_judged(_: Context) -> TestResult {
    let check =
        |wanted: &str, seen: &str| Check { name: "c".into(), wanted: wanted.into(), seen: seen.into() };
    let known = [Difference {
        scenario: "X-01".into(),
        check: "c".into(),
        upstream: "200".into(),
        ours: "400".into(),
        reason: "safer".into(),
    }];
    let judge = |target, scenario, checks: &[Check]| judged(target, scenario, checks, &known).len();
    assert_eq!(judge(Target::Ours, "X-01", &[check("400", "400")]), 0, "ours does as it must");
    assert_eq!(judge(Target::Ours, "X-01", &[check("400", "200")]), 1, "ours does as the peer");
    assert_eq!(judge(Target::Peer, "X-01", &[check("400", "200")]), 0, "the peer differs as is known");
    assert_eq!(judge(Target::Peer, "X-01", &[check("400", "500")]), 1, "the peer differs in another way");
    assert_eq!(judge(Target::Peer, "X-01", &[check("400", "400")]), 1, "the peer does not differ any more");
    assert_eq!(judge(Target::Ours, "X-01", &[check("401", "401")]), 1, "ours is another than is written");
    assert_eq!(judge(Target::Peer, "X-02", &[check("400", "200")]), 1, "a difference that is not known");
    assert_eq!(judge(Target::Peer, "X-01", &[]), 2, "nothing was checked, and the difference not met");
    Ok(())
}
