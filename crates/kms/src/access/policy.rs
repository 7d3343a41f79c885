//! A reporter speaks for its own node only. Its node is named by the token that is bound to its pod, or by its user name.

use serde_json::{Value, json};

/// The service account of reporters, in whatever namespace.
pub(super) const SERVICE_ACCOUNT: &str = "kms-health-reporter";

/// The group of reporters that come with a certificate; the user name in it is `kms-health-reporter:NODE`.
pub(super) const GROUP: &str = "kms-health-reporters";

const NAME: &str = "kms-health-reporter-own-node.outrigger.dev";

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Who is a reporter. Everybody else is none of this policy's business.
const IS_REPORTER: &str = "request.userInfo.username.startsWith('kms-health-reporter:') || \
    request.userInfo.username.matches('^system:serviceaccount:[^:]+:kms-health-reporter$')";

/// The node of the reporter; empty when nothing names it.
const NODE: &str = "request.userInfo.username.startsWith('kms-health-reporter:') \
    ? request.userInfo.username.substring(size('kms-health-reporter:')) \
    : ('authentication.kubernetes.io/node-name' in request.userInfo.extra \
    && size(request.userInfo.extra['authentication.kubernetes.io/node-name']) == 1 \
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : '')";

/// Where typed reports stand in a status.
fn holder(status: &str) -> String {
    format!(
        "variables.resource == 'kmshealths' ? variables.{status} : (variables.resource == 'authentications' \
         ? variables.{status}.?oauthAPIServer.?encryptionStatus.orValue(dyn({{}})) \
         : variables.{status}.?encryptionStatus.orValue(dyn({{}})))"
    )
}

/// Whether two objects are the same but for fields.
fn same_but(is: &str, was: &str, fields: &str) -> String {
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
    let validations = json!([
        {
            "expression": "variables.node != ''",
            "message": "this reporter's identity names no node: use a token that is bound to its pod, or a certificate for kms-health-reporter:NODE",
            "reason": "Forbidden",
        },
        {
            "expression": "variables.node == '' || variables.reports == variables.oldReports",
            "messageExpression": format!(
                "{own}only reports of that node, and changes those of: ' + \
                 (variables.reports.filter(one, !(one in variables.oldReports)) + variables.oldReports.filter(one, !(one in variables.reports)))\
                 .map(one, string(one.nodeName)).join(', ')"
            ),
            "message": "a reporter may change only the reports of its own node",
            "reason": "Forbidden",
        },
        {
            "expression": "variables.node == '' || variables.conditions == variables.oldConditions",
            "messageExpression": format!(
                "{own}only the condition KMSHealthReporter_' + variables.node + ', and changes: ' + \
                 (variables.conditions.filter(one, !(one in variables.oldConditions)) + variables.oldConditions.filter(one, !(one in variables.conditions)))\
                 .map(one, string(one.type)).join(', ')"
            ),
            "message": "a reporter may change only the condition of its own node",
            "reason": "Forbidden",
        },
        {
            "expression": same_but("variables.is", "variables.was", "['conditions', variables.reportsIn]"),
            "messageExpression": format!("{own}nothing of the status but its reports'"),
            "message": "a reporter may change nothing of the status but its reports",
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "variables.resource == 'kmshealths' || ({})",
                same_but("variables.holder", "variables.oldHolder", "['healthReports']")
            ),
            "messageExpression": format!("{own}nothing of encryptionStatus but its reports'"),
            "message": "a reporter may change nothing of encryptionStatus but its reports",
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "variables.resource != 'authentications' || ({})",
                same_but("variables.oauth", "variables.oldOAuth", "['encryptionStatus']")
            ),
            "messageExpression": format!("{own}nothing of oauthAPIServer but its reports'"),
            "message": "a reporter may change nothing of oauthAPIServer but its reports",
            "reason": "Forbidden",
        },
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
