//! Records check results as conditions of the own pod.

use std::time::Duration;

use api::kms::check::PluginCheck;
use api::kms::{KEY_ID_LIMIT, sanitize};
use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use runtime::metrics::Metrics;

use super::{Error, Settings};

/// Attempts to update the status: the API server may be overloaded, and the kubelet writes the same status.
const ATTEMPTS: u32 = 5;

/// Delay before the second attempt. Each further delay is five times as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a condition's message, in characters.
const MESSAGE_LIMIT: usize = 32_768;

const USER_AGENT: &str = concat!("outrigger-kms-preflight/", env!("CARGO_PKG_VERSION"));

/// Writes the results to the pod's status.
pub(super) async fn record(settings: &Settings, checks: &[PluginCheck]) -> Result<(), Error> {
    let client = settings.access.connect(USER_AGENT, &Metrics::new()).await?;
    let api: Api<Pod> = Api::namespaced(client, &settings.pod_namespace);
    let conditions = conditions(&settings.config_hash, checks, Time(Timestamp::now()));
    let mut backoff = FIRST_BACKOFF;
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        match tokio::time::timeout(TIMEOUT, update(&api, &settings.pod_name, &conditions)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no response within {} s", TIMEOUT.as_secs()),
        }
        tokio::time::sleep(backoff).await;
        backoff *= 5;
    }
    Err(Error::Post { pod: format!("{}/{}", settings.pod_namespace, settings.pod_name), why })
}

async fn update(api: &Api<Pod>, name: &str, conditions: &[PodCondition]) -> kube::Result<()> {
    let mut pod = api.get(name).await?;
    let all = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    all.retain(|old| conditions.iter().all(|new| new.type_ != old.type_));
    all.extend(conditions.iter().cloned());
    api.replace_status(name, &PostParams::default(), &pod).await.map(drop)
}

fn conditions(hash: &str, checks: &[PluginCheck], now: Time) -> Vec<PodCondition> {
    let condition = |type_: &str, holds: bool, reason: &str, message: String| PodCondition {
        type_: type_.into(),
        status: if holds { "True" } else { "False" }.into(),
        reason: Some(reason.into()),
        message: Some(sanitize(&message, MESSAGE_LIMIT)),
        last_transition_time: Some(now.clone()),
        ..PodCondition::default()
    };
    let failures: Vec<String> = checks.iter().filter_map(failure_message).collect();
    let (reason, message) = if failures.is_empty() {
        ("Succeeded", "all plugins passed".to_owned())
    } else {
        ("Failed", failures.join("; "))
    };
    let mut all = vec![
        condition(names::RESULT, failures.is_empty(), reason, message),
        condition(names::CONFIG_HASH, true, "Checked", hash.to_owned()),
        condition(names::STEPS, failures.is_empty(), reason, steps_json(checks)),
    ];
    if let Some(id) = checks.first().and_then(|first| first.remote_key_id.as_deref()) {
        all.push(condition(names::REMOTE_KEY_ID, true, "Checked", sanitize(id, KEY_ID_LIMIT)));
    }
    all
}

/// Returns why a plugin failed; `None` if it passed.
fn failure_message(check: &PluginCheck) -> Option<String> {
    if check.passed {
        return None;
    }
    let failure = check.failure();
    let step = failure.map_or("check", |failure| failure.step.as_str());
    let cause = failure.and_then(|failure| failure.cause.clone()).unwrap_or_default();
    let detail = failure.and_then(|failure| failure.detail.clone()).unwrap_or_default();
    let detail = detail.strip_prefix(&format!("{cause}: ")).unwrap_or(&detail);
    Some(format!("{}: {step} failed: {cause}: {detail}", check.socket))
}

/// Returns all steps of all sockets as JSON. Details are dropped if it is too long: cutting it would leave invalid JSON.
fn steps_json(checks: &[PluginCheck]) -> String {
    let full = serde_json::to_string(checks).unwrap_or_default();
    if full.chars().count() <= MESSAGE_LIMIT {
        return full;
    }
    let mut short = checks.to_vec();
    for step in short.iter_mut().flat_map(|check| check.steps.iter_mut()) {
        step.detail = None;
    }
    serde_json::to_string(&short).unwrap_or_default()
}
