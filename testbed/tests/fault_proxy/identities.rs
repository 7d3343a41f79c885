//! The proxy preserves the identity of clients.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::{Client, Config};
use testbed::cluster::pki::CertificateAuthority;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT, create, status};

/// Headers with which a client tries to impersonate another user.
fn forge(config: &mut Config) {
    for (name, value) in [("x-remote-user", "admin"), ("x-remote-group", "system:masters")] {
        config.headers.push((name.parse().expect("a header"), value.parse().expect("a value")));
    }
}

pub async fn rbac_and_audit_log_see_the_real_user(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let agent = "identity-test/1";
    let jane = fixture.plane.user("jane", Some("staff"))?;
    let refused = fixture.maps_as(&jane, agent).await?.list(&ListParams::default()).await;
    let refused = status(refused.expect_err("jane has no permissions"))?;
    assert!(refused.message.contains("User \"jane\" cannot list resource"), "{refused:?}");

    let mut config = jane.at(fixture.proxy.url()).config().await?;
    forge(&mut config);
    config.headers.push((http::header::USER_AGENT, agent.parse()?));
    let forger: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, &fixture.ns);
    let refused =
        status(forger.list(&ListParams::default()).await.expect_err("forged headers were accepted"))?;
    assert!(refused.message.contains("User \"jane\" cannot list resource"), "{refused:?}");

    // Groups are passed through as well: the admin has access only through her group.
    create(&fixture.maps_as(fixture.plane.admin(), agent).await?, "by-admin").await?;
    let seen = fixture.plane.audit().wait_for(3, TIMEOUT, |request| request.user_agent == agent).await?;
    let seen: Vec<_> =
        seen.iter().map(|request| (request.user.as_str(), request.verb.as_str(), request.code)).collect();
    assert_eq!(seen, [("jane", "list", 403), ("jane", "list", 403), ("admin", "create", 201)]);
    Ok(())
}

pub async fn token_is_passed_through_to_the_api_server(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(fixture.plane.client().await?, &fixture.ns);
    let metadata = ObjectMeta { name: Some("robot".into()), ..ObjectMeta::default() };
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
        .await?;
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let issued = accounts.create_token_request("robot", &PostParams::default(), &request).await?;
    let token = issued.status.ok_or("no token issued")?.token;

    let mut config = fixture.plane.admin().at(fixture.proxy.url()).config().await?;
    config.auth_info = Default::default();
    forge(&mut config);
    let list = |config: &Config| {
        let made = Client::try_from(config.clone());
        let ns = fixture.ns.clone();
        async move {
            Ok::<_, kube::Error>(Api::<ConfigMap>::namespaced(made?, &ns).list(&ListParams::default()).await)
        }
    };
    let anonymous = status(list(&config).await?.expect_err("anonymous request was allowed"))?;
    assert!(anonymous.message.contains("User \"system:anonymous\""), "{anonymous:?}");
    config.auth_info.token = Some(token.clone().into());
    let robot = status(list(&config).await?.expect_err("service account has no permissions"))?;
    let name = format!("system:serviceaccount:{}:robot", fixture.ns);
    assert!(robot.message.contains(&format!("User \"{name}\"")), "{robot:?}");
    config.auth_info.token = Some(format!("{token}x").into());
    let invalid = status(list(&config).await?.expect_err("invalid token was accepted"))?;
    assert_eq!(invalid.code, 401, "{invalid:?}");

    let users = fixture.proxy.journal().requests(|request| request.info.user == name)?;
    assert_eq!(users.len(), 2, "the journal records the claimed user of a token");
    let text = std::fs::read_to_string(fixture.proxy.journal().path())?;
    assert!(!text.contains(&token), "token in the journal");
    Ok(())
}

pub async fn certificate_of_another_ca_is_rejected(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx).await?;
    let stranger = CertificateAuthority::new("elsewhere")?.issue_client("admin", Some("system:masters"))?;
    let mut config = fixture.plane.admin().at(fixture.proxy.url()).config().await?;
    config.auth_info.client_certificate_data = Some(BASE64.encode(stranger.certificate));
    config.auth_info.client_key_data = Some(BASE64.encode(stranger.key).into());
    let refused = Client::try_from(config)?.apiserver_version().await;
    let refused = refused.expect_err("certificate of another CA was accepted");
    assert!(!matches!(refused, kube::Error::Api(_)), "{refused:?}");
    assert!(fixture.proxy.journal().requests(|_| true)?.is_empty(), "unauthenticated request was processed");
    Ok(())
}
