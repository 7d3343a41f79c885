//! The certificate of the sidecar API: every change of its source, everything that can be wrong with it, its expiry, and the owner of the
//! Secret that cert-manager issues.

use std::time::Duration;

use api::SeiNode;
use api::sei_node::{IssuerKind, ObservedTls, PlanKind, Scheme, SidecarConfig, SidecarTls};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::ResourceExt;
use plan::node::{KeyPair, decide, required_observations};
use rcgen::{CertificateParams, date_time_ymd};
use serde_json::{Value, json};

use super::certificate::{named, params};
use super::cluster::Cluster;
use super::fixture::{
    converge, decide_once, message, node, platform, pod_deletions, reason, run_until_failed, running, status,
    steps,
};
use super::reconcile::{Fault, reconcile, time};

const ISSUED: &str = "a-sidecar-tls";

/// A source of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Off,
    Issuer(&'static str, IssuerKind),
    Secret(&'static str),
}

const SOURCES: [Source; 6] = [
    Source::Off,
    Source::Issuer("one", IssuerKind::Issuer),
    Source::Issuer("two", IssuerKind::Issuer),
    Source::Issuer("one", IssuerKind::ClusterIssuer),
    Source::Secret("x"),
    Source::Secret("y"),
];

impl Source {
    fn set(self, node: &mut SeiNode) {
        let tls = match self {
            Self::Off => None,
            Self::Issuer(name, kind) => Some(SidecarTls {
                issuer_name: Some(name.into()),
                issuer_kind: Some(kind),
                ..SidecarTls::default()
            }),
            Self::Secret(name) => {
                Some(SidecarTls { secret_name: Some(name.into()), ..SidecarTls::default() })
            }
        };
        node.spec.sidecar = Some(SidecarConfig { tls, ..SidecarConfig::default() });
    }

    fn observed(self) -> ObservedTls {
        let http =
            ObservedTls { scheme: Scheme::Http, issuer_name: None, issuer_kind: None, secret_name: None };
        let https = ObservedTls { scheme: Scheme::Https, ..http.clone() };
        match self {
            Self::Off => http,
            Self::Issuer(name, kind) => ObservedTls {
                issuer_name: Some(name.into()),
                issuer_kind: Some(kind),
                secret_name: Some(ISSUED.into()),
                ..https
            },
            Self::Secret(name) => ObservedTls { secret_name: Some(name.into()), ..https },
        }
    }

    /// Returns the tasks of the plan that changes a running node to this source.
    fn tasks(self) -> String {
        let common = "apply-network-policy apply-rbac-proxy-config apply-statefulset apply-service replace-pod \
                      observe-sidecar-tls mark-ready";
        match self {
            Self::Off => format!("{common} remove-sidecar-cert"),
            Self::Issuer(..) => format!("apply-sidecar-cert wait-for-sidecar-tls-secret {common}"),
            Self::Secret(_) => format!("wait-for-sidecar-tls-secret {common} remove-sidecar-cert"),
        }
    }

    fn is_issuer(self) -> bool {
        matches!(self, Self::Issuer(..))
    }
}

/// Returns a cluster with a running node. The Secrets x and y have valid certificates.
fn running_with(source: Source) -> Cluster {
    let mut node = node("a");
    source.set(&mut node);
    let mut cluster = Cluster::new(node);
    for name in ["x", "y"] {
        cluster.secrets.insert(name.into(), named(name, params("a")));
    }
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{source:?}: {:#?}", status(&cluster));
    cluster
}

/// Returns the owners of a Secret, or nothing if it does not exist.
fn owners<'a>(cluster: &'a Cluster, secret: &str) -> Option<&'a [OwnerReference]> {
    cluster.secrets.get(secret).map(ResourceExt::owner_references)
}

/// Asserts that the issued Secret has the Certificate as its only owner.
fn assert_owned(cluster: &Cluster) {
    let certificate = cluster.observed.certificate.as_ref().unwrap();
    let [owner] = owners(cluster, ISSUED).unwrap() else { panic!("{:?}", owners(cluster, ISSUED)) };
    assert_eq!((owner.api_version.as_str(), owner.kind.as_str()), ("cert-manager.io/v1", "Certificate"));
    assert_eq!((owner.name.as_str(), Some(&owner.uid)), (ISSUED, certificate.metadata.uid.as_ref()));
    // With a controller, or one that blocks deletion, it would need more permissions and exclude the one of cert-manager.
    assert_eq!((owner.controller, owner.block_owner_deletion), (None, None));
}

