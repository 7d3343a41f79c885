//! The faults in force, in the order in which they were injected, and what they have to say to a request, a watch or an
//! event.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::event::{Event, EventType};
use super::fault::{Alteration, Fault, Kill, Loss};
use super::freeze::Revision;
use super::matching::{Matching, Times};
use super::refusal::Refusal;
use super::request::Asked;

/// What a rule does to whom it takes.
#[derive(Debug)]
pub(super) enum Effect {
    /// To requests.
    Request(Fault),
    /// To events of these types; of every type when none is named.
    DropEvents(Vec<EventType>),
    /// To watches.
    BlackHole,
    /// To reads and to events.
    Freeze(Revision),
}

/// One injected fault.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) matching: Matching,
    pub(super) effect: Effect,
    times: Times,
    matched: AtomicU64,
    lifted: AtomicBool,
    progress: watch::Sender<Progress>,
}

/// How far a fault has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) fired: u64,
    pub(super) failure: Option<String>,
}

impl Rule {
    /// Counts a match, and says whether the fault takes it.
    fn takes(&self) -> bool {
        let number = self.matched.fetch_add(1, Ordering::SeqCst) + 1;
        self.times.take(number)
    }

    /// Says that the fault has had its effect once more.
    pub(super) fn fire(&self) {
        self.progress.send_modify(|progress| progress.fired += 1);
    }

    /// Says that the fault could not have its effect.
    pub(super) fn fail(&self, failure: String) {
        self.progress.send_modify(|progress| progress.failure = Some(failure));
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.lifted.load(Ordering::SeqCst)
    }

    /// The name that the journal knows the fault by.
    pub(super) fn name(&self) -> String {
        match &self.effect {
            Effect::Request(fault) => fault.to_string(),
            Effect::DropEvents(types) if types.is_empty() => "drop events".into(),
            Effect::DropEvents(types) => format!("drop events {types:?}"),
            Effect::BlackHole => "black hole".into(),
            Effect::Freeze(revision) => format!("freeze at {revision}"),
        }
    }
}

/// What is in store for one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// To be waited before it is forwarded.
    pub(super) delay: Duration,
    /// To be waited before its answer is passed on.
    pub(super) answer_delay: Duration,
    /// What happens to it, and by which fault.
    pub(super) decision: Option<(Arc<Rule>, Decision)>,
    /// The faults that have a part in this, for the journal.
    pub(super) names: Vec<String>,
}

/// What happens to a request that does not simply go its way.
#[derive(Debug)]
pub(super) enum Decision {
    Reset,
    Answer(Refusal),
    Alter(Alteration),
    LoseAnswer(Loss),
    Kill(Kill),
}

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Mutex<Vec<Arc<Rule>>>,
    last_id: AtomicU64,
    changed: watch::Sender<()>,
}

impl Rules {
    pub(super) fn add(&self, matching: Matching, times: Times, effect: Effect) -> Arc<Rule> {
        let rule = Arc::new(Rule {
            id: self.last_id.fetch_add(1, Ordering::SeqCst) + 1,
            matching,
            effect,
            times,
            matched: AtomicU64::new(0),
            lifted: AtomicBool::new(false),
            progress: watch::Sender::default(),
        });
        self.with(|list| list.push(rule.clone()));
        self.changed.send_replace(());
        rule
    }

    /// Takes a fault out of force; true when it was in force.
    pub(super) fn lift(&self, rule: &Rule) -> bool {
        self.with(|list| list.retain(|other| other.id != rule.id));
        let first = !rule.lifted.swap(true, Ordering::SeqCst);
        self.changed.send_replace(());
        first
    }

