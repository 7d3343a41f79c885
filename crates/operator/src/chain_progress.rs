//! The heights of all nodes. They are kept in memory only: they change with every block, and a status write for each would be the
//! largest load of the API server.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use api::sidecar_wire::VotingPower;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::node::{ChainObservation, ChainProgress, elapsed};
use runtime::Key;
use runtime::sync::lock;

/// After this time without an answer, a height is not used any more.
const OUTDATED_AFTER: Duration = Duration::from_secs(120);

/// The heights of all nodes.
#[derive(Debug, Default)]
pub(crate) struct ChainHeights(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<Key, Entry>,
    /// Per chain: a height that a node does not move beyond, and the app hash that the others agreed on after it.
    questions: HashMap<String, Question>,
}

#[derive(Clone, Debug)]
struct Entry {
    power: Option<VotingPower>,
    chain: String,
    height: i64,
    peers: u32,
    is_behind: bool,
    moved_at: Time,
    answered_at: Time,
}

#[derive(Debug)]
struct Question {
    node: Key,
    height: i64,
    answer: Option<String>,
}

/// The gauges of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeightSample {
    pub(crate) node: Key,
    pub(crate) height: i64,
    pub(crate) lag: i64,
    pub(crate) peers: u32,
}

impl ChainHeights {
    /// Returns the height whose app hash a node is to be asked for: one that another node of its chain does not move beyond.
    pub(crate) fn question(&self, node: &Key, chain: &str) -> Option<i64> {
        let state = lock(&self.0);
        let question = state.questions.get(chain)?;
        (question.node != *node && question.answer.is_none()).then_some(question.height)
    }

    /// Returns the voting power of a validator, as it last reported it.
    pub(crate) fn voting_power(&self, node: &Key) -> Option<VotingPower> {
        lock(&self.0).nodes.get(node).and_then(|entry| entry.power)
    }

    /// Records the answer of a node, and returns its progress, if it has answered before or now.
    pub(crate) fn record(
        &self,
        node: &Key,
        chain: &str,
        answer: &ChainObservation,
        now: &Time,
    ) -> Option<ChainProgress> {
        let mut state = lock(&self.0);
        if let ChainObservation::Found(found) = answer {
            let before = state.nodes.get(node).filter(|before| before.chain == chain);
            let moved_at = before
                .filter(|before| before.height == found.height)
                .map_or_else(|| now.clone(), |before| before.moved_at.clone());
            let entry = Entry {
                // Kept while seid does not report it.
                power: found.validator_power.or(before.and_then(|before| before.power)),
                chain: chain.to_owned(),
                height: found.height,
                peers: found.peers,
                is_behind: found.is_behind(),
                moved_at,
                answered_at: now.clone(),
            };
            state.nodes.insert(node.clone(), entry);
            if let (Some(question), Some(at)) = (state.questions.get_mut(chain), &found.app_hash_at)
                && question.height == at.height
            {
                question.answer = Some(at.app_hash.clone());
            }
        }
        let own = state.nodes.get(node).filter(|own| own.chain == chain)?.clone();
        let others: Vec<&Entry> = state
            .nodes
            .iter()
            .filter(|(other, entry)| *other != node && entry.chain == chain)
            .map(|(_, entry)| entry)
            .filter(|entry| !entry.is_behind && elapsed(&entry.answered_at, now) < OUTDATED_AFTER)
            .collect();
        let others_moved = (!others.is_empty()).then(|| {
            others.iter().any(|other| other.height > own.height && other.moved_at.0 > own.moved_at.0)
        });
        let is_asked = state.questions.get(chain).is_some_and(|question| question.node == *node);
        if others_moved == Some(true) && !own.is_behind {
            let question = state.questions.entry(chain.to_owned()).or_insert_with(|| Question {
                node: node.clone(),
                height: own.height,
                answer: None,
            });
            if question.node == *node && question.height != own.height {
                (question.height, question.answer) = (own.height, None);
            }
        } else if is_asked {
            state.questions.remove(chain);
        }
        let question = state.questions.get(chain).filter(|question| question.height == own.height);
        Some(ChainProgress {
            moved_at: own.moved_at,
            answered_at: own.answered_at,
            others_moved,
            agreed_app_hash: question.and_then(|question| question.answer.clone()),
        })
    }

    /// Drops what is kept for a deleted node.
    pub(crate) fn forget(&self, node: &Key) {
        let mut state = lock(&self.0);
        state.nodes.remove(node);
        state.questions.retain(|_, question| question.node != *node);
    }