fn assert_steady(cluster: &mut Cluster) {
    let writes = cluster.writes;
    converge(cluster, &platform());
    assert_eq!(cluster.writes, writes, "writes in steady state: {:#?}", status(cluster));
}

/// Secrets cannot be watched. A converged node uses a copy, which costs nothing.
#[test]
fn secret_is_read_at_each_poll_only_while_the_node_waits_for_it() {
    let mut cluster = running_with(Source::Secret("x"));
    let (required, _) = decide_once(&cluster);
    assert!(required.secrets.contains("x") && required.awaited_secrets.is_empty(), "{required:?}");
    let missing = cluster.secrets.remove("y").unwrap();
    cluster.edit(|node| Source::Secret("y").set(node));
    converge(&mut cluster, &platform());
    let (required, decision) = decide_once(&cluster);
    assert!(
        required.awaited_secrets.contains("y") && !required.awaited_secrets.contains("x"),
        "{required:?}"
    );
    assert!(decision.requeue_after.unwrap() <= Duration::from_secs(5), "{:?}", decision.requeue_after);
    cluster.secrets.insert("y".into(), missing);
    converge(&mut cluster, &platform());
    // A certificate that is unfit by now is watched for its replacement.
    cluster.secrets.get_mut("y").unwrap().data = None;
    converge(&mut cluster, &platform());
    let (required, _) = decide_once(&cluster);
    assert!(required.awaited_secrets.contains("y"), "{required:?}");
}

#[test]
fn every_change_of_the_source_is_one_plan_and_one_pod() {
    for from in SOURCES {
        for to in SOURCES {
            let mut cluster = running_with(from);
            let before = status(&cluster).plan.unwrap().id;
            let certificate = cluster.observed.certificate.as_ref().and_then(|live| live.uid());
            cluster.edit(|node| to.set(node));
            reconcile(&mut cluster, &platform(), Fault::None);
            let change = format!("{from:?} to {to:?}");
            if from == to {
                assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "NoUpdate", "{change}");
                assert_eq!(status(&cluster).plan.unwrap().id, before, "{change}");
            } else {
                assert_eq!(reason(&cluster, "NodeUpdateInProgress"), "TLSToggleStarted", "{change}");
                assert_eq!(steps(&cluster).join(" "), to.tasks(), "{change}");
            }
            converge(&mut cluster, &platform());
            assert_eq!(reason(&cluster, "Ready"), "NodeReady", "{change}: {:#?}", status(&cluster));
            assert_eq!(pod_deletions(&cluster), u32::from(from != to), "{change}");
            assert_eq!(status(&cluster).current_sidecar_tls, Some(to.observed()), "{change}");
            assert_eq!(cluster.observed.certificate.is_some(), to.is_issuer(), "{change}");
            if let (Source::Issuer(name, kind), Some(live)) = (to, cluster.observed.certificate.as_ref()) {
                let issuer = &live.spec.issuer_ref;
                assert_eq!((issuer.name.as_str(), issuer.kind), (name, Some(kind)), "{change}");
                assert!(!from.is_issuer() || live.uid() == certificate, "{change}: the Certificate is kept");
                assert_owned(&cluster);
            } else {
                assert_eq!(owners(&cluster, ISSUED), None, "{change}: the issued Secret is deleted");
            }
            for name in ["x", "y"] {
                assert_eq!(
                    owners(&cluster, name),
                    Some(&[][..]),
                    "{change}: the user's Secret is not touched"
                );
            }
            assert_steady(&mut cluster);
        }
    }
}

/// What is wrong with a TLS Secret, and what the user sees.
struct Unfit {
    source: Source,
    /// Makes the certificate unfit.
    damage: fn(&mut Cluster),
    reason: &'static str,
    message: &'static str,
    /// What the plan waits for. It has the message of the condition, unless it is another one.
    waiting_for: &'static str,
    waiting_message: Option<&'static str>,
}

