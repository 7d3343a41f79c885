//! Who asks stays who he is.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::{Client, Config};
use testbed::cluster::pki::Authority;
use testbed::{Context, TestResult};

use crate::bench::{Bench, SOON, create, status};

/// Headers by which a client tries to be somebody else.
fn forge(config: &mut Config) {
    for (name, value) in [("x-remote-user", "admin"), ("x-remote-group", "system:masters")] {
        config.headers.push((name.parse().expect("a header"), value.parse().expect("a value")));
    }
}

pub async fn rbac_and_the_audit_log_see_who_really_asked(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let agent = "identity-test/1";
    let jane = bench.plane.user("jane", Some("staff"))?;
    let refused = bench.maps_of(&jane, agent).await?.list(&ListParams::default()).await;
    let refused = status(refused.expect_err("nothing was granted to jane"))?;
    assert!(refused.message.contains("User \"jane\" cannot list resource"), "{refused:?}");

    let mut config = jane.at(bench.proxy.url()).config().await?;
    forge(&mut config);
    config.headers.push((http::header::USER_AGENT, agent.parse()?));
    let forger: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, &bench.ns);
    let refused = status(forger.list(&ListParams::default()).await.expect_err("a forgery was believed"))?;
    assert!(refused.message.contains("User \"jane\" cannot list resource"), "{refused:?}");

    // The group gets through as well: the administrator may do everything by nothing but her group.
    create(&bench.maps_of(bench.plane.admin(), agent).await?, "by-admin").await?;
    let seen = bench.plane.audit().wait_for(3, SOON, |request| request.user_agent == agent).await?;
    let seen: Vec<_> =
        seen.iter().map(|request| (request.user.as_str(), request.verb.as_str(), request.code)).collect();
    assert_eq!(seen, [("jane", "list", 403), ("jane", "list", 403), ("admin", "create", 201)]);
    Ok(())
}

pub async fn a_token_is_passed_on_for_the_api_server_to_judge(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(bench.plane.client().await?, &bench.ns);
    let metadata = ObjectMeta { name: Some("robot".into()), ..ObjectMeta::default() };
    accounts
        .create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() })
        .await?;
    let wanted = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let issued = accounts.create_token_request("robot", &PostParams::default(), &wanted).await?;
    let token = issued.status.ok_or("no token was issued")?.token;

    let mut config = bench.plane.admin().at(bench.proxy.url()).config().await?;
    config.auth_info = Default::default();
    forge(&mut config);
    let list = |config: &Config| {
        let made = Client::try_from(config.clone());
        let ns = bench.ns.clone();
        async move {
            Ok::<_, kube::Error>(Api::<ConfigMap>::namespaced(made?, &ns).list(&ListParams::default()).await)
        }
    };
    let nobody = status(list(&config).await?.expect_err("nobody was let in"))?;
    assert!(nobody.message.contains("User \"system:anonymous\""), "{nobody:?}");
    config.auth_info.token = Some(token.clone().into());
    let robot = status(list(&config).await?.expect_err("nothing was granted to the account"))?;
    let name = format!("system:serviceaccount:{}:robot", bench.ns);
    assert!(robot.message.contains(&format!("User \"{name}\"")), "{robot:?}");
    config.auth_info.token = Some(format!("{token}x").into());
    let liar = status(list(&config).await?.expect_err("a wrong token was believed"))?;
    assert_eq!(liar.code, 401, "{liar:?}");

    let users = bench.proxy.journal().requests(|request| request.asked.user == name)?;
    assert_eq!(users.len(), 2, "the journal knows whom a token claims to be");
    let text = std::fs::read_to_string(bench.proxy.journal().path())?;
    assert!(!text.contains(&token), "the journal holds a token");
    Ok(())
}

pub async fn a_certificate_of_another_authority_is_refused(cx: Context) -> TestResult {
    let bench = Bench::of(&cx).await?;
    let stranger = Authority::new("elsewhere")?.client("admin", Some("system:masters"))?;
    let mut config = bench.plane.admin().at(bench.proxy.url()).config().await?;
    config.auth_info.client_certificate_data = Some(BASE64.encode(stranger.certificate));
    config.auth_info.client_key_data = Some(BASE64.encode(stranger.key).into());
    let refused = Client::try_from(config)?.apiserver_version().await;
    let refused = refused.expect_err("another authority's certificate was accepted");
    assert!(!matches!(refused, kube::Error::Api(_)), "{refused:?}");
    assert!(bench.proxy.journal().requests(|_| true)?.is_empty(), "a stranger's request was read");
    Ok(())
}
