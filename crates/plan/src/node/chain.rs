//! Whether a node follows its chain. Only transitions are reported: heights change with every block.

use std::time::Duration;

use api::condition::ChainSynced;
use api::sidecar_wire::ChainStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::deadline::elapsed;
use super::observed::{ChainObservation, Observed};

/// What is known about the progress of a node from previous reconciles, and about the other nodes of its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainProgress {
    /// When the height of the node last changed.
    pub moved_at: Time,
    /// When its seid last answered.
    pub answered_at: Time,
    /// Whether another node of the chain has moved beyond the node since then; unknown if no other node is in sync.
    pub others_moved: Option<bool>,
    /// The app hash that the chain agreed on after the height of the node, if it was asked for.
    pub agreed_app_hash: Option<String>,
}

/// Returns the state of a node's chain, or nothing if the last one still holds.
pub(super) fn check(
    observed: &Observed,
    halt_timeout: Duration,
    now: &Time,
) -> Option<(ChainSynced, String)> {
    let not_observed = |message: &str| Some((ChainSynced::NotObserved, message.to_owned()));
    match (&observed.sidecar.chain, &observed.chain) {
        (ChainObservation::NotSupported, _) => {
            not_observed("the sidecar does not report the state of the chain: update its image")
        }
        (ChainObservation::Found(chain), Some(progress)) => {
            Some(judge(chain, progress, elapsed(&progress.moved_at, now) >= halt_timeout))
        }
        (ChainObservation::Unavailable(why), progress) => {
            // A single answer may be late, in particular while seid is busy. Previous operators may have had answers.
            let last = progress.as_ref().map(|progress| &progress.answered_at);
            let last = last.or(observed.active_since.as_ref());
            let is_recent = last.is_some_and(|last| elapsed(last, now) < halt_timeout);
            if is_recent { None } else { not_observed(why) }
        }
        // The answer is pending.
        (ChainObservation::Unknown | ChainObservation::Found(_), _) => None,
    }
}