const X: Source = Source::Secret("x");
const ISSUER: Source = Source::Issuer("one", IssuerKind::Issuer);

fn with_data(cluster: &mut Cluster, key: &str, value: &str) {
    let secret = cluster.secrets.get_mut("x").unwrap();
    secret.data.as_mut().unwrap().insert(key.into(), ByteString(value.into()));
}

fn validity(from: (i32, u8, u8), to: (i32, u8, u8)) -> CertificateParams {
    let mut params = params("a");
    params.not_before = date_time_ymd(from.0, from.1, from.2);
    params.not_after = date_time_ymd(to.0, to.1, to.2);
    params
}

/// Returns the Secret of the Certificate as cert-manager issues it.
fn issued(params: CertificateParams) -> Secret {
    let mut secret = named(ISSUED, params);
    secret.metadata.annotations = Some([("cert-manager.io/certificate-name".into(), ISSUED.into())].into());
    secret
}

fn conditions(cluster: &mut Cluster, conditions: Value) {
    cluster.certificate_conditions = conditions;
}

const UNFIT: [Unfit; 15] = [
    Unfit {
        source: X,
        damage: |cluster| drop(cluster.secrets.remove("x")),
        reason: "TLSSecretNotFound",
        message: "Secret x not found: create it",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| cluster.secrets.get_mut("x").unwrap().data = None,
        reason: "TLSSecretMalformed",
        message: "Secret x has no tls.crt: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| with_data(cluster, "tls.key", ""),
        reason: "TLSSecretMalformed",
        message: "Secret x has no tls.key: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| cluster.secrets.get_mut("x").unwrap().type_ = Some("Opaque".into()),
        reason: "TLSSecretMalformed",
        message: "Secret x is not of type kubernetes.io/tls: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| with_data(cluster, "tls.crt", "certificate"),
        reason: "TLSSecretMalformed",
        message: "Secret x has a tls.crt that is not PEM: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| {
            let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
            with_data(cluster, "tls.crt", pem);
        },
        reason: "TLSSecretMalformed",
        message: "Secret x has a tls.crt that is not a valid X.509 certificate: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| cluster.key_pair = KeyPair::MalformedKey,
        reason: "TLSSecretMalformed",
        message: "Secret x has a tls.key that is not a supported private key in PEM: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| cluster.key_pair = KeyPair::Mismatched,
        reason: "TLSSecretMalformed",
        message: "Secret x has a tls.key that does not belong to its tls.crt: replace it with one of type kubernetes.io/tls that has a certificate in tls.crt and its key in tls.key",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| drop(cluster.secrets.insert("x".into(), named("x", params("b")))),
        reason: "TLSSecretSANsMismatch",
        message: "the certificate in Secret x is not valid for a.sei.svc.cluster.local and a-0.a.sei.svc.cluster.local: issue it for these host names",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| {
            cluster.secrets.insert("x".into(), named("x", validity((2026, 2, 1), (2026, 5, 1))));
        },
        reason: "TLSSecretExpired",
        message: "the certificate in Secret x expired at 2026-05-01T00:00:00Z: replace it",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: X,
        damage: |cluster| {
            cluster.secrets.insert("x".into(), named("x", validity((2026, 6, 1), (2026, 9, 1))));
        },
        reason: "TLSSecretNotYetValid",
        message: "the certificate in Secret x is not valid before 2026-06-01T00:00:00Z: wait until then, or replace it",
        waiting_for: "Secret/x",
        waiting_message: None,
    },
    Unfit {
        source: ISSUER,
        damage: |cluster| {
            cluster.secrets.insert(ISSUED.into(), issued(validity((2026, 2, 1), (2026, 5, 1))));
            conditions(
                cluster,
                json!([{ "type": "Ready", "status": "False", "message": "Certificate expired" }]),
            );
        },
        reason: "TLSSecretExpired",
        message: "the certificate in Secret a-sidecar-tls expired at 2026-05-01T00:00:00Z: check Certificate a-sidecar-tls and its issuer one",
        waiting_for: "Secret/a-sidecar-tls",
        waiting_message: None,
    },
    Unfit {
        source: ISSUER,
        damage: |cluster| {
            conditions(
                cluster,
                json!([{ "type": "Issuing", "status": "True", "reason": "DoesNotExist", "message": "no Secret" }]),
            );
        },
        reason: "CertificateNotReady",
        message: "Certificate a-sidecar-tls is waiting for issuer one: no Secret",
        waiting_for: "Certificate/a-sidecar-tls",
        waiting_message: None,
    },
    Unfit {
        source: ISSUER,
        damage: |cluster| {
            conditions(
                cluster,
                json!([{ "type": "Issuing", "status": "False", "reason": "Failed", "message": "denied" }]),
            );
        },
        reason: "CertificateFailed",
        message: "Certificate a-sidecar-tls failed: denied",
        // The plan fails and is retried: waiting for an issuer that failed is useless.
        waiting_for: "",
        waiting_message: None,
    },
    Unfit {
        source: ISSUER,
        damage: |cluster| {
            let why = "the Certificate CRD is not installed: install cert-manager";
            cluster.refusals.insert("Certificate", why);
        },
        reason: "CertificateNotReady",
        message: "Certificate a-sidecar-tls cannot be created: the Certificate CRD is not installed: install cert-manager",
        waiting_for: "Certificate/a-sidecar-tls",
        waiting_message: Some("the Certificate CRD is not installed: install cert-manager"),
    },
];

