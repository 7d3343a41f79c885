//! The control plane: startup, RBAC, tokens, audit log, encryption.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes only libtest tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use testbed::cluster::openshift::{self, FeatureSet};
use testbed::fakes::kms_plugin::FakeKmsPlugin;
use testbed::{Context, ControlPlane, TestResult};

testbed::suite![
    starts_in_under_ten_seconds_and_reports_version,
    rbac_allows_only_granted_verbs,
    service_account_tokens_are_issued_and_reviewed,
    audit_log_records_requests_per_client,
    three_control_planes_run_side_by_side,
    api_server_restart_keeps_storage,
    controllers_run_on_request,
    killed_scheduler_is_restarted,
    kubectl_works,
    secrets_are_encrypted_by_kms_plugin,
    openshift_schemas_match_the_feature_set,
];

async fn starts_in_under_ten_seconds_and_reports_version(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let version = plane.client().await?.apiserver_version().await?;
    assert_eq!(version.git_version, "v1.36.3");
    println!("control plane: ready in {:.1} s", plane.started_in().as_secs_f64());
    assert!(plane.started_in() < Duration::from_secs(10), "took {:?}", plane.started_in());
    Ok(())
}

async fn rbac_allows_only_granted_verbs(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ns = cx.namespace().await?;
    let reader = plane.user("reader", Some("readers"))?.client("rbac-test").await?;
    let maps: Api<ConfigMap> = Api::namespaced(reader, &ns);
    let refused = maps.list(&ListParams::default()).await.expect_err("nothing granted yet");
    assert!(refused.to_string().contains("is forbidden: User \"reader\""), "{refused}");

    let admin = plane.client().await?;
    let name = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".into()]),
        verbs: vec!["list".into()],
        ..PolicyRule::default()
    };
    let role = Role { metadata: name("lister"), rules: Some(vec![rule]) };
    Api::<Role>::namespaced(admin.clone(), &ns).create(&PostParams::default(), &role).await?;
    let binding = RoleBinding {
        metadata: name("lister"),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name: "lister".into(),
        },
        subjects: Some(vec![Subject { kind: "Group".into(), name: "readers".into(), ..Subject::default() }]),
    };
    Api::<RoleBinding>::namespaced(admin, &ns).create(&PostParams::default(), &binding).await?;

    let everything = ListParams::default();
    testbed::harness::wait::until("RBAC grant", Duration::from_secs(5), || maps.list(&everything)).await?;
    let own = ConfigMap { metadata: name("own"), ..ConfigMap::default() };
    let refused = maps.create(&PostParams::default(), &own).await.expect_err("only list granted");
    assert!(refused.to_string().contains("cannot create resource \"configmaps\""), "{refused}");
    Ok(())
}

async fn service_account_tokens_are_issued_and_reviewed(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ns = cx.namespace().await?;
    let client = plane.client().await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &ns);
    let metadata = ObjectMeta { name: Some("node".into()), ..ObjectMeta::default() };
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
        .await?;
    let request = TokenRequest {
        spec: TokenRequestSpec { audiences: vec!["sidecar".into()], ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let issued = accounts.create_token_request("node", &PostParams::default(), &request).await?;
    let token = issued.status.ok_or("no token issued")?.token;

    let reviews: Api<TokenReview> = Api::all(client);
    for (audience, expected) in [("sidecar", true), ("another-audience", false)] {
        let spec = TokenReviewSpec { token: Some(token.clone()), audiences: Some(vec![audience.into()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status =
            reviews.create(&PostParams::default(), &review).await?.status.ok_or("review without status")?;
        assert_eq!(
            status.authenticated.unwrap_or(false),
            expected,
            "audience {audience}: {:?}",
            status.error
        );
        if expected {
            assert_eq!(
                status.user.and_then(|user| user.username),
                Some(format!("system:serviceaccount:{ns}:node"))
            );
        }
    }
    Ok(())
}

async fn audit_log_records_requests_per_client(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ns = cx.namespace().await?;
    let agent = "audit-test/1";
    let maps: Api<ConfigMap> = Api::namespaced(plane.admin().client(agent).await?, &ns);
    for n in 0..3 {
        let metadata = ObjectMeta { name: Some(format!("map-{n}")), ..ObjectMeta::default() };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
    }
    maps.list(&ListParams::default()).await?;
    let requests =
        plane.audit().wait_for(4, Duration::from_secs(5), |request| request.user_agent == agent).await?;
    let mut by_verb = BTreeMap::<&str, usize>::new();
    for request in &requests {
        assert_eq!((request.user.as_str(), request.namespace.as_str()), ("admin", ns.as_str()));
        *by_verb.entry(&request.verb).or_default() += 1;
    }
    assert_eq!(by_verb, BTreeMap::from([("create", 3), ("list", 1)]));
    assert_eq!(requests.iter().filter(|request| request.is_write()).count(), 3);
    assert_eq!(requests[0].code, 201);
    Ok(())
}

async fn three_control_planes_run_side_by_side(cx: Context) -> TestResult {
    let start = || async { ControlPlane::builder(&cx.site()?).start().await };
    let (a, b, c) = tokio::try_join!(start(), start(), start())?;
    for (n, plane) in [&a, &b, &c].into_iter().enumerate() {
        let pod_name = plane.namespace(&format!("only-in-{n}")).await?;
        for other in [&a, &b, &c].into_iter().filter(|other| other.url() != plane.url()) {
            let found = Api::<Namespace>::all(other.client().await?).get_opt(&pod_name).await?;
            assert!(found.is_none(), "{pod_name} of {} is visible at {}", plane.url(), other.url());
        }
    }
    // Each control plane trusts only its own CA, so a certificate of one cluster is rejected by the others.
    let stranger = a.admin().at(b.url()).client("stranger").await?;
    let error = stranger.apiserver_version().await.expect_err("another cluster's certificate was accepted");
    assert!(format!("{error:?}").contains("UnknownIssuer"), "{error:?}");
    for plane in [&a, &b, &c] {
        plane.check_alive()?;
    }
    Ok(())
}

async fn api_server_restart_keeps_storage(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    let ns = plane.namespace("kept").await?;
    plane.stop_api_server()?;
    plane.client().await?.apiserver_version().await.expect_err("stopped API server responded");
    plane.start_api_server().await?;
    Api::<Namespace>::all(plane.client().await?).get(&ns).await?;
    let stored =
        plane.etcd_value(&format!("/registry/namespaces/{ns}")).await?.ok_or("namespace not in etcd")?;
    assert!(stored.starts_with(b"k8s\0"), "stored as {:?}", &stored[..stored.len().min(16)]);
    assert!(plane.etcd_value("/registry/namespaces/none").await?.is_none());
    Ok(())
}

async fn controllers_run_on_request(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).controllers().scheduler().start().await?;
    let ns = plane.namespace("watched").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client().await?, &ns);
    testbed::harness::wait::until("default service account", Duration::from_secs(30), || {
        accounts.get("default")
    })
    .await?;
    plane.check_alive()?;
    Ok(())
}

async fn killed_scheduler_is_restarted(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).scheduler().start().await?;
    let first = plane.scheduler_pid()?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(first)?).ok_or("invalid PID")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    testbed::harness::wait::until("restarted scheduler", Duration::from_secs(30), || async {
        plane.check_alive()?;
        match plane.scheduler_pid()? {
            now if now != first => Ok(()),
            _ => Err(testbed::Error::Other("still the first process".into())),
        }
    })
    .await?;
    Ok(())
}