    /// Returns the gauges of all nodes that have answered recently.
    pub(crate) fn samples(&self, now: &Time) -> Vec<HeightSample> {
        let state = lock(&self.0);
        let recent =
            || state.nodes.iter().filter(|(_, entry)| elapsed(&entry.answered_at, now) < OUTDATED_AFTER);
        let mut tips: HashMap<&str, i64> = HashMap::new();
        for (_, entry) in recent() {
            let tip = tips.entry(&entry.chain).or_default();
            *tip = entry.height.max(*tip);
        }
        let sample = |(node, entry): (&Key, &Entry)| HeightSample {
            node: node.clone(),
            height: entry.height,
            lag: tips.get(entry.chain.as_str()).map_or(0, |tip| tip - entry.height),
            peers: entry.peers,
        };
        recent().map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use api::sidecar_wire::{AppHashAt, ChainStatus};
    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    use super::*;

    fn at(seconds: i64) -> Time {
        Time(Timestamp::UNIX_EPOCH.saturating_add(SignedDuration::from_secs(seconds)).unwrap())
    }

    fn key(name: &str) -> Key {
        Key { namespace: "sei".into(), name: name.into() }
    }

    fn answer(height: i64, app_hash_at: Option<(i64, &str)>) -> ChainObservation {
        let app_hash_at = app_hash_at.map(|(height, hash)| AppHashAt { height, app_hash: hash.into() });
        ChainObservation::Found(Box::new(ChainStatus {
            height,
            latest_block_time: None,
            app_hash: None,
            peers: 2,
            catching_up: false,
            lag: None,
            validator_power: None,
            app_hash_at,
        }))
    }

    #[test]
    fn stalled_node_is_compared_with_the_others_of_its_chain() {
        let heights = ChainHeights::default();
        let record = |name: &str, chain: &str, height: i64, seconds: i64| {
            heights.record(&key(name), chain, &answer(height, None), &at(seconds)).unwrap()
        };
        assert_eq!(record("a", "c", 7, 0).others_moved, None);
        record("z", "other", 99, 10);
        assert_eq!(record("a", "c", 7, 10).others_moved, None, "another chain");
        record("b", "c", 7, 20);
        assert_eq!(record("a", "c", 7, 30).others_moved, Some(false), "the other is stalled, too");
        record("b", "c", 8, 40);
        let progress = record("a", "c", 7, 50);
        assert_eq!((progress.others_moved, progress.moved_at), (Some(true), at(0)));
        let progress = record("a", "c", 9, 60);
        assert_eq!((progress.others_moved, progress.moved_at), (Some(false), at(60)));
        assert_eq!(record("a", "c", 9, 600).others_moved, None, "the other has not answered for minutes");
    }

    #[test]
    fn others_are_asked_for_the_app_hash_of_a_stalled_node() {
        let heights = ChainHeights::default();
        let record = |name: &str, answer: &ChainObservation, seconds: i64| {
            heights.record(&key(name), "c", answer, &at(seconds)).unwrap().agreed_app_hash
        };
        record("a", &answer(7, None), 0);
        record("b", &answer(8, None), 1);
        assert_eq!(heights.question(&key("b"), "c"), None, "no node has stopped yet");
        record("a", &answer(7, None), 2);
        assert_eq!(heights.question(&key("b"), "c"), Some(7));
        assert_eq!(heights.question(&key("a"), "c"), None, "the node itself is not asked");
        record("b", &answer(9, Some((6, "XX"))), 3);
        assert_eq!(record("a", &answer(7, None), 4), None, "the answer to another question");
        record("b", &answer(9, Some((7, "AB"))), 5);
        assert_eq!(record("a", &answer(7, None), 6).as_deref(), Some("AB"));
        assert_eq!(heights.question(&key("b"), "c"), None, "it is answered");
        assert_eq!(record("a", &answer(10, None), 7), None, "the node has moved");
        heights.forget(&key("a"));
        assert_eq!(heights.samples(&at(8)).len(), 1);
    }

    #[test]
    fn lag_is_the_distance_to_the_highest_node() {
        let heights = ChainHeights::default();
        heights.record(&key("a"), "c", &answer(7, None), &at(0));
        heights.record(&key("b"), "c", &answer(10, None), &at(100));
        let lag = |seconds: i64| -> Vec<(String, i64, i64)> {
            let mut samples = heights.samples(&at(seconds));
            samples.sort_by(|one, other| one.node.name.cmp(&other.node.name));
            samples.into_iter().map(|sample| (sample.node.name, sample.height, sample.lag)).collect()
        };
        assert_eq!(lag(100), [("a".to_owned(), 7, 3), ("b".to_owned(), 10, 0)]);
        assert_eq!(lag(130), [("b".to_owned(), 10, 0)], "an outdated height is not a sample");
        heights.record(&key("a"), "c", &ChainObservation::Unavailable("x".into()), &at(130));
        assert_eq!(lag(130).len(), 1);
    }
}