#[test]
fn unfit_secret_is_reported_and_the_pod_is_kept() {
    for unfit in UNFIT {
        let mut cluster = running_with(Source::Off);
        let (secrets, valid) = (cluster.secrets.clone(), cluster.certificate_conditions.clone());
        (unfit.damage)(&mut cluster);
        cluster.edit(|node| unfit.source.set(node));
        converge(&mut cluster, &platform());
        let now = status(&cluster);
        let what = unfit.message;
        assert_eq!(reason(&cluster, "SidecarTLSSecretReady"), unfit.reason, "{what}");
        assert_eq!(message(&cluster, "SidecarTLSSecretReady"), unfit.message);
        let waiting = now.waiting_for.as_ref();
        assert_eq!(waiting.map_or("", |waiting| waiting.target.as_str()), unfit.waiting_for, "{what}");
        match waiting {
            Some(waiting) => {
                let expected = unfit.waiting_message.unwrap_or(unfit.message);
                assert_eq!(waiting.message.as_deref(), Some(expected), "{what}");
            }
            None => assert_eq!(now.last_failed_plan.unwrap().task.error, unfit.message),
        }
        assert_eq!((pod_deletions(&cluster), cluster.sidecar.ready), (0, true), "{what}: the pod is kept");
        assert_eq!(now.current_sidecar_tls, Some(Source::Off.observed()), "{what}");
        assert_steady(&mut cluster);
        // As soon as the cause is gone, the same edit is applied.
        cluster.secrets = secrets;
        (cluster.key_pair, cluster.refusals) = (KeyPair::Matching, Default::default());
        conditions(&mut cluster, valid);
        if let Some(live) = cluster.observed.certificate.as_mut() {
            let status = json!({ "conditions": cluster.certificate_conditions });
            std::sync::Arc::make_mut(live).status = serde_json::from_value(status).unwrap();
        }
        cluster.minutes += 1;
        converge(&mut cluster, &platform());
        assert_eq!((reason(&cluster, "Ready").as_str(), pod_deletions(&cluster)), ("NodeReady", 1), "{what}");
    }
}

/// Runs the cluster at a time. Returns the reason and the message of the condition, and whether anything was written.
fn at(cluster: &mut Cluster, minutes: i64) -> (String, String, bool) {
    let writes = cluster.writes;
    cluster.minutes = minutes;
    converge(cluster, &platform());
    let has_written = cluster.writes > writes;
    (reason(cluster, "SidecarTLSSecretReady"), message(cluster, "SidecarTLSSecretReady"), has_written)
}

/// Minutes from the start of the tests, 2026-05-18T10:00Z, to seven days before 2026-06-18T00:00Z.
const SOON: i64 = 23 * 24 * 60 + 14 * 60;
const EXPIRY: i64 = SOON + 7 * 24 * 60;

