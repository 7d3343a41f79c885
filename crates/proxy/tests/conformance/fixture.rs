//! The test fixture: a real API server with service accounts, tokens and RBAC.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::cluster::control_plane::{AuditReader, User};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, Result};
use tokio::sync::{Mutex, OnceCell};

/// Deadline for events that normally take a moment.
pub const SOON: Duration = Duration::from_secs(20);

/// Deadline for a call to appear in the audit log.
const AUDIT_DEADLINE: Duration = Duration::from_secs(3);

/// The group that may create TokenReviews and SubjectAccessReviews.
const REVIEWERS: &str = "reviewers";

/// The calls that the proxy of a scenario made to the API server.
#[derive(Clone, Debug, Default)]
pub struct ApiCalls {
    pub token_reviews: usize,
    pub access_reviews: Vec<Value>,
}

/// The fixture of a scenario.
pub struct Fixture<'a> {
    pub plane: &'a ControlPlane,
    pub client: Client,
    pub namespace: String,
    pub dir: TempDir,
    pub logs: PathBuf,
    /// The user of the proxy, which identifies its calls in the audit log.
    pub user: User,
    audit: Mutex<(AuditReader, ApiCalls)>,
    caller: OnceCell<String>,
}

/// Allows a group to create the reviews that a proxy needs, and nothing else.
async fn allow_reviewers(client: &Client) -> Result<()> {
    let role = json!({
        "metadata": { "name": REVIEWERS },
        "rules": [
            { "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"] },
            { "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"] },
        ],
    });
    let role: ClusterRole = serde_json::from_value(role)?;
    bind(client, REVIEWERS, &role, &json!({ "kind": "Group", "name": REVIEWERS })).await?;
    let attributes = json!({
        "user": "any", "groups": [REVIEWERS],
        "resourceAttributes": { "group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create" },
    });
    wait_until_allowed(client, &attributes).await
}

/// Creates a cluster role and binds it to a user or group, whose API group differs from that of a service account.
async fn bind(client: &Client, name: &str, role: &ClusterRole, subject: &Value) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    roles.create(&PostParams::default(), role).await?;
    let mut subject = subject.clone();
    subject["apiGroup"] = "rbac.authorization.k8s.io".into();
    let binding = json!({
        "metadata": { "name": name }, "subjects": [subject],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
    });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    Ok(())
}

/// Waits until RBAC allows a request: the API server's RBAC cache lags behind writes.
async fn wait_until_allowed(client: &Client, attributes: &Value) -> Result<()> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review: SubjectAccessReview = serde_json::from_value(json!({ "metadata": {}, "spec": attributes }))?;
    wait::until("the RBAC permission", SOON, || async {
        let response = reviews.create(&PostParams::default(), &review).await?;
        if response.status.is_some_and(|status| status.allowed) {
            Ok(())
        } else {
            Err(Error::Other(format!("{attributes} is not allowed yet")))
        }
    })
    .await
}

impl<'a> Fixture<'a> {
    /// Creates the fixture with a namespace and a user of its own.
    pub async fn new(cx: &'a Context) -> Result<Self> {
        static SHARED: OnceCell<()> = OnceCell::const_new();
        let plane = cx.control_plane().await?;
        let client = plane.client().await?;
        SHARED.get_or_try_init(|| allow_reviewers(&client)).await?;
        let namespace = plane.namespace("conformance").await?;
        let user = plane.user(&format!("proxy-of-{namespace}"), Some(REVIEWERS))?;
        let dir = tempfile::tempdir()
            .map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
        let audit = Mutex::new((plane.audit().reader_from_now()?, ApiCalls::default()));
        let logs = cx.logs().to_owned();
        std::fs::create_dir_all(&logs)
            .map_err(|source| Error::Io { what: "creating a directory".into(), source })?;
        Ok(Self { plane, client, namespace, dir, logs, user, audit, caller: OnceCell::new() })
    }

    /// Creates a service account and returns its username.
    pub async fn create_account(&self, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        accounts.create(&PostParams::default(), &account).await?;
        Ok(self.username(name))
    }

    /// Returns the username of a service account.
    pub fn username(&self, account: &str) -> String {
        format!("system:serviceaccount:{}:{account}", self.namespace)
    }

