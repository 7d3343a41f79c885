//! The ValidatingAdmissionPolicy that limits a reporter to the entries of its own node. The node comes from the pod-bound token, or from
//! the user name of a client certificate.

use serde_json::{Value, json};

/// Service account of reporters, in any namespace.
pub(super) const SERVICE_ACCOUNT: &str = "kms-health-reporter";

/// Group of reporters that authenticate with a client certificate, whose user name is `kms-health-reporter:NODE`.
pub(super) const GROUP: &str = "kms-health-reporters";

const NAME: &str = "kms-health-reporter-own-node.outrigger.dev";

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Matches requests of reporters. The policy ignores all other requests.
const IS_REPORTER: &str = "request.userInfo.username.startsWith('kms-health-reporter:') || \
    request.userInfo.username.matches('^system:serviceaccount:[^:]+:kms-health-reporter$')";

/// The reporter's node; empty if its identity names none.
const NODE: &str = "request.userInfo.username.startsWith('kms-health-reporter:') \
    ? request.userInfo.username.substring(size('kms-health-reporter:')) \
    : ('authentication.kubernetes.io/node-name' in request.userInfo.extra \
    && size(request.userInfo.extra['authentication.kubernetes.io/node-name']) == 1 \
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : '')";

/// Returns the expression for the object that holds the typed reports of a status.
fn holder(status: &str) -> String {
    format!(
        "variables.resource == 'kmshealths' ? variables.{status} : (variables.resource == 'authentications' \
         ? variables.{status}.?oauthAPIServer.?encryptionStatus.orValue(dyn({{}})) \
         : variables.{status}.?encryptionStatus.orValue(dyn({{}})))"
    )
}

/// Returns the expression that two objects are equal except for some fields.
fn equal_except(is: &str, was: &str, fields: &str) -> String {
    format!(
        "{is}.all(field, field in {fields} || (field in {was} && {is}[field] == {was}[field])) && \
         {was}.all(field, field in {fields} || field in {is})"
    )
}

pub(super) fn documents() -> Vec<Value> {
    let variables = json!([
        { "name": "node", "expression": NODE },
        { "name": "resource", "expression": "request.resource.resource" },
        { "name": "is", "expression": "has(object.status) ? object.status : dyn({})" },
        { "name": "was", "expression": "has(oldObject.status) ? oldObject.status : dyn({})" },
        { "name": "holder", "expression": holder("is") },
        { "name": "oldHolder", "expression": holder("was") },
        { "name": "reports", "expression": "variables.holder.?healthReports.orValue(dyn([])).filter(one, one.nodeName != variables.node)" },
        { "name": "oldReports", "expression": "variables.oldHolder.?healthReports.orValue(dyn([])).filter(one, one.nodeName != variables.node)" },
        { "name": "conditions", "expression": "variables.is.?conditions.orValue(dyn([])).filter(one, one.type != 'KMSHealthReporter_' + variables.node)" },
        { "name": "oldConditions", "expression": "variables.was.?conditions.orValue(dyn([])).filter(one, one.type != 'KMSHealthReporter_' + variables.node)" },
        { "name": "reportsIn", "expression": "variables.resource == 'kmshealths' ? 'healthReports' : (variables.resource == 'authentications' ? 'oauthAPIServer' : 'encryptionStatus')" },
        { "name": "oauth", "expression": "variables.is.?oauthAPIServer.orValue(dyn({}))" },
        { "name": "oldOAuth", "expression": "variables.was.?oauthAPIServer.orValue(dyn({}))" },
    ]);
    let own = "'the reporter of node ' + variables.node + ' may change ";
    let forbid = |expression: String, message_expression: String, message: &str| {
        json!({
            "expression": expression, "messageExpression": message_expression, "message": message, "reason": "Forbidden",
        })
    };
    let changed = |list: &str, old: &str, name: &str| {
        format!(
            "(variables.{list}.filter(one, !(one in variables.{old})) + variables.{old}.filter(one, !(one in variables.{list})))\
             .map(one, string(one.{name})).join(', ')"
        )
    };
    let only_reports = |expression: String, place: &str| {
        let message = format!("a reporter may change nothing in {place} but its reports");
        forbid(expression, format!("{own}nothing in {place} but its reports'"), &message)
    };
    let validations = json!([
        {
            "expression": "variables.node != ''",
            "message": "the reporter's identity names no node: use a token bound to its pod, or a certificate for kms-health-reporter:NODE",
            "reason": "Forbidden",
        },
        forbid(
            "variables.node == '' || variables.reports == variables.oldReports".into(),
            format!(
                "{own}only reports of that node, and changes those of: ' + {}",
                changed("reports", "oldReports", "nodeName")
            ),
            "a reporter may change only the reports of its own node",
        ),
        forbid(
            "variables.node == '' || variables.conditions == variables.oldConditions".into(),
            format!(
                "{own}only the condition KMSHealthReporter_' + variables.node + ', and changes: ' + {}",
                changed("conditions", "oldConditions", "type")
            ),
            "a reporter may change only the condition of its own node",
        ),
        only_reports(
            equal_except("variables.is", "variables.was", "['conditions', variables.reportsIn]"),
            "status",
        ),
        only_reports(
            format!(
                "variables.resource == 'kmshealths' || ({})",
                equal_except("variables.holder", "variables.oldHolder", "['healthReports']")
            ),
            "encryptionStatus",
        ),
        only_reports(
            format!(
                "variables.resource != 'authentications' || ({})",
                equal_except("variables.oauth", "variables.oldOAuth", "['encryptionStatus']")
            ),
            "oauthAPIServer",
        ),
    ]);
    let rule = |group: &str, version: &str, resources: &[&str]| json!({ "apiGroups": [group], "apiVersions": [version], "operations": ["UPDATE"], "resources": resources });
    let statuses = ["kubeapiservers/status", "openshiftapiservers/status", "authentications/status"];
    vec![
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": NAME },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [
                    rule("operator.openshift.io", "v1", &statuses),
                    rule("outrigger.dev", "v1alpha1", &["kmshealths/status"]),
                ] },
                "matchConditions": [{ "name": "is-a-reporter", "expression": IS_REPORTER }],
                "variables": variables,
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": NAME },
            "spec": { "policyName": NAME, "validationActions": ["Deny"] },
        }),
    ]
}