#[test]
fn expiry_is_reported_at_its_transitions_and_keeps_the_pod() {
    let mut cluster = running_with(X);
    cluster.secrets.insert("x".into(), named("x", validity((2026, 3, 20), (2026, 6, 18))));
    let pod = cluster.observed.pods[0].uid();
    let ready = "Secret x has a certificate for the node";
    let soon = "Secret x has a certificate for the node, which expires at 2026-06-18T00:00:00Z: replace it";
    let expired = "the certificate in Secret x expired at 2026-06-18T00:00:00Z: replace it";
    for (minutes, expected, text, has_written) in [
        (0, "TLSSecretReady", ready, false),
        (SOON - 1, "TLSSecretReady", ready, false),
        (SOON, "TLSSecretReady", soon, true),
        (SOON + 60, "TLSSecretReady", soon, false),
        (EXPIRY, "TLSSecretReady", soon, false),
        (EXPIRY + 1, "TLSSecretExpired", expired, true),
        (EXPIRY + 600, "TLSSecretExpired", expired, false),
    ] {
        let found = at(&mut cluster, minutes);
        assert_eq!(found, (expected.into(), text.into(), has_written), "minute {minutes}");
    }
    assert_eq!(reason(&cluster, "Ready"), "NodeReady", "the node runs");
    // Other edits are applied: the previous pod has the same certificate.
    cluster.edit(|node| node.spec.image = "sei:1".into());
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).current_image.as_deref(), Some("sei:1"));
    assert_eq!((pod_deletions(&cluster), reason(&cluster, "Ready").as_str()), (1, "NodeReady"));
    // A renewed certificate needs no new pod.
    assert_ne!(cluster.observed.pods[0].uid(), pod);
    cluster.secrets.insert("x".into(), named("x", validity((2026, 6, 1), (2026, 9, 1))));
    assert_eq!(at(&mut cluster, EXPIRY + 601), ("TLSSecretReady".into(), ready.into(), true));
    assert_eq!(pod_deletions(&cluster), 1);
}

/// cert-manager renews after two thirds of the lifetime: that a certificate of a day has less than seven days left says nothing.
#[test]
fn short_lived_certificate_is_reported_in_its_last_sixth() {
    let mut cluster = running_with(X);
    cluster.secrets.insert("x".into(), named("x", validity((2026, 5, 18), (2026, 5, 19))));
    let minutes_left = |left: i64| 14 * 60 - left;
    assert!(!at(&mut cluster, minutes_left(4 * 60 + 1)).1.contains("expires at"));
    assert!(at(&mut cluster, minutes_left(4 * 60)).1.contains("expires at 2026-05-19T00:00:00Z"));
}

/// An issuer whose clock is ahead must not make every renewal an alarm.
#[test]
fn certificate_of_an_issuer_whose_clock_is_ahead_is_ready() {
    let mut cluster = running_with(X);
    cluster.secrets.insert("x".into(), named("x", validity((2026, 5, 19), (2026, 8, 19))));
    let midnight = 14 * 60;
    assert_eq!(at(&mut cluster, midnight - 2).0, "TLSSecretNotYetValid");
    assert_eq!(at(&mut cluster, midnight - 1).0, "TLSSecretReady");
}

/// A requeue that comes later than the transition would report it late.
#[test]
fn node_is_requeued_when_its_certificate_expires() {
    let mut cluster = running_with(X);
    cluster.secrets.insert("x".into(), named("x", validity((2026, 3, 20), (2026, 6, 18))));
    let requeue = |cluster: &Cluster, seconds: i64| {
        let mut observed = cluster.observed.clone();
        let needs = required_observations(&cluster.node, &status(cluster), &platform(), &observed);
        cluster.answer(&needs, &mut observed);
        let mut now = time(EXPIRY);
        now.0 = now.0.saturating_add(k8s_openapi::jiff::SignedDuration::from_secs(seconds)).unwrap();
        let decision = decide(&cluster.node, status(cluster), &platform(), &observed, &now, "p");
        decision.requeue_after.unwrap().as_secs()
    };
    assert_eq!(requeue(&cluster, -60), 30, "the regular resync is earlier");
    assert_eq!(requeue(&cluster, -9), 10);
    assert_eq!(requeue(&cluster, 0), 1, "the last second is valid");
    assert_eq!(requeue(&cluster, 1), 30);
}

