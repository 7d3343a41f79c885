//! What was found, as conditions of the own pod.

use std::time::Duration;

use api::kms::check::PluginCheck;
use api::kms::{KEY_ID_LIMIT, clean};
use api::names::kms::preflight as names;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use runtime::metrics::Metrics;

use super::{Error, Settings};

/// How often posting is tried: the API server may be busy, and the kubelet writes the same status.
const TRIES: u32 = 5;

/// The first wait between two tries; each is five times as long as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// How long one try may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Most characters of a condition's message.
const MESSAGE_LIMIT: usize = 32_768;

const USER_AGENT: &str = concat!("outrigger-kms-preflight/", env!("CARGO_PKG_VERSION"));

/// Posts what was found.
pub(super) async fn post(settings: &Settings, found: &[PluginCheck]) -> Result<(), Error> {
    let client = settings.access.connect(USER_AGENT, &Metrics::new()).await?;
    let api: Api<Pod> = Api::namespaced(client, &settings.pod_namespace);
    let conditions = conditions(&settings.config_hash, found, Time(Timestamp::now()));
    let mut wait = FIRST_WAIT;
    let mut why = String::new();
    for _ in 0..TRIES {
        match tokio::time::timeout(WITHIN, once(&api, &settings.pod_name, &conditions)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = format!("no answer within {} s", WITHIN.as_secs()),
        }
        tokio::time::sleep(wait).await;
        wait *= 5;
    }
    Err(Error::Post { pod: format!("{}/{}", settings.pod_namespace, settings.pod_name), why })
}

async fn once(api: &Api<Pod>, name: &str, conditions: &[PodCondition]) -> kube::Result<()> {
    let mut pod = api.get(name).await?;
    let all = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    all.retain(|old| conditions.iter().all(|new| new.type_ != old.type_));
    all.extend(conditions.iter().cloned());
    api.replace_status(name, &PostParams::default(), &pod).await.map(drop)
}

fn conditions(hash: &str, found: &[PluginCheck], now: Time) -> Vec<PodCondition> {
    let condition = |type_: &str, is: bool, reason: &str, message: String| PodCondition {
        type_: type_.into(),
        status: if is { "True" } else { "False" }.into(),
        reason: Some(reason.into()),
        message: Some(clean(&message, MESSAGE_LIMIT)),
        last_transition_time: Some(now.clone()),
        ..PodCondition::default()
    };
    let bad: Vec<String> = found.iter().filter_map(said).collect();
    let (reason, message) = if bad.is_empty() {
        ("Succeeded", "every plugin can be used".to_owned())
    } else {
        ("Failed", bad.join("; "))
    };
    let mut all = vec![
        condition(names::RESULT, bad.is_empty(), reason, message),
        condition(names::CONFIG_HASH, true, "Checked", hash.to_owned()),
        condition(names::STEPS, bad.is_empty(), reason, steps(found)),
    ];
    if let Some(id) = found.first().and_then(|first| first.remote_key_id.as_deref()) {
        all.push(condition(names::REMOTE_KEY_ID, true, "Checked", clean(id, KEY_ID_LIMIT)));
    }
    all
}

/// What is wrong with a plugin.
fn said(check: &PluginCheck) -> Option<String> {
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

/// Every step at every socket. If it is too long, what is said goes first: the document must stay whole.
fn steps(found: &[PluginCheck]) -> String {
    let whole = serde_json::to_string(found).unwrap_or_default();
    if whole.chars().count() <= MESSAGE_LIMIT {
        return whole;
    }
    let mut short = found.to_vec();
    for step in short.iter_mut().flat_map(|check| check.steps.iter_mut()) {
        step.detail = None;
    }
    serde_json::to_string(&short).unwrap_or_default()
}