async fn kubectl_works(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ns = cx.namespace().await?;
    let output =
        plane.kubectl()?.args(["get", "namespace", &ns, "-o", "jsonpath={.status.phase}"]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Active");
    Ok(())
}

async fn secrets_are_encrypted_by_kms_plugin(cx: Context) -> TestResult {
    let site = cx.site()?;
    let plugin = FakeKmsPlugin::start("vault", site.dir())?;
    let plane = ControlPlane::builder(&site).kms_provider(plugin.provider()).start().await?;
    let ns = plane.namespace("encrypted").await?;
    let secrets: Api<Secret> = Api::namespaced(plane.client().await?, &ns);
    let metadata = ObjectMeta { name: Some("key".into()), ..ObjectMeta::default() };
    let string_data = Some(BTreeMap::from([("password".into(), "hunter2".into())]));
    secrets.create(&PostParams::default(), &Secret { metadata, string_data, ..Secret::default() }).await?;

    let stored =
        plane.etcd_value(&format!("/registry/secrets/{ns}/key")).await?.ok_or("secret not in etcd")?;
    assert!(stored.starts_with(b"k8s:enc:kms:v2:vault:"), "stored as {:?}", String::from_utf8_lossy(&stored));
    assert!(!stored.windows(7).any(|window| window == b"hunter2"), "secret stored unencrypted");
    assert!(plugin.encrypted() > 0);
    // An API server that has just started has no cached data key, so reading the secret requires the plugin.
    let before = plugin.decrypted();
    plane.restart_api_server().await?;
    let secrets: Api<Secret> = Api::namespaced(plane.client().await?, &ns);
    let read = secrets.get("key").await?.data.ok_or("secret without data")?;
    assert_eq!(read["password"].0, b"hunter2");
    assert!(plugin.decrypted() > before, "the plugin was not asked to decrypt");
    Ok(())
}

async fn openshift_schemas_match_the_feature_set(cx: Context) -> TestResult {
    let plane = ControlPlane::builder(&cx.site()?).start().await?;
    let client = plane.client().await?;
    for features in [FeatureSet::Default, FeatureSet::TechPreview] {
        openshift::install(&plane, features)?;
        for (kind, _) in openshift::KINDS {
            openshift::create_singleton(&client, kind).await?;
            // A new schema can be explained shortly after it is served.
            testbed::harness::wait::until("schema", Duration::from_secs(10), || async {
                let output = plane.kubectl()?.args(["explain", kind, "--recursive"]).output();
                let schema = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
                let schema = schema.unwrap_or_default();
                let as_expected = schema.contains("healthReports") == (features == FeatureSet::TechPreview);
                if as_expected { Ok(()) } else { Err(testbed::Error::Other(format!("{kind}: {schema}"))) }
            })
            .await?;
        }
    }
    Ok(())
}