    /// Tells of every change from here on, for those who live longer than one look.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// A request meets the faults in their order. Delays let it go on to the next; the first other fault that takes it
    /// decides, and those behind it do not count it.
    pub(super) fn plan(&self, asked: &Asked) -> Plan {
        let mut plan = Plan::default();
        self.with(|list| {
            for rule in list.iter().filter(|rule| rule.matching.fits(asked)) {
                let Effect::Request(fault) = &rule.effect else { continue };
                if !rule.takes() {
                    continue;
                }
                plan.names.push(rule.name());
                let decision = match fault {
                    Fault::Delay(time) => {
                        plan.delay += *time;
                        rule.fire();
                        continue;
                    }
                    Fault::DelayAnswer(time) => {
                        plan.answer_delay += *time;
                        rule.fire();
                        continue;
                    }
                    Fault::Reset => Decision::Reset,
                    Fault::Answer(refusal) => Decision::Answer(refusal.clone()),
                    Fault::Alter(alteration) => Decision::Alter(alteration.clone()),
                    Fault::LoseAnswer(loss) => Decision::LoseAnswer(*loss),
                    Fault::Kill(kill) => Decision::Kill(kill.clone()),
                };
                plan.decision = Some((rule.clone(), decision));
                break;
            }
        });
        plan
    }

    /// The revision at which this read or watch sees the world, when it does not see the present.
    pub(super) fn frozen(&self, asked: &Asked) -> Option<(Arc<Rule>, Revision)> {
        self.with(|list| {
            list.iter().find_map(|rule| match rule.effect {
                Effect::Freeze(revision) if rule.matching.fits(asked) => Some((rule.clone(), revision)),
                _ => None,
            })
        })
    }

    /// The black hole that this watch has fallen into. Each watch is counted once by each: `met` remembers.
    pub(super) fn black_hole(&self, asked: &Asked, met: &mut BTreeSet<u64>) -> Option<Arc<Rule>> {
        self.with(|list| {
            list.iter()
                .filter(|rule| matches!(rule.effect, Effect::BlackHole) && rule.matching.fits(asked))
                .find(|rule| met.insert(rule.id) && rule.takes())
                .cloned()
        })
    }

    /// The fault that an event of this watch is dropped by. For it, namespace and name are those of the event's object.
    pub(super) fn dropping(&self, asked: &Asked, event: &Event) -> Option<Arc<Rule>> {
        let seen = Asked { namespace: event.namespace.clone(), name: event.name.clone(), ..asked.clone() };
        self.with(|list| {
            list.iter()
                .filter(|rule| match &rule.effect {
                    Effect::DropEvents(types) => types.is_empty() || types.contains(&event.event_type),
                    _ => false,
                })
                .find(|rule| rule.matching.fits(&seen) && rule.takes())
                .cloned()
        })
    }

    fn with<T>(&self, access: impl FnOnce(&mut Vec<Arc<Rule>>) -> T) -> T {
        access(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn asked() -> Asked {
        Asked::read(&Method::POST, "/api/v1/namespaces/a/configmaps", "", String::new(), String::new())
    }

    #[test]
    fn delays_add_up_and_the_first_other_fault_decides() {
        let rules = Rules::default();
        let second = Duration::from_secs(1);
        let request = |times, fault| rules.add(Matching::writes(), times, Effect::Request(fault));
        request(Times::Always, Fault::Delay(second));
        request(Times::Always, Fault::Delay(second));
        request(Times::Nth(2), Fault::Reset);
        let behind = request(Times::ONCE, Fault::DelayAnswer(second));

        let first = rules.plan(&asked());
        assert_eq!((first.delay, first.answer_delay), (2 * second, second));
        assert!(first.decision.is_none(), "{first:?}");
        let second_plan = rules.plan(&asked());
        assert!(matches!(second_plan.decision, Some((_, Decision::Reset))), "{second_plan:?}");
        assert_eq!(behind.matched.load(Ordering::SeqCst), 1, "those behind a decision do not count it");
        assert!(rules.plan(&asked()).decision.is_none());
    }

    #[test]
    fn a_lifted_fault_takes_nothing() {
        let rules = Rules::default();
        let rule = rules.add(Matching::any(), Times::Always, Effect::Request(Fault::Reset));
        assert!(rules.plan(&asked()).decision.is_some());
        assert!(rules.lift(&rule));
        assert!(!rules.lift(&rule), "it was lifted already");
        assert!(rules.plan(&asked()).decision.is_none());
    }
}