/// Every attempt of cert-manager changes the conditions of the Certificate.
#[test]
fn expired_issued_certificate_does_not_flap_while_it_is_retried() {
    let mut cluster = running_with(ISSUER);
    let owner = cluster.secrets[ISSUED].metadata.owner_references.clone();
    let mut expiring = issued(validity((2026, 3, 20), (2026, 6, 18)));
    expiring.metadata.owner_references = owner;
    cluster.secrets.insert(ISSUED.into(), expiring);
    let expired = "the certificate in Secret a-sidecar-tls expired at 2026-06-18T00:00:00Z: check Certificate a-sidecar-tls and its issuer one";
    assert_eq!(at(&mut cluster, EXPIRY + 1), ("TLSSecretExpired".into(), expired.into(), true));
    for (minutes, issuing) in [
        (
            EXPIRY + 2,
            json!({ "type": "Issuing", "status": "True", "reason": "Expired", "message": "renewing" }),
        ),
        (
            EXPIRY + 3,
            json!({ "type": "Issuing", "status": "False", "reason": "Failed", "message": "denied" }),
        ),
    ] {
        let ready = json!({ "type": "Ready", "status": "False", "reason": "Expired", "message": "expired" });
        let live = cluster.observed.certificate.as_mut().unwrap();
        let status = json!({ "conditions": [ready, issuing] });
        std::sync::Arc::make_mut(live).status = serde_json::from_value(status).unwrap();
        assert_eq!(at(&mut cluster, minutes), ("TLSSecretExpired".into(), expired.into(), false));
    }
    assert_eq!(pod_deletions(&cluster), 0);
    assert_owned(&cluster);
}

/// The pod is replaced already, and seid does not run until the rollback is complete.
#[test]
fn rollback_does_not_wait_for_an_unexpired_certificate() {
    let mut cluster = running_with(X);
    cluster.secrets.insert("x".into(), named("x", validity((2026, 3, 20), (2026, 6, 18))));
    cluster.minutes = EXPIRY + 1;
    converge(&mut cluster, &platform());
    cluster.edit(|node| {
        Source::Secret("y").set(node);
        node.spec.overrides.insert("evm.http_port".into(), "8545".into());
    });
    run_until_failed(&mut cluster, "config-apply");
    assert_eq!(pod_deletions(&cluster), 1);
    converge(&mut cluster, &platform());
    let now = status(&cluster);
    assert_eq!(now.plan.as_ref().unwrap().kind, Some(PlanKind::Rollback), "{now:#?}");
    assert_eq!(now.current_sidecar_tls, Some(X.observed()), "{now:#?}");
    assert!(cluster.sidecar.ready, "seid runs");
}

/// cert-manager issues a Secret that a user has deleted again, without an owner.
#[test]
fn renewed_secret_gets_its_owner_again_without_a_plan() {
    let mut cluster = running_with(ISSUER);
    assert_owned(&cluster);
    let plan = status(&cluster).plan.unwrap().id;
    for is_paused in [false, true] {
        cluster.edit(|node| node.spec.paused = is_paused);
        cluster.secrets.remove(ISSUED);
        converge(&mut cluster, &platform());
        assert_owned(&cluster);
        assert_eq!(status(&cluster).plan.unwrap().id, plan, "no plan");
        assert_steady(&mut cluster);
    }
    assert_eq!(pod_deletions(&cluster), 0);
}

/// The Secret would stay with its private key.
#[test]
fn certificate_stays_until_its_secret_has_an_owner() {
    let mut cluster = running_with(ISSUER);
    cluster.secrets.remove(ISSUED);
    cluster.refusals.insert("Secret", "secrets is forbidden");
    cluster.edit(|node| Source::Off.set(node));
    converge(&mut cluster, &platform());
    assert_eq!(reason(&cluster, "SpecApplied"), "WriteRefused");
    assert_eq!(message(&cluster, "SpecApplied"), "Secret: secrets is forbidden");
    let waiting = status(&cluster).waiting_for.unwrap();
    assert_eq!(waiting.target, "Secret/a-sidecar-tls");
    let text = waiting.message.unwrap();
    assert_eq!(text, "the owner of Secret a-sidecar-tls cannot be changed: secrets is forbidden");
    assert!(cluster.observed.certificate.is_some());
    assert!(cluster.sidecar.ready, "the node runs without TLS");
    cluster.refusals.clear();
    converge(&mut cluster, &platform());
    assert_eq!((owners(&cluster, ISSUED), cluster.observed.certificate.is_some()), (None, false));
    assert_eq!((reason(&cluster, "Ready").as_str(), pod_deletions(&cluster)), ("NodeReady", 1));
}

