use http::{HeaderMap, HeaderName, Method};

use super::attributes::{Asking, Attributes, Missing};
use crate::cache::Secret;
use crate::config::{Question, ResourceTemplate, Rewrites, Template};

fn template(namespace: &str) -> ResourceTemplate {
    ResourceTemplate {
        namespace: Template::parse(namespace).unwrap(),
        resource: Template::text("services"),
        subresource: Template::text("proxy"),
        group: Template::text("apps"),
        version: Template::text("v1"),
        name: Template::text("api"),
    }
}

fn rewrites(query: Option<&str>, header: Option<&'static str>) -> Rewrites {
    Rewrites { query_parameter: query.map(Into::into), header: header.map(HeaderName::from_static) }
}

fn asked(question: &Question, query: &str, lines: &[&str]) -> Result<Vec<String>, Missing> {
    let secret = Secret::new().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append("x-namespace", line.parse().unwrap());
    }
    let asking = Asking::new(question, &secret);
    let all = asking.of(&Method::GET, "/path", Some(query), &headers, &secret)?;
    Ok(all
        .iter()
        .map(|one| match &one.attributes {
            Attributes::Path { verb, path } => format!("{verb} {path}"),
            Attributes::Resource { verb, namespace, .. } => format!("{verb} {namespace}"),
        })
        .collect())
}

/// ATTR-01 to ATTR-08.
#[test]
fn attributes_come_from_the_path_the_configuration_the_query_and_the_header() {
    let by = |query, header| Question::Rewritten(template("{{ .Value }}"), rewrites(query, header));
    let header = Some("x-namespace");
    assert_eq!(asked(&Question::Path, "", &[]).unwrap(), ["get /path"]);
    assert_eq!(asked(&Question::Resource(template("fixed")), "", &[]).unwrap(), ["get fixed"]);
    assert_eq!(asked(&by(Some("ns"), None), "ns=one", &[]).unwrap(), ["get one"]);
    assert_eq!(asked(&by(Some("ns"), None), "other=one", &[]), Err(Missing::Value));
    assert_eq!(asked(&by(None, header), "", &["one"]).unwrap(), ["get one"]);
    assert_eq!(asked(&by(None, header), "", &["one", "two,three"]).unwrap(), ["get one", "get two,three"]);
    assert_eq!(asked(&by(None, header), "", &[]), Err(Missing::Value));
    assert_eq!(asked(&by(Some("ns"), header), "ns=a&ns=", &["b"]).unwrap(), ["get a", "get ", "get b"]);
}

/// W5.
#[test]
fn a_query_that_hides_a_value_is_refused_where_values_matter() {
    let by_query = Question::Rewritten(template("{{ .Value }}"), rewrites(Some("ns"), None));
    assert_eq!(asked(&by_query, "ns=a&x=;ns=b", &[]), Err(Missing::Query));
    assert!(asked(&Question::Path, "ns=a&x=;ns=b", &[]).is_ok());
}

#[test]
fn reviews_hold_what_is_set_and_leave_out_what_is_empty() {
    let path = Attributes::Path { verb: "get", path: "/a\"b".into() };
    assert_eq!(path.spec(), r#","nonResourceAttributes":{"path":"/a\"b","verb":"get"}}"#);
    let secret = Secret::new().unwrap();
    let asking = Asking::new(
        &Question::Resource(ResourceTemplate { version: Template::default(), ..template("n") }),
        &secret,
    );
    let all = asking.of(&Method::POST, "/", None, &HeaderMap::new(), &secret).unwrap();
    let spec = all.iter().next().unwrap().attributes.spec();
    assert_eq!(
        spec,
        r#","resourceAttributes":{"group":"apps","name":"api","namespace":"n","resource":"services","subresource":"proxy","verb":"create"}}"#
    );
}

/// ATTR-08: 9,999 and 10,000 bytes, the verb among them.
#[test]
fn very_large_attributes_are_not_remembered() {
    let path = |length| Attributes::Path { verb: "get", path: "a".repeat(length).into() };
    assert!(path(9_996).is_cached());
    assert!(!path(9_997).is_cached());
}

#[test]
fn every_attribute_is_part_of_the_digest() {
    let secret = Secret::new().unwrap();
    let digest = |namespace: &str, method: Method| {
        let asking = Asking::new(&Question::Resource(template(namespace)), &secret);
        let headers = HeaderMap::new();
        asking.of(&method, "/", None, &headers, &secret).unwrap().iter().next().unwrap().digest
    };
    assert_eq!(digest("a", Method::GET), digest("a", Method::GET));
    assert_ne!(digest("a", Method::GET), digest("b", Method::GET));
    assert_ne!(digest("a", Method::GET), digest("a", Method::PUT));
}