    /// Issues a token of a service account.
    pub async fn issue_token(&self, account: &str, audiences: &[&str]) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": { "audiences": audiences, "expirationSeconds": 3600 },
        });
        let address = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", self.namespace);
        let request = http::Request::post(address)
            .header("content-type", "application/json")
            .body(request.to_string().into_bytes())
            .map_err(|error| Error::Other(error.to_string()))?;
        let response: Value = self.client.request(request).await?;
        let token = response["status"]["token"].as_str();
        token.map(Into::into).ok_or_else(|| Error::Other(format!("no token in {response}")))
    }

    /// Returns a token of an account that may use `/ok` and everything below it with the five mapped verbs.
    pub async fn caller_token(&self) -> Result<&str> {
        let token = self.caller.get_or_try_init(|| async {
            let user = self.create_account("caller").await?;
            let verbs = ["get", "create", "update", "patch", "delete"];
            self.grant_paths(&user, &["/ok", "/ok/*"], &verbs).await?;
            self.issue_token("caller", &[]).await
        });
        Ok(token.await?.as_str())
    }

    /// Returns a token of an account without permissions.
    pub async fn unauthorized_token(&self) -> Result<String> {
        self.create_account("stranger").await?;
        self.issue_token("stranger", &[]).await
    }

    /// Allows a user verbs on paths.
    pub async fn grant_paths(&self, user: &str, paths: &[&str], verbs: &[&str]) -> Result<()> {
        let rule = json!({ "nonResourceURLs": paths, "verbs": verbs });
        let attributes = json!({ "path": paths[0].replace('*', "x"), "verb": verbs[0] });
        self.grant(user, &rule, &json!({ "nonResourceAttributes": attributes })).await
    }

    /// Allows a user verbs on a resource in all namespaces.
    pub async fn grant_resource(
        &self,
        user: &str,
        group: &str,
        resource: &str,
        verbs: &[&str],
    ) -> Result<()> {
        let rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
        let attributes = json!({ "group": group, "resource": resource, "verb": verbs[0] });
        self.grant(user, &rule, &json!({ "resourceAttributes": attributes })).await
    }

    /// Grants a user an RBAC rule and waits until a request with `attributes` is allowed.
    pub async fn grant(&self, user: &str, rule: &Value, attributes: &Value) -> Result<()> {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("{}-{number}", self.namespace);
        let role = json!({ "metadata": { "name": name }, "rules": [rule] });
        bind(&self.client, &name, &serde_json::from_value(role)?, &json!({ "kind": "User", "name": user }))
            .await?;
        let mut attributes = attributes.clone();
        attributes["user"] = user.into();
        wait_until_allowed(&self.client, &attributes).await
    }

    /// Revokes all grants of this scenario.
    pub async fn revoke_all(&self) -> Result<()> {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        for binding in bindings.list(&kube::api::ListParams::default()).await? {
            let name = binding.metadata.name.unwrap_or_default();
            if name.starts_with(&format!("{}-", self.namespace)) {
                bindings.delete(&name, &kube::api::DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// Returns the calls of the proxy so far. Waits a while for at least these counts: the audit log lags behind responses.
    pub async fn api_calls(&self, token_reviews: usize, access_reviews: usize) -> Result<ApiCalls> {
        let complete = wait::until("the expected number of calls", AUDIT_DEADLINE, || async {
            let calls = self.read_audit_log().await?;
            let is_complete =
                calls.token_reviews >= token_reviews && calls.access_reviews.len() >= access_reviews;
            if is_complete { Ok(calls) } else { Err(Error::Other(format!("{calls:?}"))) }
        });
        // Too few calls are a result for the caller to check, not an error.
        match complete.await {
            Ok(calls) => Ok(calls),
            Err(_) => self.read_audit_log().await,
        }
    }

    /// Reads the new entries of the audit log.
    async fn read_audit_log(&self) -> Result<ApiCalls> {
        let (reader, calls) = &mut *self.audit.lock().await;
        for entry in reader.read_new()?.into_iter().filter(|entry| entry.user == self.user.name()) {
            match entry.resource.as_str() {
                "tokenreviews" => calls.token_reviews += 1,
                "subjectaccessreviews" => calls.access_reviews.extend(entry.body),
                _ => {}
            }
        }
        Ok(calls.clone())
    }
}