/// The user keeps the certificate, and no longer wants it to be renewed.
#[test]
fn issued_secret_that_the_user_names_survives_its_certificate() {
    let mut cluster = running_with(ISSUER);
    let before = cluster.secrets[ISSUED].data.clone();
    cluster.edit(|node| Source::Secret(ISSUED).set(node));
    converge(&mut cluster, &platform());
    assert_eq!(status(&cluster).current_sidecar_tls, Some(Source::Secret(ISSUED).observed()));
    assert!(cluster.observed.certificate.is_none());
    assert_eq!(owners(&cluster, ISSUED), Some(&[][..]));
    assert_eq!(cluster.secrets[ISSUED].data, before);
    assert_eq!(reason(&cluster, "Ready"), "NodeReady");
    assert_steady(&mut cluster);
}

/// With --enable-certificate-owner-ref, cert-manager sets the owner itself, and would set it again.
#[test]
fn owner_that_cert_manager_has_set_is_not_changed() {
    let mut cluster = running_with(ISSUER);
    let owner = cluster.secrets.get_mut(ISSUED).unwrap().metadata.owner_references.as_mut().unwrap();
    owner[0].controller = Some(true);
    let owner = owner.clone();
    assert_steady(&mut cluster);
    cluster.edit(|node| Source::Secret(ISSUED).set(node));
    converge(&mut cluster, &platform());
    assert_eq!(owners(&cluster, ISSUED), Some(&*owner));
    assert!(cluster.observed.certificate.is_some(), "the Secret would be deleted with it");
    let text = status(&cluster).waiting_for.unwrap().message.unwrap();
    assert!(text.contains("copy it to a Secret of another name"), "{text}");
}

#[test]
fn secret_of_another_certificate_or_node_gets_no_owner() {
    let other_certificate = |secret: &mut Secret, _: &mut Cluster| {
        secret
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert("cert-manager.io/certificate-name".into(), "b".into());
    };
    let no_certificate = |secret: &mut Secret, _: &mut Cluster| secret.metadata.annotations = None;
    let other_node = |_: &mut Secret, cluster: &mut Cluster| {
        let live = std::sync::Arc::make_mut(cluster.observed.certificate.as_mut().unwrap());
        live.metadata.owner_references.as_mut().unwrap()[0].uid = "other".into();
    };
    type Change = fn(&mut Secret, &mut Cluster);
    for change in [other_certificate as Change, no_certificate, other_node] {
        let mut cluster = running_with(ISSUER);
        let mut secret = issued(params("a"));
        change(&mut secret, &mut cluster);
        cluster.secrets.insert(ISSUED.into(), secret);
        converge(&mut cluster, &platform());
        assert_eq!(owners(&cluster, ISSUED), Some(&[][..]));
    }
}

/// The Secrets of a node that is being deleted are not read any more.
#[test]
fn deleted_node_keeps_the_condition_of_its_certificate() {
    let mut cluster = running_with(X);
    cluster.node.metadata.deletion_timestamp = Some(time(1));
    cluster.node.metadata.finalizers = Some(vec!["foregroundDeletion".into()]);
    reconcile(&mut cluster, &platform(), Fault::None);
    assert_eq!(reason(&cluster, "SidecarTLSSecretReady"), "TLSSecretReady");
}

#[test]
fn node_without_tls_reads_no_secret() {
    let cluster = running(node("a"), &platform());
    let needs = required_observations(&cluster.node, &status(&cluster), &platform(), &cluster.observed);
    assert!(needs.secrets.is_empty(), "{:?}", needs.secrets);
}
