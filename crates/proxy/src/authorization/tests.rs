use http::{HeaderMap, HeaderName, Method};

use super::attributes::{Attributes, AttributesBuilder, AttributesError};
use crate::cache::HmacKey;
use crate::config::{AuthorizationMode, ResourceTemplate, Rewrites, Template};

fn template(namespace: &str) -> ResourceTemplate {
    ResourceTemplate {
        namespace: Template::parse(namespace).unwrap(),
        resource: Template::literal("services"),
        subresource: Template::literal("proxy"),
        group: Template::literal("apps"),
        version: Template::literal("v1"),
        name: Template::literal("api"),
    }
}

fn rewrites(query: Option<&str>, header: Option<&'static str>) -> Rewrites {
    Rewrites { query_parameter: query.map(Into::into), header: header.map(HeaderName::from_static) }
}

fn checked(mode: &AuthorizationMode, query: &str, lines: &[&str]) -> Result<Vec<String>, AttributesError> {
    let hmac_key = HmacKey::new().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append("x-namespace", line.parse().unwrap());
    }
    let builder = AttributesBuilder::new(mode, &hmac_key);
    let all = builder.checks_for(&Method::GET, "/path", Some(query), &headers, &hmac_key)?;
    Ok(all
        .iter()
        .map(|one| match &one.attributes {
            Attributes::Path { verb, path } => format!("{verb} {path}"),
            Attributes::Resource { verb, namespace, .. } => format!("{verb} {namespace}"),
        })
        .collect())
}

#[test]
fn attributes_come_from_path_config_query_and_header() {
    let rewritten_by =
        |query, header| AuthorizationMode::Rewritten(template("{{ .Value }}"), rewrites(query, header));
    let header = Some("x-namespace");
    assert_eq!(checked(&AuthorizationMode::Path, "", &[]).unwrap(), ["get /path"]);
    assert_eq!(checked(&AuthorizationMode::Resource(template("fixed")), "", &[]).unwrap(), ["get fixed"]);
    assert_eq!(checked(&rewritten_by(Some("ns"), None), "ns=one", &[]).unwrap(), ["get one"]);
    assert_eq!(
        checked(&rewritten_by(Some("ns"), None), "other=one", &[]),
        Err(AttributesError::MissingValue)
    );
    assert_eq!(checked(&rewritten_by(None, header), "", &["one"]).unwrap(), ["get one"]);
    assert_eq!(
        checked(&rewritten_by(None, header), "", &["one", "two,three"]).unwrap(),
        ["get one", "get two,three"]
    );
    assert_eq!(checked(&rewritten_by(None, header), "", &[]), Err(AttributesError::MissingValue));
    assert_eq!(
        checked(&rewritten_by(Some("ns"), header), "ns=a&ns=", &["b"]).unwrap(),
        ["get a", "get ", "get b"]
    );
}

#[test]
fn ambiguous_query_is_rejected_only_for_query_rewrites() {
    let by_query = AuthorizationMode::Rewritten(template("{{ .Value }}"), rewrites(Some("ns"), None));
    assert_eq!(checked(&by_query, "ns=a&x=;ns=b", &[]), Err(AttributesError::AmbiguousQuery));
    assert!(checked(&AuthorizationMode::Path, "ns=a&x=;ns=b", &[]).is_ok());
}

#[test]
fn spec_omits_empty_attributes() {
    let path = Attributes::Path { verb: "get", path: "/a\"b".into() };
    assert_eq!(path.spec(), r#","nonResourceAttributes":{"path":"/a\"b","verb":"get"}}"#);
    let hmac_key = HmacKey::new().unwrap();
    let builder = AttributesBuilder::new(
        &AuthorizationMode::Resource(ResourceTemplate { version: Template::default(), ..template("n") }),
        &hmac_key,
    );
    let all = builder.checks_for(&Method::POST, "/", None, &HeaderMap::new(), &hmac_key).unwrap();
    let spec = all.iter().next().unwrap().attributes.spec();
    assert_eq!(
        spec,
        r#","resourceAttributes":{"group":"apps","name":"api","namespace":"n","resource":"services","subresource":"proxy","verb":"create"}}"#
    );
}

/// 9,999 and 10,000 bytes, including the verb.
#[test]
fn large_attributes_are_not_cached() {
    let path = |length| Attributes::Path { verb: "get", path: "a".repeat(length).into() };
    assert!(path(9_996).is_cacheable());
    assert!(!path(9_997).is_cacheable());
}

#[test]
fn digest_covers_verb_and_namespace() {
    let hmac_key = HmacKey::new().unwrap();
    let digest = |namespace: &str, method: Method| {
        let builder = AttributesBuilder::new(&AuthorizationMode::Resource(template(namespace)), &hmac_key);
        let headers = HeaderMap::new();
        builder.checks_for(&method, "/", None, &headers, &hmac_key).unwrap().iter().next().unwrap().digest
    };
    assert_eq!(digest("a", Method::GET), digest("a", Method::GET));
    assert_ne!(digest("a", Method::GET), digest("b", Method::GET));
    assert_ne!(digest("a", Method::GET), digest("a", Method::PUT));
}

/// The subresource that a request is authorized for, and the digest of the check.
fn subresource_check(
    hmac_key: &HmacKey,
    method: &Method,
    kind: Option<&str>,
) -> Result<(String, crate::cache::Digest), AttributesError> {
    let resource = ResourceTemplate { subresource: Template::default(), ..template("n") };
    let mode = AuthorizationMode::SubresourceFromHeader(resource, HeaderName::from_static("x-kind"));
    let headers = kind.map(|kind| (HeaderName::from_static("x-kind"), kind.parse().unwrap()));
    let headers: HeaderMap = headers.into_iter().collect();
    let builder = AttributesBuilder::new(&mode, hmac_key);
    let all = builder.checks_for(method, "/v0/tasks", None, &headers, hmac_key)?;
    let checks: Vec<_> = all.iter().collect();
    assert_eq!(checks.len(), 1);
    let Attributes::Resource { verb, namespace, group, version, resource, subresource, name } =
        &checks[0].attributes
    else {
        panic!("{:?}", checks[0])
    };
    assert_eq!(
        (&**namespace, &**group, &**version, &**resource, &**name),
        ("n", "apps", "v1", "services", "api")
    );
    Ok((format!("{verb} {subresource}"), checks[0].digest))
}

#[test]
fn post_header_names_the_subresource() {
    let hmac_key = HmacKey::new().unwrap();
    let check = |method, kind| subresource_check(&hmac_key, &method, kind).map(|(text, _)| text);
    assert_eq!(check(Method::POST, Some("restart")).unwrap(), "create restart");
    assert_eq!(check(Method::POST, None).unwrap(), "create ");
    assert_eq!(check(Method::POST, Some("Restart")), Err(AttributesError::BadSubresourceHeader));
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD] {
        let text = check(method.clone(), Some("restart")).unwrap();
        assert!(text.ends_with(' '), "{method}: {text}");
        assert!(check(method, Some("Restart")).is_ok(), "the header has no effect");
    }
}

/// The digest is the cache key: a decision about one subresource must not be used for another.
#[test]
fn digest_covers_the_subresource() {
    let hmac_key = HmacKey::new().unwrap();
    let digest = |kind| subresource_check(&hmac_key, &Method::POST, kind).unwrap().1;
    assert_eq!(digest(Some("restart")), digest(Some("restart")));
    assert_ne!(digest(Some("restart")), digest(Some("reset-data")));
    assert_ne!(digest(Some("restart")), digest(None));
}
