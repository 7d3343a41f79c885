use super::*;
use crate::authorization::Attributes;

fn parsed(text: &str) -> Configuration {
    parse(text).unwrap_or_else(|errors| panic!("{errors:?} in\n{text}"))
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

#[test]
fn resource_attributes_are_parsed() {
    let configuration = parsed(WHOLE);
    let AuthorizationMode::Resource(template) = &configuration.mode else { panic!("{configuration:?}") };
    let with = |template: &Template| template.render("-");
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

#[test]
fn keys_are_case_insensitive_and_json_is_accepted() {
    let other = WHOLE.replace("apiGroup", "APIGROUP").replace("resourceAttributes", "resourceattributes");
    assert_eq!(parsed(&other), parsed(WHOLE));
    let json = r#"{"authorization":{"resourceAttributes":{"resource":"pods"}}}"#;
    assert!(matches!(parsed(json).mode, AuthorizationMode::Resource(_)));
}

#[test]
fn unknown_key_warning_suggests_the_likely_key() {
    for (key, message) in [
        (
            "group: sei.io",
            "authorization.resourceAttributes.group is an unknown key and has no effect: did you mean apiGroup?",
        ),
        (
            "nmespace: a",
            "authorization.resourceAttributes.nmespace is an unknown key and has no effect: did you mean namespace?",
        ),
        ("verb: get", "expected one of namespace, apiGroup"),
        ("resources: pods", "did you mean resource?"),
    ] {
        let warnings = parsed(&WHOLE.replace("apiVersion: v1alpha1", key)).warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(message), "{key}: {warnings:?}");
    }
    let warnings = parsed("authorisation:\n  static: []\n").warnings;
    assert!(warnings[0].contains("did you mean authorization?"), "{warnings:?}");
}

#[test]
fn missing_authorization_key_means_path_mode() {
    for text in ["", "# nothing\n", "{}", "authorization:\n", "---\n"] {
        let configuration = parsed(text);
        assert_eq!(configuration.mode, AuthorizationMode::Path, "{text:?}");
        assert_eq!(configuration.warnings.len(), 1, "{text:?}");
    }
}

#[test]
fn rewrites_without_attributes_cause_a_warning() {
    let configuration = parsed("authorization:\n  rewrites:\n    byQueryParameter:\n      name: ns\n");
    assert_eq!(configuration.mode, AuthorizationMode::Path);
    assert!(configuration.warnings[0].contains("has no effect without"), "{:?}", configuration.warnings);
}

#[test]
fn templates_support_only_the_value() {
    let text = |namespace: &str| {
        format!(
            "authorization:\n  rewrites:\n    byQueryParameter:\n      name: ns\n    byHttpHeader:\n      name: X-Ns\n  \
             resourceAttributes:\n    namespace: '{namespace}'\n    resource: pods\n"
        )
    };
    for (template_text, rendered) in [
        ("{{ .Value }}", "a"),
        ("{{.Value}}", "a"),
        ("x-{{ .Value }}-y-{{.Value}}", "x-a-y-a"),
        ("plain", "plain"),
    ] {
        let AuthorizationMode::Rewritten(template, rewrites) = parsed(&text(template_text)).mode else {
            panic!()
        };
        assert_eq!(template.namespace.render("a"), rendered);
        assert_eq!(rewrites.query_parameter.as_deref(), Some("ns"));
        assert_eq!(rewrites.header.unwrap(), "x-ns");
    }
    for bad in ["{{ .Valu }}", "{{ .Value", "{{ printf .Value }}", "{{}}"] {
        let errors = parse(&text(bad)).unwrap_err();
        assert!(errors[0].starts_with("authorization.resourceAttributes.namespace: "), "{errors:?}");
    }
}

#[test]
fn subresource_header_is_parsed_with_a_fixed_resource() {
    let text = WHOLE.replace("    subresource: status\n", "") + "  subresourceFromHeader: X-Sei-Task-Kind\n";
    let configuration = parsed(&text);
    assert_eq!(configuration.mode.subresource_header().unwrap(), "x-sei-task-kind");
    assert!(configuration.warnings.is_empty(), "{:?}", configuration.warnings);
    for absent in ["  subresourceFromHeader:\n", "  subresourceFromHeader: ''\n"] {
        assert!(matches!(parsed(&format!("{WHOLE}{absent}")).mode, AuthorizationMode::Resource(_)));
    }
    let misspelled = text.replace("subresourceFromHeader", "subresourceHeader");
    assert!(parsed(&misspelled).warnings[0].contains("subresourceHeader is an unknown key"));
}

#[test]
fn subresource_header_without_a_single_meaning_is_rejected() {
    let resource = "authorization:\n  resourceAttributes:\n    resource: pods\n";
    let rewrites = format!("{resource}  rewrites:\n    byQueryParameter:\n      name: ns\n");
    let errors_of = |start: &str, name: &str| {
        parse(&format!("{start}  subresourceFromHeader: {name}\n")).map(|_| ()).unwrap_err()
    };
    for (start, name, reason) in [
        (&*rewrites, "x-kind", "cannot be combined with authorization.rewrites"),
        (WHOLE, "x-kind", "cannot be combined with authorization.resourceAttributes.subresource"),
        ("authorization:\n  static: []\n", "x-kind", "authorization.resourceAttributes is missing"),
        (resource, "'x kind'", "invalid header name \"x kind\""),
        (resource, "Authorization", "has another meaning in HTTP"),
        (resource, "Connection", "has another meaning in HTTP"),
        (resource, "Content-Length", "has another meaning in HTTP"),
    ] {
        let errors = errors_of(start, name);
        assert!(
            errors.len() == 1
                && errors[0].starts_with("authorization.subresourceFromHeader: ")
                && errors[0].contains(reason),
            "{name}: {errors:?}"
        );
    }
}

/// As in every other rule, an empty field matches everything; a rule for a subresource matches only that one.
#[test]
fn static_rules_match_the_requested_subresource() {
    let rules = parsed(
        "authorization:\n  static:\n  - resourceRequest: true\n    subresource: restart\n  - resourceRequest: true\n    user:\n      name: root\n",
    )
    .rules;
    let create = |subresource: &'static str| Attributes::Resource {
        verb: "create",
        namespace: "".into(),
        group: "".into(),
        version: "".into(),
        resource: "tasks".into(),
        subresource: subresource.into(),
        name: "".into(),
    };
    assert!(rules[0].allows("a", &[], &create("restart")));
    assert!(!rules[0].allows("a", &[], &create("reset")));
    assert!(!rules[0].allows("a", &[], &create("")));
    assert!(rules[1].allows("root", &[], &create("reset")));
}

