use super::*;
use crate::authorization::Attributes;

fn good(text: &str) -> Configuration {
    parse(text).unwrap_or_else(|problems| panic!("{problems:?} of\n{text}"))
}

const WHOLE: &str = "\
authorization:
  resourceAttributes:
    namespace: sei
    apiGroup: sei.io
    apiVersion: v1alpha1
    resource: seinodetasks
    subresource: status
    name: node-0
";

/// CFG-01.
#[test]
fn six_names_make_one_resource() {
    let configuration = good(WHOLE);
    let Question::Resource(template) = &configuration.question else { panic!("{configuration:?}") };
    let with = |template: &Template| template.with("-");
    let names = [
        with(&template.namespace),
        with(&template.group),
        with(&template.version),
        with(&template.resource),
        with(&template.subresource),
        with(&template.name),
    ];
    assert_eq!(names, ["sei", "sei.io", "v1alpha1", "seinodetasks", "status", "node-0"]);
    assert!(configuration.warnings.is_empty(), "{:?}", configuration.warnings);
}

/// CFG-03.
#[test]
fn keys_are_known_in_every_case_and_json_is_yaml() {
    let other = WHOLE.replace("apiGroup", "APIGROUP").replace("resourceAttributes", "resourceattributes");
    assert_eq!(good(&other), good(WHOLE));
    let json = r#"{"authorization":{"resourceAttributes":{"resource":"pods"}}}"#;
    assert!(matches!(good(json).question, Question::Resource(_)));
}

/// CFG-02.
#[test]
fn an_unknown_key_is_told_with_the_likely_one() {
    for (key, says) in [
        (
            "group: sei.io",
            "authorization.resourceAttributes.group is no known key and has no effect: did you mean apiGroup?",
        ),
        (
            "nmespace: a",
            "authorization.resourceAttributes.nmespace is no known key and has no effect: did you mean namespace?",
        ),
        ("verb: get", "known are namespace, apiGroup"),
        ("resources: pods", "did you mean resource?"),
    ] {
        let warnings = good(&WHOLE.replace("apiVersion: v1alpha1", key)).warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(says), "{key}: {warnings:?}");
    }
    let warnings = good("authorisation:\n  static: []\n").warnings;
    assert!(warnings[0].contains("did you mean authorization?"), "{warnings:?}");
}

/// CFG-04.
#[test]
fn without_the_key_everything_is_checked_by_its_path() {
    for text in ["", "# nothing\n", "{}", "authorization:\n", "---\n"] {
        let configuration = good(text);
        assert_eq!(configuration.question, Question::Path, "{text:?}");
        assert_eq!(configuration.warnings.len(), 1, "{text:?}");
    }
}

/// CFG-05.
#[test]
fn rewrites_alone_have_no_effect_and_are_told() {
    let configuration = good("authorization:\n  rewrites:\n    byQueryParameter:\n      name: ns\n");
    assert_eq!(configuration.question, Question::Path);
    assert!(configuration.warnings[0].contains("has no effect without"), "{:?}", configuration.warnings);
}

/// CFG-06, CFG-07.
#[test]
fn templates_hold_the_value_and_nothing_else() {
    let text = |namespace: &str| {
        format!(
            "authorization:\n  rewrites:\n    byQueryParameter:\n      name: ns\n    byHttpHeader:\n      name: X-Ns\n  \
             resourceAttributes:\n    namespace: '{namespace}'\n    resource: pods\n"
        )
    };
    for (written, with) in [
        ("{{ .Value }}", "a"),
        ("{{.Value}}", "a"),
        ("x-{{ .Value }}-y-{{.Value}}", "x-a-y-a"),
        ("plain", "plain"),
    ] {
        let Question::Rewritten(template, rewrites) = good(&text(written)).question else { panic!() };
        assert_eq!(template.namespace.with("a"), with);
        assert_eq!(rewrites.query_parameter.as_deref(), Some("ns"));
        assert_eq!(rewrites.header.unwrap(), "x-ns");
    }
    for bad in ["{{ .Valu }}", "{{ .Value", "{{ printf .Value }}", "{{}}"] {
        let problems = parse(&text(bad)).unwrap_err();
        assert!(problems[0].starts_with("authorization.resourceAttributes.namespace: "), "{problems:?}");
    }
}

/// CFG-08: names that YAML 1.1 would turn into something else.
#[test]
fn scalars_stay_the_text_that_was_written() {
    for name in ["on", "yes", "y", "1e3", "007", "0x10", "true", "1.0", "12"] {
        let Question::Resource(template) = good(&WHOLE.replace("node-0", name)).question else { panic!() };
        assert_eq!(template.name.with(""), name);
    }
}

#[test]
fn the_last_of_two_keys_counts() {
    let Question::Resource(template) = good(&WHOLE.replace("name: node-0", "name: a\n    name: b")).question
    else {
        panic!()
    };
    assert_eq!(template.name.with(""), "b");
}

fn path<'a>(path: &'a str, verb: &'static str) -> Attributes<'a> {
    Attributes::Path { verb, path: path.into() }
}

#[test]
fn a_rule_fits_what_it_names_and_everything_it_does_not() {
    let rules = good(
        "authorization:\n  static:\n  - path: /metrics\n    verb: get\n    user:\n      name: scraper\n  - path: /open\n",
    )
    .rules;
    assert!(rules[0].allows("scraper", &[], &path("/metrics", "get")));
    assert!(!rules[0].allows("scraper", &[], &path("/metrics", "create")));
    assert!(!rules[0].allows("other", &[], &path("/metrics", "get")));
    assert!(!rules[0].allows("scraper", &[], &path("/metrics/", "get")));
    assert!(rules[1].allows("", &[], &path("/open", "*")));
}

/// W9, AUTHZ-08.
#[test]
fn a_rule_for_groups_fits_their_members_only() {
    let rules = good("authorization:\n  static:\n  - path: /m\n    user:\n      groups: [ops, sre]\n").rules;
    assert!(rules[0].allows("a", &["dev".into(), "sre".into()], &path("/m", "get")));
    assert!(!rules[0].allows("a", &["dev".into()], &path("/m", "get")));
    assert!(!rules[0].allows("a", &[], &path("/m", "get")));
}

#[test]
fn a_rule_that_could_never_fit_is_refused() {
    for (rule, why) in [
        ("verb: get", "set path, or resourceRequest"),
        ("path: /a\n    resourceRequest: true", "remove one of them"),
    ] {
        let problems = parse(&format!("authorization:\n  static:\n  - {rule}\n")).unwrap_err();
        assert!(
            problems[0].starts_with("authorization.static[0]: ") && problems[0].contains(why),
            "{problems:?}"
        );
    }
}