fn judge(chain: &ChainStatus, progress: &ChainProgress, is_stalled: bool) -> (ChainSynced, String) {
    let (ChainStatus { height, app_hash, peers, .. }, is_behind) = (chain, chain.is_behind());
    if let (Some(own), Some(agreed)) = (app_hash, &progress.agreed_app_hash)
        && own != agreed
    {
        let message = format!(
            "after block {height} the app hash of the node is {own} and that of the chain {agreed}: restore the node from a \
             snapshot, with the image that the chain runs"
        );
        return (ChainSynced::Diverged, message);
    }
    let is_halted = is_stalled && !is_behind && progress.others_moved.unwrap_or(true);
    if *peers == 0 && (is_behind || is_halted) {
        let message = "seid has no peers: check spec.peers, and that the nodes in it are reachable";
        return (ChainSynced::NoPeers, message.into());
    }
    if is_behind {
        return (
            ChainSynced::CatchingUp,
            "seid is catching up: see the metric outrigger_node_height_lag".into(),
        );
    }
    if is_halted {
        let others = match progress.others_moved {
            Some(_) => "while other nodes of the chain moved",
            None => "and no other node of the chain is known",
        };
        let message = format!(
            "the height stays at {height} {others}: see the log of seid for why it does not accept the next block"
        );
        return (ChainSynced::Halted, message);
    }
    if is_stalled {
        let message = format!(
            "seid agrees with the other nodes of its chain, and none of them has a block after {height}: check the validators \
             of the chain"
        );
        return (ChainSynced::InSync, message);
    }
    (ChainSynced::InSync, "seid follows its chain".into())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    use super::*;

    const HALT: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Time {
        Time(Timestamp::UNIX_EPOCH.saturating_add(SignedDuration::from_secs(seconds)).unwrap())
    }

    fn status() -> ChainStatus {
        ChainStatus {
            height: 7,
            latest_block_time: None,
            app_hash: Some("AA".into()),
            peers: 3,
            catching_up: false,
            lag: None,
            validator_power: None,
            app_hash_at: None,
        }
    }

    fn progress() -> ChainProgress {
        ChainProgress { moved_at: at(0), answered_at: at(0), others_moved: Some(true), agreed_app_hash: None }
    }

    fn reason_at(
        seconds: i64,
        chain: ChainObservation,
        progress: Option<ChainProgress>,
    ) -> Option<ChainSynced> {
        let mut observed = Observed { chain: progress, ..Observed::default() };
        observed.sidecar.chain = chain;
        check(&observed, HALT, &at(seconds)).map(|(reason, _)| reason)
    }

    fn found(change: impl FnOnce(&mut ChainStatus)) -> ChainObservation {
        let mut status = status();
        change(&mut status);
        ChainObservation::Found(Box::new(status))
    }

    #[test]
    fn moving_node_is_in_sync() {
        assert_eq!(reason_at(59, found(|_| ()), Some(progress())), Some(ChainSynced::InSync));
        let alone = found(|chain| chain.peers = 0);
        assert_eq!(
            reason_at(0, alone, Some(progress())),
            Some(ChainSynced::InSync),
            "a chain of one validator"
        );
    }

    #[test]
    fn stalled_node_is_halted_unless_the_whole_chain_stalls() {
        assert_eq!(reason_at(60, found(|_| ()), Some(progress())), Some(ChainSynced::Halted));
        let with = |others_moved| Some(ChainProgress { others_moved, ..progress() });
        assert_eq!(reason_at(600, found(|_| ()), with(Some(false))), Some(ChainSynced::InSync));
        assert_eq!(
            reason_at(60, found(|_| ()), with(None)),
            Some(ChainSynced::Halted),
            "no other node is known"
        );
        let isolated = found(|chain| chain.peers = 0);
        assert_eq!(reason_at(60, isolated, Some(progress())), Some(ChainSynced::NoPeers));
    }

    /// Otherwise the status of every node would look healthy while the chain makes no progress.
    #[test]
    fn halt_of_the_whole_chain_is_in_the_message() {
        let message_at = |seconds: i64| {
            let progress = ChainProgress { others_moved: Some(false), ..progress() };
            let mut observed = Observed { chain: Some(progress), ..Observed::default() };
            observed.sidecar.chain = found(|_| ());
            check(&observed, HALT, &at(seconds)).map(|(_, message)| message).unwrap_or_default()
        };
        assert_eq!(message_at(59), "seid follows its chain");
        assert!(message_at(60).contains("none of them has a block after 7"), "{}", message_at(60));
        assert_eq!(message_at(60), message_at(6000), "it is written once");
    }

    #[test]
    fn catching_up_is_not_halted() {
        let syncing = found(|chain| chain.catching_up = true);
        assert_eq!(reason_at(600, syncing, Some(progress())), Some(ChainSynced::CatchingUp));
        let isolated = found(|chain| (chain.catching_up, chain.peers) = (true, 0));
        assert_eq!(reason_at(0, isolated, Some(progress())), Some(ChainSynced::NoPeers));
    }

    #[test]
    fn other_app_hash_is_diverged() {
        let agreed = |hash: &str| Some(ChainProgress { agreed_app_hash: Some(hash.into()), ..progress() });
        assert_eq!(reason_at(0, found(|_| ()), agreed("BB")), Some(ChainSynced::Diverged));
        assert_eq!(reason_at(60, found(|_| ()), agreed("AA")), Some(ChainSynced::Halted));
        let unknown = found(|chain| chain.app_hash = None);
        assert_eq!(reason_at(0, unknown, agreed("BB")), Some(ChainSynced::InSync));
    }

    #[test]
    fn missing_answers_keep_the_last_state_for_a_while() {
        let silent = || ChainObservation::Unavailable("no answer".into());
        assert_eq!(reason_at(59, silent(), Some(progress())), None);
        assert_eq!(reason_at(60, silent(), Some(progress())), Some(ChainSynced::NotObserved));
        assert_eq!(reason_at(0, silent(), None), Some(ChainSynced::NotObserved));
        let after_start = |seconds: i64| {
            let mut observed = Observed { active_since: Some(at(0)), ..Observed::default() };
            observed.sidecar.chain = silent();
            check(&observed, HALT, &at(seconds)).map(|(reason, _)| reason)
        };
        assert_eq!([after_start(59), after_start(60)], [None, Some(ChainSynced::NotObserved)]);
        assert_eq!(reason_at(600, ChainObservation::Unknown, Some(progress())), None);
        assert_eq!(reason_at(0, ChainObservation::NotSupported, None), Some(ChainSynced::NotObserved));
    }
}