/// Names that YAML 1.1 would convert.
#[test]
fn scalars_keep_their_source_text() {
    for name in ["on", "yes", "y", "1e3", "007", "0x10", "true", "1.0", "12"] {
        let AuthorizationMode::Resource(template) = parsed(&WHOLE.replace("node-0", name)).mode else {
            panic!()
        };
        assert_eq!(template.name.render(""), name);
    }
}

#[test]
fn last_duplicate_key_wins() {
    let AuthorizationMode::Resource(template) =
        parsed(&WHOLE.replace("name: node-0", "name: a\n    name: b")).mode
    else {
        panic!()
    };
    assert_eq!(template.name.render(""), "b");
}

fn path<'a>(path: &'a str, verb: &'static str) -> Attributes<'a> {
    Attributes::Path { verb, path: path.into() }
}

#[test]
fn rule_matches_named_fields_only() {
    let rules = parsed(
        "authorization:\n  static:\n  - path: /metrics\n    verb: get\n    user:\n      name: scraper\n  - path: /open\n",
    )
    .rules;
    assert!(rules[0].allows("scraper", &[], &path("/metrics", "get")));
    assert!(!rules[0].allows("scraper", &[], &path("/metrics", "create")));
    assert!(!rules[0].allows("other", &[], &path("/metrics", "get")));
    assert!(!rules[0].allows("scraper", &[], &path("/metrics/", "get")));
    assert!(rules[1].allows("", &[], &path("/open", "*")));
}

#[test]
fn rule_with_groups_matches_members_only() {
    let rules =
        parsed("authorization:\n  static:\n  - path: /m\n    user:\n      groups: [ops, sre]\n").rules;
    assert!(rules[0].allows("a", &["dev".into(), "sre".into()], &path("/m", "get")));
    assert!(!rules[0].allows("a", &["dev".into()], &path("/m", "get")));
    assert!(!rules[0].allows("a", &[], &path("/m", "get")));
}

#[test]
fn rule_that_never_matches_is_rejected() {
    for (rule, reason) in [
        ("verb: get", "set path, or resourceRequest"),
        ("path: /a\n    resourceRequest: true", "remove one of them"),
    ] {
        let errors = parse(&format!("authorization:\n  static:\n  - {rule}\n")).unwrap_err();
        assert!(
            errors[0].starts_with("authorization.static[0]: ") && errors[0].contains(reason),
            "{errors:?}"
        );
    }
}
