//! The faults in force, in order of injection, and their effect on requests, watches and events.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::error_response::ErrorResponse;
use super::event::{Event, EventType};
use super::fault::{Fault, Kill, LostResponse, ResponseRewrite};
use super::freeze::Revision;
use super::matcher::{RequestMatcher, Times};
use super::request::RequestInfo;
use crate::sync::lock;

/// Effect of a rule.
#[derive(Debug)]
pub(super) enum Effect {
    /// On requests.
    Request(Fault),
    /// On events of these types; all types if empty.
    DropEvents(Vec<EventType>),
    /// On watches.
    BlackHole,
    /// On reads and events.
    Freeze(Revision),
}

/// One injected fault.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) matching: RequestMatcher,
    pub(super) effect: Effect,
    times: Times,
    matched: AtomicU64,
    lifted: AtomicBool,
    progress: watch::Sender<Progress>,
}

/// How often a fault took effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) fired: u64,
    pub(super) failure: Option<String>,
}

impl Rule {
    /// Counts a match and returns whether the fault applies to it.
    fn count_match(&self) -> bool {
        let number = self.matched.fetch_add(1, Ordering::SeqCst) + 1;
        self.times.includes(number)
    }

    /// Counts an effect.
    pub(super) fn fire(&self) {
        self.progress.send_modify(|progress| progress.fired += 1);
    }

    /// Reports that the fault could not take effect.
    pub(super) fn fail(&self, failure: String) {
        self.progress.send_modify(|progress| progress.failure = Some(failure));
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.lifted.load(Ordering::SeqCst)
    }

    /// Returns the description for the journal.
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

/// What to do with one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Delay before forwarding.
    pub(super) delay: Duration,
    /// Delay before sending the response.
    pub(super) response_delay: Duration,
    /// Final action, and the fault that caused it.
    pub(super) decision: Option<(Arc<Rule>, Decision)>,
    /// Descriptions of all faults involved, for the journal.
    pub(super) names: Vec<String>,
}

/// Final action on a request.
#[derive(Debug)]
pub(super) enum Decision {
    Reset,
    Respond(ErrorResponse),
    RewriteResponse(ResponseRewrite),
    LoseResponse(LostResponse),
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
    pub(super) fn add(&self, matching: RequestMatcher, times: Times, effect: Effect) -> Arc<Rule> {
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

    /// Removes a fault; true if it was in force.
    pub(super) fn lift(&self, rule: &Rule) -> bool {
        self.with(|list| list.retain(|other| other.id != rule.id));
        let first = !rule.lifted.swap(true, Ordering::SeqCst);
        self.changed.send_replace(());
        first
    }

    /// Notifies long-running watches of every change.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Applies the faults in order. Delays add up; the first other fault decides, and faults behind it do not count
    /// the request.
    pub(super) fn plan(&self, info: &RequestInfo) -> Plan {
        let mut plan = Plan::default();
        self.with(|list| {
            for rule in list.iter().filter(|rule| rule.matching.matches(info)) {
                let Effect::Request(fault) = &rule.effect else { continue };
                if !rule.count_match() {
                    continue;
                }
                plan.names.push(rule.name());
                let decision = match fault {
                    Fault::Delay(time) => {
                        plan.delay += *time;
                        rule.fire();
                        continue;
                    }
                    Fault::DelayResponse(time) => {
                        plan.response_delay += *time;
                        rule.fire();
                        continue;
                    }
                    Fault::Reset => Decision::Reset,
                    Fault::Respond(response) => Decision::Respond(response.clone()),
                    Fault::RewriteResponse(rewrite) => Decision::RewriteResponse(rewrite.clone()),
                    Fault::LoseResponse(loss) => Decision::LoseResponse(*loss),
                    Fault::Kill(kill) => Decision::Kill(kill.clone()),
                };
                plan.decision = Some((rule.clone(), decision));
                break;
            }
        });
        plan
    }

    /// Returns the revision at which this read or watch is frozen.
    pub(super) fn frozen(&self, info: &RequestInfo) -> Option<(Arc<Rule>, Revision)> {
        self.with(|list| {
            list.iter().find_map(|rule| match rule.effect {
                Effect::Freeze(revision) if rule.matching.matches(info) => Some((rule.clone(), revision)),
                _ => None,
            })
        })
    }

    /// Returns the black hole that this watch is in. `counted` makes each rule count a watch once.
    pub(super) fn black_hole(&self, info: &RequestInfo, counted: &mut BTreeSet<u64>) -> Option<Arc<Rule>> {
        self.with(|list| {
            list.iter()
                .filter(|rule| matches!(rule.effect, Effect::BlackHole) && rule.matching.matches(info))
                .find(|rule| counted.insert(rule.id) && rule.count_match())
                .cloned()
        })
    }

    /// Returns the fault that drops this event. Namespace and name are matched against the object of the event.
    pub(super) fn dropping_rule(&self, info: &RequestInfo, event: &Event) -> Option<Arc<Rule>> {
        let object =
            RequestInfo { namespace: event.namespace.clone(), name: event.name.clone(), ..info.clone() };
        self.with(|list| {
            list.iter()
                .filter(|rule| match &rule.effect {
                    Effect::DropEvents(types) => types.is_empty() || types.contains(&event.event_type),
                    _ => false,
                })
                .find(|rule| rule.matching.matches(&object) && rule.count_match())
                .cloned()
        })
    }

    fn with<T>(&self, access: impl FnOnce(&mut Vec<Arc<Rule>>) -> T) -> T {
        access(&mut lock(&self.list))
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn info() -> RequestInfo {
        RequestInfo::parse(&Method::POST, "/api/v1/namespaces/a/configmaps", "", String::new(), String::new())
    }

    #[test]
    fn delays_add_up_and_first_other_fault_decides() {
        let rules = Rules::default();
        let second = Duration::from_secs(1);
        let request = |times, fault| rules.add(RequestMatcher::writes(), times, Effect::Request(fault));
        request(Times::Always, Fault::Delay(second));
        request(Times::Always, Fault::Delay(second));
        request(Times::Nth(2), Fault::Reset);
        let behind = request(Times::ONCE, Fault::DelayResponse(second));

        let first = rules.plan(&info());
        assert_eq!((first.delay, first.response_delay), (2 * second, second));
        assert!(first.decision.is_none(), "{first:?}");
        let second_plan = rules.plan(&info());
        assert!(matches!(second_plan.decision, Some((_, Decision::Reset))), "{second_plan:?}");
        assert_eq!(
            behind.matched.load(Ordering::SeqCst),
            1,
            "faults behind a decision do not count the request"
        );
        assert!(rules.plan(&info()).decision.is_none());
    }

    #[test]
    fn removed_fault_has_no_effect() {
        let rules = Rules::default();
        let rule = rules.add(RequestMatcher::any(), Times::Always, Effect::Request(Fault::Reset));
        assert!(rules.plan(&info()).decision.is_some());
        assert!(rules.lift(&rule));
        assert!(!rules.lift(&rule), "already removed");
        assert!(rules.plan(&info()).decision.is_none());
    }
}
